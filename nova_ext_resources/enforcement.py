# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Runs the enforcers of a host in two phases, undone on failure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import alarms
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import resource
from nova_ext_resources.objects import share
from nova_ext_resources.plugins import base
from nova_ext_resources.plugins import loader
from nova_ext_resources import serving

LOG = logging.getLogger(__name__)


#: How many of the last released servers are remembered. Far more than can be
#: released in the time that a host may be late.
_MAX_REMEMBERED = 1024


class Enforcement:
    """The enabled enforcers, by name and in order."""

    def __init__(
        self,
        host: str,
        enforcers: Mapping[str, base.Enforcer],
        trackers: Mapping[str, base.Tracker] | None = None,
    ) -> None:
        self._trackers = trackers or {}
        self._host = host
        self._enforcers = enforcers
        # A dict for its order: the oldest is forgotten first.
        self._released: dict[str, None] = {}

    def check_definition(self, one: resource.ResourceDefinition) -> None:
        """Make sure that a resource can be counted and put into force.

        :raises InvalidConfiguration: it would be sold and mean nothing
        """
        tracker = self._trackers.get(one.type)
        if tracker is None:
            raise exception.InvalidConfiguration(
                option='[ext_resources] inventory_providers',
                value=one.name,
                reason=f'it has type {one.type}, for which no tracker is '
                f'installed; there are {", ".join(sorted(self._trackers))}',
            )
        if tracker.NEEDS_ENFORCER:
            self.check_served(one.name)

    def check_served(self, resource_class: str) -> None:
        """Make sure that something puts a resource into force.

        :raises InvalidConfiguration: nothing does; it would be sold and
            mean nothing
        """
        if not any(
            serving.serves(one, resource_class)
            for one in self._enforcers.values()
        ):
            raise exception.InvalidConfiguration(
                option='[ext_resources] enforcers',
                value=', '.join(self._enforcers) or '(empty)',
                reason=f'none of them puts {resource_class} into force; '
                'add one that does, or noop to count it only',
            )

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        """Run the enforcers in order; give the assignments as they are.

        :raises EnforcementFailed, ClaimError: of a new claim nothing is in
            force, or what could not be undone is in the log; of a server
            that had it before, what has worked is
        """
        done: list[str] = []
        real = entry.assignments
        for name in self._list_serving(entry):
            try:
                current = dataclasses.replace(entry, assignments=real)
                with self._translated(name, entry.consumer_uuid):
                    real = self._enforcers[name].apply(current)
                    serving.check_answer(real, current)
            except exception.ExtResourcesError:
                # A server that has it already may be running on it.
                if entry.state is assignment.State.CLAIMED:
                    self._undo(done, entry)
                raise
            done.append(name)
        return real

    def release_all(
        self, entries: Iterable[assignment.Entry]
    ) -> tuple[list[assignment.Entry], list[exception.ExtResourcesError]]:
        """Take servers out of force; give those done, and the failures."""
        done, failures = [], []
        for entry in entries:
            try:
                self._release(entry)
            except exception.ExtResourcesError as err:
                failures.append(err)
            else:
                done.append(entry)
                self._remember(entry.consumer_uuid)
        return done, failures

    def _remember(self, consumer_uuid: str) -> None:
        self._released.pop(consumer_uuid, None)
        self._released[consumer_uuid] = None
        # Others may be at it: nobody minds when one is gone already.
        for oldest in list(self._released)[:-_MAX_REMEMBERED]:
            self._released.pop(oldest, None)

    def list_leftovers(
        self,
        applied: Mapping[str, frozenset[str]],
        known: Collection[str],
        live: Collection[str] | None,
    ) -> list[str]:
        """Give strangers that can only be left from servers of this host.

        They were released by this process, and the host has carried out
        something late; or they are in force at the start, and no such
        server runs here.

        :param live: uuids of the servers that Nova has on this host; None
            when that is not known
        """
        return sorted(
            uuid
            for uuid in frozenset[str]().union(*applied.values())
            if uuid not in known
            and (
                uuid in self._released
                or (live is not None and uuid not in live)
            )
        )

    def _release(self, entry: assignment.Entry) -> None:
        """Run the enforcers in the opposite order; all are tried."""
        self._check_releasable(entry)
        failures = []
        for name in reversed(self._list_serving(entry)):
            try:
                with self._translated(name, entry.consumer_uuid):
                    self._enforcers[name].release(entry)
            except exception.ExtResourcesError as err:
                failures.append(err)
        if failures:
            raise failures[0]

    def _check_releasable(self, entry: assignment.Entry) -> None:
        """Keep what nobody here can take out of force.

        Named units, such as a mask of ways, were put into force by an
        enforcer. Without it they would stay so, unknown to all.
        """
        for one in entry.assignments:
            if one.units and not any(
                serving.serves(enforcer, one.resource_class)
                for enforcer in self._enforcers.values()
            ):
                raise exception.EnforcementFailed(
                    host=self._host,
                    enforcer='(none enabled)',
                    consumer_uuid=entry.consumer_uuid,
                    reason=f'it holds {one.resource_class} {dict(one.units)}, '
                    'which no enabled enforcer can give back; keep the one '
                    'that put it into force in [ext_resources] enforcers '
                    'until no server of this host holds anything',
                )

    def release_leftover(
        self, consumer_uuid: str, applied: Mapping[str, frozenset[str]]
    ) -> None:
        """Take out of force what the ledger does not know.

        :raises EnforcementFailed: it may still be in force
        """
        entry = assignment.Entry(
            consumer_uuid=consumer_uuid,
            state=assignment.State.RELEASING,
            assignments=(),
        )
        for name, uuids in applied.items():
            if consumer_uuid in uuids:
                LOG.warning(
                    'Host %(host)s: enforcer %(name)s has server %(uuid)s in '
                    'force, which is gone; releasing it',
                    {
                        'host': self._host,
                        'name': name,
                        'uuid': consumer_uuid,
                    },
                )
                with self._translated(name, consumer_uuid):
                    self._enforcers[name].release(entry)

    @property
    def has_shares(self) -> bool:
        """Whether any enforcer can change what a running server has."""
        return any(
            type(one).list_shares is not base.Enforcer.list_shares
            for one in self._enforcers.values()
        )

    def list_shares(self) -> tuple[share.Share, ...]:
        """Give what may be moved between servers while they run.

        :raises EnforcementFailed: an enforcer cannot tell
        """
        return tuple(
            one for name in self._enforcers for one in self._list_own(name)
        )

    def set_shares(self, shares: Sequence[share.Share]) -> None:
        """Have each enforcer change those that are its own.

        :param shares: all of one class of one provider
        :raises EnforcementFailed: an enforcer has not done it
        """
        for name, enforcer in self._enforcers.items():
            known = {_identify(one) for one in self._list_own(name)}
            own = [one for one in shares if _identify(one) in known]
            if own:
                with self._translated(name):
                    enforcer.set_shares(own)

    def _list_own(self, name: str) -> tuple[share.Share, ...]:
        with self._translated(name):
            return self._enforcers[name].list_shares()

    def list_applied(
        self,
    ) -> tuple[dict[str, frozenset[str]], list[alarms.Problem]]:
        """Ask each enforcer what is in force.

        :return: enforcer -> consumer uuids, without those that cannot
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
                problems.append(
                    alarms.from_error(
                        err, default=alarms.ENFORCER_FAILED, subject=name
                    )
                )
        return applied, problems

    def plan_healing(
        self,
        entries: Mapping[str, assignment.Entry],
        applied: Mapping[str, frozenset[str]],
        *,
        is_start: bool,
    ) -> list[str]:
        """Give the servers for which something must be done, in order.

        Releases come first. The rest follows in the order of its units, the
        highest first, as RMD gives them out: a host that has lost all gives
        everybody the same ones again.
        """
        release, restore = [], []
        for uuid, entry in entries.items():
            if entry.state is assignment.State.RELEASING:
                release.append(uuid)
            elif entry.state is assignment.State.CLAIMED:
                restore += [uuid] if is_start else []
            elif self._is_lost(entry, applied):
                restore.append(uuid)
        restore.sort(
            key=lambda uuid: serving.order(entries[uuid]), reverse=True
        )
        return sorted(release) + restore

    def _is_lost(
        self, entry: assignment.Entry, applied: Mapping[str, frozenset[str]]
    ) -> bool:
        return any(
            entry.consumer_uuid not in applied[name]
            or not self._is_in_force(name, entry)
            for name in self._list_serving(entry)
            if name in applied
        )

    def _is_in_force(self, name: str, entry: assignment.Entry) -> bool:
        """Let an enforcer look closer; what it cannot see is applied again.

        Then its trouble shows where problems are reported.
        """
        try:
            with self._translated(name, entry.consumer_uuid):
                return self._enforcers[name].is_in_force(entry)
        except exception.ExtResourcesError as err:
            LOG.warning('%(err)s', {'err': err})
            return False

    def check_in_force(self, entry: assignment.Entry) -> None:
        """Make sure that what was put into force is all that was sold.

        :raises EnforcementFailed: an enforcer says what is missing
        """
        for name in self._list_serving(entry):
            with self._translated(name, entry.consumer_uuid):
                reason = self._enforcers[name].find_fault(entry)
            if reason:
                raise exception.EnforcementFailed(
                    host=self._host,
                    enforcer=name,
                    consumer_uuid=entry.consumer_uuid,
                    reason=reason,
                )

    def _list_serving(self, entry: assignment.Entry) -> list[str]:
        return [
            name
            for name, one in self._enforcers.items()
            if serving.serves_any(one, entry)
        ]

    @contextlib.contextmanager
    def _translated(
        self, name: str, consumer_uuid: str = ''
    ) -> Iterator[None]:
        """Give whatever an enforcer raises as an error of ours.

        A third party's plugin may raise anything. It must not keep healing
        from the other servers, nor what it raises from being reported.
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
                reason=loader.describe(err),
            ) from err

    def _undo(self, done: list[str], entry: assignment.Entry) -> None:
        for name in reversed(done):
            try:
                with self._translated(name, entry.consumer_uuid):
                    self._enforcers[name].release(entry)
            except exception.ExtResourcesError as err:
                LOG.error(
                    'Host %(host)s: could not undo: %(err)s',
                    {'host': self._host, 'err': err},
                )


def _identify(one: share.Share) -> tuple[str, str, str]:
    return one.consumer_uuid, one.rp_key, one.resource_class
