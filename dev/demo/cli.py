# SPDX-License-Identifier: Apache-2.0

"""The command line of the demo: start the cloud, play the story, stop."""

import argparse
from collections.abc import Iterator, Sequence
import contextlib
import os
import pathlib
import select
import signal
import sys
from typing import Any

from dev.cloud import errors
from dev.cloud import folder as folders
from dev.cloud import journal
from dev.cloud import machines
from dev.cloud import sdk
from dev.demo import scene as scenes
from dev.demo import stage as stages
from dev.demo import story


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    :returns: 0 when everything was as told, 1 when something was not, 130
        after Ctrl-C
    """
    arguments = _parse(argv)
    stage = stages.Stage()
    # SIGTERM ends the demo as Ctrl-C does, in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.ExitStack() as stack:
            return _run(arguments, stage, stack)
    except KeyboardInterrupt:
        stage.failure('Interrupted; everything was stopped and removed.')
        return 130


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m dev.demo',
        description='Play the main story of nova-ext-resources on this '
        'machine: real Nova, real placement, one simulated machine for each '
        'compute host. Everything listens on loopback and is removed at '
        'the end.',
    )
    parser.add_argument(
        '--computes',
        type=_computes,
        default=2,
        metavar='N',
        help='how many compute hosts, 2 or more (default: 2)',
    )
    parser.add_argument(
        '--backend',
        choices=sorted(machines.BACKENDS),
        default='rmd',
        help='what manages the cache of the hosts (default: rmd)',
    )
    parser.add_argument(
        '--act',
        action='append',
        default=[],
        choices=list(story.ACTS),
        metavar='NAME',
        dest='acts',
        help='play only this act and what it needs; may be repeated. One of '
        f'{", ".join(story.ACTS)} (default: all)',
    )
    parser.add_argument(
        '--keep',
        action='store_true',
        help='leave the cloud up after the story, print how to use it, and '
        'stop it at Enter or Ctrl-C',
    )
    arguments = parser.parse_args(argv)
    try:
        story.choose(arguments.acts, arguments.backend)
    except ValueError as err:
        parser.error(f'--act: {err}')
    return arguments


def _computes(text: str) -> int:
    number = int(text)
    if not 2 <= number <= 20:
        raise argparse.ArgumentTypeError(
            f'{number} is not in 2..20: the story needs another host to go '
            f'to, and all of them share this machine'
        )
    return number


def _run(
    arguments: argparse.Namespace,
    stage: stages.Stage,
    stack: contextlib.ExitStack,
) -> int:
    scene = None
    try:
        scene = stack.enter_context(
            scenes.opened(
                stage, computes=arguments.computes, backend=arguments.backend
            )
        )
        story.play(scene, arguments.acts)
    except sdk.FAILURES as error:
        _report(stage, scene, error)
        code = 1
    else:
        stage.plain('')
        stage.plain(f'All as told, in {stage.seconds:.0f} s.')
        code = 0
    if arguments.keep and scene is not None:
        _keep(stage, scene)
    return code


def _report(
    stage: stages.Stage, scene: scenes.Scene | None, error: Exception
) -> None:
    stage.plain('')
    stage.failure(f'Not as told: {error}')
    if scene is not None:
        _report_dead(stage, scene)
        log = journal.Journal(scene.cloud.folder.nova_log)
        for line in log.problems():
            stage.plain(f'  nova.log: {line}')


def _report_dead(stage: stages.Stage, scene: scenes.Scene) -> None:
    """Tell of a process that ended: then the error is its consequence."""
    try:
        scene.cloud.check()
    except errors.ChildFailed as error:
        stage.failure(str(error))


def _keep(stage: stages.Stage, scene: scenes.Scene) -> None:
    stage.act('The cloud stays up', 'In another terminal:')
    for line in list_commands(scene):
        stage.plain(f'  {line}')
    stage.plain(f'{_ask_for_end()} to stop it and remove everything.')
    _wait_for_enter(scene)


def list_commands(scene: scenes.Scene) -> Iterator[str]:
    """Return lines of a shell that use the cloud, in their order."""
    folder = scene.cloud.folder
    cli = pathlib.Path(sys.executable).with_name('openstack')
    yield f'export OS_CLIENT_CONFIG_FILE={folder.clouds_yaml}'
    yield f'export OS_CLOUD={folders.CLOUD}'
    yield f'export OS_COMPUTE_API_VERSION={sdk.COMPUTE_MICROVERSION}'
    yield f'alias openstack={cli}'
    if scene.image_id:
        yield (
            'openstack server create --flavor gold --image empty --nic none '
            '--wait mine'
        )
    yield 'openstack server list --long'
    yield 'openstack resource provider list'
    yield 'openstack extended resource host list'
    yield (
        'openstack extended reservation calendar --config-file '
        f'{folder.etc / "nova.conf"}'
    )
    for host, machine in scene.machines.items():
        yield f'{machine.describe()}    # {host}'
        yield f'curl {scene.pages[host]}/health'
        yield f'curl {scene.pages[host]}/metrics'
    yield f'less {folder.nova_log}'


def _ask_for_end() -> str:
    if sys.stdin.isatty():
        return 'Press Enter or Ctrl-C'
    # It may run where nobody can press anything.
    return f'Press Ctrl-C, or kill {os.getpid()},'


def _wait_for_enter(scene: scenes.Scene) -> None:
    # Without a terminal only a signal ends it.
    sources: list[Any] = [sys.stdin] if sys.stdin.isatty() else []
    with contextlib.suppress(KeyboardInterrupt):
        while not select.select(sources, [], [], 1.0)[0]:
            scene.cloud.check()
