# SPDX-License-Identifier: Apache-2.0

"""Plays the scenarios, and reports."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
import contextlib
import pathlib
import random
import shutil
import signal
import sys
import time

from dev.cloud import folder as folders
from dev.cloud import journal
from dev.cloud import machines
from dev.cloud import programs
from dev.cloud import sdk
from dev.gate import audit
from dev.gate import package
from dev.gate import plan
from dev.gate import site as sites

#: Where the logs of a run that failed are kept.
LOGS = package.ROOT / '.tox' / 'gate' / 'logs'


def main(argv: Sequence[str] | None = None) -> int:
    """Run the gate.

    :returns: 0 when everything was as told, 1 when something was not, 130
        after Ctrl-C
    """
    arguments = read_arguments(argv)
    # SIGTERM ends it as Ctrl-C does, in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    print(f'== seed {arguments.seed}')
    folder = folders.Folder.create()
    try:
        run(arguments, folder)
    except sdk.FAILURES as err:
        print(f'Not as told: {err}', file=sys.stderr)
        keep_logs(folder)
        return 1
    except KeyboardInterrupt:
        print('Interrupted; everything was stopped and removed.')
        return 130
    finally:
        folder.remove()
    print(f'All as told, in {time.monotonic() - began:.0f} s.')
    return 0


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='tox -e gate --',
        description='Play the life of servers on a real cloud on this '
        'machine. Everything listens on loopback and is removed at the end.',
    )
    parser.add_argument(
        '--short', action='store_true', help='play less, in a few minutes'
    )
    parser.add_argument(
        '--backends',
        type=_backends,
        default=('rmd', 'resctrl'),
        metavar='A,B',
        help='what manages the cache of each host (default: rmd,resctrl)',
    )
    parser.add_argument(
        '--seed',
        type=int,
        default=random.SystemRandom().getrandbits(32),
        help='of all that is chosen at random',
    )
    parser.add_argument(
        'scenarios',
        nargs='*',
        metavar='scenario',
        help=f'only these, of {", ".join(plan.SCENARIOS)}',
    )
    arguments = parser.parse_args(argv)
    unknown = {*arguments.scenarios} - {*plan.SCENARIOS}
    if unknown:
        parser.error(f'there is no scenario {", ".join(sorted(unknown))}')
    return arguments


def choose(arguments: argparse.Namespace) -> Mapping[str, plan.Scenario]:
    """Return name -> what is played, in its order."""
    if arguments.scenarios:
        return {
            name: play
            for name, play in plan.SCENARIOS.items()
            if name in arguments.scenarios
        }
    return plan.SHORT if arguments.short else plan.SCENARIOS


def run(arguments: argparse.Namespace, folder: folders.Folder) -> None:
    """Build, install, start, play, and stop.

    :raises NotAsTold: something did not go as the scenarios say
    :raises CloudError: something did not start
    """
    programs.check_packaged()
    chosen = choose(arguments)
    with step('build and install the package'):
        wheels = build(chosen, folder)
        package.install(wheels['this'])
    with contextlib.ExitStack() as stack:
        with step('start the cloud'):
            site = stack.enter_context(
                sites.opened(
                    arguments.backends,
                    folder,
                    wheels,
                    random.Random(arguments.seed),
                )
            )
        for name, play in chosen.items():
            with step(f'{name}: {get_title(play)}'):
                play(site)
                audit.check_empty(site)
        site.cloud.check()


def get_title(play: plan.Scenario) -> str:
    """Return the first line of what a scenario says of itself."""
    return (play.__doc__ or '').partition('\n')[0]


def build(
    chosen: Mapping[str, plan.Scenario], folder: folders.Folder
) -> dict[str, pathlib.Path]:
    """Return the wheels that the scenarios need."""
    wheels = {'this': package.build('HEAD', folder.lib)}
    if 'releases' in chosen:
        wheels['previous'] = package.build(package.PREVIOUS, folder.lib)
    return wheels


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Report when something has ended, and how long it took."""
    began = time.monotonic()
    mark = 'FAIL'
    try:
        yield
        mark = 'ok'
    finally:
        seconds = time.monotonic() - began
        print(f'{mark:>4} {what}  {seconds:.0f} s', flush=True)


def keep_logs(folder: folders.Folder) -> None:
    """Copy the logs, and print the last errors of each."""
    shutil.rmtree(LOGS, ignore_errors=True)
    shutil.copytree(folder.log, LOGS)
    for path in sorted(LOGS.glob('*.log')):
        for line in journal.Journal(path).problems(3):
            print(f'  {path.name}: {line}', file=sys.stderr)
    print(f'All logs are in {LOGS}.', file=sys.stderr)


def _backends(text: str) -> tuple[str, ...]:
    names = tuple(text.split(','))
    known = sorted(machines.BACKENDS)
    if len(names) < 2 or not {*names} <= {*known}:
        raise argparse.ArgumentTypeError(
            f'{text} is not two or more of {", ".join(known)}'
        )
    return names
