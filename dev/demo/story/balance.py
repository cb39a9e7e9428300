# SPDX-License-Identifier: Apache-2.0

"""The books of the three agree, and at the end they are empty."""

from dev.cloud import told
from dev.demo import holdings
from dev.demo import scene as scenes
from dev.demo.story import given_back


def play(scene: scenes.Scene) -> None:
    """Compare ledger, placement and what is applied on every host.

    :raises NotAsTold: they differ, or something is left
    """
    scene.stage.act(f'Ledger = placement = {scene.manager}')
    names = {server_id: name for name, server_id in scene.servers.items()}
    found = holdings.compare(scene)
    scene.stage.table(
        'Cache ways of each server, from three sources',
        ('host', 'server', 'ledger', 'placement', scene.manager, ''),
        [
            (
                one.host,
                names.get(one.consumer_uuid, one.consumer_uuid),
                one.ledger,
                one.placement,
                one.in_force,
                'agreed' if one.is_agreed else 'DIFFERS',
            )
            for one in found
        ],
    )
    for one in found:
        told.expect(one.is_agreed, 'the three agree', one)
        told.expect(
            one.consumer_uuid in names,
            'only servers that exist hold anything',
            one,
        )
    told.expect(
        len(found) == len(names),
        'every server of the story holds its ways',
        f'{len(found)} of {len(names)}',
    )
    given_back.delete_all(scene)
