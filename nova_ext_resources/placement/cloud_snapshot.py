# SPDX-License-Identifier: Apache-2.0

"""All hosts of a cloud with what is left of them, by few requests.

Placement shows inventories and usages provider by provider, and a cloud of a
thousand hosts has thousands of them. But with allocation candidates it shows
all that is left in all their trees, in one answer. So one unit is asked for of
a class of which nearly every host has some free. Hosts without any of it, such
as bare-metal nodes, have other classes: a few of these hosts are read provider
by provider, and their classes are asked for, which finds the hosts alike. What
is left at the end has nothing free, and is read provider by provider.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent import futures
import dataclasses
from typing import TypeAlias, TypeVar

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry

#: Classes of compute nodes, those first that hosts run out of last.
COMMON = ('MEMORY_MB', 'DISK_GB', 'VCPU', 'PCPU')

#: Requests at the same time; below the ten connections that a session of
#: requests keeps alive.
WORKERS = 8

#: Hosts that are read one by one at once, before more classes are asked for:
#: each of these questions is about all hosts.
_FEW = 3

#: Hosts that are read before the next question, at most.
_MANY = 64

#: Questions about classes in all; no more are asked where hosts have more.
_MAX_CLASSES = 20

_T = TypeVar('_T')
_R = TypeVar('_R')

_Trees: TypeAlias = tuple[host_tree.HostTree, ...]
_Listed: TypeAlias = Mapping[str, host_provider.Provider]


def list_hosts(
    client: placement_client.Client,
    classes: Iterable[str] | None = (),
    *,
    has_closed_usages: bool = True,
) -> _Trees:
    """Return all hosts, with traits and amounts, without inventories.

    Disabled hosts are among them. Sharing providers are not, but belong to
    each host that reaches them, with their inventories.

    :param classes: more resource classes that hosts may have left; sharing
        providers without any of them are left out. None leaves none out
    :param has_closed_usages: whether usages are read also of providers that
        offer nothing, as where all is reserved; a request for each. Without
        them, such a provider seems to have nothing allocated
    :raises PlacementError: placement cannot be read
    """
    wanted = frozenset(classes or ())
    listed = {one.rp_uuid: one for one in retry.call(client.list_providers)}
    roots = {rp_uuid: find_root(rp_uuid, listed) for rp_uuid in listed}
    search = _Search(
        client, listed, roots, has_closed_usages=has_closed_usages
    )
    found = search.find([*COMMON, *sorted(wanted)])
    named = [
        dataclasses.replace(
            found[rp_uuid], name=one.name, parent_uuid=one.parent_uuid
        )
        for rp_uuid, one in listed.items()
        if rp_uuid in found
    ]
    trees = [*host_tree.group(named)]
    pools = [
        listed[one.root.rp_uuid]
        for one in trees
        if host_provider.SHARING_TRAIT in one.root.traits
        and (classes is None or one.root.amounts.keys() & wanted)
    ]
    shared = _read_shared(client, pools, roots)
    return tuple(
        dataclasses.replace(one, shared=shared.get(one.root.rp_uuid, ()))
        for one in trees
        if host_provider.SHARING_TRAIT not in one.root.traits
    )


def list_pools(
    client: placement_client.Client,
) -> tuple[tuple[host_tree.TreeProvider, tuple[str, ...]], ...]:
    """Return the sharing providers, each with the hosts that reach it.

    :raises PlacementError: placement cannot be read
    """
    listed = {one.rp_uuid: one for one in retry.call(client.list_providers)}
    roots = {rp_uuid: find_root(rp_uuid, listed) for rp_uuid in listed}
    sharing = retry.call(
        client.list_providers, required=host_provider.SHARING_TRAIT
    )
    pools = []
    for one in sorted(sharing, key=lambda one: host_tree.sort_name(one.name)):
        read = _read(client, one)
        if read is None:
            continue
        reaching = find_reaching(client, one.rp_uuid, roots)
        hosts = {listed[root].name for root in reaching - {one.rp_uuid}}
        pools.append((read, tuple(sorted(hosts, key=host_tree.sort_name))))
    return tuple(pools)


def get_host(client: placement_client.Client, name: str) -> host_tree.HostTree:
    """Return one host with all that placement knows of it.

    :param name: the hypervisor's hostname
    :raises NotFound: there is no such host
    :raises PlacementError: placement cannot be read
    """
    listed = retry.call(client.list_providers, name=name)
    roots = [one for one in listed if not one.parent_uuid]
    # Any of them may go between two requests.
    tree = [
        read
        for root in roots[:1]
        for read in run_all(
            lambda each: _read(client, each, has_holders=True),
            retry.call(client.list_providers, in_tree=root.rp_uuid),
        )
        if read is not None
    ]
    for host in host_tree.group(tree):
        return host
    raise exception.NotFound(
        action=f'show host {name}',
        detail='placement has no root provider of this name. Name the host as '
        'its hypervisor is named: "openstack hypervisor list"',
    )


def add_inventories(
    client: placement_client.Client,
    trees: Iterable[host_tree.HostTree],
    is_wanted: Callable[[host_tree.TreeProvider], bool],
) -> _Trees:
    """Return hosts with the inventories of some of their providers.

    By one request for each of these. A provider that has gone meanwhile
    keeps its amounts.

    :raises PlacementError: placement cannot be read
    """
    trees = [*trees]
    read = read_each(
        client.list_inventories,
        [
            one.rp_uuid
            for tree in trees
            for one in tree.providers
            if is_wanted(one)
        ],
    )
    return tuple(
        dataclasses.replace(
            tree,
            providers=tuple(
                _add_inventories(one, read.get(one.rp_uuid))
                for one in tree.providers
            ),
        )
        for tree in trees
    )


def list_holders(
    client: placement_client.Client, rp_uuids: Collection[str]
) -> dict[str, Mapping[str, Mapping[str, int]]]:
    """Return rp_uuid -> resource class -> consumer -> amount.

    By one request for each. Those that have gone meanwhile are left out.

    :raises PlacementError: placement cannot be read
    """

    return read_each(client.list_holders, rp_uuids)


def read_each(
    function: Callable[[str], _R], rp_uuids: Collection[str]
) -> dict[str, _R]:
    """Return rp_uuid -> what a function reads of it.

    Providers that have gone meanwhile are left out.

    :raises PlacementError: placement cannot be read
    """

    def read(rp_uuid: str) -> _R | None:
        try:
            return retry.call(function, rp_uuid)
        except exception.NotFound:
            return None

    found = zip(rp_uuids, run_all(read, [*rp_uuids]), strict=True)
    return {rp_uuid: one for rp_uuid, one in found if one is not None}


def find_root(rp_uuid: str, listed: _Listed) -> str:
    """Return the root of a provider, which may be itself."""
    while (parent := listed[rp_uuid].parent_uuid) in listed:
        assert parent is not None
        rp_uuid = parent
    return rp_uuid


def _read_shared(
    client: placement_client.Client,
    pools: Iterable[host_provider.Provider],
    roots: Mapping[str, str],
) -> dict[str, tuple[host_tree.TreeProvider, ...]]:
    """Return the root of each host -> the sharing providers that it reaches.

    A provider anywhere in its tree ties it to them, by an aggregate.
    """
    found: dict[str, tuple[host_tree.TreeProvider, ...]] = {}
    for pool in pools:
        read = _read(client, pool)
        if read is not None:
            for root in find_reaching(client, pool.rp_uuid, roots):
                found[root] = (*found.get(root, ()), read)
    return found


def find_reaching(
    client: placement_client.Client,
    rp_uuid: str,
    roots: Mapping[str, str],
) -> set[str]:
    """Return the roots of the trees that are tied to a sharing provider.

    Its own is among them.
    """
    return {
        roots[one.rp_uuid]
        for aggregate in retry.call(client.list_aggregates, rp_uuid)
        for one in retry.call(client.list_providers, member_of=aggregate)
        if one.rp_uuid in roots
    }


class _Search:
    """Finds out what is left of all providers.

    :param roots: rp_uuid -> the root of its tree
    :param has_closed_usages: see :func:`list_hosts`
    """

    def __init__(
        self,
        client: placement_client.Client,
        listed: _Listed,
        roots: Mapping[str, str],
        *,
        has_closed_usages: bool,
    ) -> None:
        self._client = client
        self._has_closed_usages = has_closed_usages
        self._listed = listed
        self._roots = roots
        self._asked: set[str] = set()
        self._found: dict[str, host_tree.TreeProvider] = {}
        self._gone: set[str] = set()

    def find(
        self, classes: Iterable[str]
    ) -> dict[str, host_tree.TreeProvider]:
        """Return rp_uuid -> provider.

        :param classes: asked for first; those that nearly all hosts have left
            at the front
        """
        for name in classes:
            self._ask(name)
        number = 1
        while missing := self._list_missing():
            if len(missing) <= _FEW or len(self._asked) >= _MAX_CLASSES:
                number = len(missing)
            for name in self._read_trees(missing[:number]):
                if len(self._list_missing()) > _FEW:
                    self._ask(name)
            number = min(2 * number, _MANY)
        self._read(one for one in self._listed if one not in self._found)
        return self._found

    def _list_missing(self) -> list[str]:
        """Return the roots of trees of which nothing is known."""
        known = {self._roots[one] for one in self._found} | self._gone
        return [*dict.fromkeys(self._roots.values()).keys() - known]

    def _ask(self, name: str) -> None:
        """Add the trees in which one unit of a class is left."""
        is_enough = name in self._asked or not self._list_missing()
        if is_enough or len(self._asked) >= _MAX_CLASSES:
            return
        self._asked.add(name)
        try:
            more = retry.call(
                self._client.list_candidates, [('resources', f'{name}:1')]
            )
        except exception.PlacementRefused:
            # Placement has no such class.
            return
        known = more.providers.items()
        self._found = {
            k: v for k, v in known if k in self._roots
        } | self._found

    def _read_trees(self, roots: Collection[str]) -> list[str]:
        """Add trees provider by provider; return their classes."""
        wanted = frozenset(roots)
        read = self._read(
            rp_uuid for rp_uuid, root in self._roots.items() if root in wanted
        )
        return sorted({name for one in read for name in one.amounts})

    def _read(self, rp_uuids: Iterable[str]) -> list[host_tree.TreeProvider]:
        """Add providers, and return them. Some may have gone meanwhile."""
        wanted = [one for one in rp_uuids if one not in self._gone]
        read = run_all(
            lambda one: _read(
                self._client,
                self._listed[one],
                has_closed_usages=self._has_closed_usages,
            ),
            wanted,
        )
        found = [one for one in read if one is not None]
        self._found |= {one.rp_uuid: one for one in found}
        self._gone |= {*wanted} - self._found.keys()
        return found


def _read(
    client: placement_client.Client,
    listed: host_provider.Provider,
    *,
    has_holders: bool = False,
    has_closed_usages: bool = True,
) -> host_tree.TreeProvider | None:
    """Return a provider, None if it has gone meanwhile."""
    holders: Mapping[str, Mapping[str, int]] = {}
    usages: Mapping[str, int] = {}
    rp_uuid = listed.rp_uuid
    try:
        inventories = retry.call(client.list_inventories, rp_uuid)
        traits = retry.call(client.list_traits, rp_uuid)
        if has_holders:
            holders = retry.call(client.list_holders, rp_uuid)
            usages = {name: sum(one.values()) for name, one in holders.items()}
        elif any(
            has_closed_usages or one.capacity for one in inventories.values()
        ):
            usages = retry.call(client.list_usages, rp_uuid)
    except exception.NotFound:
        return None
    return host_tree.TreeProvider(
        rp_uuid=rp_uuid,
        name=listed.name,
        parent_uuid=listed.parent_uuid,
        traits=traits,
        amounts={
            name: host_tree.Amount(
                capacity=inventory.capacity,
                used=usages.get(name, 0),
                inventory=inventory,
            )
            for name, inventory in inventories.items()
        },
        holders=holders,
    )


def _add_inventories(
    one: host_tree.TreeProvider,
    inventories: Mapping[str, class_inventory.Inventory] | None,
) -> host_tree.TreeProvider:
    if inventories is None:
        return one
    return dataclasses.replace(
        one,
        amounts={
            name: dataclasses.replace(amount, inventory=inventories.get(name))
            for name, amount in one.amounts.items()
        },
    )


def run_all(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Call a function with each item, some at the same time."""
    if len(items) < 2:
        return [function(one) for one in items]
    with futures.ThreadPoolExecutor(max_workers=WORKERS) as pool:
        return list(pool.map(function, items))
