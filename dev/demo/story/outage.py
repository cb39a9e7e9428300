# SPDX-License-Identifier: Apache-2.0

"""What manages the cache goes away and comes back."""

from openstack.compute.v2 import server as sdk_server

from dev.cloud import told
from dev.cloud import tree
from dev.cloud import waiting
from dev.demo import ballast
from dev.demo import hearing
from dev.demo import holdings
from dev.demo import landed
from dev.demo import reasons
from dev.demo import scene as scenes
from dev.demo.story import boot

_STAYS = 'stays-1'
_AWAY = 'away-1'
_FORCED = 'away-2'
_BACK = 'back-1'


def play(scene: scenes.Scene) -> None:
    """Kill it on one host, boot, bring it back, boot again.

    :raises NotAsTold: a server was built without its cache, placement lost
        an inventory, or the host did not recover
    """
    scene.stage.act(
        f'{scene.manager} goes away and comes back',
        'Nothing is taken out of placement, and no server is built without '
        'what it asked for.',
    )
    host = scene.hosts[0]
    hearing.wait(scene, [host])
    boot.boot(scene, _STAYS, 'gold', host=host)
    before = _totals(scene, host)
    with ballast.prefer(scene, host):
        with scene.stage.step(f'{scene.machines[host].loss} on {host}'):
            scene.machines[host].kill()
        mark = scene.journal.mark()
        elsewhere = boot.boot(scene, _AWAY, 'silver')
        told.expect(elsewhere != host, f'{_AWAY} lands elsewhere', elsewhere)
        boot.boot_in_vain(scene, _FORCED, 'silver', host=host)
        reasons.show(scene, mark, reasons.CLAIM, reasons.DISCOVERY, host=host)
        with scene.stage.step(f'Look at what placement has of {host}') as step:
            after = _totals(scene, host)
            told.expect(after == before, f'{before} stays', after)
            step.result = 'nothing was zeroed or deleted'
        with scene.stage.step(f'Bring {scene.manager} of {host} back'):
            scene.machines[host].start()
            scene.machines[host].wait()
    _boot_again(scene, host)
    _wait_until_repaired(scene, host)
    landed.show(scene, [_STAYS, _AWAY, _BACK])


def _boot_again(scene: scenes.Scene, host: str) -> None:
    with scene.stage.step(f'Boot {_BACK}, silver, on {host} only') as step:
        made = waiting.until(
            lambda: _try(scene, host), f'{host} builds servers again'
        )
        step.result = f'{made.status} on {made.compute_host}'


def _wait_until_repaired(scene: scenes.Scene, host: str) -> None:
    # What the crash took from servers that run comes back with the next round
    # of the host, not with the claim of another server.
    told = f'Wait until the servers on {host} have their ways again'
    with scene.stage.step(told) as step:
        repaired = waiting.until(
            lambda: _list_repaired(scene, host),
            f'{scene.manager} gives each server on {host} what it holds',
        )
        step.result = f'{len(repaired)} servers, as in ledger and placement'


def _list_repaired(scene: scenes.Scene, host: str) -> list[holdings.Holding]:
    found = [one for one in holdings.compare(scene) if one.host == host]
    return found if all(one.is_agreed for one in found) else []


def _try(scene: scenes.Scene, host: str) -> sdk_server.Server | None:
    made = scene.ask(_BACK, 'silver', host=host)
    if made.status == 'ACTIVE':
        return made
    scene.delete(_BACK)
    return None


def _totals(scene: scenes.Scene, host: str) -> dict[tuple[str, str], int]:
    return {
        (one.name, name): amount.total
        for one in tree.list_ours(scene.cloud.placement)
        if one.host == host
        for name, amount in one.amounts.items()
    }
