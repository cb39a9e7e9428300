# SPDX-License-Identifier: Apache-2.0

"""Burst ways: a minimum that is always held, and more while it is free."""

from cloud import tree
from cloud import waiting
from demo import holdings
from demo import kernel
from demo import scene as scenes
from demo import stage as stages
from demo.story import boot

#: More servers than there are caches: two of them share one.
_SERVERS = ('burst-1', 'burst-2', 'burst-3')


def play(scene: scenes.Scene) -> None:
    """Boot servers that may burst, and delete one of two that share a pool.

    :raises NotAsTold: a server has less than its minimum, or the one that
        stays does not get what the other had
    """
    scene.stage.act(
        'Burst ways',
        'Each of these servers requests one way of its cache\'s burst pool. '
        'It always has that one, and its part of the others as long as '
        'no other server needs them.',
    )
    host = scene.hosts[0]
    for name in _SERVERS:
        boot.boot(scene, name, 'elastic', host=host)
    kernel.show(scene, host)
    leaves, stays = _find_pair(scene, host)
    before = _count_ways(scene, host, stays)
    stages.expect(before >= 1, f'{stays} has its minimum', before)
    with scene.stage.step(f'Delete {leaves}'):
        scene.delete(leaves)
    with scene.stage.step(f'Wait until {stays} has more') as step:
        waiting.until(
            lambda: _count_ways(scene, host, stays) > before,
            f'{stays} gets what {leaves} had',
        )
        step.result = f'{before} before, {_count_ways(scene, host, stays)} now'
    for name in _SERVERS:
        if name != leaves:
            scene.delete(name)


def _find_pair(scene: scenes.Scene, host: str) -> tuple[str, str]:
    """Give two servers that have ways of the same cache."""
    found: dict[str, str] = {}
    for one in holdings.list_assigned(scene, host):
        if one.resource_class == tree.BURST:
            name = scene.names[one.consumer_uuid]
            if one.rp_key in found:
                return found[one.rp_key], name
            found[one.rp_key] = name
    raise stages.NotAsTold('two servers share a cache', str(found))


def _count_ways(scene: scenes.Scene, host: str, name: str) -> int:
    machine = kernel.get_machine(scene, host)
    return machine.list_in_force()[scene.servers[name]].ways
