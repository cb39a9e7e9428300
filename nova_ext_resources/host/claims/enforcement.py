# SPDX-License-Identifier: Apache-2.0

"""Runs the enforcers of a host in two phases, undone on failure."""

from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
import contextlib
import dataclasses

from oslo_log import log as logging

from nova_ext_resources.claims import base
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources import exception
from nova_ext_resources.host.claims import recent_consumers
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import resource
from nova_ext_resources.objects import tunable_units
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)


class Enforcement:
    """The enabled enforcers, by name and in order.

    :ivar released: consumers of the last releases: what is still applied for
        them is left over
    """

    def __init__(
        self,
        host: str,
        enforcers: Mapping[str, drivers_base.Enforcer],
        trackers: Mapping[str, base.Tracker] | None = None,
    ) -> None:
        self._trackers = trackers or {}
        self._host = host
        self._enforcers = enforcers
        self.released = recent_consumers.Recent()
        # Those that could apply nothing when they were asked last.
        self._unready: set[str] = set()

    def check_definition(self, one: resource.ResourceDefinition) -> None:
        """Make sure that a resource can be counted and applied.

        :raises InvalidConfiguration: it would be allocated without effect
        """
        tracker = self._trackers.get(one.type)
        if tracker is None:
            raise exception.InvalidConfiguration(
                option='[ext_resources] inventory_providers',
                value=one.name,
                reason='no tracker is installed for its resource type '
                f'{one.type}; installed trackers: '
                f'{", ".join(sorted(self._trackers))}',
            )
        if tracker.NEEDS_ENFORCER:
            self.check_served(one.name)

    def check_served(self, resource_class: str) -> None:
        """Make sure that an enforcer applies a resource.

        :raises InvalidConfiguration: none does; it would be allocated
            without effect
        """
        if not self._is_served(resource_class):
            raise exception.InvalidConfiguration(
                option='[ext_resources] enforcers',
                value=', '.join(self._enforcers) or '(empty)',
                reason=f'none of these enforcers applies {resource_class}; '
                'add an enforcer for this class, or noop to count only',
            )

    def check_ready(self, resource_classes: Iterable[str]) -> None:
        """Make sure that resources can be applied on this host. Does I/O.

        :raises EnforcementFailed: an enforcer of one of them could apply
            nothing
        """
        wanted = frozenset(resource_classes)
        failures = []
        for name, enforcer in self._enforcers.items():
            try:
                with self._translated(name):
                    if any(map(enforcer.serves, wanted)):
                        enforcer.check_ready()
                        self._unready.discard(name)
            except exception.ExtResourcesError as err:
                self._unready.add(name)
                failures.append(err)
        if failures:
            raise failures[0]

    def find_refused(
        self, names: Collection[str], problems: Iterable[alarm.Problem]
    ) -> dict[str, str]:
        """Return resource class -> the alarm for which nothing is applied.

        Of those whose enforcer is not ready, or cannot be asked: a new claim
        would fail in the same way. No I/O.

        :param names: of resource classes
        :param problems: that the last audit found
        """
        failing = dict.fromkeys(self._unready, alarm.DISCOVERY_FAILED) | {
            one.subject: one.alarm
            for one in problems
            if alarm.KINDS[one.alarm].subject == 'enforcer'
        }
        return {
            one: failing[name]
            for name, enforcer in self._enforcers.items()
            if name in failing
            for one in filter(enforcer.serves, names)
        }

    def check_unchanged(self, name: str) -> None:
        """Make sure of an enforcer, as far as reading the host shows.

        :raises EnforcementFailed: it could apply nothing
        """
        with self._translated(name):
            self._enforcers[name].list_applied()
            reason = self._enforcers[name].find_host_problem()
        if reason:
            raise exception.EnforcementFailed(
                host=self._host,
                enforcer=name,
                consumer_uuid='',
                reason=reason,
            )

    def chooses_units(self, entry: assignment.Entry) -> bool:
        """Return whether units of an entry are chosen when it is applied."""
        return any(
            self._enforcers[name].CHOOSES_UNITS
            for name in self._list_serving(entry)
        )

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        """Run the enforcers in order; return the assignments as they are.

        :raises EnforcementFailed, ClaimError: of a new claim nothing is
            applied, or what could not be undone is in the log; of a server
            that had it before, what has worked is
        """
        done: list[str] = []
        real = entry.assignments
        for name in self._list_serving(entry):
            try:
                current = dataclasses.replace(entry, assignments=real)
                with self._translated(name, entry.consumer_uuid):
                    real = self._enforcers[name].apply(current)
                    _check_answer(real, current)
            except exception.ExtResourcesError:
                # A server that has it already may be running on it.
                if entry.state is assignment.State.CLAIMED:
                    for err in self._release_by(done, entry):
                        LOG.error(
                            'Host %(host)s: could not undo a failed claim: '
                            '%(err)s',
                            {'host': self._host, 'err': err},
                        )
                raise
            done.append(name)
        return real

    @property
    def has_pci_functions(self) -> bool:
        """Whether any enforcer hands PCI functions to guests."""
        default = drivers_base.Enforcer.list_pci_functions
        return any(
            type(one).list_pci_functions is not default
            for one in self._enforcers.values()
        )

    def list_pci_functions(self, entry: assignment.Entry) -> tuple[str, ...]:
        """Return the PCI functions that the guest of a server must have.

        :raises EnforcementFailed: an enforcer cannot tell
        """
        return tuple(
            address
            for name in self._list_serving(entry)
            for address in self._list_functions(name, entry)
        )

    def check_pci_functions(self, entry: assignment.Entry) -> None:
        """Make sure of them, before the domain of the guest is written.

        :raises EnforcementFailed: one is not there
        """
        for name in self._list_serving(entry):
            if self._list_functions(name, entry):
                with self._translated(name, entry.consumer_uuid):
                    self._enforcers[name].apply(entry)

    def _list_functions(
        self, name: str, entry: assignment.Entry
    ) -> tuple[str, ...]:
        with self._translated(name, entry.consumer_uuid):
            return self._enforcers[name].list_pci_functions(entry)

    def is_enforced(self, entry: assignment.Entry) -> bool:
        """Return whether anything is applied for an entry."""
        return bool(self._list_serving(entry))

    def release_all(
        self, entries: Iterable[assignment.Entry]
    ) -> tuple[list[assignment.Entry], list[exception.ExtResourcesError]]:
        """Release servers; return those done, and the failures."""
        done, failures = [], []
        for entry in entries:
            try:
                self.release(entry)
            except exception.ExtResourcesError as err:
                failures.append(err)
            else:
                done.append(entry)
                self.released.add(entry.consumer_uuid)
        return done, failures

    def release(self, entry: assignment.Entry) -> None:
        """Run the enforcers in the opposite order; all are tried."""
        self._check_releasable(entry)
        failures = self._release_by(self._list_serving(entry), entry)
        if failures:
            raise failures[0]

    def _release_by(
        self, names: Sequence[str], entry: assignment.Entry
    ) -> list[exception.ExtResourcesError]:
        failures = []
        for name in reversed(names):
            try:
                with self._translated(name, entry.consumer_uuid):
                    self._enforcers[name].release(entry)
            except exception.ExtResourcesError as err:
                failures.append(err)
        return failures

    def _check_releasable(self, entry: assignment.Entry) -> None:
        """Keep what no enforcer here can release.

        Units such as a mask of ways were applied by an enforcer. Without it
        they would stay applied, and no longer be counted.
        """
        # The plugin that tells the tracker of a class may be disabled by now.
        recorded = frozenset[str]().union(
            *(
                one.UNITS
                for one in self._trackers.values()
                if not one.NEEDS_ENFORCER
            )
        )
        for one in entry.assignments:
            if one.units.keys() - recorded and not self._is_served(
                one.resource_class
            ):
                raise exception.EnforcementFailed(
                    host=self._host,
                    enforcer='(none enabled)',
                    consumer_uuid=entry.consumer_uuid,
                    reason=f'the server holds {one.resource_class} '
                    f'{dict(one.units)}, which no enabled enforcer can '
                    'release; keep the enforcer that applied these units in '
                    '[ext_resources] enforcers until no server of this host '
                    'holds resources',
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._enforcers)

    def release_orphan(self, consumer_uuid: str, names: Iterable[str]) -> None:
        """Release what is applied and not in the ledger.

        :param names: the enforcers to ask
        :raises EnforcementFailed: it may still be applied
        """
        entry = assignment.Entry(
            consumer_uuid=consumer_uuid,
            state=assignment.State.RELEASING,
            assignments=(),
        )
        for name in names:
            LOG.warning(
                'Host %(host)s: releasing the settings of enforcer %(name)s '
                'for server %(uuid)s, which has no claim',
                {'host': self._host, 'name': name, 'uuid': consumer_uuid},
            )
            with self._translated(name, consumer_uuid):
                self._enforcers[name].release(entry)

    @property
    def has_tunables(self) -> bool:
        """Whether any enforcer can change what a running server has."""
        return any(
            type(one).list_tunables is not drivers_base.Enforcer.list_tunables
            for one in self._enforcers.values()
        )

    def list_tunables(self) -> tuple[tunable_units.Tunable, ...]:
        """Return what may be moved between servers while they run.

        :raises EnforcementFailed: an enforcer cannot tell
        """
        return tuple(
            one for name in self._enforcers for one in self._list_own(name)
        )

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        """Have each enforcer change those that are its own.

        :param tunables: all of one class of one provider
        :raises EnforcementFailed: an enforcer has not done it
        """
        for name, enforcer in self._enforcers.items():
            known = {_identify(one) for one in self._list_own(name)}
            own = [one for one in tunables if _identify(one) in known]
            if own:
                with self._translated(name):
                    enforcer.set_tunables(own)

    def _list_own(self, name: str) -> tuple[tunable_units.Tunable, ...]:
        with self._translated(name):
            return self._enforcers[name].list_tunables()

    def list_applied(
        self,
    ) -> tuple[dict[str, frozenset[str]], list[alarm.Problem]]:
        """Ask each enforcer what is applied.

        :return: enforcer -> consumer uuids, without enforcers that cannot
            tell; and why they cannot
        """
        applied, problems = {}, []
        for name, enforcer in self._enforcers.items():
            try:
                with self._translated(name):
                    uuids = enforcer.list_applied()
                    if uuids is not None:
                        applied[name] = frozenset(uuids)
            except exception.ExtResourcesError as err:
                problems.append(alarm.from_error(err, subject=name))
        return applied, problems

    def list_problems(self) -> list[alarm.Problem]:
        """Ask each enforcer what is wrong with its backend."""
        problems: list[alarm.Problem] = []
        for name, enforcer in self._enforcers.items():
            try:
                with self._translated(name):
                    problems += enforcer.list_problems()
            except exception.ExtResourcesError as err:
                problems.append(alarm.from_error(err, subject=name))
        return problems

    def list_in_guests(
        self, wanted: Mapping[str, Collection[str]]
    ) -> frozenset[str]:
        """Return the servers whose guests have what enforcers hand to guests.

        :param wanted: server -> the resource classes that it requests
        :raises EnforcementFailed: that is unknown now
        """
        found = set[str]()
        for name, enforcer in self._enforcers.items():
            served = {
                uuid
                for uuid, classes in wanted.items()
                if any(map(enforcer.serves, classes))
            }
            if served:
                with self._translated(name):
                    found |= served & enforcer.list_in_guests()
        return frozenset(found)

    def recover_units(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...] | None:
        """Return the assignments with the units that are applied.

        :param entry: of a server that is applied, without its units
        :return: None when an enforcer cannot tell them for certain
        :raises EnforcementFailed: one of them failed
        """
        held = entry.assignments
        for name in self._list_serving(entry):
            current = dataclasses.replace(entry, assignments=held)
            with self._translated(name, entry.consumer_uuid):
                found = self._enforcers[name].recover_units(current)
                if found is None:
                    return None
                _check_answer(found, current)
            held = found
        return held

    def list_lost(
        self,
        entries: Iterable[assignment.Entry],
        applied: Mapping[str, frozenset[str]],
    ) -> frozenset[str]:
        """Return consumers of which an enforcer has not all that it should.

        Claims and releases under way are not looked at.

        :param applied: as :meth:`list_applied` has returned it
        """
        return frozenset(
            entry.consumer_uuid
            for entry in entries
            if entry.state is assignment.State.APPLIED
            and any(
                entry.consumer_uuid not in applied[name]
                or not self._is_applied(name, entry)
                for name in self._list_serving(entry)
                if name in applied
            )
        )

    def _is_applied(self, name: str, entry: assignment.Entry) -> bool:
        """Let an enforcer compare; what it cannot see is applied again.

        Then the reason is reported among the problems.
        """
        try:
            with self._translated(name, entry.consumer_uuid):
                return self._enforcers[name].is_applied(entry)
        except exception.ExtResourcesError as err:
            LOG.warning('%(err)s', {'err': err})
            return False

    def check_applied(self, entry: assignment.Entry) -> None:
        """Make sure that a server has all that was allocated to it.

        :raises EnforcementFailed: an enforcer reports what is missing
        """
        for name in self._list_serving(entry):
            with self._translated(name, entry.consumer_uuid):
                reason = self._enforcers[name].find_entry_problem(entry)
            if reason:
                raise exception.EnforcementFailed(
                    host=self._host,
                    enforcer=name,
                    consumer_uuid=entry.consumer_uuid,
                    reason=reason,
                )

    def _is_served(self, resource_class: str) -> bool:
        return any(
            one.serves(resource_class) for one in self._enforcers.values()
        )

    def _list_serving(self, entry: assignment.Entry) -> list[str]:
        return [
            name
            for name, enforcer in self._enforcers.items()
            if any(
                enforcer.serves(a.resource_class) for a in entry.assignments
            )
        ]

    @contextlib.contextmanager
    def _translated(
        self, name: str, consumer_uuid: str = ''
    ) -> Iterator[None]:
        """Raise whatever an enforcer raises as an error of ours.

        A third party's plugin may raise anything. It must not keep repair
        from the other servers, nor hide its reason.
        """
        try:
            yield
        except exception.ExtResourcesError:
            raise
        except Exception as err:
            LOG.debug('Enforcer %(name)s', {'name': name}, exc_info=True)
            raise exception.EnforcementFailed(
                host=self._host,
                enforcer=name,
                consumer_uuid=consumer_uuid,
                reason=plugins.describe(err),
            ) from err


def _identify(one: tunable_units.Tunable) -> tuple[str, str, str]:
    return one.consumer_uuid, one.rp_key, one.resource_class


def _check_answer(
    real: Sequence[assignment.Assignment], entry: assignment.Entry
) -> None:
    """Make sure that an enforcer returned assignments of the same resources.

    :raises (AttributeError, TypeError): it returned something else
    :raises ValueError: it returned more or fewer than it got, or of others
    """
    given = [(one.rp_uuid, one.resource_class) for one in real]
    held = [(one.rp_uuid, one.resource_class) for one in entry.assignments]
    if given != held:
        raise ValueError(
            f'the enforcer has applied {given} instead of the claimed {held}'
        )
