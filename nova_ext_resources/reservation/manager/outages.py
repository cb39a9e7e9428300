# SPDX-License-Identifier: Apache-2.0

"""Moves what has lost its hosts or capacity, or says that it is degraded.

A reservation that has not started is planned anew on the hosts that there are.
Where that is not possible, or where it has started, it keeps its place: the
host may come back.
"""

from collections.abc import Mapping, Sequence, Set
import dataclasses
import enum
import functools

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import cuts
from nova_ext_resources.reservation.manager import replaced as replaced_mod
from nova_ext_resources.reservation.manager import sight
from nova_ext_resources.reservation.manager import supplies
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import outage
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)

#: How many hosts the log names.
_NAMED = 10

_NOWHERE = 'no other hosts have room for it now'

#: Seconds after which it is tried again to move what fitted nowhere. All hosts
#: are read for it.
RETRY_SECONDS = 300

#: Seconds for which a host must be lost before what it has is moved.
LOSS_SECONDS = 120

#: What starts within so many seconds is moved at once: it must be planned
#: some time before.
NEAR_SECONDS = admission.FIXED_SECONDS + RETRY_SECONDS + LOSS_SECONDS

#: If more hosts than these are gone or down, and most of those with promises,
#: it is likely the wrong placement, or the message bus. So many seconds later
#: it is taken for what it is.
MOST_LOST = 3
BELIEVED_SECONDS = 3600

Cause = cause_mod.Cause
State = state_mod.State

#: What reservations are degraded by here, until it is over.
_CAUSES = (Cause.OUTAGE, *cuts.PLANNED)

#: So long it is looked whether what was taken away for a time is back.
BACK_SECONDS = 86_400


class _Outcome(enum.Enum):
    """What became of the search for another place.

    ``DONE``: there is one, or none is needed.
    ``NOWHERE``: there is none now.
    ``FAILED``: that is not known, and the log says why.
    """

    DONE = enum.auto()
    NOWHERE = enum.auto()
    FAILED = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """What was known when a reservation fitted nowhere.

    :ivar at: when, in seconds since the epoch
    :ivar hosts: that have been enabled at that time, or at one before
    """

    at: int
    hosts: frozenset[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _View:
    """What a pass sees.

    :ivar lost: reservation -> what it has lost
    :ivar down: hosts that are lost because their compute does not report
    :ivar cut: reservation -> what changes of capacity take from it, in words
    :ivar taken: reservations that servers of Nova have places of
    :ivar is_steady: whether the clock is trusted
    """

    now: int
    enabled: outage.Enabled
    lost: Mapping[str, outage.Lost]
    down: Set[str]
    cut: Mapping[str, Sequence[str]]
    taken: Set[str]
    is_steady: bool

    @functools.cached_property
    def hosts(self) -> frozenset[str]:
        """The hosts that are enabled."""
        return frozenset(
            host for host, is_enabled in self.enabled.items() if is_enabled
        )


class Outages:
    """Follows which hosts are there, and what is planned for them.

    :param is_once: there is no other pass, so that a loss cannot be watched
    """

    def __init__(
        self,
        database: databases.Database,
        cloud: cloud_services.Cloud,
        *,
        is_once: bool = False,
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._is_once = is_once
        #: Host that is lost -> since when that is known.
        self._since: dict[str, int] = {}
        #: Since when most hosts are lost; None if they are not.
        self._most_since: int | None = None
        #: Reservations that fitted nowhere a short while ago.
        self._tried: dict[str, _Try] = {}
        self._admission: admission.Admission | None = None
        self._is_readable = True
        self._replaced = replaced_mod.Replaced(database, cloud)
        self._cuts = cuts.Cuts(
            database,
            supplies.Supplies(database, cloud, is_once=is_once),
        )

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        now = reading.now
        with self._database.transaction() as connection:
            found = progress.list_unfinished(connection)
            rows = servers.count_by_host(connection, now)
            changes = capacity_changes.read_changes(
                connection, now - BACK_SECONDS
            )
        down = self._cloud.list_down() if rows else frozenset[str]()
        enabled = {
            host: is_enabled and host not in down
            for host, is_enabled in self._cloud.list_enabled().items()
        }
        cut = self._cuts.list_cut(found, rows, changes, now)
        spared = _list_spared(found, changes, now)
        hosts = {row[1] for row in rows}
        replaced = self._replaced.list(enabled.keys() & hosts, now)
        lost = outage.list_lost(
            (one for one in rows if one[:2] not in spared), enabled, replaced
        )
        if (lost or cut) and not sight.can_trust(enabled):
            return False
        seen = enabled.keys() - down - {host for _key, host in replaced}
        self._watch(hosts, lost, seen, now)
        self._admission, self._is_readable = None, True
        self._tried = {
            key: one
            for key, one in self._tried.items()
            if abs(now - one.at) < RETRY_SECONDS
        }
        view = _View(
            now=now,
            enabled=enabled,
            lost=lost,
            down=down,
            cut=cut,
            taken={key for key, _host, _servers, taken in rows if taken},
            is_steady=reading.is_steady,
        )
        done = []
        for one in found:
            what = f'hosts of {one.key}'
            if one.key in lost or one.key in cut:
                done.append(chores.attempt(what, self._lose, one, view))
            elif one.state is State.DEGRADED and now < one.during.end:
                done.append(chores.attempt(what, self._restore, one, now))
        return all(done)

    def has_doubts(self, now: int) -> bool:
        """Return whether most hosts are lost, which is not believed yet.

        :param now: seconds since the epoch
        """
        return (
            self._most_since is not None
            and now < self._most_since + BELIEVED_SECONDS
        )

    def _watch(
        self,
        hosts: Set[str],
        lost: Mapping[str, outage.Lost],
        seen: Set[str],
        now: int,
    ) -> None:
        """Note since when hosts are lost.

        :param hosts: all with reservations
        :param seen: all that are in placement as they were, and not down
        """
        found = {host for one in lost.values() for host in one}
        self._since = {
            host: min(self._since.get(host, now), now) for host in found
        }
        # A host that is disabled shows that it is the right placement.
        gone = found - seen
        if len(gone) <= MOST_LOST or 2 * len(gone) <= len(hosts):
            self._most_since = None
            return
        if self._most_since is None:
            LOG.error(
                '%(gone)d of %(all)d hosts with reservations are not in '
                'placement, or their nova-compute does not report. No '
                'reservation is moved for %(seconds)d s: check that the '
                'configured placement is the right one, and that the message '
                'bus and nova-conductor work. Hosts: %(hosts)s.',
                {
                    'gone': len(gone),
                    'all': len(hosts),
                    'seconds': BELIEVED_SECONDS,
                    'hosts': ', '.join(sorted(gone)[:_NAMED]),
                },
            )
            self._most_since = now
        self._most_since = min(self._most_since, now)

    def _lose(self, one: progress.Unfinished, view: _View) -> bool:
        """Move a reservation, or say that it is degraded."""
        lost = view.lost.get(one.key, {})
        cut = view.cut.get(one.key, ())
        reason = outage.explain(lost, view.enabled, cut, view.down)
        words = {reason, f'{reason}; {_NOWHERE}'}
        if one.during.start > view.now and one.key not in view.taken:
            if self._is_move_due(one, view):
                if self._is_try_due(one.key, view):
                    outcome = self._move(one, reason, view.now)
                    if outcome is not _Outcome.NOWHERE:
                        return outcome is _Outcome.DONE
                    self._note_try(one.key, view)
                reason = f'{reason}; {_NOWHERE}'
            elif self._most_since is None:
                return True  # It may be back in a moment.
        if one.state is State.DEGRADED:
            with self._database.transaction() as connection:
                changes = states.list_changes(connection, one.key)
            lack = states.find_lack(changes)
            if lack is None or lack.reason in words:
                return True
        cause = Cause.OUTAGE if lost else Cause.CAPACITY
        return chores.degrade(self._database, one, view.now, reason, cause)

    def _is_move_due(self, one: progress.Unfinished, view: _View) -> bool:
        """Return whether a loss is believed, as one is that was planned."""
        if not view.is_steady:
            return False
        if self._most_since is not None:
            return not self.has_doubts(view.now)
        if self._is_once or one.key in view.cut:
            return True
        if one.during.start - view.now <= NEAR_SECONDS:
            return True
        since = min(self._since[host] for host in view.lost[one.key])
        return view.now >= since + LOSS_SECONDS

    def _is_try_due(self, key: str, view: _View) -> bool:
        """Return whether there may be a place that there was not before.

        A host that comes and goes is none.
        """
        tried = self._tried.get(key)
        return tried is None or not view.hosts <= tried.hosts

    def _note_try(self, key: str, view: _View) -> None:
        tried = self._tried.get(key)
        before = tried.hosts if tried else frozenset()
        self._tried[key] = _Try(at=view.now, hosts=before | view.hosts)

    def _move(
        self, one: progress.Unfinished, reason: str, now: int
    ) -> _Outcome:
        """Find another place for a reservation, if it needs one."""
        if not self._is_readable:
            return _Outcome.FAILED
        reason = f'moved: {reason}'
        try:
            if self._admission is None:
                self._is_readable = False
                self._admission = self._cloud.make_admission(self._database)
                self._is_readable = True
            answer = self._admission.relocate(
                one.key, now=now, reason=reason, number=one.number
            )
        except (exception.PlacementError, exception.ComputeUnavailable) as err:
            LOG.error(
                'Could not plan reservation %(key)s anew, and will try again '
                'in the next pass: %(err)s',
                {'key': one.key, 'err': err},
            )
            return _Outcome.FAILED
        if isinstance(answer, planner.Refusal):
            return _Outcome.NOWHERE
        if answer is not None:
            chores.report(
                one.key,
                states.Change(
                    state=State.PENDING, changed_at=now, reason=reason
                ),
            )
        return _Outcome.DONE

    def _restore(self, one: progress.Unfinished, now: int) -> bool:
        """Say that all is well again, if this is what was missing."""
        with self._database.transaction() as connection:
            changes = states.list_changes(connection, one.key)
        lack = states.find_lack(changes)
        if lack is None or lack.cause not in _CAUSES:
            return True
        state = State.PENDING if now < one.during.start else State.ACTIVE
        reason = 'its hosts and their capacity are available again'
        return chores.write(self._database, one, state, now, reason).is_well


def _list_spared(
    found: Sequence[progress.Unfinished],
    changes: capacity_change.Changes,
    now: int,
) -> frozenset[tuple[str, str]]:
    """Return reservations, each with a host that is away until it begins."""
    return frozenset(
        (one.key, change.host)
        for change in changes
        for one in found
        if outage.is_back(change, one.during.start, now)
    )
