# SPDX-License-Identifier: Apache-2.0

"""One compute node's provider tree: read what changed, write what differs."""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from concurrent import futures
import dataclasses
import time
from typing import TypeVar

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import changes
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import fields
from nova_ext_resources.placement import retry
from nova_ext_resources.placement import sync

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')
_R = TypeVar('_R')

#: Requests at the same time; below the ten connections that a session of
#: requests keeps alive.
WORKERS = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result of one publication.

    :ivar written: providers that were written, or deleted
    :ivar held: what could not be deleted, see :class:`changes.Held`
    :ivar errors: one for each provider that could not be written; the
        others were
    :ivar problems: of shared pools and of bare-metal nodes
    :ivar left: aggregates of providers that were deleted
    """

    written: int = 0
    held: tuple[changes.Held, ...] = ()
    errors: tuple[exception.PlacementError, ...] = ()
    problems: tuple[alarm.Problem, ...] = ()
    left: frozenset[str] = frozenset()

    def add(self, other: 'Published') -> 'Published':
        """Return the result of both."""
        return Published(
            written=self.written + other.written,
            held=self.held + other.held,
            errors=self.errors + other.errors,
            problems=self.problems + other.problems,
            left=self.left | other.left,
        )


class TreeWriter:
    """Publishes; used by one thread at a time.

    It remembers our providers as it last saw them. The same generation means
    that nothing has changed, so that a publication without changes is one
    request. Another generation may mean nothing, because every allocation
    changes it: then that provider is read again.

    :param sleep: waits between attempts; may be cut short
    :param on_deleted: called after a publication, also after one that broke
        off, that has deleted a provider, or perhaps has
    """

    def __init__(
        self,
        client: placement_client.Client,
        *,
        sleep: Callable[[float], None] = time.sleep,
        on_deleted: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._on_deleted = on_deleted
        self._may_have_deleted = False
        self._fields = fields.FieldWriter(client)
        self._call = retry.make_strategy(sleep)
        self._seen: dict[str, provider_obj.Provider] = {}
        self._foreign: set[str] = set()

    def publish(
        self,
        node: provider_obj.Node,
        wanted: Iterable[provider_obj.Provider],
        *,
        may_delete: bool = True,
        owned: Collection[str] | None = None,
    ) -> Published:
        """Make the tree of ``node`` the wanted one, as far as it is ours.

        :param may_delete: see :func:`.sync.plan`
        :param owned: likewise
        :raises NotFound: Nova has not yet created the node's own provider
        :raises PlacementError: nothing could be read, or placement went
            away in between
        """
        plan = self.plan(node, wanted, may_delete=may_delete, owned=owned)
        try:
            return self._apply(plan)
        finally:
            if self._may_have_deleted:
                self._may_have_deleted = False
                self._on_deleted()

    # Reading

    def plan(
        self,
        node: provider_obj.Node,
        wanted: Iterable[provider_obj.Provider],
        *,
        may_delete: bool = True,
        owned: Collection[str] | None = None,
    ) -> sync.Plan:
        """Return what :meth:`publish` would write; writes nothing.

        :raises NotFound: see :meth:`publish`
        :raises PlacementError: placement could not be read
        """
        wanted = tuple(wanted)
        seen = self._read(node, {p.rp_uuid for p in wanted})
        shrinking = sync.find_shrinking(wanted, seen) if may_delete else ()
        holders = self._map(self._list_holders, shrinking)
        return sync.plan(
            wanted,
            seen,
            holders=dict(zip(shrinking, holders, strict=True)),
            may_delete=may_delete,
            owned=owned,
        )

    def _read(
        self, node: provider_obj.Node, wanted_uuids: set[str]
    ) -> list[provider_obj.Provider]:
        listed = self._call(self._client.list_providers, in_tree=node.uuid)
        uuids = {p.rp_uuid for p in listed}
        if node.uuid not in uuids:
            raise exception.NotFound(
                action=f'show the provider of compute node '
                f'{node.hypervisor_hostname} ({node.uuid})',
                detail='it does not exist yet. nova-compute creates it '
                'shortly after its first start; extended resources are '
                'published as soon as it exists. If it is missing for more '
                'than a few minutes, look for ResourceProviderCreationFailed '
                'in the log of nova-compute, and for a resource provider of '
                'the same name and another uuid: openstack resource provider '
                f'list --name {node.hypervisor_hostname}',
            )
        self._foreign &= uuids
        self._seen = {k: v for k, v in self._seen.items() if k in uuids}
        self._learn_owners(node, listed, wanted_uuids)
        moved = [p for p in listed if self._has_moved(p)]
        for provider in self._map(self._read_provider, moved):
            if provider is not None:
                self._seen[provider.rp_uuid] = provider
        for provider in listed:
            if provider.rp_uuid in self._seen:
                # Name and parent change without a new generation.
                self._seen[provider.rp_uuid] = dataclasses.replace(
                    self._seen[provider.rp_uuid],
                    name=provider.name,
                    parent_uuid=provider.parent_uuid,
                )
        return [self._seen.get(p.rp_uuid, p) for p in listed]

    def _learn_owners(
        self,
        node: provider_obj.Node,
        listed: Sequence[provider_obj.Provider],
        wanted_uuids: set[str],
    ) -> None:
        """Find out which unknown providers belong to other software."""
        known = self._foreign | self._seen.keys() | wanted_uuids
        unknown = {p.rp_uuid for p in listed} - known
        if unknown - {node.uuid}:
            unknown -= self._call(self._list_owned, node)
        self._foreign |= unknown
        self._foreign -= wanted_uuids

    def _list_owned(self, node: provider_obj.Node) -> set[str]:
        # Placement refuses to search for a trait that it does not know.
        if not self._client.has_trait(provider_obj.OWNER_TRAIT):
            return set()
        owned = self._client.list_providers(
            in_tree=node.uuid, required=provider_obj.OWNER_TRAIT
        )
        return {p.rp_uuid for p in owned}

    def _has_moved(self, listed: provider_obj.Provider) -> bool:
        if listed.rp_uuid in self._foreign:
            return False
        seen = self._seen.get(listed.rp_uuid)
        return seen is None or seen.generation != listed.generation

    def _read_provider(
        self, listed: provider_obj.Provider
    ) -> provider_obj.Provider | None:
        try:
            return self._call(self._client.read_provider, listed)
        except exception.NotFound:
            return None

    def _list_holders(self, rp_uuid: str) -> Mapping[str, Mapping[str, int]]:
        try:
            return self._call(self._client.list_holders, rp_uuid)
        except exception.NotFound:
            return {}

    # Writing

    def _apply(self, plan: sync.Plan) -> Published:
        written = 0
        left: set[str] = set()
        failed: set[str] = set()
        failures: list[exception.PlacementError] = []
        for wave in plan.waves:
            # Steps that depend on a failed one would fail too.
            steps = [step for step in wave if not step.after & failed]
            failed |= {step.rp_uuid for step in wave if step not in steps}
            for step, result in zip(
                steps, self._map(self._settle_safely, steps), strict=True
            ):
                # When it failed, what is remembered of it may be wrong.
                self._seen.pop(step.rp_uuid, None)
                if isinstance(result, exception.PlacementError):
                    failed.add(step.rp_uuid)
                    failures.append(result)
                    self._fields.forget_names()
                    continue
                written += 1
                if result is not None:
                    self._seen[step.rp_uuid] = result
                elif step.seen is not None:
                    left |= step.seen.aggregates
            for error in failures:
                if isinstance(error, exception.PlacementUnavailable):
                    raise error
        return Published(
            written=written,
            held=plan.held,
            errors=tuple(failures),
            left=frozenset(left),
        )

    def _settle_safely(
        self, step: changes.Step
    ) -> provider_obj.Provider | exception.PlacementError | None:
        try:
            return self._settle(step)
        except exception.PlacementError as err:
            return err

    def _settle(self, step: changes.Step) -> provider_obj.Provider | None:
        """Bring one provider to its target.

        If other software writes to it meanwhile, only this provider is read
        again, and the remaining changes are computed again.
        """
        is_first = True

        def attempt() -> provider_obj.Provider | None:
            nonlocal is_first
            seen = step.seen if is_first else self._find(step.rp_uuid)
            is_first = False
            while pending := changes.diff(step.target, seen):
                seen = self._write(pending[0], seen)
            return seen

        return self._call(attempt)

    def _find(self, rp_uuid: str) -> provider_obj.Provider | None:
        try:
            return self._client.get_provider(rp_uuid)
        except exception.NotFound:
            return None

    def _write(
        self, change: changes.Change, seen: provider_obj.Provider | None
    ) -> provider_obj.Provider | None:
        """Write one change; return the provider as it is then.

        :raises ConcurrentUpdate: other software was faster
        """
        LOG.debug('Placement: %(change)s', {'change': change})
        if isinstance(change, changes.CreateProvider):
            return self._client.ensure_provider(
                change.rp_uuid, change.name, change.parent_uuid
            )
        if isinstance(change, changes.DeleteProvider):
            # The answer may be lost.
            self._may_have_deleted = True
            self._client.delete_provider(change.rp_uuid)
            return None
        assert seen is not None
        if isinstance(change, changes.Replace):
            return self._fields.write(change, seen)
        assert isinstance(change, changes.UpdateProvider)
        with fields.as_conflict(seen.name):
            self._client.update_provider(
                seen.rp_uuid, change.name, change.parent_uuid
            )
        return dataclasses.replace(
            seen, name=change.name, parent_uuid=change.parent_uuid
        )

    def _map(
        self, function: Callable[[_T], _R], items: Sequence[_T]
    ) -> list[_R]:
        if len(items) < 2:
            return [function(item) for item in items]
        with futures.ThreadPoolExecutor(max_workers=WORKERS) as pool:
            return list(pool.map(function, items))
