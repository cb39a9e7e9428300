# SPDX-License-Identifier: Apache-2.0

"""What the kernel enforces, and what becomes of it when it is changed."""

from dev.cloud.machines import resctrl
from dev.cloud import told
from dev.cloud import waiting
from dev.demo import kernel
from dev.demo import scene as scenes

#: All ways, those of servers among them.
_EVERYTHING = 'L3:0=7ff;1=7ff'


def play(scene: scenes.Scene) -> None:
    """Show the groups of a host, spoil one, and see it mended.

    :raises NotAsTold: a server does not get its ways back
    """
    scene.stage.act(
        'What the kernel enforces',
        'No daemon: each server has a control group that is named after it. '
        'The default group, for all that has no ways of its own, leaves out '
        'what is allocated.',
    )
    for host in scene.hosts:
        kernel.show(scene, host)
    kernel.show_steps(scene, scene.hosts[0], 1)
    _spoil(scene, scene.hosts[0])


def _spoil(scene: scenes.Scene, host: str) -> None:
    scene.stage.note(
        'Somebody at a shell of the host lets everybody fill everything '
        'again. The host compares now and then, and closes what was opened.'
    )
    machine = kernel.get_machine(scene, host)
    before = machine.read('schemata')
    with scene.stage.step(f'echo "{_EVERYTHING}" > schemata, on {host}'):
        machine.write('schemata', f'{_EVERYTHING}\n')
        told.expect(
            machine.read('schemata') != before, 'the ways of servers are open'
        )
    with scene.stage.step('Wait until they are closed again') as step:
        waiting.until(
            lambda: machine.read('schemata') == before,
            f'{host} closes the ways of servers again',
        )
        step.result = resctrl.list_lines(before, 'L3')[0]
