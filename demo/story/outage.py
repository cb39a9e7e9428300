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

"""RMD goes away and comes back."""

from openstack.compute.v2 import server as sdk_server

from demo import ballast
from demo import landed
from demo import reasons
from demo import scene as scenes
from demo import servers
from demo import stage as stages
from demo.story import boot
from demo import tree
from demo import waiting

_AWAY = 'away-1'
_FORCED = 'away-2'
_BACK = 'back-1'


def play(scene: scenes.Scene) -> None:
    """Kill the RMD of a host, boot, bring it back, boot again.

    :raises NotAsTold: a server was built without its cache, placement lost
        an inventory, or the host did not recover
    """
    scene.stage.act(
        'RMD goes away and comes back',
        'Nothing is taken out of placement, and no server is built without '
        'what it asked for.',
    )
    host = scene.hosts[0]
    before = _inventories(scene, host)
    with ballast.prefer(scene, host):
        with scene.stage.step(f'Kill the RMD of {host}'):
            scene.simulators[host].kill()
        mark = scene.journal.mark()
        elsewhere = boot.boot(scene, _AWAY, 'silver')
        stages.expect(elsewhere != host, f'{_AWAY} lands elsewhere', elsewhere)
        _boot_there(scene, host)
        reasons.show(scene, mark, host=host)
        with scene.stage.step(f'Look at what placement has of {host}') as step:
            after = _inventories(scene, host)
            stages.expect(after == before, 'nothing changed', after)
            step.result = 'nothing was zeroed or deleted'
        with scene.stage.step(f'Start the RMD of {host} again'):
            scene.simulators[host].start()
            scene.simulators[host].wait()
        _wait_for_recovery(scene, host)
    landed.show(scene, [_AWAY, _BACK])


def _boot_there(scene: scenes.Scene, host: str) -> None:
    with scene.stage.step(f'Boot {_FORCED}, silver, on {host} only') as step:
        made = servers.boot(
            scene.sdk,
            _FORCED,
            flavor_id=scene.flavors['silver'],
            image_id=scene.image_id,
            host=host,
        )
        status, fault = made.status, servers.fault(made)
        servers.delete(scene.sdk, made.id)
        stages.expect(status == 'ERROR', f'{_FORCED} is refused', status)
        step.result = f'refused as it should be: {fault}'


def _wait_for_recovery(scene: scenes.Scene, host: str) -> None:
    with scene.stage.step(f'Boot {_BACK}, silver, on {host} only') as step:
        made = waiting.until(
            lambda: _try(scene, host),
            f'{host} builds servers again',
            seconds=20,
        )
        scene.servers[_BACK] = made.id
        step.result = f'{made.status} on {made.compute_host}'


def _try(scene: scenes.Scene, host: str) -> sdk_server.Server | None:
    made = servers.boot(
        scene.sdk,
        _BACK,
        flavor_id=scene.flavors['silver'],
        image_id=scene.image_id,
        host=host,
    )
    if made.status == 'ACTIVE':
        return made
    servers.delete(scene.sdk, made.id)
    return None


def _inventories(
    scene: scenes.Scene, host: str
) -> dict[tuple[str, str], tree.Amount]:
    return {
        (one.name, name): amount
        for one in tree.list_ours(scene.cloud.placement)
        if one.host == host
        for name, amount in one.amounts.items()
    }
