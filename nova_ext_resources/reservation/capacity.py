# SPDX-License-Identifier: Apache-2.0

"""What operators do with planned changes of capacity."""

from collections.abc import Callable, Container, Iterator, Mapping
import dataclasses

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_order
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import chart
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import capacity
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation import way

#: The longest name of who plans something that is kept.
_MAX_USER = 255

#: Returns what can plan: with all hosts, or with none, which is faster.
FindAdmission = Callable[[], admission_mod.Admission]


class CapacityChanges:
    """The planned changes of one store.

    Each method may also raise ``StoreError`` and, if it needs hosts,
    ``PlacementError``, ``ComputeUnavailable`` and ``InvalidConfiguration``.

    :param find_all: with the hosts
    :param find_none: without them
    :param list_names: returns the hosts that placement has, enabled or not
    :param clock: returns seconds since the epoch
    """

    def __init__(
        self,
        database: databases.Database,
        find_all: FindAdmission,
        find_none: FindAdmission,
        list_names: Callable[[], Container[str]],
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._find_all = find_all
        self._find_none = find_none
        self._list_names = list_names
        self._clock = clock

    def create(
        self,
        plan: capacity_order.Document,
        *,
        reason: str,
        created_by: str = '',
        is_forced: bool = False,
    ) -> capacity.Outcome:
        """Plan a change. The same again changes nothing.

        :param plan: see :mod:`~nova_ext_resources.reservation.capacity_order`
        :param reason: a sentence that is kept with it, of up to 1,000
            characters
        :param created_by: who plans it
        :param is_forced: whether reservations may be moved, and degraded
            where that cannot be done
        :raises InvalidCapacityChange: it makes no sense here, or there is no
            reason
        :raises CapacityChangeExists: the name was used for something else
        :raises CapacityChangeRefused: it takes what is promised
        """
        capacity_order.check(plan, reason)
        key, names = plan['name'], self._list_names
        if known := self._find(key):
            if not capacity_order.is_same(plan, known, reason):
                raise errors.CapacityChangeExists(key=key)
            return capacity.Outcome(change=known, way=way.Way())
        admission = self._find_all()
        now = self._now()  # Not before: to read the hosts may take minutes.
        during = capacity_order.read_during(plan, now)

        def make(
            fleet: fleets.Fleet, others: capacity_plan.Changes
        ) -> capacity_change.CapacityChange:
            is_known = plan.get('host', '') in ('', *fleet.hosts)
            made = capacity_order.make_change(
                plan,
                during,
                fleet,
                others,
                now,
                names=() if is_known else names(),
            )
            return dataclasses.replace(
                made, reason=reason, created_by=created_by[:_MAX_USER]
            )

        return admission.capacity.plan(key, make, now=now, is_forced=is_forced)

    def get(self, key: str) -> capacity_change.CapacityChange:
        """Return a change, be it over or not.

        :raises CapacityChangeNotFound: there is none of this name
        """
        found = self._find(key)
        if found is None:
            raise errors.CapacityChangeNotFound(key=key)
        return found

    def _find(self, key: str) -> capacity_change.CapacityChange | None:
        found = capacity.list_changes(self._database, interval.ALWAYS, key=key)
        return found[0] if found else None

    def list_changes(
        self, *, has_ended: bool = False
    ) -> capacity_plan.Changes:
        """Return changes by their start.

        :param has_ended: also those that are over, as long as they are kept
        """
        oldest = interval.ALWAYS if has_ended else self._now()
        return capacity.list_changes(self._database, oldest)

    def delete(
        self, key: str, *, deleted_by: str = '', is_forced: bool = False
    ) -> capacity.Outcome:
        """Take a change back.

        :param deleted_by: who does so, for the log
        :param is_forced: whether reservations may be moved or degraded that
            count on what it adds
        :raises CapacityChangeNotFound: there is none of this name
        :raises CapacityChangeRefused: reservations count on what it adds
        """
        change = self.get(key)
        find = self._find_all if self._needs_hosts(change) else self._find_none
        return find().capacity.withdraw(
            key, now=self._now(), is_forced=is_forced, deleted_by=deleted_by
        )

    def _needs_hosts(self, change: capacity_change.CapacityChange) -> bool:
        """Return whether it matters what placement shows.

        For what counts on more, and for other changes of the same provider.
        """
        if any(amount > 0 for amount in change.amounts.values()):
            return True
        return any(
            one.rp_uuid == change.rp_uuid
            and one.key != change.key
            and not one.amounts.keys().isdisjoint(change.amounts)
            for one in self.list_changes()
        )

    def list_bars(
        self, during: interval.Interval, zones: Mapping[str, str] | None
    ) -> Iterator[tuple[str, chart.Bar]]:
        """Return the bar of each change of a time, after its row's name.

        :param zones: host -> zone; None makes a row of each host
        """
        for one in capacity.list_changes(self._database, during.start):
            if one.during.overlaps(during):
                row = one.row if zones is None else zones.get(one.host, '')
                bar = chart.Bar(
                    key=f'{one.key}: {one.what}', during=one.during
                )
                yield row, bar

    def _now(self) -> int:
        return int(self._clock())
