# SPDX-License-Identifier: Apache-2.0

"""What operators do with planned changes of capacity."""

from collections.abc import Callable, Iterator, Mapping

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_order
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import chart
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import fleet as fleet_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import capacity as capacity_mod
from nova_ext_resources.reservation.store import database as database_mod

#: Returns what can plan: with all hosts, or with none, which is faster.
FindAdmission = Callable[[], admission_mod.Admission]


class CapacityChanges:
    """The planned changes of one store.

    Each method may also raise ``StoreError`` and, if it needs hosts,
    ``PlacementError``, ``ComputeUnavailable`` and ``InvalidConfiguration``.

    :param find_all: with the hosts
    :param find_none: without them
    :param clock: returns seconds since the epoch
    """

    def __init__(
        self,
        database: database_mod.Database,
        find_all: FindAdmission,
        find_none: FindAdmission,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._find_all = find_all
        self._find_none = find_none
        self._clock = clock

    def create(
        self,
        plan: capacity_order.Document,
        *,
        reason: str,
        created_by: str = '',
        is_forced: bool = False,
    ) -> capacity_mod.Outcome:
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
        admission = self._find_all()
        now = self._now()  # Not before: to read the hosts may take minutes.
        during = capacity_order.read_during(plan, now)

        def make(
            fleet: fleet_mod.Fleet, others: capacity_plan.Changes
        ) -> capacity_change.CapacityChange:
            return capacity_order.make_change(
                plan,
                during,
                fleet,
                others,
                now,
                reason=reason,
                created_by=created_by,
                created_at=now,
            )

        return admission.capacity.plan(
            plan['name'], make, now=now, is_forced=is_forced
        )

    def get(self, key: str) -> capacity_change.CapacityChange:
        """Return a change, be it over or not.

        :raises CapacityChangeNotFound: there is none of this name
        """
        found = capacity_mod.list_changes(
            self._database, interval.ALWAYS, key=key
        )
        if not found:
            raise errors.CapacityChangeNotFound(key=key)
        return found[0]

    def list_changes(
        self, *, has_ended: bool = False
    ) -> capacity_plan.Changes:
        """Return changes by their start.

        :param has_ended: also those that are over, as long as they are kept
        """
        oldest = interval.ALWAYS if has_ended else self._now()
        return capacity_mod.list_changes(self._database, oldest)

    def delete(
        self, key: str, *, is_forced: bool = False
    ) -> capacity_mod.Outcome:
        """Take a change back.

        :param is_forced: whether reservations may be moved or degraded that
            count on what it adds
        :raises CapacityChangeNotFound: there is none of this name
        :raises CapacityChangeRefused: reservations count on what it adds
        """
        adds = any(one > 0 for one in self.get(key).amounts.values())
        admission = self._find_all() if adds else self._find_none()
        return admission.capacity.withdraw(
            key, now=self._now(), is_forced=is_forced
        )

    def list_bars(
        self, during: interval.Interval, zones: Mapping[str, str] | None
    ) -> Iterator[tuple[str, chart.Bar]]:
        """Return the bar of each change of a time, after its row's name.

        :param zones: host -> zone; None makes a row of each host
        """
        for one in capacity_mod.list_changes(self._database, during.start):
            if one.during.overlaps(during):
                row = one.row if zones is None else zones.get(one.host, '')
                bar = chart.Bar(
                    key=f'{one.key}: {one.what}', during=one.during
                )
                yield row, bar

    def _now(self) -> int:
        return int(self._clock())
