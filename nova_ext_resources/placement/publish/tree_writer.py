# SPDX-License-Identifier: Apache-2.0

"""One compute node's provider tree: read what changed, write what differs."""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
import dataclasses
import itertools

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import bulk_inventories
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.publish import desired
from nova_ext_resources.placement.publish import diff
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.placement.publish import provider_writer
from nova_ext_resources.placement.publish import root_inventory

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """The result of one publication.

    :ivar written: providers that were written, or deleted
    :ivar held: what could not be deleted, see
        :class:`.diff.UndeletedProvider`
    :ivar errors: one for each provider that could not be written; the
        others were
    :ivar problems: of shared pools and of bare-metal nodes
    :ivar left: aggregates of providers that were deleted
    """

    written: int = 0
    undeleted: tuple[diff.UndeletedProvider, ...] = ()
    errors: tuple[exception.PlacementError, ...] = ()
    problems: tuple[alarm.Problem, ...] = ()
    left: frozenset[str] = frozenset()

    def add(self, other: 'PublishResult') -> 'PublishResult':
        """Return the result of both."""
        return PublishResult(
            written=self.written + other.written,
            undeleted=self.undeleted + other.undeleted,
            errors=self.errors + other.errors,
            problems=self.problems + other.problems,
            left=self.left | other.left,
        )


@dataclasses.dataclass(slots=True)
class _Done:
    """What becomes of the steps of one publication.

    :ivar written: uuids, as is ``failed``
    :ivar left: aggregates of providers that were deleted
    """

    written: set[str] = dataclasses.field(default_factory=set)
    failed: set[str] = dataclasses.field(default_factory=set)
    errors: list[exception.PlacementError] = dataclasses.field(
        default_factory=list
    )
    left: set[str] = dataclasses.field(default_factory=set)

    def note(
        self, step: diff.ProviderSteps, result: host_provider.Provider | None
    ) -> None:
        self.written.add(step.rp_uuid)
        if result is None and step.seen is not None:
            self.left |= step.seen.aggregates

    def note_failure(
        self, step: diff.ProviderSteps, error: exception.PlacementError
    ) -> None:
        self.written.discard(step.rp_uuid)
        self.failed.add(step.rp_uuid)
        self.errors.append(error)


#: Begin and end the life of a provider. One that is created again could come
#: to the generation that is remembered of its former life. All other changes
#: lead to a generation that it never had.
_LIVES = diff.CreateProvider | diff.DeleteProvider


class TreeWriter:
    """Publishes; used by one thread at a time.

    A publication without changes is one request, because what placement has
    is remembered with its generations. Nothing is written that is based on
    what was remembered over a restart alone. If that is wrong, placement stays
    wrong until all of it has been read: that takes a publication for every
    four providers, see :attr:`believed`.

    :param memory: remembers over restarts; None reads all at each start
    :param closes_doubles: whether what the compute node itself offers is
        closed below it
    :ivar doubled: the resource classes that are closed for this reason; None
        before the compute node was read
    :param clock: sleeps between attempts; may be cut short
    :param on_deleted: called after a publication, also after one that broke
        off, that has deleted a provider, or perhaps has
    """

    def __init__(
        self,
        client: placement_client.Client,
        *,
        memory: provider_tree_cache.Memory | None = None,
        closes_doubles: bool = False,
        clock: clocks.Clock = clocks.MACHINE,
        on_deleted: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._on_deleted = on_deleted
        self._may_have_deleted = False
        self._fields = provider_writer.FieldWriter(client)
        self._bulk = bulk_inventories.BulkWriter(client)
        self._call = retry.make_strategy(clock)
        self._tree = provider_tree_cache.ProviderTreeReader(
            client, self._call, memory
        )
        self._root = (
            root_inventory.RootClasses(client, self._call)
            if closes_doubles
            else None
        )
        self.doubled: frozenset[str] | None = None

    def publish(
        self,
        node: host_provider.Node,
        wanted: Iterable[host_provider.Provider],
        *,
        may_delete: bool = True,
        owned: Collection[str] | None = None,
        named: frozenset[str] = frozenset(),
    ) -> PublishResult:
        """Make the tree of ``node`` the wanted one, as far as it is ours.

        :param may_delete: see :func:`.diff.plan`
        :param owned: likewise
        :param named: classes that the compute node itself will have
        :raises NotFound: Nova has not yet created the node's own provider
        :raises PlacementError: nothing could be read, or placement went
            away in between
        """
        plan = self.plan(
            node, wanted, may_delete=may_delete, owned=owned, named=named
        )
        try:
            published = self._apply(plan)
            self._tree.remember(node)
            return published
        finally:
            if self._may_have_deleted:
                self._may_have_deleted = False
                self._on_deleted()

    # Reading

    @property
    def believed(self) -> int:
        """How many providers have not been read since the start."""
        return self._tree.believed

    def plan(
        self,
        node: host_provider.Node,
        wanted: Iterable[host_provider.Provider],
        *,
        may_delete: bool = True,
        owned: Collection[str] | None = None,
        named: frozenset[str] = frozenset(),
    ) -> diff.PublishPlan:
        """Return what :meth:`publish` would write; writes nothing.

        :raises NotFound: see :meth:`publish`
        :raises PlacementError: placement could not be read
        """
        wanted = tuple(wanted)
        listed = self._tree.read(node, {p.rp_uuid for p in wanted})
        wanted = self._close_doubles(node, listed, wanted, named)
        is_checked = False
        while not is_checked:
            seen = self._tree.fill(listed)
            shrinking = diff.find_shrinking(wanted, seen) if may_delete else ()
            holders = provider_tree_cache.run_each(
                self._list_holders, shrinking
            )
            plan = diff.plan(
                wanted,
                seen,
                holders=dict(zip(shrinking, holders, strict=True)),
                may_delete=may_delete,
                owned=owned,
                former=self._tree.former,
            )
            is_checked = not self._tree.check(listed, plan.rp_uuids)
        return plan

    def _close_doubles(
        self,
        node: host_provider.Node,
        listed: Sequence[host_provider.Provider],
        wanted: Sequence[host_provider.Provider],
        named: frozenset[str],
    ) -> tuple[host_provider.Provider, ...]:
        """Close what the compute node itself offers, or will offer.

        :raises PlacementError: placement could not be read
        """
        if self._root is None:
            return (*wanted,)
        classes = {name for one in wanted for name in one.inventories}
        seen = self._root.read(node, listed, classes)
        self.doubled = doubled = seen | (named & classes)
        return tuple(desired.close(one, doubled) for one in wanted)

    def _list_holders(self, rp_uuid: str) -> Mapping[str, Mapping[str, int]]:
        try:
            return self._call(self._client.list_holders, rp_uuid)
        except exception.NotFound:
            return {}

    # Writing

    def _apply(self, plan: diff.PublishPlan) -> PublishResult:
        done = _Done()
        later = bulk_inventories.choose(plan)
        if plan.waves:
            self._create_names(plan)
        if any(isinstance(one, _LIVES) for one in plan.changes):
            self._tree.forget()
        self._settle_waves(plan.waves, later, done)
        self._settle_later(plan, later - done.failed, done)
        return PublishResult(
            written=len(done.written),
            undeleted=plan.undeleted,
            errors=tuple(done.errors),
            left=frozenset(done.left),
        )

    def _create_names(self, plan: diff.PublishPlan) -> None:
        """Create the traits and classes of a plan, one after the other.

        One that placement refuses fails the steps that have it, later.

        :raises PlacementUnavailable: placement went away
        """
        for field, name in self._fields.list_unknown(plan.changes):
            try:
                self._call(self._fields.create_name, field, name)
            except exception.PlacementRefused as err:
                LOG.debug('Placement: %s', err)

    def _settle_later(
        self, plan: diff.PublishPlan, left: frozenset[str], done: '_Done'
    ) -> None:
        """Write the inventories that were left, together where possible.

        What cannot be written together is written one by one: one provider
        may be the reason, and shall not stop the others.

        :raises PlacementUnavailable: placement went away
        """
        waves = [
            [
                dataclasses.replace(
                    step, seen=self._tree.providers[step.rp_uuid]
                )
                for step in wave
                if step.rp_uuid in left
            ]
            for wave in plan.waves
        ]
        for steps in bulk_inventories.split([*itertools.chain(*waves)]):
            if self._write_together(steps):
                left -= {step.rp_uuid for step in steps}
        self._settle_waves(
            (
                [step for step in wave if step.rp_uuid in left]
                for wave in waves
            ),
            frozenset(),
            done,
        )

    def _settle_waves(
        self,
        waves: Iterable[Iterable[diff.ProviderSteps]],
        later: frozenset[str],
        done: '_Done',
    ) -> None:
        """Take steps in their order.

        :param later: uuids of those whose inventories are written later
        :raises PlacementUnavailable: placement went away
        """
        for wave in waves:
            # Steps that depend on a failed one would fail too.
            steps = [step for step in wave if not step.after & done.failed]
            done.failed |= {step.rp_uuid for step in wave if step not in steps}
            self._settle_all(steps, later, done)

    def _settle_all(
        self,
        steps: Sequence[diff.ProviderSteps],
        later: frozenset[str],
        done: '_Done',
    ) -> None:
        results = provider_tree_cache.run_each(
            lambda step: self._settle_safely(step, later), steps
        )
        for step, result in zip(steps, results, strict=True):
            if isinstance(result, exception.PlacementError):
                # What is remembered of it may be wrong.
                self._tree.note(step.rp_uuid, None)
                done.note_failure(step, result)
                self._fields.forget_names()
            else:
                self._tree.note(step.rp_uuid, result)
                self._tree.keep(step.rp_uuid, None if result else step.seen)
                done.note(step, result)
        for error in done.errors:
            if isinstance(error, exception.PlacementUnavailable):
                raise error

    def _write_together(self, steps: Sequence[diff.ProviderSteps]) -> bool:
        """Write inventories by one request; return whether that was taken."""
        try:
            written = self._bulk.write(steps)
        except exception.PlacementError as err:
            LOG.debug('Placement: inventories are set one by one: %s', err)
            return False
        for step in steps:
            # What is not known is read next time.
            self._tree.note(step.rp_uuid, written.get(step.rp_uuid))
        return True

    def _settle_safely(
        self, step: diff.ProviderSteps, later: frozenset[str]
    ) -> host_provider.Provider | exception.PlacementError | None:
        try:
            return self._settle(step, is_later=step.rp_uuid in later)
        except exception.PlacementError as err:
            return err

    def _settle(
        self, step: diff.ProviderSteps, *, is_later: bool
    ) -> host_provider.Provider | None:
        """Bring one provider to its target.

        If other software writes to it meanwhile, only this provider is read
        again, and its target and the remaining changes are computed again.
        Where a class has come to the compute node meanwhile, or left it, as by
        a reshape, nothing more is written: the goal itself is no longer right.

        :param is_later: whether its inventories are written later
        """
        is_first = True

        def attempt() -> host_provider.Provider | None:
            nonlocal step, is_first
            if not is_first:
                found = self._find(step.rp_uuid)
                step = dataclasses.replace(step, seen=found)
                if self._root is not None and step.goal is not None:
                    self._root.check(step.goal.wanted)
            is_first = False
            target, seen = step.target, step.seen
            while pending := diff.diff(target, seen):
                if (
                    is_later
                    and len(pending) == 1
                    and bulk_inventories.is_last(pending)
                ):
                    break
                seen = self._write(pending[0], seen)
            return seen

        return self._call(attempt)

    def _find(self, rp_uuid: str) -> host_provider.Provider | None:
        try:
            return self._client.get_provider(rp_uuid)
        except exception.NotFound:
            return None

    def _write(
        self, change: diff.ProviderChange, seen: host_provider.Provider | None
    ) -> host_provider.Provider | None:
        """Write one change; return the provider as it is then.

        :raises ConcurrentUpdate: other software was faster
        """
        LOG.debug('Placement: %(change)s', {'change': change})
        if isinstance(change, diff.CreateProvider):
            # Also where it was deleted since the plan was made.
            self._tree.forget()
            return self._client.ensure_provider(
                change.rp_uuid, change.name, change.parent_uuid
            )
        if isinstance(change, diff.DeleteProvider):
            # The answer may be lost.
            self._may_have_deleted = True
            self._client.delete_provider(change.rp_uuid)
            return None
        assert seen is not None
        if isinstance(change, diff.Replace):
            return self._fields.write(change, seen)
        assert isinstance(change, diff.UpdateProvider)
        with provider_writer.as_conflict(seen.name):
            self._client.update_provider(
                seen.rp_uuid, change.name, change.parent_uuid
            )
        return dataclasses.replace(
            seen, name=change.name, parent_uuid=change.parent_uuid
        )
