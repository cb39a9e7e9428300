# SPDX-License-Identifier: Apache-2.0

"""What placement shows of the providers that planned changes are about.

An upgrade that does not come is said when it is due. What is taken away beside
all plans is noted with them: an upgrade that comes then is not taken for more
than it is.
"""

from collections.abc import Iterable, Iterator, Set
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lack
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import shards

LOG = logging.getLogger(__name__)

#: Seconds after which placement is read again.
CHECK_SECONDS = 60

#: Seconds for which something must be lost before it is taken to be so: what
#: a host reports may be wrong for a moment.
LOSS_SECONDS = 120


class Supplies:
    """Follows what placement shows, from one pass to the next.

    :param is_once: there is no other pass
    :ivar late: the changes that should have come and have not, as far as the
        log says so
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
        self._uses: lending.Uses = {}
        self._asked: Set[str] = frozenset()
        self._asked_at = interval.ALWAYS
        #: Place -> since when something is lost there.
        self._since: dict[host_view.Place, int] = {}
        self.late: Set[str] = frozenset()

    def is_due(self, now: int) -> bool:
        """Return whether placement is to be read again."""
        return not 0 <= now - self._asked_at < CHECK_SECONDS

    def read(
        self,
        changes: capacity_change.Changes,
        places: Iterable[host_view.Place],
        consumers: Set[str],
        now: int,
    ) -> lack.Supplies:
        """Return what there will be of places, as far as that is known.

        :param changes: that are not over
        :param places: besides those of the changes
        :param consumers: the servers that have places in reservations
        """
        wanted = {*places, *list_places(changes)}
        self._look({place[0] for place in wanted}, now)
        found, late = {}, set[str]()
        for place in wanted & self._uses.keys():
            use = self._uses[place]
            known = make_forecast(changes, place, use.capacity, now)
            late |= known.late
            self._watch(changes, place, known)
            used = sum(
                amount
                for uuid, amount in use.holders.items()
                if uuid not in consumers
            )
            found[place] = lack.Supply(capacity=known.count(), used=used)
        self._note_late(changes, late)
        return found

    def _look(self, rp_uuids: Set[str], now: int) -> None:
        """Read placement; if it cannot be read, go by what it said last."""
        if rp_uuids <= self._asked and not self.is_due(now):
            return
        try:
            self._uses = self._cloud.read_uses(sorted(rp_uuids))
        except exception.PlacementError as err:
            LOG.error(
                'Could not read the inventories of providers with planned '
                'changes of capacity, and will try again: %(err)s',
                {'err': err},
            )
            return
        self._asked, self._asked_at = rp_uuids, now

    def _note_late(
        self, changes: capacity_change.Changes, late: Set[str]
    ) -> None:
        """Warn of each increase that does not come, once."""
        more = {
            one.key: one
            for one in changes
            if any(amount > 0 for amount in one.amounts.values())
        }
        late = late & more.keys()
        for key in sorted(late - self.late):
            LOG.warning(
                'Capacity change %(key)s is late: %(what)s. Reservations '
                'that count on the change are moved, or degraded. Change the '
                'inventory when the capacity has come, or delete the change.',
                {'key': key, 'what': more[key].describe(is_late=True)},
            )
        self.late = late

    def _watch(
        self,
        changes: capacity_change.Changes,
        place: host_view.Place,
        known: forecast.Forecast,
    ) -> None:
        """Note what is lost beside all changes, if it stays so."""
        if not known.lost:
            self._since.pop(place, None)
            return
        since = min(self._since.setdefault(place, known.now), known.now)
        self._since[place] = since
        if not self._is_once and known.now < since + LOSS_SECONDS:
            return
        try:
            self._rebase(changes, place, known)
        except exception.StoreError as err:
            # What is lost is left out until then by what placement shows.
            LOG.warning(
                'Could not record the capacity that provider %(provider)s '
                'has lost, and will try again: %(err)s',
                {'provider': place[0], 'err': err},
            )

    def _rebase(
        self,
        changes: capacity_change.Changes,
        place: host_view.Place,
        known: forecast.Forecast,
    ) -> None:
        own = [one for one in changes if one.rp_uuid == place[0]]
        after = [one.rebase({place[1]: known.find_base()}) for one in own]
        LOG.warning(
            'Provider %(provider)s has %(lost)d %(name)s less than when its '
            'capacity changes (%(keys)s) were planned, and not because of '
            'these changes: the loss counts with the changes from now on. If '
            'the capacity comes back, delete the changes and plan them anew.',
            {
                'provider': own[0].provider or place[0],
                'lost': known.lost,
                'name': place[1],
                'keys': ', '.join(one.key for one in own),
            },
        )
        with self._database.transaction() as connection:
            revisions, _purged = shards.read_revisions(connection)
        numbers = {
            shards.find_shard(name, len(revisions))
            for one in own
            for name in one.names
        }
        with self._database.transaction() as connection:
            shards.raise_revisions(connection, revisions.pick(numbers))
            capacity_changes.change_bases(connection, own, after)


def list_places(
    changes: capacity_change.Changes,
) -> Iterator[host_view.Place]:
    """Return the places that changes add to, or take from."""
    for one in changes:
        for name in one.amounts:
            yield one.rp_uuid, name


def make_forecast(
    changes: capacity_change.Changes,
    place: host_view.Place,
    shown: int,
    now: int,
) -> forecast.Forecast:
    """Make the forecast of a place.

    :param shown: the capacity that placement shows
    """
    own = [one for one in changes if one.rp_uuid == place[0]]
    return forecast.make(own, place[1], shown, now)


def lower(
    uses: lending.Uses,
    changes: capacity_change.Changes,
    *,
    start: int,
    now: int,
) -> lending.Uses:
    """Return uses with the capacity that there will be for sure at a time.

    :param start: when, in seconds since the epoch
    """
    moment = interval.Interval(start, start + 1)
    changed = {*list_places(changes)}
    found = dict(uses)
    for place in changed & uses.keys():
        shown = uses[place].capacity
        known = make_forecast(changes, place, shown, now)
        left = known.count(is_sure=True).lowest(moment)
        found[place] = dataclasses.replace(
            uses[place], capacity=min(shown, left)
        )
    return found
