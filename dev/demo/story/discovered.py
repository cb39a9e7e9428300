# SPDX-License-Identifier: Apache-2.0

"""What each host found, and what of it placement now knows."""

from collections.abc import Mapping

from rich import text
from rich import tree as rich_tree

from dev.cloud import told
from dev.cloud import tree
from dev.cloud import waiting
from dev.demo import scene as scenes


def play(scene: scenes.Scene) -> None:
    """Show every host's provider tree as placement has it.

    :raises NotAsTold: a host has published no cache ways
    """
    scene.stage.act(
        'What the hosts found and published',
        f'Each compute asked {scene.manager}; below is what placement '
        'answers. The first line of a host is Nova\'s own provider, the '
        'others are ours.',
    )
    with scene.stage.step('Wait until every host has published its cache'):
        found = waiting.until(
            lambda: _all_published(scene),
            'every host has a provider with CUSTOM_LLC_WAYS',
        )
    names = tree.list_names(scene.cloud.placement)
    traits = {
        rp_uuid: tree.list_traits(scene.cloud.placement, rp_uuid)
        for rp_uuid in names
    }
    for host in scene.hosts:
        mine = [one for one in found if one.host == host]
        told.expect(
            any(one.uuid in names for one in mine),
            f'{host} has providers of ours',
        )
        root = next(one for one in mine if one.parent_uuid is None)
        branch = rich_tree.Tree(_label(root, ()))
        _grow(branch, root, mine, traits)
        scene.stage.tree(branch)


def _all_published(scene: scenes.Scene) -> tuple[tree.Provider, ...] | None:
    found = tree.list_providers(scene.cloud.placement)
    hosts = {one.host for one in found if tree.WAYS in one.amounts}
    return found if hosts == set(scene.hosts) else None


def _grow(
    branch: rich_tree.Tree,
    parent: tree.Provider,
    found: list[tree.Provider],
    traits: Mapping[str, tuple[str, ...]],
) -> None:
    for one in found:
        if one.parent_uuid == parent.uuid:
            label = _label(one, traits.get(one.uuid, ()))
            _grow(branch.add(label), one, found, traits)


def _label(provider: tree.Provider, traits: tuple[str, ...]) -> text.Text:
    label = text.Text(provider.name, style='bold')
    for resource_class, amount in provider.amounts.items():
        label.append(f'\n{resource_class}', style='cyan')
        label.append(
            f' total {amount.total}, reserved {amount.reserved}, '
            f'used {amount.used}, at most {amount.max_unit} at once',
            style='not bold',
        )
    if traits:
        label.append(f'\n{", ".join(traits)}', style='dim not bold')
    return label
