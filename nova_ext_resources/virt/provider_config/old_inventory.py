# SPDX-License-Identifier: Apache-2.0

"""Moves what the compute node itself offers to the providers below it.

In Nova's own way, a reshape: at its start nova-compute asks placement for all
allocations of the tree, has the driver change them and the inventories, and
sends both in one request, which placement takes whole or not at all. See
ResourceTracker ``_update_to_placement`` of Nova 34.
"""

from collections.abc import Callable, Iterator, Mapping, Set
import contextlib
import functools
import os
import threading
from typing import Any

from nova import exception as nova_exc
from oslo_log import log as logging

from nova_ext_resources.claims import relocation
from nova_ext_resources import exception
from nova_ext_resources.host.service import wiring
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import requirements
from nova_ext_resources.placement.publish import desired
from nova_ext_resources.virt.driver import request
from nova_ext_resources.virt.facts import migrations
from nova_ext_resources.virt.facts import servers
from nova_ext_resources.virt.provider_config import files
from nova_ext_resources.virt.provider_config import reshape_errors

LOG = logging.getLogger(__name__)

#: Resource class -> inventory, as Nova has it.
_Inventory = dict[str, dict[str, Any]]

_Allocations = dict[str, Any]


class OldInventoryUpdates:
    """Looks at each update of Nova's provider tree, and moves at the start.

    :param tracker: Nova's resource tracker; None where there is none: then
        nothing is moved
    :param location: folder of Nova's provider configuration files
    :param make_request: returns what a server requests; gets the instance
        and its allocations; raises InvalidExtraSpec
    """

    def __init__(
        self,
        service: wiring.HostService,
        *,
        tracker: Any,
        location: str,
        make_request: Callable[..., assignment.ClaimRequest],
    ) -> None:
        self._service = service
        self._old = service.old
        self._make_request = make_request
        self._location = location
        self._tracker = tracker
        #: Of the thread that Nova's first update runs in.
        self._local = threading.local()
        self._has_asked = False
        self._is_moving = False
        self._is_refused = False
        if tracker is not None:
            self._watch(tracker)

    def prepare(self) -> None:
        """Note which classes Nova itself adds, and from which file.

        Nova has read its files by now, and does not read them again.
        """
        node = self._service.host.node
        found = files.list_added(
            getattr(self._tracker, 'provider_configs', {}),
            node.uuid,
            node.hypervisor_hostname,
        )
        self._old.named = {
            name: os.path.join(self._location, file)
            for name, file in found.items()
        }

    # -- Nova's first update -------------------------------------------

    def _watch(self, tracker: Any) -> None:
        """Note which update is the first: in no other may anything move.

        One that placement refuses is done again, without a move: otherwise
        nova-compute would not start.
        """
        original = tracker.update_available_resource

        @functools.wraps(original)
        def update(context: Any, nodename: str, startup: bool = False) -> None:
            if not startup:
                original(context, nodename, startup=False)
                return
            with self._starting():
                try:
                    original(context, nodename, startup=True)
                except (
                    nova_exc.ReshapeFailed,
                    nova_exc.PlacementReshapeConflict,
                ) as err:
                    if not self._has_asked:
                        raise
                    self._note_refusal(err)
                    original(context, nodename, startup=True)
            if self._is_moving:
                self._is_moving = False
                self._service.publisher.wake()

        tracker.update_available_resource = update

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        self._local.is_starting = True
        try:
            yield
        finally:
            self._local.is_starting = False

    def _note_refusal(self, err: nova_exc.NovaException) -> None:
        self._is_refused = True
        if self._is_moving:
            # Otherwise it is known already why nothing moves.
            node = self._service.host.node
            names = {
                node.uuid: node.hypervisor_hostname,
                **self._service.host.view.keys,
            }
            self._old.reason = reshape_errors.explain(err, names)
        self._is_moving = False
        LOG.error(
            "Host %(host)s: the servers' allocations of the compute node "
            'itself were not moved: %(reason)s',
            {'host': self._service.host.host, 'reason': self._old.reason},
        )

    # -- each update ---------------------------------------------------

    @contextlib.contextmanager
    def updating(
        self, tree: Any, nodename: str, allocations: _Allocations | None
    ) -> Iterator[None]:
        """Surround the update of the tree by the driver itself.

        That removes from the compute node what is not its own.

        :param tree: Nova's ``ProviderTree``
        :param allocations: all that placement has allocated in the tree, to
            be changed; None unless Nova asks for the move
        :raises ReshapeNeeded: something is to be moved
        """
        node = self._service.host.node
        if nodename != node.hypervisor_hostname:
            yield
            return
        root = tree.data(nodename)
        # What a file names, Nova adds by itself.
        old = {
            name: one
            for name, one in root.inventory.items()
            if name.startswith(host_provider.CUSTOM)
            and name not in self._old.named
        }
        movable = self._list_movable(old)
        if movable and allocations is None:
            self._has_asked = True
            # Nova asks again where other software wrote meanwhile.
            self._is_moving = False
            raise nova_exc.ReshapeNeeded()
        yield
        moved = frozenset[str]()
        if movable and self._move(tree, root.uuid, movable, allocations or {}):
            moved = movable
        own = tree.data(nodename).inventory
        remaining = self._list_remaining(
            root.uuid, old.keys() - moved - own.keys()
        )
        _keep(tree, nodename, {name: old[name] for name in remaining})

    def _list_movable(self, old: _Inventory) -> frozenset[str]:
        """Return the classes that may be moved now."""
        if self._is_refused or not getattr(self._local, 'is_starting', False):
            return frozenset()
        return self._old.list_ready() & old.keys()

    def _list_remaining(self, root_uuid: str, left: Set[str]) -> Set[str]:
        """Return the classes that stay on the compute node.

        Those that plugins report; and those that consumers hold: placement
        would refuse to remove them, and nova-compute would not start.

        :param left: what the driver itself has removed and did not move
        """
        unknown = left - self._old.list_classes()
        self._old.unreported = self._service.list_allocated(root_uuid, unknown)
        return (left - unknown) | self._old.unreported

    def _move(
        self,
        tree: Any,
        root_uuid: str,
        classes: frozenset[str],
        allocations: _Allocations,
    ) -> bool:
        """Change tree and allocations; return whether all could be moved.

        :param classes: to be moved
        """
        movers = self._list_movers(root_uuid, classes, allocations)
        plan = self._old.plan(movers, _list_below(root_uuid, allocations))
        if plan.refusal is not None:
            LOG.error(
                'Host %(host)s: %(reason)s',
                {'host': self._service.host.host, 'reason': self._old.reason},
            )
            return False
        self._is_moving = True
        self._open(tree, classes)
        for mover in movers:
            _move_amounts(
                allocations[mover.consumer_uuid]['allocations'],
                root_uuid,
                mover.amounts,
                plan.chosen[mover.consumer_uuid],
            )
        LOG.info(
            'Host %(host)s: moving %(classes)s of %(count)d consumers from '
            'the compute node to the providers below it',
            {
                'host': self._service.host.host,
                'classes': ', '.join(sorted(classes)),
                'count': len(movers),
            },
        )
        return True

    def _list_movers(
        self,
        root_uuid: str,
        classes: frozenset[str],
        allocations: Mapping[str, Any],
    ) -> list[relocation.Mover]:
        allocated = {}
        for uuid, one in allocations.items():
            own = one['allocations'].get(root_uuid, {'resources': {}})
            amounts = {
                name: amount
                for name, amount in own['resources'].items()
                if name in classes
            }
            if amounts:
                allocated[uuid] = amounts
        instances = {
            one.uuid: one
            for one in servers.list_instances(
                self._service.host.host, 'numa_topology'
            )
        }
        return [
            relocation.Mover(
                request=self._describe(
                    uuid,
                    instances.get(uuid),
                    {
                        rp_uuid: own
                        for rp_uuid, own in allocations[uuid][
                            'allocations'
                        ].items()
                        if rp_uuid in self._service.host.view.keys
                    },
                ),
                amounts=amounts,
                former=self._old.find_former(uuid),
            )
            for uuid, amounts in allocated.items()
        ]

    def _describe(
        self, uuid: str, instance: Any, below: Mapping[str, Any]
    ) -> assignment.ClaimRequest:
        """Return what is known of a consumer.

        :param instance: None: it is no server of this host, but a migration,
            or a server that Nova has on another host
        :param below: what it has below the compute node already
        """
        found = instance or _find_moved(uuid)
        if found is not None:
            try:
                return self._make_request(found, below, uuid)
            except exception.InvalidExtraSpec:
                # What was valid when the server was built.
                return request.make_request(
                    found, below, None, consumer_uuid=uuid
                )
        return assignment.ClaimRequest(
            consumer_uuid=uuid,
            allocations={
                rp_uuid: dict(one['resources'])
                for rp_uuid, one in below.items()
            },
            requirement=requirements.Requirement(),
            # It may have some: which ones is not known.
            pinning=assignment.Pinning(),
        )

    def _open(self, tree: Any, classes: frozenset[str]) -> None:
        """Offer these classes below the compute node, as it is published."""
        for one in self._old.list_providers():
            wanted = desired.close(one, self._old.named.keys())
            if not tree.exists(one.rp_uuid):
                _add(tree, wanted)
            elif not classes.isdisjoint(one.inventories):
                _update(tree, wanted, classes)


def _list_below(
    root_uuid: str, allocations: _Allocations
) -> dict[str, dict[str, dict[str, int]]]:
    """Return what consumers hold elsewhere than on the compute node."""
    found = {
        uuid: {
            rp_uuid: dict(own['resources'])
            for rp_uuid, own in one['allocations'].items()
            if rp_uuid != root_uuid
        }
        for uuid, one in allocations.items()
    }
    return {uuid: one for uuid, one in found.items() if one}


def _find_moved(migration_uuid: str) -> Any | None:
    """Return a server as it was before a move; None: that is not known."""
    move = migrations.find_any(migration_uuid)
    instance: Any = servers.find(move.instance_uuid) if move else None
    former = instance.migration_context if instance else None
    if move is None or former is None or former.migration_id != move.id:
        return None
    instance.numa_topology = former.old_numa_topology
    instance.flavor = instance.old_flavor or instance.flavor
    return instance


def _add(tree: Any, wanted: host_provider.Provider) -> None:
    tree.new_child(wanted.name, wanted.parent_uuid, uuid=wanted.rp_uuid)
    tree.update_aggregates(wanted.rp_uuid, sorted(wanted.aggregates))
    _update(tree, wanted, frozenset(wanted.inventories))


def _update(
    tree: Any, wanted: host_provider.Provider, classes: frozenset[str]
) -> None:
    inventory = {
        **tree.data(wanted.rp_uuid).inventory,
        **{
            name: one.to_dict()
            for name, one in wanted.inventories.items()
            if name in classes
        },
    }
    tree.update_inventory(wanted.rp_uuid, inventory)
    tree.add_traits(
        wanted.rp_uuid, host_provider.OWNER_TRAIT, *sorted(wanted.traits)
    )


def _keep(tree: Any, nodename: str, old: _Inventory) -> None:
    """Leave on the compute node what the driver itself has removed."""
    inventory = {**old, **tree.data(nodename).inventory}
    tree.update_inventory(nodename, inventory)


def _move_amounts(
    allocated: _Allocations,
    root_uuid: str,
    amounts: Mapping[str, int],
    chosen: Mapping[str, str],
) -> None:
    """Move amounts of one consumer, in place.

    :param allocated: rp_uuid -> its allocation
    :param chosen: resource class -> rp_uuid
    """
    own = allocated[root_uuid]['resources']
    for name, rp_uuid in chosen.items():
        del own[name]
        below = allocated.setdefault(rp_uuid, {'resources': {}})['resources']
        below[name] = below.get(name, 0) + amounts[name]
    if not own:
        del allocated[root_uuid]
