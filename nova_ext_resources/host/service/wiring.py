# SPDX-License-Identifier: Apache-2.0

"""Puts the parts of a host together, starts and stops them.

The one place where the host side, placement and a thread come together.
Nova's driver runs it inside nova-compute.
"""

from collections.abc import Iterator, Mapping, Set

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.facts import operation as operation_obj
from nova_ext_resources.facts import server
from nova_ext_resources.host.claims import allocation_writer
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.inventory import old_inventory
from nova_ext_resources.host import nova_compute
from nova_ext_resources.host.reconcile import missing_allocations
from nova_ext_resources.host.reconcile import orphaned_entries
from nova_ext_resources.host.reconcile import rebuild_entries
from nova_ext_resources.host.reconcile import running_guests
from nova_ext_resources.host.reconcile import stale_allocations
from nova_ext_resources.host.service import health
from nova_ext_resources.host.service import loading
from nova_ext_resources.host.service import metrics
from nova_ext_resources.host.service import paths
from nova_ext_resources.host.service import periodic
from nova_ext_resources.host.service import publication_source
from nova_ext_resources.host.service import server_names
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)


class HostService:
    """The resources of one host, published by a thread.

    :param conf: parsed; plugins add their options to it
    :param state_path: folder of the ledger where no other is set
    :param compute: the nova-compute in which it runs
    :raises ExtResourcesError: something named in the options cannot be
        used; nothing was started
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        host: str,
        node: host_provider.Node,
        state_path: str,
        compute: nova_compute.NovaCompute,
    ) -> None:
        self.conf = conf
        options = conf.ext_resources
        self._interval: float = options.refresh_interval
        self._is_node_noticed = False
        self.compute = compute
        self._guests = running_guests.GuestList(compute.list_guests, host=host)
        self._ledger_path = paths.find_ledger_path(options, state_path, host)
        self.grammar = plugins.load_grammar()
        self._placement = placement_client.from_conf(conf)
        self.host = loading.load_host(
            conf,
            host=host,
            node=node,
            ledger_path=self._ledger_path,
            list_guests=self._guests.read,
        )
        self.old = old_inventory.OldInventory(self.host)
        self.health = health.Health(
            host,
            inventory_providers=options.inventory_providers,
            enforcers=options.enforcers,
            stale_after=health.find_stale_after(self._interval),
        )
        self.publisher = publisher.Publisher(
            self._placement,
            node,
            _Source(self),
            memory=provider_tree_cache.Memory(self.host.ledger_path),
            interval=self._interval,
        )
        #: What begins soon when the entries have changed.
        self._loops = worker.WorkerGroup()
        self.metrics = metrics.Metrics(
            conf,
            self.host,
            self.health,
            self.publisher,
            server_names.ServerList(
                compute.list_servers, host=host, interval=self._interval
            ),
            guests=self._guests,
            audit_path=paths.find_audit_path(state_path, host),
        )
        self.allocation_writer = allocation_writer.AllocationWriter(
            self.host, compute, self._placement, loops=self._loops
        )
        self._restore = rebuild_entries.RebuildEntries(
            self.host, self._placement, self.allocation_writer, self.publisher
        )
        self.missing_allocations = missing_allocations.MissingAllocations(
            self.host,
            compute,
            self._placement,
            self.allocation_writer,
            loops=self._loops,
            interval=self._interval,
        )
        self.stale_allocations = stale_allocations.StaleAllocations(
            self.host,
            compute,
            self._placement,
            loops=self._loops,
            interval=self._interval,
        )
        self.orphaned_entries = self._make_orphaned_entries()
        self.periodic = periodic.Periodic(
            self.host,
            compute,
            self.health,
            self.publisher,
            self._restore,
            orphans=self.orphaned_entries,
            servers=self.metrics.servers,
            list_differences=self._list_differences,
            interval=self._interval,
        )
        self._loops.add(self.publisher, self.periodic)
        self.health.watch(
            self.periodic,
            self.publisher,
            self.missing_allocations,
            self.stale_allocations,
        )

    def _make_orphaned_entries(self) -> orphaned_entries.OrphanedEntries:
        options = self.conf.ext_resources
        return orphaned_entries.OrphanedEntries(
            self.host,
            self.compute,
            self._placement,
            self.allocation_writer,
            loops=self._loops,
            age=orphaned_entries.find_age(
                self.host.host,
                options.orphaned_entry_age,
                pause=periodic.find_pause(self._interval),
                long_call_timeout=self.compute.long_call_timeout,
            ),
            max_gap=periodic.find_max_gap(self._interval),
            is_repairing=options.release_orphaned_entries,
        )

    def _list_differences(self) -> Iterator[alarm.Problem]:
        yield from self.missing_allocations.problems
        yield from self.stale_allocations.problems
        yield from self._list_unpublished_nodes()
        yield from self.old.list_problems(self.publisher.doubled)
        yield from self.compute.list_problems()

    def _list_unpublished_nodes(self) -> Iterator[alarm.Problem]:
        """Yield what is wrong where definitions name bare-metal nodes.

        A file that all hosts read would make each of them write all nodes.
        """
        uuids = sorted(one.uuid for one in self.host.found.nodes)
        if uuids:
            yield alarm.Problem(
                alarm=alarm.NODE_NOT_PUBLISHED,
                subject=uuids[0],
                text=f'definitions of this host name {len(uuids)} bare-metal '
                f'nodes, such as {uuids[0]}. nova-compute does not publish '
                'bare-metal nodes: move these definitions to '
                'nova-ext-resources-agent',
            )

    def list_allocated(
        self, rp_uuid: str, classes: Set[str]
    ) -> frozenset[str]:
        """Return which of these classes consumers hold of a provider.

        All of them where placement does not answer. Does I/O if there are any.
        """
        if not classes:
            return frozenset()
        try:
            usages = self._placement.list_usages(rp_uuid)
        except exception.PlacementError as err:
            LOG.debug('Placement: %s', err)
            return frozenset(classes)
        return frozenset(name for name in classes if usages.get(name))

    def is_old(self, allocations: host_view.Amounts) -> bool:
        """Return whether a server has its resources on the compute node.

        Nothing is claimed for it here until they are moved.

        :param allocations: all that placement has allocated to it
        """
        return self.old.covers(allocations, self.publisher.doubled)

    @property
    def is_enabled(self) -> bool:
        """Whether any inventory provider is enabled."""
        return bool(self.conf.ext_resources.inventory_providers)

    def start(self) -> None:
        """Discover, repair, publish, and go on in threads.

        Nova goes on with its own start afterwards: nothing is released before
        :meth:`.Periodic.accept_host`. What has to leave placement does so
        before this returns, when Nova has not read its provider tree yet.

        :raises InvalidConfiguration: see :meth:`.Metrics.prepare`, which this
            calls unless the caller has; nothing was started
        """
        self.metrics.prepare()
        self._log_start()
        self.metrics.ask_nova()
        self.periodic.run_round()
        self.periodic.start()
        self.publisher.run_round()
        self.publisher.start()
        self.missing_allocations.start()
        # Nothing is wrong so early, and a start asks placement enough.
        self.stale_allocations.start(self._interval)
        self.metrics.start()
        # Not before: a start that fails may be followed by one as before.
        journal.forget(self._ledger_path, loading.list_enabled(self.conf))

    def _log_start(self) -> None:
        options = self.conf.ext_resources
        LOG.info(
            'Host %(host)s: extended resources of %(providers)s, applied by '
            '%(enforcers)s, tested by %(tests)s, recorded in %(ledger)s',
            {
                'host': self.host.host,
                'providers': ', '.join(options.inventory_providers) or 'none',
                'enforcers': ', '.join(options.enforcers) or 'none',
                'tests': ', '.join(options.claim_tests) or 'none',
                'ledger': self._ledger_path,
            },
        )

    def describe(self, servers: Mapping[str, server.NovaServer]) -> None:
        """See :meth:`.ClaimManager.describe`; raises nothing."""
        try:
            self.host.describe(servers)
        except exception.ExtResourcesError as err:
            LOG.error(
                'Host %(host)s: flavors and projects of entries could not be '
                'recorded, and this will be retried at the next start: '
                '%(err)s',
                {'host': self.host.host, 'err': err},
            )

    def stop(self) -> None:
        """End the threads and close the ledger; what is applied stays."""
        self.metrics.stop()
        self.periodic.stop()
        self.publisher.stop()
        self.missing_allocations.stop()
        self.stale_allocations.stop()
        self.host.close()

    def notice_node(self) -> None:
        """Note that Nova is about to write its provider tree. No I/O.

        At the first start of a host it creates its own provider now, for
        which ours wait.
        """
        if not self._is_node_noticed or self.publisher.status.failure:
            self._is_node_noticed = True
            self.publisher.wake()

    def claim(
        self, request: assignment.ClaimRequest, *, is_move: bool = False
    ) -> None:
        """Claim, and let placement's allocation follow the host's choice.

        What is applied for a server that the ledger has lost counts as used
        by other software. Where that is in the way, and no guest runs on it,
        it is released.

        :param is_move: see :meth:`.ClaimManager.claim`
        :raises ExtResourcesError: nothing is held; but a guest that may run
            keeps what it has
        """
        request = self.allocation_writer.read_anew(request)
        uuid = request.consumer_uuid
        # The claim of a move waits for no hypervisor: Nova holds a lock.
        is_running = (
            not is_move and self.host.holds(uuid) and not self.is_off(uuid)
        )
        try:
            entry = self.host.claim(
                request, is_move=is_move, is_running=is_running
            )
        except exception.ClaimError:
            if not self._may_clear(uuid):
                raise
            self.host.clear(uuid)
            entry = self.host.claim(request, is_move=is_move)
        self.allocation_writer.follow(request, entry)

    def _may_clear(self, consumer_uuid: str) -> bool:
        return self._is_reported(consumer_uuid) and self.is_off(consumer_uuid)

    def is_off(self, server_uuid: str) -> bool:
        """Return whether it is certain that no guest of a server runs here.

        Neither one that is paused. Asks the hypervisor.
        """
        running = self._guests.read()
        return running is not None and server_uuid not in running

    def read_allocations(self, consumer_uuid: str) -> host_view.Amounts:
        """Return rp_uuid -> resource class -> amount, of all hosts.

        :raises PlacementError: it does not answer
        """
        return self._placement.get_allocations(consumer_uuid).resources

    def release(
        self,
        consumer_uuid: str,
        operation: operation_obj.Operation = operation_obj.Operation.DELETE,
    ) -> None:
        """Release all that a consumer holds, unless the operation keeps it.

        :raises ExtResourcesError: it will be retried
        """
        if operation.keeps_claim:
            return
        is_ours = self.host.find_entry(consumer_uuid) or self._is_reported(
            consumer_uuid
        )
        try:
            self.host.release(consumer_uuid)
            if operation is operation_obj.Operation.DELETE:
                for uuid in self.host.list_consumers(consumer_uuid):
                    self.host.release(uuid)
        finally:
            self.allocation_writer.forget(consumer_uuid)
            if is_ours:
                self._loops.wake_soon()

    def park(
        self, server_uuid: str, migration_uuid: str, *, is_retry: bool = False
    ) -> None:
        """See :meth:`.ClaimManager.park`."""
        try:
            self.host.park(server_uuid, migration_uuid, is_retry=is_retry)
        finally:
            self._loops.wake_soon()

    def unpark(self, server_uuid: str, migration_uuid: str) -> None:
        """See :meth:`.ClaimManager.unpark`."""
        try:
            self.host.unpark(server_uuid, migration_uuid)
        finally:
            self._loops.wake_soon()

    def _is_reported(self, consumer_uuid: str) -> bool:
        """Return whether anything is wrong with a server.

        Nothing is said of one that starts, though it may still lack its entry.
        """
        problems = (*self.host.problems, *self._restore.problems)
        return consumer_uuid in (self._restore.waiting or ()) or any(
            one.subject == consumer_uuid for one in problems
        )


class _Source(publication_source.HostSource):
    """Also tells the parts of a service what the publisher has found."""

    def __init__(self, service: HostService) -> None:
        super().__init__(service.host)
        self._service = service

    @property
    def named(self) -> frozenset[str]:
        return frozenset(self._service.old.named)

    def describe(self, consumer_uuid: str) -> str:
        return self._service.metrics.describe_consumer(consumer_uuid)

    def note_doubled(self) -> None:
        service = self._service
        if not service.publisher.doubled:
            service.old.reason = ''
        # Reports what is still there, and claims what was moved.
        service.periodic.wake_soon()

    def note_deleted(self) -> None:
        self._service.compute.on_deleted()
