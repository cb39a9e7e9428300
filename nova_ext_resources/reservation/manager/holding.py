# SPDX-License-Identifier: Apache-2.0

"""Holds room in placement, where the scheduler does not keep it.

Each slot that no server has taken gets a consumer of its own some time before
it begins, so that a scheduler without ReservationFilter gives its room to
nobody. What is in a planned maintenance is not held. What is held follows from
the tables and the clock alone, and placement is asked what it has: a manager
that was killed leaves nothing that the next pass, of any manager, does not set
right.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import cuts
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import holds as holds_mod
from nova_ext_resources.reservation.manager import promised
from nova_ext_resources.reservation.manager import request_cache
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import servers

LOG = logging.getLogger(__name__)

#: Seconds until what did not fit is tried again: first, and at most.
FIRST_PAUSE = 15
LONGEST_PAUSE = 300

#: Seconds that a server has to claim what was held for its slot. Nothing that
#: begins later is held there meanwhile.
CLAIM_SECONDS = 300

#: Seconds between two searches for what is held and should not be. Placement
#: is asked for each provider then.
SEARCH_SECONDS = 300

#: How many slots are looked at in one pass: each takes a request or two, and
#: servers that start wait meanwhile.
MOST = 500

#: Of how many placement is asked again in each pass, though nothing is new.
VERIFIED = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A slot whose room is to be held.

    :ivar key: its reservation
    :ivar project: that has reserved; '' for none
    """

    key: str
    slot: planned_server.PlannedServer
    project: str

    @property
    def consumer(self) -> str:
        return planned_hold.make_consumer(self.slot.key)

    @property
    def places(self) -> dict[host_view.Place, int]:
        return self.slot.allocations

    @property
    def order(self) -> tuple[int, str]:
        return self.slot.during.start, self.slot.key


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """A hold that did not fit: how often it was tried, and when it is next."""

    number: int
    next_at: int


class Holding:
    """Holds the room of slots, and releases it when it is not theirs.

    :param lead: seconds before its start from which on a slot is held;
        ``FOREVER`` from when it is planned. None holds nothing, and releases
        what was held before
    """

    def __init__(
        self,
        database: databases.Database,
        cloud: cloud_services.Cloud,
        holds: holds_mod.Holds,
        lead: int | None,
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._lead = lead
        self._requests = request_cache.Requests()
        self._cuts = cuts.Cuts()
        self._holds = holds
        self._tries: dict[str, _Try] = {}
        self._searched_at = 0
        #: Whether slots were left to the next pass.
        self._is_cut = False
        #: When placement was asked last where nothing is held.
        self._looked_at = 0

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        now = reading.now
        if self._lead is None:
            if not _is_due(now, self._looked_at):
                return True
            self._looked_at = now
        effort = time_budget.Effort()
        near = self._read(now)
        wanted = self._list_wanted(near, now)
        done = []
        if reading.is_steady:
            done.append(self._release_all(effort, wanted, near))
        self._holds.doubt(VERIFIED)
        done.append(self._take_all(effort, wanted, near, now))
        if not self._is_cut and not effort.is_over:
            done.append(
                effort.attempt(
                    'comparison of held capacity',
                    self._compare,
                    wanted,
                    reading,
                )
            )
        return all(done)

    def _read(self, now: int) -> promised.Promised:
        with self._database.transaction() as connection:
            self._cuts.follow(capacity_changes.read_changes(connection, now))
            return promised.read(
                connection,
                self._requests,
                now,
                interval.add_seconds(now, self._lead or 0),
            )

    def _list_wanted(
        self, near: promised.Promised, now: int
    ) -> dict[str, _Wanted]:
        """Return consumer -> what it is to hold."""
        if self._lead is None:
            return {}
        until = interval.add_seconds(now, self._lead)
        projects = {key: one.project for key, one in near.requests.items()}
        found = [
            _Wanted(key=key, slot=slot, project=projects.get(key, ''))
            for key, slot in near.slots
            if slot.during.start <= until
            and not self._cuts.find_maintenance(slot, now)
        ]
        return {one.consumer: one for one in found}

    # Release

    def _release_all(
        self,
        effort: time_budget.Effort,
        wanted: Mapping[str, _Wanted],
        near: promised.Promised,
    ) -> bool:
        """Release what this manager has seen held, and is not wanted."""
        takers = _list_takers(near)
        done = []
        for consumer in sorted(self._holds.known - wanted.keys()):
            if effort.is_over:
                return False
            done.append(
                effort.attempt(
                    f'release of {consumer}', self._release, consumer, takers
                )
            )
        return all(done)

    def _release(self, consumer: str, takers: Mapping[str, str]) -> bool:
        """Release a hold, unless the server that has taken its slot waits.

        Whoever has that unshelved releases it directly before.

        :param takers: see :func:`_list_takers`
        :returns: True: nothing failed
        """
        taker = takers.get(consumer)
        if taker is None or self._cloud.has_allocations(taker):
            self._holds.release(consumer)
            LOG.info(
                'Released the allocation of consumer %(uuid)s: its room is '
                'taken by a server, promised to nobody, or in a maintenance',
                {'uuid': consumer},
            )
        return True

    # Take

    def _take_all(
        self,
        effort: time_budget.Effort,
        wanted: Mapping[str, _Wanted],
        near: promised.Promised,
        now: int,
    ) -> bool:
        self._tries = {
            consumer: one
            for consumer, one in self._tries.items()
            if consumer in wanted
        }
        claimed = _list_claimed(near, now)
        done: list[bool] = []
        self._is_cut = False
        for one in sorted(wanted.values(), key=lambda one: one.order):
            if self._holds.has(one.consumer, one.places):
                continue
            if not self._is_try_due(one, now):
                continue
            if one.slot.during.start > now and claimed & one.places.keys():
                continue
            if effort.is_over:
                return False
            if len(done) == MOST:
                self._is_cut = True
                break
            what = f'room of {one.slot.key}'
            done.append(effort.attempt(what, self._take, one, wanted, now))
        return all(done)

    def _is_try_due(self, one: _Wanted, now: int) -> bool:
        tried = self._tries.get(one.consumer)
        return tried is None or not now < tried.next_at <= now + LONGEST_PAUSE

    def _take(
        self, one: _Wanted, wanted: Mapping[str, _Wanted], now: int
    ) -> bool:
        """Hold the room of a slot; return True."""
        with self._database.transaction() as connection:
            is_there = servers.is_held(connection, one.key, one.slot)
        if not is_there:
            return True  # It has changed since it was read.
        try:
            self._take_before(one, wanted, now)
        except (
            exception.AllocationRejected,
            exception.PlacementRefused,
            exception.NotFound,
        ) as err:
            self._put_off(one, now, err)
            return True
        self._tries.pop(one.consumer, None)
        return True

    def _take_before(
        self, one: _Wanted, wanted: Mapping[str, _Wanted], now: int
    ) -> None:
        """Hold the room of a slot, before that of slots that begin later.

        Those were planned for a time when this one, or what it was planned
        beside, is over.

        :raises AllocationRejected: it does not fit even so
        """
        try:
            self._holds.take(one.consumer, one.project, one.places)
            return
        except exception.AllocationRejected as err:
            later = self._list_later(one, wanted)
            if not later or not self._would_fit(one, later):
                raise
            for other in later:
                self._holds.release(other.consumer)
                self._put_off(other, now, err)
        self._holds.take(one.consumer, one.project, one.places)

    def _list_later(
        self, one: _Wanted, wanted: Mapping[str, _Wanted]
    ) -> list[_Wanted]:
        """Return what is held for slots that begin later, of its places."""
        return [
            other
            for other in map(wanted.get, self._holds.known)
            if other is not None
            and other.slot.during.start > one.slot.during.start
            and other.places.keys() & one.places.keys()
        ]

    def _would_fit(self, one: _Wanted, gone: Iterable[_Wanted]) -> bool:
        """Return whether a slot fits without what others hold."""
        uses = self._cloud.read_uses(sorted({each[0] for each in one.places}))
        leaving = {one.consumer, *(other.consumer for other in gone)}
        return not lending.find_shortage(
            uses, [one.slot], leaving, one.places.keys()
        )

    def _put_off(
        self, one: _Wanted, now: int, err: exception.PlacementError
    ) -> None:
        """Try it again later, after a pause that grows."""
        before = self._tries.get(one.consumer)
        number = before.number + 1 if before else 1
        pause = min(FIRST_PAUSE << min(number - 1, 10), LONGEST_PAUSE)
        start = one.slot.during.start
        next_at = min(now + pause, start) if start > now else now + pause
        self._tries[one.consumer] = _Try(number=number, next_at=next_at)
        if number > 1:
            return
        LOG.warning(
            'Could not hold the room of %(slot)s on host %(host)s, which is '
            'promised from %(start)s on, and will try again: %(err)s',
            {
                'slot': one.slot.key,
                'host': one.slot.host,
                'start': interval.format_time(start),
                'err': err,
            },
        )

    # Comparison with placement

    def _compare(
        self, wanted: Mapping[str, _Wanted], reading: watch.Reading
    ) -> bool:
        """Compare how much is held with what this manager knows of.

        If less is, each is looked at in the next pass. If more is, the rest
        is searched, and what is not wanted is released.
        """
        number = self._cloud.count_holds()
        known = self._holds.known
        # Whoever has a server unshelved has released the hold of its slot.
        missing = len(known & wanted.keys()) - number
        if missing > 0:
            LOG.warning(
                '%(missing)d allocations that held room for reservations are '
                'gone: another manager has released them, or somebody has '
                'deleted them. The needed allocations are made again; do not '
                'delete allocations of type %(type)s.',
                {
                    'missing': missing,
                    'type': planned_hold.CONSUMER_TYPE,
                },
            )
            self._holds.forget()
        elif number > len(known) and reading.is_steady:
            self._search(reading.now)
        return True

    def _search(self, now: int) -> None:
        """Release what others have held, and is not wanted any more."""
        if not _is_due(now, self._searched_at):
            return
        found = self._cloud.list_holds() - self._holds.known
        self._searched_at = now
        # What was planned while all providers were read is wanted.
        near = self._read(now)
        takers = _list_takers(near)
        for consumer in sorted(found - self._list_wanted(near, now).keys()):
            self._release(consumer, takers)


def _is_due(now: int, before: int) -> bool:
    return not before <= now < before + SEARCH_SECONDS


def _list_claimed(
    near: promised.Promised, now: int
) -> frozenset[host_view.Place]:
    """Return the places of slots whose servers may have claimed nothing yet.

    What is released for such a server is not for another slot.
    """
    return frozenset(
        place
        for _key, slot in near.taken
        if slot.taken_at is not None and slot.taken_at > now - CLAIM_SECONDS
        for place in slot.allocations
    )


def _list_takers(near: promised.Promised) -> dict[str, str]:
    """Return consumer of a hold -> the server that has taken its slot."""
    return {
        planned_hold.make_consumer(slot.key): slot.consumer
        for _key, slot in near.taken
        if slot.consumer is not None
    }
