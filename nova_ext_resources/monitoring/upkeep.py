# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Keeps a monitoring group for each server that needs one.

A server with a control group is counted there. All others that shall be
monitored get a monitoring group, as long as there are ids for them: the CPU
has few, every group takes one, and one that is given back stays in limbo until
the cache has next to nothing of it any more. As many as there are free classes
of service are left alone, so that no server that pays for ways is kept out by
monitoring. One that was given back counts as taken for as long as it may be in
limbo: nobody can have it, and it was counted as free once already.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.monitoring import sample
from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import mon_groups
from nova_ext_resources.resctrl import processes

LOG = logging.getLogger(__name__)

#: Servers -> the threads of each; those that are off have none.
ListThreads = Callable[[Collection[str]], Mapping[str, Collection[int]]]

#: Seconds between two looks for threads: a server may have been restarted.
ROUND = 60.0

#: Seconds without attempts after the ids were used up; doubled each time.
FIRST_BACK_OFF = 60.0
MAX_BACK_OFF = 600.0

#: Seconds for which an id that was given back counts as taken.
LIMBO = MAX_BACK_OFF

MonGroup = mon_groups.MonGroup


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many monitoring ids there are, and for whom.

    :ivar kept: for classes of service that are free now
    :ivar limbo: given back, and perhaps not to be had yet
    """

    total: int
    used: int
    kept: int
    limbo: int = 0

    @property
    def spare(self) -> int:
        """Give how many more may be taken; less than 0: give some back.

        None is given back for those in limbo: it would be there too.
        """
        free = self.total - self.used - self.kept
        return max(free - self.limbo, 0) if free > 0 else free


def make_budget(listing: mon_groups.Listing, num_rmids: int) -> Budget:
    """Tell what may be taken for monitoring groups."""
    return Budget(
        total=num_rmids,
        used=listing.num_rmids,
        kept=max(listing.num_closids - listing.num_controls, 0),
    )


def find_threads(
    finder: processes.Processes, uuids: Collection[str]
) -> dict[str, frozenset[int]]:
    """Look at every process once; be a :data:`ListThreads`.

    :raises ResctrlError: processes of others are hidden
    """
    scan = finder.scan()
    return {uuid: scan.get(uuid).list_threads() for uuid in uuids}


class Upkeep:
    """Makes, fills and removes monitoring groups.

    :param list_threads: asked for all servers at once, and not more often
        than needed: it may look at every process of the host
    """

    def __init__(
        self,
        changer: mon_groups.MonGroups,
        list_threads: ListThreads,
        clock: Callable[[], float],
    ) -> None:
        self._changer = changer
        self._list_threads = list_threads
        self._clock = clock
        self._seen: frozenset[MonGroup] = frozenset()
        self._round_at = self._retry_at = clock()
        self._back_off = FIRST_BACK_OFF
        self._problems: dict[str, str] = {}
        # When ids were given back, and how many are used as far as is known.
        self._given_back: list[float] = []
        self._used: int | None = None

    def maintain(
        self,
        listing: mon_groups.Listing,
        budget: Budget,
        servers: Mapping[str, sample.Server],
    ) -> tuple[frozenset[MonGroup], dict[str, str]]:
        """Bring the groups to what they shall be; raises nothing.

        :param servers: all that shall be monitored
        :returns: the groups that there are now, and server -> why it has
            none, or not all of its threads in it
        """
        wanted = frozenset(
            _choose_group(listing, uuid, server)
            for uuid, server in servers.items()
            if uuid not in listing.controls
        )
        budget = self._count_limbo(budget)
        there = self._remove_others(listing.mon_groups, wanted)
        # Who has gone and comes back is new.
        self._seen &= wanted
        if self._is_due(wanted):
            self._seen = wanted
            self._round_at = self._clock() + ROUND
            holders = {uuid for uuid, one in servers.items() if one.holds}
            there = self._run_round(there, wanted, budget, holders)
        uuids = {group.consumer_uuid for group in wanted}
        return there, {u: p for u, p in self._problems.items() if u in uuids}

    def _count_limbo(self, budget: Budget) -> Budget:
        """Add what this has given back, and others since the last look."""
        now = self._clock()
        if self._used is not None and budget.used < self._used:
            self._given_back += (self._used - budget.used) * [now]
        self._used = budget.used
        self._given_back = [at for at in self._given_back if now < at + LIMBO]
        return dataclasses.replace(budget, limbo=len(self._given_back))

    def _count(self, change: int) -> None:
        """Note that an id was taken (1) or given back (-1)."""
        self._used = (self._used or 0) + change
        if change < 0:
            self._given_back.append(self._clock())

    def _is_due(self, wanted: frozenset[MonGroup]) -> bool:
        if not wanted:
            return False
        return not wanted <= self._seen or self._clock() >= self._round_at

    def _run_round(
        self,
        there: frozenset[MonGroup],
        wanted: frozenset[MonGroup],
        budget: Budget,
        holders: Collection[str],
    ) -> frozenset[MonGroup]:
        """Look for threads, and give groups to those that have some."""
        self._problems = {}
        try:
            threads = self._list_threads([one.consumer_uuid for one in wanted])
        except (exception.ExtResourcesError, OSError) as err:
            self._problems = {one.consumer_uuid: str(err) for one in wanted}
            return there
        running = [one for one in wanted if threads.get(one.consumer_uuid)]
        # Who holds something comes first, then who has a group already.
        running.sort(
            key=lambda one: (
                one.consumer_uuid not in holders,
                one not in there,
                one,
            )
        )
        limit = max(len(there) + budget.spare, 0)
        for one in running[limit:]:
            self._problems[one.consumer_uuid] = (
                f'no monitoring id is left for it: {budget.used} of '
                f'{budget.total} are in use, {budget.limbo} were given back '
                f'not long ago, and {budget.kept} are kept for servers that '
                'take a class of service'
            )
        there = self._remove_others(there, frozenset(running[:limit]))
        return self._fill(running[:limit], there, threads)

    def _fill(
        self,
        groups_: Iterable[MonGroup],
        there: frozenset[MonGroup],
        threads: Mapping[str, Collection[int]],
    ) -> frozenset[MonGroup]:
        """Have groups with their threads; give those that are there."""
        found = set[MonGroup]()
        busy = ''
        for one in groups_:
            is_there = one in there
            try:
                if busy:
                    # Each would wait for the same lock, and as long.
                    self._problems[one.consumer_uuid] = busy
                else:
                    is_there = self._ensure(
                        one, is_there, threads[one.consumer_uuid]
                    )
            except errors.ResctrlBusy as err:
                self._problems[one.consumer_uuid] = busy = str(err)
            if is_there:
                found.add(one)
        return frozenset(found)

    def _ensure(
        self, group: MonGroup, is_there: bool, threads: Iterable[int]
    ) -> bool:
        """Have a group with these threads; tell whether there is one.

        :raises ResctrlBusy: somebody else has the lock of the mount
        """
        try:
            if not is_there:
                self._make(group)
                is_there = True
            self._changer.join(group, threads)
        except errors.ResctrlBusy:
            raise
        except errors.ResctrlError as err:
            self._problems[group.consumer_uuid] = str(err)
        return is_there

    def _make(self, group: MonGroup) -> None:
        now = self._clock()
        if now < self._retry_at:
            raise errors.NoFreeRmid(
                action=f'make monitoring group {group.path}',
                reason='the monitoring ids were used up; it is tried again '
                f'in {self._retry_at - now:.0f} s',
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
        """Remove those that are not wanted any more; give the others."""
        for group in sorted(there - wanted):
            try:
                self._changer.remove(group)
                self._count(-1)
            except errors.ResctrlError as err:
                # The next sweep sees it, and tries again.
                LOG.debug('A monitoring group stays: %(err)s', {'err': err})
                if isinstance(err, errors.ResctrlBusy):
                    break
        return there & wanted


def _choose_group(
    listing: mon_groups.Listing, uuid: str, server: sample.Server
) -> MonGroup:
    """Say where a server's threads are.

    A pinned server is in a control group by its CPUs; its threads are in the
    default one.
    """
    is_in_pool = server.is_shared and not server.cpus and listing.has_shared
    return MonGroup(
        parent=mon_groups.SHARED if is_in_pool else groups.DEFAULT,
        consumer_uuid=uuid,
    )
