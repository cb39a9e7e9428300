# SPDX-License-Identifier: Apache-2.0

"""Delete: everything is given back, everywhere."""

from dev.cloud import told
from dev.cloud import tree
from dev.cloud import waiting
from dev.demo import holdings
from dev.demo import scene as scenes


def play(scene: scenes.Scene) -> None:
    """Delete all servers and look for what they left.

    :raises NotAsTold: something is still held
    """
    scene.stage.act('Delete; everything is given back')
    delete_all(scene)


def delete_all(scene: scenes.Scene) -> None:
    """Delete the servers of the story and hold the hosts to being empty.

    :raises NotAsTold: something is still held
    """
    count = len(scene.servers)
    with scene.stage.step(f'Delete {count} servers'):
        for name in [*scene.servers]:
            scene.delete(name)
    with scene.stage.step('Wait until placement has the ways back'):
        waiting.until(
            lambda: _is_whole(scene),
            'no way and no class is used or reserved for servers',
        )
    ours = tree.list_ours(scene.cloud.placement)
    scene.stage.table(
        'What is still held',
        ('host', 'ledger rows', 'placement consumers', scene.manager),
        [_count(scene, host, ours) for host in scene.hosts],
    )


def _count(
    scene: scenes.Scene, host: str, ours: tuple[tree.Provider, ...]
) -> tuple[str, int, int, int]:
    ledger = len(holdings.list_assigned(scene, host))
    consumers = {
        consumer
        for one in ours
        if one.host == host
        for consumer in tree.list_consumers(scene.cloud.placement, one.uuid)
    }
    in_force = len(scene.machines[host].list_in_force())
    told.expect(
        ledger == len(consumers) == in_force == 0,
        f'nothing is held on {host}',
        f'{ledger} ledger rows, {len(consumers)} consumers in placement, '
        f'{in_force} applied by {scene.manager}',
    )
    return host, ledger, len(consumers), in_force


def _is_whole(scene: scenes.Scene) -> bool:
    """Say whether all hosts, which are alike, offer the same again."""
    ours = tree.list_ours(scene.cloud.placement)
    offers = {
        tuple(
            (one.name.removeprefix(host), name, amount.available)
            for one in ours
            if one.host == host
            for name, amount in one.amounts.items()
        )
        for host in scene.hosts
    }
    return len(offers) == 1
