# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the kernel enforces, and what becomes of it when it is changed."""

from demo import kernel
from demo.machines import resctrl
from demo import scene as scenes
from demo import stage as stages
from demo import waiting

#: Host's own ways on top, and all others: what nobody sold.
_EVERYTHING = 'L3:0=7ff;1=7ff'


def play(scene: scenes.Scene) -> None:
    """Show the groups of a host, spoil one, and see it mended.

    :raises NotAsTold: a server does not get its ways back
    """
    scene.stage.act(
        'What the kernel enforces',
        'No daemon: each server has a control group that is named after it. '
        'The default group, for all that has no ways of its own, leaves out '
        'what is sold.',
    )
    for host in scene.hosts:
        kernel.show(scene, host)
    _spoil(scene, scene.hosts[0])


def _spoil(scene: scenes.Scene, host: str) -> None:
    scene.stage.note(
        'Somebody at a shell of the host lets everybody fill everything '
        'again. The host looks now and then, and holds the kernel to what '
        'was sold.'
    )
    machine = kernel.get_machine(scene, host)
    before = machine.read('schemata')
    with scene.stage.step(f'echo "{_EVERYTHING}" > schemata, on {host}'):
        machine.write('schemata', f'{_EVERYTHING}\n')
        stages.expect(
            machine.read('schemata') != before, 'the sold ways are open'
        )
    with scene.stage.step('Wait until they are closed again') as step:
        waiting.until(
            lambda: machine.read('schemata') == before,
            f'{host} takes back what was sold',
        )
        step.result = resctrl.list_lines(before, 'L3')[0]
