# SPDX-License-Identifier: Apache-2.0

"""Has borrowers go before what is promised begins.

They are told first: the history of the reservation has the notice, and is
where each manager finds it. When their time is over they are shelved or
deleted, as their flavors say, again and again until placement shows the room.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import dataclasses
import functools

from oslo_log import log as logging

from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import borrowers
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import kept
from nova_ext_resources.reservation.manager import lateness
from nova_ext_resources.reservation.manager import need as need_mod
from nova_ext_resources.reservation.manager import owners
from nova_ext_resources.reservation.manager import promised
from nova_ext_resources.reservation.manager import removal
from nova_ext_resources.reservation.manager import request_cache
from nova_ext_resources.reservation.manager import sight
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import notices
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)

#: Seconds after which a host is looked at again that has enough room, or where
#: nothing can be done.
CHECK_SECONDS = 60

#: How many failures the log names.
_NAMED = 5

Cause = cause.Cause
State = state_mod.State


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """When a host was looked at, and when it is again.

    :ivar turn: how many looks there were before
    :ivar next_at: earliest, in seconds since the epoch
    """

    turn: int
    at: int
    next_at: int


class Draining:
    """Looks at the hosts of what begins soon, or has begun.

    :param has_doubts: called with seconds since the epoch; returns whether
        nobody is to go now, because too many hosts are lost
    :param has_metadata: as of :class:`.kept.Kept`
    """

    def __init__(
        self,
        database: databases.Database,
        cloud: cloud_services.Cloud,
        has_doubts: Callable[[int], bool] = lambda _now: False,
        *,
        has_metadata: bool = False,
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._has_doubts = has_doubts
        #: The hosts that servers are told to leave in this pass.
        self._usable: frozenset[str] = frozenset()
        self._removal = removal.Removal(cloud)
        self._kept = kept.Kept(database, has_metadata=has_metadata)
        self._borrowers = borrowers.Borrowers(cloud, self._kept.find_until)
        self._owners = owners.Owners(cloud)
        self._requests = request_cache.Requests()
        #: While Nova is away, it is seen nevertheless what is missing.
        self._nova = time_budget.Effort()
        #: An owner that cannot be told holds up no removal.
        self._talk = time_budget.Effort()
        self._turn = 0
        self._looks: dict[str, _Look] = {}
        #: Host -> what was short there for what has begun, if anything was.
        self._known: dict[str, need_mod.Need | None] = {}
        self._lateness = lateness.Lateness()
        #: Reservation as it is now, while a pass goes on. Those that another
        #: program has changed are left out: the next pass reads them.
        self._found: dict[str, progress.Unfinished] = {}

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        now = reading.now
        if not reading.is_steady:
            return True
        self._nova = time_budget.Effort()
        self._talk = time_budget.Effort()
        self._removal.begin(self._nova, now)
        self._borrowers.begin(self._nova, now)
        with self._database.transaction() as connection:
            near = promised.read(
                connection,
                self._requests,
                now,
                now + lending.HORIZON_SECONDS,
            ).with_claiming(now)
        self._kept.begin(near)
        if near.slots:
            enabled = self._cloud.list_enabled()
            if not sight.can_trust(enabled):
                return False
            self._usable = self._list_usable(enabled, now)
        self._found = {one.key: one for one in near.reservations}
        done = self._look_at_all(near, now)
        hosts = near.list_hosts_by_key()
        done += [
            chores.attempt(
                f'state of {key}', self._note, key, hosts.get(key, ()), now
            )
            for key in near.keys
        ]
        return all(done)

    def _list_usable(
        self, enabled: Mapping[str, bool], now: int
    ) -> frozenset[str]:
        """Return the hosts where room is of use.

        Nothing that is promised begins on one that is disabled or gone.
        """
        if self._has_doubts(now):
            return frozenset()
        return frozenset(host for host, is_on in enabled.items() if is_on)

    def _look_at_all(self, near: promised.Promised, now: int) -> list[bool]:
        """Look at the hosts, those first that had no turn for longest.

        One for which Nova is not asked any more has not had its turn.
        """
        effort = time_budget.Effort()
        self._looks = {
            host: look
            for host, look in self._looks.items()
            if host in near.by_host
        }
        self._known = {
            host: need
            for host, need in self._known.items()
            if host in near.by_host
        }
        due = [host for host in near.hosts if self._is_due(host, now)]
        due.sort(key=self._find_turn)
        done = []
        for host in due:
            if effort.is_over:
                done.append(False)
                break
            self._turn += 1
            turn = self._find_turn(host) if self._nova.is_over else self._turn
            self._looks[host] = _Look(turn=turn, at=now, next_at=now)
            what = f'host {host}'
            done.append(effort.attempt(what, self._look, near, host, now))
        return done

    def _is_due(self, host: str, now: int) -> bool:
        look = self._looks.get(host)
        return look is None or not look.at <= now < look.next_at

    def _find_turn(self, host: str) -> int:
        look = self._looks.get(host)
        return look.turn if look else 0

    def _look(self, near: promised.Promised, host: str, now: int) -> bool:
        """See to it that a host has room for each promise in time.

        :returns: whether nothing failed
        """
        self._known.pop(host, None)
        near, needs = self._find_needs(near, host, now)
        self._known[host] = next(
            (need for need in needs if need.start <= now), None
        )
        done, times = [], [now + CHECK_SECONDS]
        for need in needs if host in self._usable else ():
            is_well, time = self._drain(near, need, now)
            done.append(is_well)
            times.append(time)
        self._looks[host] = dataclasses.replace(
            self._looks[host], next_at=min(times)
        )
        return all(done)

    def _find_needs(
        self, near: promised.Promised, host: str, now: int
    ) -> tuple[promised.Promised, list[need_mod.Need]]:
        """Return what is short on a host, and what was promised by then.

        What seems to be short may be held by servers that have taken their
        slots, before these were read or since.
        """
        rp_uuids = {one[0] for one in near.list_places(host)}
        uses = self._cloud.read_uses(sorted(rp_uuids))
        needs = self._list_needs(near, host, uses, now)
        if not needs:
            return near, []
        with self._database.transaction() as connection:
            near = promised.renew(connection, near, host, now)
        near = near.with_claiming(now, uses)
        if host not in near.by_host:
            return near, []
        return near, self._list_needs(near, host, uses, now)

    def _list_needs(
        self,
        near: promised.Promised,
        host: str,
        uses: lending.Uses,
        now: int,
    ) -> list[need_mod.Need]:
        places = near.list_places(host)
        found = []
        for start in near.list_starts(host, now):
            one = need_mod.Need(
                host=host,
                start=start,
                slots=near.list_slots(host, start),
                places=places,
                leaving=near.list_leaving(start, now),
                shortage={},
                uses=uses,
                changes=near.changes,
            )
            if shortage := one.find_shortage(uses, now):
                found.append(dataclasses.replace(one, shortage=shortage))
        return found

    def _drain(
        self, near: promised.Promised, need: need_mod.Need, now: int
    ) -> tuple[bool, int]:
        """Tell borrowers to go, and have those go that were told.

        :returns: whether nothing failed, and when to look again
        """
        holding = lending.list_holders(need.shortage, need.uses) - near.holds
        holders = holding - (near.consumers - near.list_kept(need.start))
        with self._database.transaction() as connection:
            told = notices.read_notices(
                connection, holders, now - lending.MAX_NOTICE_SECONDS
            )
        projects = near.list_projects(need.keys)
        found = [
            one
            for one in self._borrowers.list(need.host, holders, told, now)
            # They may go on, as far as their own project is concerned.
            if not (one.is_kept and one.project and projects == {one.project})
        ]
        is_well = is_asked = self._report_failures(need)
        due = [one for one in found if lending.is_due(one, need.start, now)]
        strays = need_mod.report_strays(need, due)
        chosen, left = lending.choose(
            due, need.shortage, lending.leave_out(need.uses, strays)
        )
        is_asked &= not self._borrowers.has_more(need.host)
        if left and is_asked and now >= need.start - lending.LEAVE_SECONDS:
            stayed = near.list_over(need.start) - need.leaving
            need_mod.warn(need, left, holders | (holding & stayed))
        new = [
            one
            for one in chosen
            if one.told_at is None
            and (is_asked or lending.is_late(one, need.start, now))
        ]
        is_told = not new or self._tell(need, new, now)
        self._go_on(need, chosen, now)
        if chosen or not is_asked:
            return is_well and is_told, now
        later = [lending.find_due(one, need.start) for one in found]
        return is_told, min(
            [one for one in later if one is not None and one > now],
            default=now + CHECK_SECONDS,
        )

    def _report_failures(self, need: need_mod.Need) -> bool:
        """Log which servers could not be looked at; return whether none."""
        failures = self._borrowers.take_failures()
        if failures:
            LOG.error(
                'Host %(host)s could not be drained completely for '
                'reservations %(keys)s, and is tried again: %(missing)s: '
                '%(failures)s',
                {
                    'host': need.host,
                    'keys': ', '.join(need.keys),
                    'missing': need.words,
                    'failures': '; '.join(failures[:_NAMED]),
                },
            )
        return not failures

    def _go_on(
        self, need: need_mod.Need, chosen: Iterable[lending.Borrower], now: int
    ) -> None:
        """Have those go that were told, if their time is over."""
        waiting = [
            self._removal.remove(
                one.uuid,
                functools.partial(self._check, one, need, now),
                is_deleted=one.lease.is_deleted,
            )
            for one in chosen
            if lending.has_drained(one, now)
        ]
        if left := '; '.join(filter(None, waiting)):
            self._lateness.report(need, left, now)
        for one in chosen:
            if not lending.has_drained(one, now):
                self._tell_owner(one)

    def _check(
        self,
        one: lending.Borrower,
        need: need_mod.Need,
        now: int,
        server: nova_server.NovaServer,
    ) -> str:
        """Return why a borrower stays: what it is in the way of has changed.

        :param need: for which it is to go
        """
        with self._database.transaction() as connection:
            taken = servers.find_taken(connection, one.uuid)
            is_promised = promised.is_there(connection, need.slots)
        if taken is not None:
            return 'it has a place in a reservation now'
        if not is_promised:
            return 'the reservations of the host have changed meanwhile'
        uses = self._cloud.read_uses(sorted({each[0] for each in need.places}))
        shortage = need.find_shortage(uses, now)
        strays = lending.list_strays([one], need.host, shortage, uses)
        return lending.find_objection(
            one, server, shortage, lending.leave_out(uses, strays)
        )

    def _tell(
        self, need: need_mod.Need, new: Sequence[lending.Borrower], now: int
    ) -> bool:
        one = self._found.get(need.keys[0])
        if one is None:
            return True
        reason = need_mod.make_notice(need, new)
        outcome = chores.write(
            self._database,
            one,
            one.state,
            now,
            reason,
            cause=Cause.NOTICE,
            also=functools.partial(
                notices.add_notices,
                key=one.key,
                hosts={each.uuid: each.host for each in new},
                now=now,
            ),
        )
        if outcome is not chores.Outcome.WRITTEN:
            del self._found[one.key]
            return outcome.is_well
        LOG.warning(
            'Reservation %(key)s: %(reason)s',
            {'key': one.key, 'reason': reason},
        )
        self._found[one.key] = dataclasses.replace(one, number=one.number + 1)
        for each in new:
            self._tell_owner(dataclasses.replace(each, told_at=now))
        return True

    def _tell_owner(self, one: lending.Borrower) -> None:
        if not self._nova.is_over:
            server = self._borrowers.get_server(one)
            self._owners.tell(self._talk, server, one)

    def _note(self, key: str, hosts: Collection[str], now: int) -> bool:
        """Say that a reservation is degraded, or that it has its room.

        While some of its hosts are not known, it stays as degraded as it is.

        :param hosts: where it has slots
        """
        one = self._found.get(key)
        if one is None:
            return True
        needs = [
            need
            for host in hosts
            if (need := self._known.get(host)) and key in need.keys
        ]
        reason = need_mod.describe(needs)
        is_degraded = one.state is State.DEGRADED
        if not (is_degraded or reason) or (
            is_degraded and not self._known.keys() >= {*hosts}
        ):
            return True
        with self._database.transaction() as connection:
            changes = states.list_changes(connection, key)
        lack = states.find_lack(changes)
        if is_degraded and (lack is None or lack.cause is not Cause.SHORTAGE):
            return True
        since = lack.changed_at if lack else states.find_since(changes)
        if not self._have_looked(
            hosts if is_degraded else [need.host for need in needs], since
        ):
            return True
        if lack is None:
            return self._degrade(one, reason, now)
        if reason:
            return reason == lack.reason or self._degrade(one, reason, now)
        state = State.PENDING if now < one.during.start else State.ACTIVE
        return chores.write(
            self._database, one, state, now, 'its hosts have room for it again'
        ).is_well

    def _have_looked(self, hosts: Iterable[str], since: int) -> bool:
        """Return whether all of these were looked at since a time.

        What was seen before may be old: another manager has looked at them
        meanwhile, and written what it saw. They are looked at in the next
        pass.

        :param since: seconds since the epoch
        """
        old = [host for host in hosts if self._looks[host].at < since]
        for host in old:
            look = self._looks[host]
            self._looks[host] = dataclasses.replace(look, next_at=look.at)
        return not old

    def _degrade(
        self, one: progress.Unfinished, reason: str, now: int
    ) -> bool:
        return chores.degrade(self._database, one, now, reason, Cause.SHORTAGE)
