# SPDX-License-Identifier: Apache-2.0

"""Burst ways: a minimum that is always held, and more while it is free."""

from dev.cloud import told
from dev.cloud import tree
from dev.cloud import waiting
from dev.demo import holdings
from dev.demo import kernel
from dev.demo import scene as scenes
from dev.demo.story import boot

#: More servers than there are caches: at least two of them share one.
_SERVERS = ('burst-1', 'burst-2', 'burst-3')


def play(scene: scenes.Scene) -> None:
    """Boot servers that may burst, and delete one of those that share a pool.

    :raises NotAsTold: a server has less than its minimum, or those that stay
        do not get what the other had
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
    leaves, *stay = _find_group(scene, host)
    before = _count_ways(scene, host, stay)
    told.expect(min(before) >= 1, f'{_join(stay)} have their minimum', before)
    with scene.stage.step(f'Delete {leaves}'):
        scene.delete(leaves)
    with scene.stage.step(f'Wait until {_join(stay)} have more') as step:
        waiting.until(
            lambda: sum(_count_ways(scene, host, stay)) > sum(before),
            f'{_join(stay)} get what {leaves} had',
        )
        after = _count_ways(scene, host, stay)
        step.result = f'{sum(before)} before, {sum(after)} now'
    for name in _SERVERS:
        if name != leaves:
            scene.delete(name)


def _find_group(scene: scenes.Scene, host: str) -> list[str]:
    """Give all servers that have ways of one cache, two or more."""
    found: dict[str, list[str]] = {}
    for one in holdings.list_assigned(scene, host):
        if one.resource_class == tree.BURST:
            name = scene.names[one.consumer_uuid]
            found.setdefault(one.rp_key, []).append(name)
    largest = max(found.values(), key=len, default=[])
    told.expect(len(largest) >= 2, 'two servers share a cache', found)
    return largest


def _count_ways(scene: scenes.Scene, host: str, names: list[str]) -> list[int]:
    in_force = kernel.get_machine(scene, host).list_in_force()
    return [in_force[scene.servers[name]].ways for name in names]


def _join(names: list[str]) -> str:
    return ' and '.join(names)
