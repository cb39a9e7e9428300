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


"""One compute node's provider tree: read what changed, write what differs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
import dataclasses
import time
from typing import TypeVar

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import changes
from nova_ext_resources.placement import client as placement_client
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
    """What came of one publication.

    :ivar written: providers that were written
    :ivar deleted: providers among them that are gone now
    :ivar held: what should go and cannot, see :class:`changes.Held`
    :ivar errors: one for each provider that could not be written; the
        others were
    """

    written: int = 0
    deleted: int = 0
    held: tuple[changes.Held, ...] = ()
    errors: tuple[exception.PlacementError, ...] = ()


class TreeWriter:
    """Publishes; used by one thread at a time.

    It remembers our providers as it last saw them. A generation that did not
    move says that nothing changed, so that a publication without news is one
    request. One that moved may say nothing, every allocation moves it: then
    that provider is read again.

    :param sleep: waits between attempts; may be cut short
    """

    def __init__(
        self,
        client: placement_client.Client,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._call = retry.make_strategy(sleep)
        self._seen: dict[str, provider_obj.Provider] = {}
        self._foreign: set[str] = set()
        self._names: set[str] = set()

    def publish(
        self,
        node: provider_obj.Node,
        wanted: Iterable[provider_obj.Provider],
        *,
        may_delete: bool = True,
    ) -> Published:
        """Make the tree of ``node`` the wanted one, as far as it is ours.

        :param may_delete: see :func:`.sync.plan`
        :raises NotFound: Nova has not yet created the node's own provider
        :raises PlacementError: nothing could be read, or placement went
            away in between
        """
        wanted = tuple(wanted)
        seen = self._read(node, {p.rp_uuid for p in wanted})
        shrinking = sync.find_shrinking(wanted, seen) if may_delete else ()
        holders = self._map(self._list_holders, shrinking)
        return self._apply(
            sync.plan(
                wanted,
                seen,
                holders=dict(zip(shrinking, holders, strict=True)),
                may_delete=may_delete,
            )
        )

    # Reading

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
                'published as soon as it is there',
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
                # These two change without a new generation.
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
        """Find out which unknown providers are those of others."""
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

    def _list_holders(self, rp_uuid: str) -> Mapping[str, tuple[str, ...]]:
        try:
            return self._call(self._client.list_holders, rp_uuid)
        except exception.NotFound:
            return {}

    # Writing

    def _apply(self, plan: sync.Plan) -> Published:
        written = 0
        deleted = 0
        failed: set[str] = set()
        failures: list[exception.PlacementError] = []
        for wave in plan.waves:
            # What hangs on something that failed would only fail, too.
            steps = [step for step in wave if not step.after & failed]
            failed |= {step.rp_uuid for step in wave if step not in steps}
            for step, result in zip(
                steps, self._map(self._settle_safely, steps), strict=True
            ):
                if isinstance(result, exception.PlacementError):
                    failed.add(step.rp_uuid)
                    failures.append(result)
                    # Whatever was believed of it may be what is wrong.
                    self._seen.pop(step.rp_uuid, None)
                    self._names.clear()
                    continue
                written += 1
                deleted += result is None
                self._remember(step.rp_uuid, result)
            for error in failures:
                if isinstance(error, exception.PlacementUnavailable):
                    raise error
        return Published(
            written=written,
            deleted=deleted,
            held=plan.held,
            errors=tuple(failures),
        )

    def _remember(
        self, rp_uuid: str, provider: provider_obj.Provider | None
    ) -> None:
        if provider is None:
            self._seen.pop(rp_uuid, None)
        else:
            self._seen[rp_uuid] = provider

    def _settle_safely(
        self, step: changes.Step
    ) -> provider_obj.Provider | exception.PlacementError | None:
        try:
            return self._settle(step)
        except exception.PlacementError as err:
            return err

    def _settle(self, step: changes.Step) -> provider_obj.Provider | None:
        """Make one provider as it shall be.

        When somebody else writes to it meanwhile, only it is read again,
        and what remains to be done is found anew.
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
        """Do one change; give the provider as it is then.

        :raises ConcurrentUpdate: somebody else was faster
        """
        LOG.debug('Placement: %(change)s', {'change': change})
        match change:
            case changes.CreateProvider(parent_uuid=parent_uuid):
                return self._client.ensure_provider(
                    change.rp_uuid, change.name, parent_uuid
                )
            case changes.DeleteProvider():
                self._client.delete_provider(change.rp_uuid)
                return None
        assert seen is not None
        try:
            return self._write_to(change, seen)
        except exception.NotFound as err:
            # Deleted by somebody else: the same as any other change.
            raise exception.ConcurrentUpdate(
                action=f'write provider {seen.name}',
                status=err.status,
                code=err.code,
                detail=err.detail,
                request_id=err.request_id,
            ) from err

    def _write_to(
        self, change: changes.Change, seen: provider_obj.Provider
    ) -> provider_obj.Provider:
        generation = seen.generation or 0
        match change:
            case changes.UpdateProvider(parent_uuid=parent_uuid):
                self._client.update_provider(
                    seen.rp_uuid, change.name, parent_uuid
                )
                return dataclasses.replace(
                    seen, name=change.name, parent_uuid=parent_uuid
                )
            case changes.SetTraits(traits=traits):
                self._ensure_names(traits, self._client.ensure_trait)
                return dataclasses.replace(
                    seen,
                    traits=traits,
                    generation=self._client.set_traits(
                        seen.rp_uuid, traits, generation
                    ),
                )
            case changes.SetAggregates(aggregates=aggregates):
                return dataclasses.replace(
                    seen,
                    aggregates=aggregates,
                    generation=self._client.set_aggregates(
                        seen.rp_uuid, aggregates, generation
                    ),
                )
            case changes.SetInventories(inventories=inventories):
                self._ensure_names(
                    inventories, self._client.ensure_resource_class
                )
                return dataclasses.replace(
                    seen,
                    inventories=inventories,
                    generation=self._client.set_inventories(
                        seen.rp_uuid, inventories, generation
                    ),
                )
        raise AssertionError(change)

    def _ensure_names(
        self, names: Iterable[str], ensure: Callable[[str], None]
    ) -> None:
        """Create custom traits or classes, once in this process."""
        for name in sorted(names):
            # Classes and traits can have the same name.
            key = f'{ensure.__name__} {name}'
            if name.startswith('CUSTOM_') and key not in self._names:
                ensure(name)
                self._names.add(key)

    def _map(
        self, function: Callable[[_T], _R], items: Sequence[_T]
    ) -> list[_R]:
        if len(items) < 2:
            return [function(item) for item in items]
        with futures.ThreadPoolExecutor(max_workers=WORKERS) as pool:
            return [
                future.result()
                for future in [pool.submit(function, i) for i in items]
            ]
