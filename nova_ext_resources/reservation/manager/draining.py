# SPDX-License-Identifier: Apache-2.0

"""Has borrowers go before what is promised begins.

They are told first: the history of the reservation has the notice, and is
where each manager finds it. When their time is over they are shelved or
deleted, as their flavors say, again and again until placement shows the room.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import functools

from oslo_log import log as logging

from nova_ext_resources.claims import lease as lease_mod
from nova_ext_resources import exception
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import cloud as cloud_mod
from nova_ext_resources.reservation.manager import promised
from nova_ext_resources.reservation.manager import removal
from nova_ext_resources.reservation.manager import requests as requests_mod
from nova_ext_resources.reservation.manager import sight
from nova_ext_resources.reservation.manager import watch as watch_mod
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import outage
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)

#: Seconds after which a host is looked at again that has enough room.
CHECK_SECONDS = 60

#: How many servers Nova is asked about for one host in one pass.
MOST = 500

State = state_mod.State


class Draining:
    """Looks at the hosts of what begins soon, or has begun."""

    def __init__(
        self, database: database_mod.Database, cloud: cloud_mod.Cloud
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._removal = removal.Removal(cloud)
        self._requests = requests_mod.Requests()
        #: Host with enough room -> when it was looked at.
        self._checked: dict[str, int] = {}
        #: Reservation as it is now, while a pass goes on. Those that another
        #: program has changed are left out: the next pass reads them.
        self._found: dict[str, progress.Unfinished] = {}

    def run(self, reading: watch_mod.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        now = reading.now
        if not reading.is_steady:
            return True
        self._removal.begin()
        with self._database.transaction() as connection:
            near = promised.read(
                connection,
                self._requests,
                now,
                now + lending.HORIZON_SECONDS,
            )
        if near.slots and not sight.can_trust(self._cloud.list_enabled()):
            return False
        self._found = {one.key: one for one in near.reservations}
        missing: dict[str, str] = {}
        done = [
            self._look(near, host, now, missing)
            for host in near.hosts
            if self._is_due(host, now)
        ]
        for key in near.keys:
            done.append(self._note(key, missing, now))
        return all(done)

    def _is_due(self, host: str, now: int) -> bool:
        checked = self._checked.get(host)
        return checked is None or abs(now - checked) >= CHECK_SECONDS

    def _look(
        self,
        near: promised.Promised,
        host: str,
        now: int,
        missing: dict[str, str],
    ) -> bool:
        """See to it that a host has room for each promise in time.

        :param missing: gets what each reservation lacks that has started
        :returns: whether nothing failed
        """
        self._checked.pop(host, None)
        uses = self._cloud.read_uses(near.list_providers(host))
        is_well = True
        for start in near.list_starts(host, now):
            slots = near.list_slots(host, start)
            shortage = lending.find_shortage(
                uses,
                [slot for _key, slot in slots],
                near.list_leaving(start, now),
            )
            if not shortage:
                continue
            keys = sorted({key for key, _slot in slots})
            is_well &= self._drain(
                near, host, start, now, keys, shortage, uses
            )
            if start <= now:
                reason = lending.describe(host, shortage)
                missing.update(
                    (key, reason)
                    for key, slot in slots
                    if not slot.places.keys().isdisjoint(shortage)
                )
            break  # What comes later is looked at when this is well.
        else:
            self._checked[host] = now
        return is_well

    def _drain(
        self,
        near: promised.Promised,
        host: str,
        start: int,
        now: int,
        keys: Sequence[str],
        shortage: lending.Shortage,
        uses: lending.Uses,
    ) -> bool:
        """Tell borrowers to go, and have those go that were told."""
        told = self._read_told(keys, host)
        try:
            borrowers = self._list_borrowers(near, shortage, uses, told, now)
        except exception.ComputeUnavailable as err:
            LOG.error(
                'Host %(host)s cannot be drained now for %(keys)s, which is '
                'tried again: %(missing)s: %(err)s',
                {
                    'host': host,
                    'keys': ', '.join(keys),
                    'missing': lending.describe(host, shortage),
                    'err': err,
                },
            )
            return False
        due = [one for one in borrowers if lending.is_due(one, start, now)]
        chosen, left = lending.choose(due, shortage, uses)
        if left and now >= start - lending.LEAVE_SECONDS:
            LOG.warning(
                'Too few servers can be told to go for %(keys)s: %(missing)s',
                {
                    'keys': ', '.join(keys),
                    'missing': lending.describe(host, left),
                },
            )
        new = [one for one in chosen if one.told_at is None]
        is_well = not new or self._tell(keys[0], host, start, new, now)
        slots = near.list_slots(host, start)
        waiting = [
            self._removal.remove(
                one.uuid,
                functools.partial(self._check, one, slots, list(uses)),
                is_deleted=one.lease.is_deleted,
            )
            for one in chosen
            if lending.has_drained(one, now)
        ]
        if any(waiting):
            LOG.info(
                'Host %(host)s is being drained: %(waiting)s',
                {'host': host, 'waiting': '; '.join(filter(None, waiting))},
            )
        return is_well

    def _check(
        self,
        one: lending.Borrower,
        slots: Sequence[promised.Slot],
        places: Sequence[view_obj.Place],
        server: nova_server.NovaServer,
    ) -> str:
        """Return why a borrower stays: what it is in the way of has changed.

        :param slots: for which it is to go
        :param places: what these slots take from, at least
        """
        with self._database.transaction() as connection:
            taken = servers.find_taken(connection, one.uuid)
            is_promised = promised.is_there(connection, slots)
        if taken is not None:
            return 'it has a place in a reservation now'
        if not is_promised:
            return 'what is promised has changed meanwhile'
        uses = self._cloud.read_uses(sorted({each[0] for each in places}))
        shortage = lending.find_shortage(uses, [each for _key, each in slots])
        return lending.find_objection(one, server, shortage, uses)

    def _read_told(self, keys: Iterable[str], host: str) -> dict[str, int]:
        """Return server -> when it was told last to leave a host."""
        found: dict[str, int] = {}
        with self._database.transaction() as connection:
            for key in keys:
                for change in states.list_changes(connection, key):
                    for uuid in _parse_notice(change.reason, host):
                        latest = found.get(uuid, change.changed_at)
                        found[uuid] = max(latest, change.changed_at)
        return found

    def _list_borrowers(
        self,
        near: promised.Promised,
        shortage: lending.Shortage,
        uses: lending.Uses,
        told: dict[str, int],
        now: int,
    ) -> list[lending.Borrower]:
        """Return who holds what is short and can be told to go.

        :raises ComputeUnavailable: Nova cannot be asked
        """
        holders = {
            uuid
            for place in shortage
            if place in uses
            for uuid in uses[place].holders
            if uuid not in near.consumers
        }
        # Those that were told come first: their time may be over.
        ordered = sorted(holders, key=lambda uuid: (uuid not in told, uuid))
        found = []
        for uuid in ordered[:MOST]:
            server = self._cloud.find_server(uuid)
            if server is None:
                continue
            one = lending.make_borrower(server, told.get(uuid), now)
            if one is not None and self._can_go(server, one.lease):
                found.append(one)
        return found

    def _can_go(
        self, server: nova_server.NovaServer, lease: lease_mod.Lease
    ) -> bool:
        """Return whether there is a way to remove a server, or log it."""
        if nova_server.can_leave(server, is_deleted=lease.is_deleted):
            return True
        LOG.warning(
            'Server %(uuid)s cannot be shelved while its status is '
            '%(status)s. Others are told to go in its place; delete it, or '
            'mend it.',
            {'uuid': server.uuid, 'status': server.status},
        )
        return False

    def _tell(
        self,
        key: str,
        host: str,
        start: int,
        new: Sequence[lending.Borrower],
        now: int,
    ) -> bool:
        one = self._found.get(key)
        if one is None:
            return True
        reason = _make_notice(host, start, new)
        outcome = chores.write(self._database, one, one.state, now, reason)
        if outcome is chores.Outcome.WRITTEN:
            LOG.warning(
                'Reservation %(key)s: %(reason)s',
                {'key': key, 'reason': reason},
            )
            self._found[key] = dataclasses.replace(one, number=one.number + 1)
        else:
            del self._found[key]
        return outcome.is_well

    def _note(self, key: str, missing: dict[str, str], now: int) -> bool:
        """Say that a reservation is degraded, or that it has its room."""
        one = self._found.get(key)
        if one is None:
            return True
        if key in missing and one.state is not State.DEGRADED:
            LOG.error(
                'Reservation %(key)s is degraded: %(reason)s',
                {'key': key, 'reason': missing[key]},
            )
            return chores.write(
                self._database, one, State.DEGRADED, now, missing[key]
            ).is_well
        if key in missing or one.state is not State.DEGRADED:
            return True
        with self._database.transaction() as connection:
            changes = states.list_changes(connection, key)
        cause = outage.find_cause(
            [(each.state, each.reason) for each in changes]
        )
        if cause is None or not cause.startswith(lending.BEGIN):
            return True
        state = State.PENDING if now < one.during.start else State.ACTIVE
        return chores.write(
            self._database, one, state, now, 'its room is there again'
        ).is_well


_NOTICE = 'servers are told to leave host '


def _make_notice(
    host: str, start: int, new: Sequence[lending.Borrower]
) -> str:
    uuids = ', '.join(one.uuid for one in new)
    time = interval.format_time(start)
    return f'{_NOTICE}{host}, which is promised from {time} on: {uuids}'


def _parse_notice(reason: str, host: str) -> list[str]:
    """Return the servers that a notice is for; none if it is no notice."""
    if not reason.startswith(f'{_NOTICE}{host}, '):
        return []
    return reason.rpartition(': ')[2].split(', ')
