# SPDX-License-Identifier: Apache-2.0

"""Publishes below the compute nodes of bare-metal nodes of ironic.

Nova makes one compute node for each, with the same uuid and the uuid as its
name, and writes its class, its ``reserved`` and its traits. A node that moves
to another nova-compute keeps all that.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.publish import tree_writer

#: By uuid of the node: the providers that are to be below it.
Trees: TypeAlias = Mapping[str, tuple[host_provider.Provider, ...]]

_Fitting: TypeAlias = tuple[
    tuple[host_provider.Provider, ...], tuple[alarm.Problem, ...]
]


class BareMetalWriter:
    """Publishes what nodes have; used by one thread at a time.

    A round without changes is two requests for each node.

    :param clock: sleeps between attempts; may be cut short
    """

    def __init__(
        self,
        client: placement_client.Client,
        *,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self._client = client
        self._clock = clock
        self._call = retry.make_strategy(clock)
        self._writers: dict[str, tree_writer.TreeWriter] = {}
        self._roots: dict[str, host_provider.Provider] = {}
        #: Published once, not wanted, and emptied or gone.
        self._settled: set[str] = set()

    def publish(
        self,
        trees: Trees,
        *,
        published: Collection[str],
        may_delete: bool = True,
    ) -> tree_writer.PublishResult:
        """Have placement show what nodes have.

        Nothing is deleted: a nova-compute fails while it remembers a provider
        that is gone. What is no longer wanted is emptied, also below nodes
        that are no longer among the trees.

        :param published: uuids of all providers that this program has ever
            published below such nodes; no others are emptied
        :param may_delete: see :func:`.diff.plan`
        :raises PlacementError: placement could not be read, or went away
        """
        # Also while nothing is emptied: what is written now is to be emptied
        # later.
        self._settled -= _list_uuids(trees)
        roots = {uuid: self._call(self._read_root, uuid) for uuid in trees}
        self._roots = {uuid: root for uuid, root in roots.items() if root}
        done = tree_writer.PublishResult()
        for uuid, wanted in trees.items():
            fitting, problems = fit(uuid, wanted, self._roots)
            done = done.add(tree_writer.PublishResult(problems=problems))
            if uuid in self._roots:
                done = done.add(
                    self._write(uuid, fitting, published, may_delete)
                )
        if may_delete:
            done = done.add(self._empty(trees, published))
        return done

    def _read_root(self, uuid: str) -> host_provider.Provider | None:
        """Return Nova's own provider of a node; None: Nova has no such node.

        Also as long as Nova has not written its resource class.
        """
        for listed in self._client.list_providers(name=uuid):
            if listed.rp_uuid != uuid or listed.parent_uuid is not None:
                continue
            known = self._roots.get(uuid)
            if known is not None and known.generation == listed.generation:
                return known
            try:
                root = self._client.read_provider(listed)
            except exception.NotFound:
                return None
            return root if root.inventories else None
        return None

    def _write(
        self,
        uuid: str,
        wanted: Iterable[host_provider.Provider],
        published: Collection[str],
        may_delete: bool = True,
    ) -> tree_writer.PublishResult:
        """Publish below one node; what fails there leaves the others alone.

        :raises PlacementUnavailable: placement went away
        """
        writer = self._writers.setdefault(
            uuid, tree_writer.TreeWriter(self._client, clock=self._clock)
        )
        node = host_provider.Node(uuid=uuid, hypervisor_hostname=uuid)
        try:
            return writer.publish(
                node, wanted, may_delete=may_delete, owned=published
            )
        except exception.PlacementUnavailable:
            raise
        except exception.NotFound:
            # Nova has just deleted it, with all that is below it.
            return tree_writer.PublishResult(
                problems=(_explain_missing(uuid),)
            )
        except exception.PlacementError as err:
            return tree_writer.PublishResult(errors=(err,))

    def _empty(
        self, trees: Trees, published: Collection[str]
    ) -> tree_writer.PublishResult:
        """Empty what is below nodes of which nothing is wanted any more.

        What servers hold stays, closed to others, and is tried again.

        :raises PlacementError: placement could not be read, or went away
        """
        wanted = _list_uuids(trees)
        left: dict[str, set[str]] = {}
        for rp_uuid in sorted({*published} - wanted - self._settled):
            root = self._call(self._find_root, rp_uuid)
            if root is None or root in trees:
                self._settled.add(rp_uuid)
            else:
                left.setdefault(root, set()).add(rp_uuid)
        self._writers = {
            uuid: one
            for uuid, one in self._writers.items()
            if uuid in trees or uuid in left
        }
        done = tree_writer.PublishResult()
        for root, rp_uuids in left.items():
            emptied = self._write(root, (), published)
            if not emptied.errors and not emptied.undeleted:
                self._settled |= rp_uuids
            done = done.add(dataclasses.replace(emptied, problems=()))
        return done

    def _find_root(self, rp_uuid: str) -> str | None:
        """Return the bare-metal node above a provider; None: there is none."""
        for one in self._client.list_providers(in_tree=rp_uuid):
            if one.parent_uuid is None and one.name == one.rp_uuid:
                return one.rp_uuid
        return None


def _list_uuids(trees: Trees) -> set[str]:
    return {one.rp_uuid for some in trees.values() for one in some}


def fit(
    uuid: str,
    wanted: tuple[host_provider.Provider, ...],
    roots: Mapping[str, host_provider.Provider],
) -> _Fitting:
    """Return what can be published below a node, and what is wrong. Pure.

    With a class that a node itself has, placement would offer candidates
    without the node's own provider, which Nova's scheduler does not use.
    Servers that require a trait that ironic does not have for the node would
    fail when it is deployed.

    :param roots: Nova's own providers of all nodes that there are
    """
    if uuid not in roots:
        return (), (_explain_missing(uuid),)
    taken = frozenset(
        name for root in roots.values() for name in root.inventories
    )
    traits = roots[uuid].traits | {host_provider.OWNER_TRAIT}
    fitting = tuple(
        dataclasses.replace(
            one,
            inventories={
                name: inventory
                for name, inventory in one.inventories.items()
                if name not in taken
            },
            traits=one.traits & traits,
        )
        for one in wanted
    )
    clashing = {name for one in wanted for name in one.inventories} & taken
    missing = {name for one in wanted for name in one.traits} - traits
    lines = (
        *(_explain_class(name) for name in sorted(clashing)),
        *(_explain_trait(name, uuid) for name in sorted(missing)),
    )
    return fitting, _report(uuid, lines)


def _report(uuid: str, lines: tuple[str, ...]) -> tuple[alarm.Problem, ...]:
    if not lines:
        return ()
    text = f'bare-metal node {uuid}: {"; ".join(lines)}'
    return (
        alarm.Problem(alarm=alarm.NODE_NOT_PUBLISHED, subject=uuid, text=text),
    )


def _explain_missing(uuid: str) -> alarm.Problem:
    (problem,) = _report(
        uuid,
        (
            'placement has no provider of this node from Nova, so its '
            'resources are not published. If "openstack baremetal node list" '
            'shows the node, nova-compute soon reports the node, or logs an '
            'error; otherwise correct the definitions that name the node',
        ),
    )
    return problem


def _explain_class(name: str) -> str:
    return (
        f'resource class {name} is left out, because it is the class of a '
        'node itself; define the resource with another name'
    )


def _explain_trait(name: str, uuid: str) -> str:
    return (
        f'trait {name} is left out, because the node lacks this trait in '
        'ironic, and ironic would refuse to deploy servers that require the '
        f'trait; run "openstack baremetal node add trait {uuid} {name}"'
    )
