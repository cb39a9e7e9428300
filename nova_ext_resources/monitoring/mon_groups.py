# SPDX-License-Identifier: Apache-2.0

"""Keeps a monitoring group for each server that needs one.

A server with a control group is counted there. Every other server to monitor
gets a monitoring group, as long as there are monitoring ids: the CPU has few,
every group takes one, and the kernel keeps a released id in limbo until the
cache holds almost no data under it.

As many ids as there are free classes of service are kept, so that monitoring
never prevents a server from getting ways. A released id counts as taken while
it may be in limbo, because no group can get it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources.drivers.resctrl.guest import processes
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import mon_groups
from nova_ext_resources import exception
from nova_ext_resources.monitoring import sample

LOG = logging.getLogger(__name__)

#: Servers -> the threads of each; a server that is off has none.
ListThreads = Callable[[Collection[str]], Mapping[str, Collection[int]]]

#: Seconds between two scans for threads: a server may have been restarted.
ROUND = 60.0

#: Seconds without attempts when no id was left; doubled each time.
FIRST_BACK_OFF = 60.0
MAX_BACK_OFF = 600.0

#: Seconds for which a released id counts as taken.
LIMBO = MAX_BACK_OFF

MonGroup = mon_groups.MonGroup


def make_budget(listing: mon_groups.Listing) -> sample.RmidBudget:
    """Compute how many ids monitoring groups may take."""
    return sample.RmidBudget(
        total=listing.total_rmids,
        used=listing.num_rmids,
        reserved=max(listing.num_closids - listing.num_controls, 0),
    )


def find_threads(
    finder: processes.Processes, uuids: Collection[str]
) -> dict[str, frozenset[int]]:
    """Scan all processes once; bound to a finder, a :data:`ListThreads`.

    :raises ResctrlError: processes of other users are hidden
    """
    scan = finder.scan()
    return {uuid: scan.get(uuid).list_threads() for uuid in uuids}


class MonGroupKeeper:
    """Makes, fills and removes monitoring groups.

    :param list_threads: called for all servers at once, and no more often
        than needed: it may scan all processes of the host
    """

    def __init__(
        self,
        changer: mon_groups.MonGroups,
        list_threads: ListThreads,
        clock: clocks.Clock,
    ) -> None:
        self._changer = changer
        self._list_threads = list_threads
        self._clock = clock
        self._seen: frozenset[MonGroup] = frozenset()
        self._round_at = self._retry_at = clock.monotonic()
        self._back_off = FIRST_BACK_OFF
        self._problems: dict[str, str] = {}
        # When ids were released, and the number in use as far as is known.
        self._freed_at: list[float] = []
        self._used: int | None = None

    def maintain(
        self,
        listing: mon_groups.Listing,
        budget: sample.RmidBudget,
        servers: Mapping[str, sample.MonitoredServer],
    ) -> tuple[frozenset[MonGroup], dict[str, str]]:
        """Create, fill and remove groups as needed; raises nothing.

        :param servers: all that shall be monitored
        :returns: the groups that exist now, and server -> why it has no
            group, or not all of its threads in it
        """
        wanted = frozenset(
            _choose_group(listing, uuid, server)
            for uuid, server in servers.items()
            if uuid not in listing.controls
        )
        budget = self._count_limbo(budget)
        there = self._remove_others(listing.mon_groups, wanted)
        # A server that has left and comes back is new.
        self._seen &= wanted
        if self._is_due(wanted):
            self._seen = wanted
            self._round_at = self._clock.monotonic() + ROUND
            holders = {uuid for uuid, one in servers.items() if one.holds}
            there = self._run_round(there, wanted, budget, holders)
        uuids = {group.consumer_uuid for group in wanted}
        return there, {u: p for u, p in self._problems.items() if u in uuids}

    def _count_limbo(self, budget: sample.RmidBudget) -> sample.RmidBudget:
        """Add the ids that this or other software released recently."""
        now = self._clock.monotonic()
        if self._used is not None and budget.used < self._used:
            self._freed_at += (self._used - budget.used) * [now]
        self._used = budget.used
        self._freed_at = [at for at in self._freed_at if now < at + LIMBO]
        return dataclasses.replace(budget, limbo=len(self._freed_at))

    def _count(self, change: int) -> None:
        """Note that an id was taken (1) or released (-1)."""
        self._used = (self._used or 0) + change
        if change < 0:
            self._freed_at.append(self._clock.monotonic())

    def _is_due(self, wanted: frozenset[MonGroup]) -> bool:
        if not wanted:
            return False
        return (
            not wanted <= self._seen
            or self._clock.monotonic() >= self._round_at
        )

    def _run_round(
        self,
        there: frozenset[MonGroup],
        wanted: frozenset[MonGroup],
        budget: sample.RmidBudget,
        holders: Collection[str],
    ) -> frozenset[MonGroup]:
        """Find threads, and put those of each server into a group."""
        self._problems = {}
        try:
            threads = self._list_threads([one.consumer_uuid for one in wanted])
        except (exception.ExtResourcesError, OSError) as err:
            self._problems = {one.consumer_uuid: str(err) for one in wanted}
            return there
        running = [one for one in wanted if threads.get(one.consumer_uuid)]
        # Servers that hold resources come first, then those with a group.
        running.sort(
            key=lambda one: (
                one.consumer_uuid not in holders,
                one not in there,
                one,
            )
        )
        limit = max(len(there) + budget.left, 0)
        for one in running[limit:]:
            self._problems[one.consumer_uuid] = (
                f'no monitoring id is left for the server: {budget.used} of '
                f'{budget.total} are in use, {budget.limbo} were released '
                f'recently and may not be usable yet, and {budget.reserved} '
                'are kept for servers that need a class of service'
            )
        there = self._remove_others(there, frozenset(running[:limit]))
        return self._fill(running[:limit], there, threads)

    def _fill(
        self,
        chosen: Sequence[MonGroup],
        there: frozenset[MonGroup],
        threads: Mapping[str, Collection[int]],
    ) -> frozenset[MonGroup]:
        """Fill groups with their threads; return those that exist then."""
        found = there.intersection(chosen)
        for number, one in enumerate(chosen):
            try:
                if one not in found:
                    self._make(one)
                    found |= {one}
                self._changer.join(one, threads[one.consumer_uuid])
            except errors.ResctrlBusy as err:
                # The others would wait for the same lock, each for as long.
                for each in chosen[number:]:
                    self._problems[each.consumer_uuid] = str(err)
                break
            except errors.ResctrlError as err:
                self._problems[one.consumer_uuid] = str(err)
        return found

    def _make(self, group: MonGroup) -> None:
        now = self._clock.monotonic()
        if now < self._retry_at:
            raise errors.NoFreeRmid(
                action=f'make monitoring group {group.path}',
                reason='no monitoring id was left; the next attempt is in '
                f'{self._retry_at - now:.0f} s',
            )
        try:
            self._changer.make(group)
        except errors.NoFreeRmid:
            self._retry_at = now + self._back_off
            self._back_off = min(2 * self._back_off, MAX_BACK_OFF)
            raise
        self._back_off = FIRST_BACK_OFF
        self._count(1)

    def _remove_others(
        self, there: frozenset[MonGroup], wanted: frozenset[MonGroup]
    ) -> frozenset[MonGroup]:
        """Remove groups that are no longer wanted; return the others."""
        for group in sorted(there - wanted):
            try:
                self._changer.remove(group)
                self._count(-1)
            except errors.ResctrlError as err:
                # The next sweep finds it, and tries again.
                LOG.debug(
                    'A monitoring group could not be removed: %(err)s',
                    {'err': err},
                )
                if isinstance(err, errors.ResctrlBusy):
                    break
        return there & wanted


def _choose_group(
    listing: mon_groups.Listing, uuid: str, server: sample.MonitoredServer
) -> MonGroup:
    """Return the monitoring group for a server, below its control group.

    A pinned server is in its control group by its CPUs; its threads are in
    the default group.
    """
    is_in_pool = server.is_shared and not server.cpus and listing.has_shared
    return MonGroup(
        parent=mon_groups.SHARED if is_in_pool else groups.DEFAULT,
        consumer_uuid=uuid,
    )
