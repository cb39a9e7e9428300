# SPDX-License-Identifier: Apache-2.0

"""Reservations for programs: create, list, show, update, cancel, and look.

Works on the store itself, without Blazar and without a service of its own. Any
number of processes may do so at the same time. Whoever can write to the
database may do all.

.. code-block:: python

    from oslo_config import cfg
    from nova_ext_resources.reservation.site import loading

    conf = cfg.ConfigOpts()
    conf(['--config-file', '/etc/nova/nova.conf'])
    reservations = loading.from_conf(conf)
    reservations.create(
        {
            'name': 'night',
            'flavor': 'm1.large',
            'servers': 8,
            'starts_at': '2030-01-31T20:00Z',
            'duration': '10h',
        }
    )
"""

from collections.abc import Callable, Collection, Mapping

from oslo_utils import timeutils
from oslo_utils import uuidutils

from nova_ext_resources.claims import base
from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import capacity
from nova_ext_resources.reservation import chart
from nova_ext_resources.reservation import counter_offer
from nova_ext_resources.reservation import figures
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import limits as limits_mod
from nova_ext_resources.reservation import needs as needs_mod
from nova_ext_resources.reservation import order as order_mod
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import limits as own_limits
from nova_ext_resources.reservation.store import quotas
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import subscriptions
from nova_ext_resources.reservation import survey
from nova_ext_resources.reservation.webhook import rules as rules_mod


_UNLIMITED = limits_mod.Limits()


class Reservations:
    """All reservations of one store, for one thread at a time.

    The hosts are read when they are needed for the first time: make another
    one to see what has changed in placement.

    Each method may also raise ``StoreError`` and, if it needs hosts or a
    flavor, ``PlacementError``, ``ComputeUnavailable`` and
    ``InvalidConfiguration``. After an error nothing has changed; but if the
    database did not answer, see ``StoreError``.

    :param trackers: all that are installed, by name
    :param tests: all claim tests that are installed, by name
    :param grammar: of extra specs
    :param rules: which URLs subscriptions may have
    :param most_subscriptions: how many a project may have
    :param limits: how far ahead, and how long, projects may reserve that have
        no limits of their own
    :param clock: returns seconds since the epoch
    :ivar check_project: called with an id; raises ``InvalidLimits`` if
        keystone has no such project, as far as it says
    :ivar limits: sets, lists and deletes how far ahead, and how long, single
        projects may reserve
    :ivar quotas: sets, lists and deletes what projects may reserve
    :ivar capacity_changes: plans maintenance, upgrades and cuts
    :ivar subscriptions: makes, lists and deletes who is told of what
    """

    def __init__(
        self,
        database: databases.Database,
        site: survey.Site,
        *,
        trackers: Mapping[str, base.Tracker],
        tests: Mapping[str, base.ClaimTest],
        grammar: extra_specs.Grammar,
        rules: rules_mod.Rules = rules_mod.PUBLIC,
        most_subscriptions: int = subscriptions.LIMIT,
        limits: limits_mod.Limits = _UNLIMITED,
        clock: Callable[[], float] = timeutils.utcnow_ts,
    ) -> None:
        self._database = database
        self._site = site
        self._tests = tests
        self._needs = needs_mod.Needs(
            lambda name: site.find_flavor(name), grammar
        )
        self._clock = clock
        self._survey = survey.Survey(database, site, trackers, tests, clock)
        self.check_project = site.check_project
        self.limits = own_limits.Limits(database, limits)
        self.quotas = quotas.Quotas(database, clock)
        self.capacity_changes = capacity.CapacityChanges(
            database,
            self._survey.find_admission,
            self._survey.find_changing,
            site.list_enabled,
            clock,
        )
        self.subscriptions = subscriptions.Subscriptions(
            database, rules, clock, most_subscriptions
        )

    # Changes

    def create(
        self,
        order: order_mod.Document,
        *,
        reason: str = 'created',
        flavors: needs_mod.Flavors = needs_mod.NO_FLAVORS,
    ) -> records.Record:
        """Reserve what an order asks for.

        The same request again gets the reservation that it has.

        :param order: see :mod:`~nova_ext_resources.reservation.order`
        :param reason: a sentence that is kept with the reservation, of up to
            1,000 characters
        :param flavors: see :meth:`read_flavors`
        :raises InvalidReservation: the order makes no sense here, or there is
            no reason
        :raises InvalidExtraSpec: its flavor has an extra spec that cannot be
            planned
        :raises ReservationRefused: it does not fit; has a counter-offer
        :raises LimitExceeded: it starts too late, lasts too long, is for too
            many servers, or is one too many
        :raises QuotaExceeded: its project may not reserve so much
        :raises ReservationExists: its project has the name for something else
        """
        order_mod.check(order)
        order_mod.check_reason(order['name'], reason)
        order = {**order, 'name': self._choose_key(order)}
        demand, flavor = self._needs.read(order['name'], order, flavors)
        admission = self._survey.find_admission()
        # Not before: to read the hosts of a large cloud takes minutes, and
        # what has started meanwhile must not be moved.
        now = self.now()
        request = order_mod.make_request(order, demand, now, flavor)
        if request.during.start < now:
            raise order_mod.refuse_time(request, 'starts_at', now)
        limits = self.limits.find(request.project)
        others: set[str] = set()
        if limits.reservations < interval.FOREVER:
            found = self._list(project=request.project, wanted=state.CURRENT)
            others = {one.request.key for one in found} - {request.key}
        limits.check(request, now, others=len(others))
        self._check_known(request)
        answer = admission.admit(request, now=now, reason=reason)
        counter_offer.check_planned(request, limits.trim(answer, now))
        return self.get(request.key)

    def update(
        self,
        key: str,
        changes: order_mod.Document,
        *,
        reason: str = 'updated',
        flavors: needs_mod.Flavors = needs_mod.NO_FLAVORS,
        is_undo: bool = False,
    ) -> records.Record:
        """Plan a reservation anew, as a whole or not at all.

        What has started, or starts within five minutes, keeps its hosts: its
        end may be changed, and servers may be released.

        :param changes: keys of an order, all but ``name`` and ``project``;
            ``zone`` may be None, for any
        :param reason: a sentence that is kept with the reservation
        :param is_undo: whether it is made what it was: no limit forbids that
        :raises InvalidReservation: they make no sense, or there is no reason
        :raises InvalidExtraSpec: its flavor has an extra spec that cannot be
            planned
        :raises ReservationNotFound: there is no such reservation
        :raises ReservationRefused: it does not fit; has a counter-offer
        :raises LimitExceeded: it would start later than is allowed, or last
            longer, and does not yet
        :raises QuotaExceeded: its project may not reserve so much
        :raises StateRefused: the reservation is over
        :raises RevisionMoved: others changed it again and again
        """
        order_mod.check_reason(key, reason)
        for _attempt in range(_MAX_CHANGES):
            request, answer = self._try_update(
                key, changes, reason, flavors, is_undo
            )
            if answer is not None:
                counter_offer.check_planned(request, answer)
                return self.get(key)
        raise exception.RevisionMoved(
            reason=f'other requests changed reservation {key} during each '
            'attempt to change it; try again'
        )

    def cancel(self, key: str, *, reason: str = 'cancelled') -> records.Record:
        """Release a reservation; all that is left of its time is free.

        Hosts are not needed for it.

        :param reason: a sentence that is kept with the reservation
        :raises InvalidReservation: there is no reason
        :raises ReservationNotFound: there is no such reservation
        :raises StateRefused: it is over already
        """
        order_mod.check_reason(key, reason)
        known = self.get(key)
        if known.state is not known.last.state:
            # What has ended by the clock is not cancelled.
            state.check_next(key, known.state, state.State.CANCELLED)
        self._survey.find_changing().change(
            key, state.State.CANCELLED, now=self.now(), reason=reason
        )
        return self.get(key)

    # Questions

    def get(self, key: str) -> records.Record:
        """Return a reservation.

        :raises ReservationNotFound: there is no such reservation
        """
        found = self._list(key=key)
        if not found:
            raise exception.ReservationNotFound(key=key)
        return found[0]

    def find_key(self, name: str) -> str:
        """Return the key of the reservation that a name stands for.

        A name is that of the one that is not over. With a number, as in
        ``night~2``, it is a key, and ``night~1`` is the first one.

        :returns: the name itself if there is none
        :raises InvalidReservation: there are several
        """
        if name != plan_request.find_name(name):
            return name if self._list(key=name) else name.removesuffix('~1')
        found = self._list(name=name)
        found = [one for one in found if not one.state.is_final] or found
        if len(found) < 2:
            return found[0].request.key if found else name
        several = ', '.join(
            f'{name}{one.request.key[len(name) :] or "~1"} of '
            f'{one.request.project or "no project"} ({one.state})'
            for one in found
        )
        raise exception.InvalidReservation(
            key=name, field='name', reason=f'write one of {several}'
        )

    def list_reservations(
        self,
        *,
        during: interval.Interval | None = None,
        project: str | None = None,
        wanted: Collection[state.State] = (),
        zone: str | None = None,
    ) -> list[records.Record]:
        """Return reservations by their start.

        :param during: only those with a second of it
        :param project: only those of a project
        :param wanted: only those in one of these states; all without
        :param zone: only those that asked for this zone, or have servers
            there; needs hosts
        :raises InvalidReservation: unknown zone
        """
        found = self._list(during=during, project=project, wanted=wanted)
        if zone is None:
            return found
        self._survey.check_zone(_LIST, zone)
        hosts = self._survey.find_fleet().hosts.values()
        names = {one.name for one in hosts if one.zone == zone}
        return [
            one
            for one in found
            if one.request.zone == zone or not names.isdisjoint(one.hosts)
        ]

    def list_changes(self, key: str) -> list[states.Change]:
        """Return what happened to a reservation and why, in order of time.

        :raises ReservationNotFound: there is no such reservation
        """
        return self._survey.find_changing().list_changes(key)

    def list_amounts(
        self,
        during: interval.Interval,
        *,
        zone: str | None = None,
        step: int | None = None,
    ) -> list[amounts.Amounts]:
        """Return total, used, reserved and available amounts over time.

        :param step: seconds of each part; by default a part ends where
            something changes
        :raises InvalidReservation: unknown zone, or too many parts
        """
        fleet = self._look_at(zone)
        try:
            return [*amounts.list_amounts(fleet, during, zone=zone, step=step)]
        except ValueError as err:
            raise _refuse_step(err) from err

    def list_fits(
        self,
        order: order_mod.Document,
        during: interval.Interval,
        *,
        zone: str | None = None,
        step: int | None = None,
        flavors: needs_mod.Flavors = needs_mod.NO_FLAVORS,
    ) -> list[tuple[interval.Interval, int]]:
        """Return how many servers fit throughout each part of a time.

        :param order: ``flavor``, or ``resources`` and ``extra_specs``
        :raises InvalidReservation: unknown flavor, zone, class or trait, or
            too many parts
        :raises InvalidExtraSpec: one of the flavor cannot be planned
        """
        document = {'name': _CAPACITY, **order}
        order_mod.check(document)
        demand, _flavor = self._needs.read(_CAPACITY, document, flavors)
        self._look_at(zone)
        self._survey.check_demand(_CAPACITY, demand)

        def count() -> list[tuple[interval.Interval, int]]:
            found = amounts.list_fits(
                self._survey.refresh(),
                self._tests,
                demand,
                during,
                zone=zone,
                step=step,
            )
            return [*found]

        try:
            return retry.call(count)
        except ValueError as err:
            raise _refuse_step(err) from err

    def read_figures(self) -> figures.Figures:
        """Return how much is promised, taken and lent now, in all zones.

        For those who watch the cloud all the time.
        """
        fleet = self._survey.refresh()
        self._site.check_zones()
        found = self._list()
        held = [
            (one.state, one.servers) for one in found if not one.state.is_final
        ]
        return figures.make_figures(fleet, held, self.now())

    def make_chart(
        self, during: interval.Interval, *, by_zone: bool = False
    ) -> chart.Chart:
        """Return who has what when: a row for each host, or for each zone.

        By hosts, only those with reservations, or with planned changes of
        capacity, are there, and placement is not needed.

        :param during: has an end
        """
        found = [one for one in self._list(during=during) if one.servers]
        zones: dict[str, str] = {}
        if by_zone:
            fleet = self._survey.refresh()
            self._site.check_zones()
            zones = {name: one.zone for name, one in fleet.hosts.items()}
        known = zones if by_zone else None
        bars = [bar for one in found for bar in one.list_bars(known)]
        bars += self.capacity_changes.list_bars(during, known)
        return chart.make_chart(during, bars)

    def now(self) -> int:
        """Return seconds since the epoch, as all decisions here count them."""
        return int(self._clock())

    # Life

    @property
    def has_hosts(self) -> bool:
        """Whether the hosts were read."""
        return self._survey.has_hosts

    def read_flavors(self, order: order_mod.Document) -> needs_mod.Flavors:
        """Ask Nova for what an order names; any thread may, at any time.

        :param order: or changes of one; they may make no sense
        :returns: what the changes and questions here take, so that they do
            not have to wait for Nova
        """
        return self._needs.read_flavors(order)

    def prepare(self) -> None:
        """Read the hosts and all reservations, if that was not done yet.

        Otherwise the first call that needs them takes the time for it.
        """
        self._survey.refresh()

    def close(self) -> None:
        """Close the connections to the store."""
        self._database.close()

    # What is behind

    def _list(
        self,
        *,
        key: str | None = None,
        name: str | None = None,
        during: interval.Interval | None = None,
        project: str | None = None,
        wanted: Collection[state.State] = (),
    ) -> list[records.Record]:
        with self._database.transaction() as connection:
            return records.list_records(
                connection,
                self.now(),
                key=key,
                name=name,
                during=during,
                project=project,
                wanted=wanted,
            )

    def _choose_key(self, order: order_mod.Document) -> str:
        """Return the key of what has the name of an order, or of a new one.

        Of two that choose a new one at once, one is refused.
        """
        name: str = order['name']
        if uuidutils.is_uuid_like(name):
            return name  # Others know it by this id.
        last, project = 0, order.get('project', '')
        for one in self._list(name=name):
            key = one.request.key
            if one.request.project == project and not one.state.is_final:
                return key
            last = max(last, int(key[len(name) + 1 :] or 1))
        return f'{name}~{last + 1}' if last else name

    def _try_update(
        self,
        key: str,
        changes: order_mod.Document,
        reason: str,
        flavors: needs_mod.Flavors,
        is_undo: bool,
    ) -> tuple[plan_request.Request, planner.Plan | planner.Refusal | None]:
        """Change a reservation as it is now.

        :returns: what was asked for, and the answer; None if another one has
            changed it meanwhile
        """
        has_needs = order_mod.check_changes(key, changes)
        needs = self._needs.read(key, changes, flavors) if has_needs else None
        admission = self._survey.find_admission()
        now = self.now()  # As in create, not before the hosts are read.
        known = self.get(key)
        request = order_mod.change_request(
            known.request, known.during, changes, now, needs
        )
        if needs is not None:
            self._survey.check_demand(key, request.demand)
        if changes.get('zone') is not None:
            self._survey.check_zone(key, changes['zone'])
        elif request.zone is not None:
            self._site.check_zones()
        has_started = known.during.start <= now
        if not has_started and request.during.start < now:
            raise order_mod.refuse_time(request, 'starts_at', now)
        if request.during.end <= now and not known.state.is_final:
            raise order_mod.refuse_time(request, 'ends_at', now)
        limits = self.limits.find('' if is_undo else request.project)
        limits.check(request, now, known.during, servers=known.request.most)
        try:
            answer = admission.replace(
                request,
                now=now,
                reason=reason,
                expected=(known.request, known.during),
            )
        except ValueError as err:
            raise exception.InvalidReservation(
                key=key, field='the change', reason=str(err)
            ) from err
        return request, answer and limits.trim(answer, now)

    def _look_at(self, zone: str | None) -> fleets.Fleet:
        """Return the hosts with all that is booked on them now."""
        if zone is not None:
            self._survey.check_zone(_CAPACITY, zone)
        return self._survey.refresh()

    def _check_known(self, request: plan_request.Request) -> None:
        """Check that there is such a zone, and each class and trait.

        :raises InvalidReservation: there is not
        """
        if request.zone is not None:
            self._survey.check_zone(request.key, request.zone)
        self._survey.check_demand(request.key, request.demand)


#: How often an update begins anew because another one was faster.
_MAX_CHANGES = 10

#: The names of what is only a question.
_CAPACITY = 'capacity'
_LIST = 'list'


def _refuse_step(err: ValueError) -> exception.InvalidReservation:
    return exception.InvalidReservation(
        key=_CAPACITY, field='step', reason=str(err)
    )
