# SPDX-License-Identifier: Apache-2.0

"""Places servers of one request, as the scheduler would place them.

In a copy of what placement shows and of what a host has published. Nothing is
claimed.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from typing import Any

from nova_ext_resources.claims.schedule import candidates as schedule
from nova_ext_resources.inspection import fit
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import requirements
from nova_ext_resources.reservation import candidates


class Placing:
    """Servers of one request."""

    def __init__(self, filters: fit.Filters) -> None:
        self._filters = filters

    def place(self, room: fit.HostRoom) -> fit.HostRoom | fit.Fit:
        """Return what is left when a host has one more, or why it cannot."""
        host, document, cells = room.tree, room.document, room.cells
        options = self._list_options(host)
        if not options:
            return fit.explain_absence(host, self._filters.demand)
        kept = self._filters.keep(room, options)
        if isinstance(kept, fit.Fit):
            return kept
        chosen = kept[0]
        if document is not None:
            cells = self._take_cpus(document, chosen, cells)
            document = self._filters.judge.take(document, chosen)
        return fit.HostRoom(
            tree=_allocate(host, chosen), document=document, cells=cells
        )

    def _list_options(
        self, host: host_tree.HostTree
    ) -> list[schedule.Candidate]:
        """Return the candidates that placement would offer."""
        view = fit.make_view(host)
        found = candidates.CandidateSearch(
            view, fit.make_providers(host), self._filters.demand
        )
        return [
            fit.make_option(one)
            for one in found
            if candidates.has_room(view, one)
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
        for size in self._filters.demand.cells:
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
        if len(self._filters.demand.cells or ()) != 1:
            return caches
        find_affinity = self._filters.demand.requirement.find_affinity
        devices = _find_cpus(
            document,
            chosen,
            'n',
            lambda name: find_affinity(name) == requirements.Affinity.REQUIRED,
        )
        return caches & devices or caches | devices


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
