# SPDX-License-Identifier: Apache-2.0

"""Which classes of its files Nova could not add to its providers.

As ResourceTracker ``_merge_provider_configs`` of Nova 34 adds them: it refuses
a class that a provider has already, and its update of the compute node fails.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from nova_ext_resources.virt import provider_config


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A resource class that Nova must not add to a provider.

    :ivar file: name, without its folder
    :ivar identification: as the file identifies the provider
    :ivar provider: its name in placement
    :ivar is_own: whether a plugin reports the provider
    """

    file: str
    identification: str
    provider: str
    resource_class: str
    is_own: bool


def list_refused(
    configs: provider_config.Configs,
    tree: Any,
    nodename: str,
    own: Collection[str],
) -> Iterator[Refused]:
    """Yield what would make Nova's update of a compute node fail.

    To a provider of plugins Nova could add a class once: at its next update
    it would find it there.

    :param tree: Nova's ``ProviderTree``, as the driver has updated it
    :param own: names and uuids of the providers that plugins report, whether
        or not they are in the tree yet
    """
    for identification, one in configs.items():
        found = _find_provider(configs, tree, nodename, identification)
        is_own = identification in own
        for name in provider_config.list_classes(one):
            if is_own or (found and name in found.inventory):
                yield Refused(
                    file=str(one['__source_file']),
                    identification=identification,
                    provider=found.name if found else identification,
                    resource_class=name,
                    is_own=is_own,
                )


def _find_provider(
    configs: provider_config.Configs,
    tree: Any,
    nodename: str,
    identification: str,
) -> Any:
    """Return the provider that Nova adds an entry to; None: to none."""
    if identification != provider_config.COMPUTE_NODE:
        is_there = tree.exists(identification)
        return tree.data(identification) if is_there else None
    node = tree.data(nodename)
    return None if {node.name, node.uuid} & configs.keys() else node


def leave_out(
    configs: provider_config.Configs, refused: Sequence[Refused]
) -> dict[str, Mapping[str, Any]]:
    """Return the same without what is refused, for Nova to add.

    An entry of which nothing is left stays where it takes the place of the
    one for all compute nodes. On a provider of plugins it would leave a trait.
    """
    own = {one.identification for one in refused if one.is_own}
    classes: dict[str, set[str]] = {}
    for one in refused:
        classes.setdefault(one.identification, set()).add(one.resource_class)
    return {
        identification: _without(one, classes.get(identification, ()))
        for identification, one in configs.items()
        if identification not in own or one.get('traits', {}).get('additional')
    }


def _without(
    one: Mapping[str, Any], classes: Collection[str]
) -> Mapping[str, Any]:
    if not classes:
        return one
    left = [
        {name: value for name, value in added.items() if name not in classes}
        for added in one['inventories']['additional']
    ]
    return {
        **one,
        'inventories': {
            **one['inventories'],
            'additional': [added for added in left if added],
        },
    }
