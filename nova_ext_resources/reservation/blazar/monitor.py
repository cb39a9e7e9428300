# SPDX-License-Identifier: Apache-2.0

"""Keeps leases and reservations the same.

The two databases have no transaction in common. What a crash or an error
leaves in one of them alone is found here, and so is a promise that cannot be
kept: its lease is degraded then, and the log says why.
"""

from collections.abc import Callable, Mapping
import datetime
from typing import Any, TypeAlias

from blazar.plugins import base
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import uuidutils

from nova_ext_resources import exception
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation.blazar import keeper as keeper_mod
from nova_ext_resources.reservation.blazar import options
from nova_ext_resources.reservation.blazar import orders
from nova_ext_resources.reservation.blazar import repair
from nova_ext_resources.reservation.blazar import rows
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import records

LOG = logging.getLogger(__name__)

#: How the reason of each reservation begins that was made for a lease.
REASON = 'reserved by lease '

#: Of more orphans than these, if they are most of all reservations, or of any
#: number if they are all, it is taken that this is not the database of the
#: leases that they are of.
MAX_ORPHANS = 3

#: Reservation -> what Blazar notes of it.
Flags: TypeAlias = dict[str, dict[str, bool]]

_Records: TypeAlias = Mapping[str, records.Record]

_GOING_ON = (
    state.State.PENDING,
    state.State.ACTIVE,
    state.State.DEGRADED,
)


class Monitor(base.BaseMonitorPlugin):
    """Blazar calls :meth:`poll` in a thread of its own."""

    def __init__(self, keeper: keeper_mod.Keeper) -> None:
        self._keeper = keeper

    def is_notification_enabled(self) -> bool:
        return False

    def get_notification_event_types(self) -> list[str]:
        return []

    def get_notification_topics(self) -> list[str]:
        return []

    def notification_callback(
        self, event_type: str, payload: Mapping[str, Any]
    ) -> Flags:
        return {}

    def is_polling_enabled(self) -> bool:
        return True

    def get_polling_interval(self) -> int:
        interval: int = options.get(cfg.CONF).hosts_interval
        return interval

    def get_healing_interval(self) -> int:
        return 0  # It is all done by polling.

    def heal(self) -> Flags:
        return {}

    def poll(self) -> Flags:
        """Read the hosts anew, and set right what is not the same.

        :returns: the reservations that newly lack something
        """
        self._try('read the hosts again', self._keeper.refresh)
        self._try('repair interrupted leases', self._set_leases_right)
        return (
            self._try('compare leases with reservations', self._compare) or {}
        )

    def _try(self, action: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except exception.ExtResourcesError as err:
            LOG.warning(
                'Could not %(action)s: %(err)s The next attempt is in '
                '%(seconds)s s; existing reservations stay valid.',
                {
                    'action': action,
                    'err': err,
                    'seconds': self.get_polling_interval(),
                },
            )
        return None

    def _set_leases_right(self) -> None:
        with self._keeper.use() as reservations:
            now = reservations.now()
        for lease in rows.list_leases():
            step = repair.find_step(lease, now)
            if step is not None:
                LOG.warning(
                    'Lease %(lease)s of Blazar was left in status '
                    '%(status)s, with events %(events)s, by an interruption. '
                    'Repair of the lease: %(step)s.',
                    {
                        'lease': lease.key,
                        'status': lease.status,
                        'events': {
                            name: one.status
                            for name, one in lease.events.items()
                        },
                        'step': step.name,
                    },
                )
                rows.set_right(lease, step)
                if step is repair.Step.FORGET:
                    for key in lease.reservations:
                        self.release(key, 'its lease in Blazar is gone')

    def _compare(self) -> Flags:
        with self._keeper.use() as reservations:
            # Before the leases: each of these has a row there then.
            going_on = {
                one.request.key: one
                for one in reservations.list_reservations(wanted=_GOING_ON)
            }
            now = reservations.now()
        leases = rows.list_leases()
        self._release_orphans(going_on, leases)
        broken: Flags = {}
        for lease in leases:
            if lease.is_stable and now < lease.ends_at:
                for key in lease.reservations:
                    record = going_on.get(key)
                    reason = self._check(lease, record, key)
                    if reason and key not in lease.broken:
                        _warn_broken(lease.key, key, reason)
                        broken[key] = {'missing_resources': True}
                    elif not reason and record and key in lease.broken:
                        _clear(lease.key, key)
        return broken

    def _check(
        self, lease: repair.Lease, record: records.Record | None, key: str
    ) -> str:
        """Compare a reservation with its lease; return what is wrong."""
        with self._keeper.use() as reservations:
            if record is None:
                return _find_end(reservations, key)
            now = reservations.now()
        if record.state is state.State.DEGRADED:
            return record.last.reason
        dates = {
            'start_date': _make_date(lease.starts_at),
            'end_date': _make_date(lease.ends_at),
        }
        changes = orders.make_dates(record, dates, now)
        return self._change_dates(key, changes) if changes else ''

    def _change_dates(self, key: str, changes: dict[str, str]) -> str:
        """Make the dates those of the lease; return why it cannot be done."""
        self._keeper.prepare()
        with self._keeper.use() as reservations:
            try:
                reservations.update(
                    key, changes, reason='its lease has other dates'
                )
            except exception.ReservationError as err:
                return str(err)
        return ''

    def _release_orphans(
        self, going_on: _Records, leases: list[repair.Lease]
    ) -> None:
        """Cancel what was reserved for leases that there are not any more."""
        known = {key for lease in leases for key in lease.reservations}
        with self._keeper.use() as reservations:
            ours = [
                key
                for key in going_on
                if key in known or is_of_lease(reservations, key)
            ]
        orphans = [
            key for key in ours if key not in known and not rows.exists(key)
        ]
        are_most = len(orphans) > max(MAX_ORPHANS, len(ours) // 2)
        if orphans and (are_most or len(orphans) == len(ours)):
            LOG.error(
                '%(orphans)s of %(all)s reservations for leases belong to '
                'leases that are not in the database of Blazar. No '
                'reservation is released: check [database] connection, and '
                'that no other Blazar uses the same database of '
                'reservations. If the leases were deleted on purpose, cancel '
                'the reservations with "openstack extended reservation '
                'cancel": %(keys)s.',
                {
                    'orphans': len(orphans),
                    'all': len(ours),
                    'keys': ', '.join(sorted(orphans)),
                },
            )
            return
        for key in orphans:
            self.release(key, 'its lease in Blazar is gone')

    def release(self, key: str, reason: str) -> None:
        """Cancel a reservation that may be over, or not be there.

        If the store cannot be reached, that is done at a later poll.
        """
        try:
            with self._keeper.use() as reservations:
                reservations.cancel(key, reason=reason)
        except (exception.ReservationNotFound, exception.StateRefused):
            return
        except exception.ExtResourcesError as err:
            LOG.warning(
                'Could not release reservation %(key)s: %(err)s The release '
                'is tried again.',
                {'key': key, 'err': err},
            )


def _warn_broken(lease: str, key: str, reason: str) -> None:
    LOG.warning(
        'Reservation %(key)s does not fulfil lease %(lease)s: %(reason)s',
        {'key': key, 'lease': lease, 'reason': reason},
    )


def _clear(lease: str, key: str) -> None:
    """Let Blazar show that a reservation has all its servers again.

    Here, for of flags that a poll returns Blazar makes each lease degraded,
    whatever the flags are.
    """
    rows.clear_missing(key)
    LOG.info(
        'Reservation %(key)s fulfils lease %(lease)s again.',
        {'key': key, 'lease': lease},
    )


def is_of_lease(reservations: api.Reservations, key: str) -> bool:
    """Return whether a reservation was made for a lease."""
    if not uuidutils.is_uuid_like(key):
        return False
    return reservations.list_changes(key)[0].reason.startswith(REASON)


def _find_end(reservations: api.Reservations, key: str) -> str:
    """Return why a reservation does not go on, nothing if it does.

    It does if its lease was made while both sides were read.
    """
    try:
        record = reservations.get(key)
    except exception.ReservationNotFound as err:
        return str(err)
    if record.state in _GOING_ON:
        return ''
    return f'{record.state}: {record.last.reason}'


def _make_date(seconds: int) -> datetime.datetime:
    date = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return date.replace(tzinfo=None)
