# SPDX-License-Identifier: Apache-2.0

"""Places servers of one request, as the scheduler would place them.

In a copy of what placement shows and of what a host has published. Nothing is
claimed.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from typing import Any

from nova_ext_resources.claims import base
from nova_ext_resources.claims.schedule import candidates as schedule
from nova_ext_resources import exception
from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_tree
from nova_ext_resources.objects import requirement
from nova_ext_resources.objects import stats
from nova_ext_resources.reservation import candidates as candidates_mod
from nova_ext_resources.reservation import demand as demand_mod
from nova_ext_resources.reservation import publication as publication_mod


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a host has left.

    :ivar document: what it has published; None: nothing
    :ivar cells: the free dedicated CPUs of each NUMA cell; None: not known
    """

    tree: host_tree.HostTree
    document: stats.Document | None
    cells: Sequence[set[int]] | None

    @property
    def is_sure(self) -> bool:
        """Whether the host has published which units are free."""
        return self.document is not None


def make_room(
    host: host_tree.HostTree, published: publication_mod.Publications
) -> Room:
    """Return what a host has left now."""
    found = published.get(host.name)
    return Room(
        tree=host,
        document=stats.decode(found.document) if found else None,
        cells=_read_cells(found),
    )


class Placing:
    """Servers of one request."""

    def __init__(
        self,
        demand: demand_mod.Demand,
        *,
        trackers: Mapping[str, base.Tracker],
        tests: Mapping[str, base.ClaimTest],
    ) -> None:
        self._demand = demand
        self._judge = schedule.Judge(
            trackers, tests, demand.cells, demand.requirement
        )

    def place(self, room: Room) -> Room | fit_mod.Fit:
        """Return what is left when a host has one more, or why it cannot."""
        host, document, cells = room.tree, room.document, room.cells
        options = self._list_options(host)
        if not options:
            return fit_mod.explain_absence(host, self._demand)
        chosen = options[0]
        if document is not None:
            kept, short = self._ask_filter(document, options, cells)
            if not kept:
                return fit_mod.Fit(
                    host=host, step=fit_mod.Step.UNITS, shortfalls=short
                )
            chosen = kept[0]
            cells = self._take_cpus(document, chosen, cells)
            document = self._judge.take(document, chosen)
        return Room(
            tree=_allocate(host, chosen), document=document, cells=cells
        )

    def _ask_filter(
        self,
        document: stats.Document,
        options: Sequence[schedule.Candidate],
        cells: Sequence[set[int]] | None,
    ) -> tuple[Sequence[schedule.Candidate], tuple[exception.Shortfall, ...]]:
        """Return the candidates that the host can give, or why none."""

        def find_free() -> Sequence[set[int]] | None:
            return cells

        kept = self._judge.choose(document, options, find_free)
        if kept:
            return kept, ()
        return (), self._judge.explain(document, options, find_free)

    def _list_options(
        self, host: host_tree.HostTree
    ) -> list[schedule.Candidate]:
        """Return the candidates that placement would offer."""
        view = fit_mod.make_view(host)
        found = candidates_mod.CandidateSearch(
            view, fit_mod.make_providers(host), self._demand
        )
        return [
            fit_mod.make_option(one)
            for one in found
            if candidates_mod.has_room(view, one)
        ]

    def _take_cpus(
        self,
        document: stats.Document,
        chosen: Mapping[str, Any],
        cells: Sequence[set[int]] | None,
    ) -> list[set[int]] | None:
        """Return the free CPUs without those that a server is pinned to.

        In the cache domain of what it gets, near devices that have to be, and
        in the fullest cell.
        """
        if cells is None:
            return None
        near = self._find_near(document, chosen)
        left = [set(one) for one in cells]
        for size in self._demand.cells:
            able = [
                (len(one), index)
                for index, one in enumerate(left)
                if len(one & near if near else one) >= size
            ]
            if able:
                cell = left[min(able)[1]]
                cell -= set(sorted(cell & near if near else cell)[:size])
        return left

    def _find_near(
        self, document: stats.Document, chosen: Mapping[str, Any]
    ) -> frozenset[int]:
        """Return the CPUs among which those of a server are; none if any."""
        caches = _find_cpus(document, chosen, 'c')
        # With several guest cells, one of them near the device would do.
        if len(self._demand.cells or ()) != 1:
            return caches
        find_affinity = self._demand.requirement.find_affinity
        devices = _find_cpus(
            document,
            chosen,
            'n',
            lambda name: find_affinity(name) == requirement.Affinity.REQUIRED,
        )
        return caches & devices or caches | devices


def _read_cells(
    published: publication_mod.Publication | None,
) -> list[set[int]] | None:
    found = publication_mod.read_cells(published.cells) if published else None
    return None if found is None else [set(one.free) for one in found]


def _find_cpus(
    document: stats.Document,
    chosen: Mapping[str, Any],
    key: str,
    is_wanted: Callable[[str], bool] = lambda _: True,
) -> frozenset[int]:
    """Return the CPUs of what a candidate has; none if it has none.

    :param key: of a record, such as that of the CPUs of a cache
    :param is_wanted: whether a resource class counts
    """
    return frozenset[int]().union(
        *(
            bitmask.parse_list(record[key])
            for rp_uuid, one in chosen['allocations'].items()
            for name in one['resources']
            if is_wanted(name)
            and (record := document.providers.get(rp_uuid, {}).get(name))
            and key in record
        )
    )


def _allocate(
    host: host_tree.HostTree, chosen: Mapping[str, Any]
) -> host_tree.HostTree:
    """Return a host with what one more server has."""
    allocations = chosen['allocations']

    def change(one: host_tree.TreeProvider) -> host_tree.TreeProvider:
        taken = allocations.get(one.rp_uuid, {}).get('resources', {})
        amounts = {
            name: dataclasses.replace(
                amount, used=amount.used + taken.get(name, 0)
            )
            for name, amount in one.amounts.items()
        }
        return dataclasses.replace(one, amounts=amounts)

    return host_tree.HostTree(
        providers=tuple(map(change, host.providers)),
        shared=tuple(map(change, host.shared)),
    )
