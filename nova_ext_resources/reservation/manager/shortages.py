# SPDX-License-Identifier: Apache-2.0

"""Notes that what is available falls below a threshold, or is enough again.

To read all hosts of a cloud takes time, in which the other chores go on: a
thread reads, and a later pass compares.
"""

from collections.abc import Callable, Sequence
from concurrent import futures
import functools

from oslo_log import log as logging
from oslo_utils import uuidutils

from nova_ext_resources import exception
from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import event as event_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import beside
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation import subscription

LOG = logging.getLogger(__name__)

#: Returns what there is at a time, of all zones and classes.
ReadAmounts = Callable[[int], Sequence[amounts.Amounts]]


class Shortages:
    """Compares what is available with what subscriptions ask for.

    :param read_amounts: with the seconds since the epoch. It is called in a
        thread of its own
    :param pause: seconds between two looks
    :param has_doubts: called with seconds since the epoch; returns whether
        placement is not believed, because too many hosts are lost
    :param is_once: whether it is waited for
    :param is_watched: whether it is read also where nobody subscribes
    """

    def __init__(
        self,
        database: databases.Database,
        read_amounts: ReadAmounts,
        pause: int,
        *,
        has_doubts: Callable[[int], bool] = lambda _now: False,
        is_once: bool = False,
        is_watched: bool = False,
    ) -> None:
        self._database = database
        self._read_amounts = read_amounts
        self._pause = pause
        self._has_doubts = has_doubts
        self._is_once = is_once
        self._is_watched = is_watched
        self._looked_at: int | None = None
        self._reading: futures.Future[Sequence[amounts.Amounts]] | None = None

    def run(self, now: int) -> bool:
        """Look, or note what was seen.

        :param now: seconds since the epoch
        :returns: whether nothing failed
        :raises StoreError: the database cannot be used
        """
        if self._reading is None:
            if not self._is_due(now):
                return True
            self._looked_at = now
            self._reading = beside.start(
                functools.partial(self._read_amounts, now), 'amounts'
            )
        if not self._is_once and not self._reading.done():
            return True
        reading, self._reading = self._reading, None
        try:
            found = reading.result()
        except exception.ExtResourcesError as err:
            LOG.error(
                'Could not read the available capacity, and will try again. '
                'Until then, no notifications of capacity are sent and no '
                'metrics are written: %(err)s',
                {'err': err},
            )
            return False
        if not self._has_doubts(now):
            self._note(found)
        return True

    def _is_due(self, now: int) -> bool:
        at = self._looked_at
        if at is not None and at <= now < at + self._pause:
            return False
        return self._is_watched or bool(self._list_wanted())

    def _list_wanted(self) -> list[followers.Follower]:
        with self._database.transaction() as connection:
            return followers.read_watching(connection)

    def _note(self, found: Sequence[amounts.Amounts]) -> None:
        if not found:
            # More likely the wrong placement than the loss of all hosts.
            LOG.error(
                'Placement shows no available capacity at all; no '
                'notification of capacity is sent. Check that the configured '
                'placement is the right one.'
            )
            return
        by_kind = {(one.zone, one.resource_class): one for one in found}
        at = found[0].during.start
        for follower in self._list_wanted():
            watched = follower.subscription.watched
            assert watched is not None
            one = by_kind.get((watched.zone, watched.resource_class))
            event = find_event(watched, one, at, is_low=follower.is_low)
            if event is not None:
                retry.call(self._write, follower, event)

    def _write(
        self, follower: followers.Follower, event: event_mod.Event
    ) -> None:
        """Write that it has turned; not if another manager has."""
        is_low = event.kind is event_mod.Kind.LOW
        with self._database.transaction() as connection:
            if followers.turn(connection, follower.uuid, is_low=is_low):
                events.add(connection, [event], subscription=follower.uuid)


def find_event(
    watched: subscription.Watched,
    found: amounts.Amounts | None,
    now: int,
    *,
    is_low: bool,
) -> event_mod.Event | None:
    """Return what a subscription is told; None if nothing has turned.

    :param found: what there is; None if no host of the zone has the class
    :param now: when that was read, in seconds since the epoch
    :param is_low: what it was told last
    """
    available = 0 if found is None else found.available
    if (available < watched.threshold) is is_low:
        return None
    return event_mod.Event(
        uuid=uuidutils.generate_uuid(),
        kind=event_mod.Kind.ENOUGH if is_low else event_mod.Kind.LOW,
        project='',
        reservation=None,
        happened_at=now,
        facts={
            'zone': watched.zone,
            'resource_class': watched.resource_class,
            'threshold': watched.threshold,
            'available': available,
            'total': 0 if found is None else found.total,
            'reserved': 0 if found is None else found.reserved,
            'used': 0 if found is None else found.used,
            'measured_at': interval.format_time(now),
        },
    )
