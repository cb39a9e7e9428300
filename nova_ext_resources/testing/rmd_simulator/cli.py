# SPDX-License-Identifier: Apache-2.0

"""The command line of the simulator."""

import argparse
from collections.abc import Mapping, Sequence
import os
import signal
import sys
import threading

from nova_ext_resources.testing.rmd_simulator import classes
from nova_ext_resources.testing.rmd_simulator import faults
from nova_ext_resources.testing.rmd_simulator import server
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import simulator

_DEFAULTS = settings_mod.Settings()

#: Seconds between two looks at whether the parent process still lives.
PARENT_POLL = 1.0


def parse_pools(text: str) -> dict[str, int]:
    """Read ``os=1,guarantee=6``.

    :raises ValueError: it is none
    """
    return {
        name: int(value)
        for name, _, value in (item.partition('=') for item in _items(text))
    }


def parse_policies(text: str) -> dict[str, tuple[int, int]]:
    """Read ``gold=4:4,silver=3:1``: names with max and min ways.

    :raises ValueError: it is none
    """
    policies = {}
    for item in _items(text):
        name, _, value = item.partition('=')
        maximum, _, minimum = value.partition(':')
        # RMD reads them with viper, which knows no capital letters.
        policies[name.lower()] = (int(maximum), int(minimum))
    return policies


def _items(text: str) -> list[str]:
    return [item for item in text.split(',') if item]


def _format(values: Mapping[str, object]) -> str:
    return ','.join(f'{name}={value}' for name, value in values.items())


def make_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = argparse.ArgumentParser(
        prog='python -m nova_ext_resources.testing.rmd_simulator',
        description='Answers like RMD v0.3.1 on a simulated host. Prints '
        'its URL when it listens. Paths below /-/ look behind the scenes '
        'and make it fail; see the module "control".',
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument('--address', default='127.0.0.1')
    parser.add_argument(
        '--port', type=int, default=8081, help='0 for any free one'
    )
    parser.add_argument(
        '--database',
        help='file that keeps workloads and groups when the process ends',
    )
    parser.add_argument(
        '--exit-with-parent',
        action='store_true',
        help='end when the process that started it has ended',
    )
    _add_host_options(parser)
    _add_access_options(parser)
    _add_fault_options(parser)
    return parser


def _add_host_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group('host and rmd.toml')
    for name in ('sockets', 'cpus', 'ways', 'clos'):
        group.add_argument(
            f'--{name}', type=int, default=getattr(_DEFAULTS, name)
        )
    group.add_argument('--pools', default=_format(_DEFAULTS.pools))
    group.add_argument(
        '--policy',
        default=_format(
            {
                name: f'{maximum}:{minimum}'
                for name, (maximum, minimum) in _DEFAULTS.policies.items()
            }
        ),
        help='names with max:min ways',
    )
    group.add_argument('--os-cpus', default=_DEFAULTS.os_cpus)
    group.add_argument('--infra-cpus', default=_DEFAULTS.infra_cpus)
    group.add_argument(
        '--mba-mode',
        choices=tuple(settings_mod.MBA_MAXIMA),
        default=_DEFAULTS.mba_mode,
    )
    group.add_argument(
        '--policy-file', choices=('toml', 'yaml'), default='toml'
    )
    group.add_argument(
        '--plugin', action='append', choices=('pstate',), default=[]
    )


def _add_access_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group('normal mode (TLS)')
    group.add_argument('--cert', help='PEM; switches TLS on')
    group.add_argument('--key')
    group.add_argument('--client-ca')
    group.add_argument(
        '--clientauth',
        choices=('challenge', 'challenge_given', 'no'),
        default='challenge',
    )
    group.add_argument(
        '--user',
        action='append',
        default=[],
        metavar='NAME:PASSWORD',
        help='ask for HTTP Basic credentials; "admin" may write',
    )


def _add_fault_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group('faults')
    group.add_argument(
        '--slow', type=float, metavar='SECONDS', help='before each answer'
    )
    group.add_argument('--hang', action='store_true', help='never answer')
    group.add_argument(
        '--drop', action='store_true', help='close connections unanswered'
    )
    group.add_argument('--garbage', choices=tuple(faults.GARBAGE))
    group.add_argument(
        '--status', type=int, help='answer with this status only'
    )
    group.add_argument(
        '--lie', action='store_true', help='201, but enforce nothing'
    )
    group.add_argument(
        '--shrink', action='store_true', help="RMD's shrink=true"
    )
    group.add_argument(
        '--cache-mixup',
        action='store_true',
        help="RMD's mistake on hosts with several sockets",
    )
    group.add_argument(
        '--races', action='store_true', help="RMD's unlocked checks"
    )
    group.add_argument('--seed', type=int, default=0)


def make_simulator(options: argparse.Namespace) -> simulator.Simulator:
    """Make what the options describe.

    :raises ValueError: they do not go together
    """
    settings = settings_mod.Settings(
        sockets=options.sockets,
        cpus=options.cpus,
        ways=options.ways,
        clos=options.clos,
        pools=parse_pools(options.pools),
        policies=parse_policies(options.policy),
        os_cpus=options.os_cpus,
        infra_cpus=options.infra_cpus,
        mba_mode=options.mba_mode,
        policy_file=options.policy_file,
        plugins=tuple(options.plugin),
        has_shrink=options.shrink,
        has_cache_mixup=options.cache_mixup,
        has_races=options.races,
        seed=options.seed,
    )
    tls = None
    if options.cert:
        tls = server.Tls(
            cert_file=options.cert,
            key_file=options.key or options.cert,
            client_ca=options.client_ca,
            client_auth=options.clientauth,
        )
    users = dict(user.split(':', 1) for user in options.user)
    made = simulator.Simulator(
        settings,
        address=options.address,
        port=options.port,
        tls=tls,
        users=users or None,
        database=options.database,
    )
    made.lie(options.lie)
    for fault in _make_faults(options):
        made.faults.add(fault)
    return made


def _make_faults(options: argparse.Namespace) -> list[faults.Fault]:
    wanted: list[faults.Fault] = []
    if options.slow:
        wanted.append(faults.Fault(kind='slow', seconds=options.slow))
    if options.hang:
        wanted.append(faults.Fault(kind='hang'))
    if options.drop:
        wanted.append(faults.Fault(kind='drop'))
    if options.garbage:
        wanted.append(faults.Fault(kind='garbage', body=options.garbage))
    if options.status:
        wanted.append(faults.Fault(kind='status', status=options.status))
    return wanted


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        made = make_simulator(options)
    except (ValueError, OSError, classes.StartFailed) as err:
        parser.exit(2, f'{parser.prog}: {err}\n')
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    made.start()
    sys.stdout.write(f'{made.url}\n')
    sys.stdout.flush()
    _wait(ended, options.exit_with_parent)
    made.stop()
    return 0


def _wait(ended: threading.Event, with_parent: bool) -> None:
    parent = os.getppid()
    while not ended.wait(PARENT_POLL):
        if with_parent and os.getppid() != parent:
            return
