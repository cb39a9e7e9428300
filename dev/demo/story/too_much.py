# SPDX-License-Identifier: Apache-2.0

"""More than fits: who says no, and why, for each host."""

from dev.cloud import tree
from dev.demo import hearing
from dev.demo import reasons
from dev.demo import scene as scenes
from dev.demo.story import boot


def play(scene: scenes.Scene) -> None:
    """Ask for more ways than there are, then for more classes.

    :raises NotAsTold: a server was built that cannot have what it asks for
    """
    scene.stage.act('More than fits')
    _ask_for_too_many_ways(scene)
    _run_out_of_classes(scene)


def _ask_for_too_many_ways(scene: scenes.Scene) -> None:
    scene.stage.note(
        'No cache has as many ways for servers as the flavor giant wants: '
        'placement offers no host at all.'
    )
    boot.boot_in_vain(scene, 'giant-1', 'giant')
    scene.stage.table(
        f'{tree.WAYS} of each cache, of which giant wants 11',
        ('host', 'provider', 'total', 'reserved', 'used', 'left', 'at once'),
        [
            (
                one.host,
                one.name,
                amount.total,
                amount.reserved,
                amount.used,
                amount.available,
                amount.max_unit,
            )
            for one in tree.list_ours(scene.cloud.placement)
            for name, amount in one.amounts.items()
            if name == tree.WAYS
        ],
    )


def _run_out_of_classes(scene: scenes.Scene) -> None:
    scene.stage.note(
        'Every server with ways takes a class of service too, and a CPU has '
        'few. Small servers take them all; ways are still left.'
    )
    names = []
    for number in range(1, _free_classes(scene) + 1):
        names.append(f'small-{number}')
        boot.boot(scene, names[-1], 'bronze')
    hearing.wait(scene, scene.hosts)
    mark = scene.journal.mark()
    offered = _offered(scene)
    boot.boot_in_vain(scene, 'small-too-many', 'bronze')
    scene.stage.note(
        f'Placement would have offered {offered} hosts for it. The '
        f'scheduler knows better, because the hosts tell it:'
    )
    reasons.show(scene, mark, reasons.FILTER, reasons.CLAIM)
    names += [name for name in scene.servers if name.startswith('web-')]
    with scene.stage.step(f'Make room again: delete {", ".join(names)}'):
        for name in names:
            scene.delete(name)


def _free_classes(scene: scenes.Scene) -> int:
    return sum(
        one.amounts[tree.CLOS].available
        for one in tree.list_ours(scene.cloud.placement)
        if tree.CLOS in one.amounts
    )


def _offered(scene: scenes.Scene) -> int:
    found = tree.get(
        scene.cloud.placement,
        f'/allocation_candidates?resources={tree.WAYS}:1',
    )
    return len(
        {
            provider['root_provider_uuid']
            for provider in found['provider_summaries'].values()
        }
    )
