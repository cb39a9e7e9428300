# SPDX-License-Identifier: Apache-2.0

"""Puts the parts of a host together, starts and stops them.

The one place where the host side, placement and a thread come together.
Nova's driver runs it inside nova-compute.
"""

from collections.abc import Iterator, Mapping, Set

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.host import allocated
from nova_ext_resources.host import files
from nova_ext_resources.host import following
from nova_ext_resources.host import guests
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host import health as health_mod
from nova_ext_resources.host import loading
from nova_ext_resources.host import metrics
from nova_ext_resources.host import nova_compute
from nova_ext_resources.host import old_inventory
from nova_ext_resources.host import orphans
from nova_ext_resources.host import periodic
from nova_ext_resources.host import restore
from nova_ext_resources.host import unheld
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import hold
from nova_ext_resources.objects import operation as operation_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import server as server_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import memory
from nova_ext_resources.placement import publisher
from nova_ext_resources import plugins

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
        node: provider.Node,
        state_path: str,
        compute: nova_compute.NovaCompute,
    ) -> None:
        self.conf = conf
        options = conf.ext_resources
        self._interval: float = options.refresh_interval
        self._is_node_noticed = False
        self._guests = guests.GuestList(compute.list_guests, host=host)
        self._ledger_path = files.find_ledger_path(options, state_path, host)
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
        self.health = self._make_health()
        self.publisher = self._make_publisher(node, compute)
        self.metrics = self._make_metrics(state_path, compute)
        self._restore = restore.Restore(
            self.host,
            restore=self._restore_entry,
            read_allocations=self.read_allocations,
            list_doubled=lambda: self.publisher.doubled,
        )
        self.follower = following.Follower(
            self.host,
            self._placement,
            on_claimed=self._wake,
            find_building=compute.find_building,
        )
        self.allocated = self._make_allocated(compute)
        self.unheld = self._make_unheld(compute)
        self.orphans = self._make_orphans(compute)
        self.periodic = self._make_periodic(compute)
        self.health.watch(
            self.periodic, self.publisher, self.allocated, self.unheld
        )

    def _make_health(self) -> health_mod.Health:
        options = self.conf.ext_resources
        return health_mod.Health(
            self.host.host,
            inventory_providers=options.inventory_providers,
            enforcers=options.enforcers,
            stale_after=health_mod.find_stale_after(self._interval),
        )

    def _make_publisher(
        self, node: provider.Node, compute: nova_compute.NovaCompute
    ) -> publisher.Publisher:
        return publisher.Publisher(
            self._placement,
            node,
            wanted=self.host.providers,
            pools=lambda: self.host.found.pools,
            describe=lambda uuid: self.metrics.describe_consumer(uuid),
            named=lambda: frozenset(self.old.named),
            on_doubled=self._note_doubled,
            is_complete=lambda: self.host.found.is_complete,
            memory=memory.Memory(self.host.ledger_path),
            on_deleted=compute.on_deleted,
            interval=self._interval,
        )

    def _note_doubled(self) -> None:
        if not self.publisher.doubled:
            self.old.reason = ''
        # Reports what is still there, and claims what was moved.
        self.periodic.wake_soon()

    def _make_metrics(
        self, state_path: str, compute: nova_compute.NovaCompute
    ) -> metrics.Metrics:
        return metrics.Metrics(
            self.conf,
            self.host,
            self.health,
            self.publisher,
            list_servers=compute.list_servers,
            list_guests=self._guests.read,
            audit_path=files.find_audit_path(state_path, self.host.host),
        )

    def _make_allocated(
        self, compute: nova_compute.NovaCompute
    ) -> allocated.Allocated:
        return allocated.Allocated(
            self.host,
            list_holders=self._placement.list_holders,
            read_allocations=self.read_allocations,
            follow=self.follower.move,
            extend=self.follower.extend,
            find_migrations=compute.find_migrations,
            on_changed=self._wake,
            interval=self._interval,
        )

    def _make_unheld(self, compute: nova_compute.NovaCompute) -> unheld.Unheld:
        return unheld.Unheld(
            self.host,
            list_holders=self._placement.list_holders,
            is_hold=self._is_hold,
            explain=compute.explain,
            on_changed=self._wake,
            interval=self._interval,
        )

    def _is_hold(self, consumer_uuid: str) -> bool:
        """Ask placement whether a consumer holds room for servers to come."""
        found = self._placement.get_allocations(consumer_uuid)
        return found.consumer_type == hold.CONSUMER_TYPE

    def _make_orphans(
        self, compute: nova_compute.NovaCompute
    ) -> orphans.Orphans:
        def note_released(server_uuid: str) -> None:
            self.follower.forget(server_uuid)
            self._wake()

        options = self.conf.ext_resources
        pause = periodic.find_pause(self._interval)
        return orphans.Orphans(
            self.host,
            examine=compute.examine,
            list_known=compute.list_known,
            read_allocations=self.read_allocations,
            on_released=note_released,
            age=orphans.find_age(
                self.host.host,
                options.orphaned_entry_age,
                pause=pause,
                long_call_timeout=compute.long_call_timeout,
            ),
            max_gap=periodic.find_max_gap(self._interval),
            is_repairing=options.release_orphaned_entries,
        )

    def _make_periodic(
        self, compute: nova_compute.NovaCompute
    ) -> periodic.Periodic:
        return periodic.Periodic(
            self.host,
            self.health,
            self.publisher,
            self._restore,
            orphans=self.orphans,
            list_differences=lambda: (
                *self.allocated.problems,
                *self.unheld.problems,
                *self._list_unpublished_nodes(),
                *self.old.list_problems(self.publisher.doubled),
                *compute.list_problems(),
            ),
            list_roles=compute.list_roles,
            find_hosts=compute.find_hosts,
            list_requests=compute.list_requests,
            expect=self.metrics.servers.expect,
            interval=self._interval,
        )

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
                f'nodes, such as {uuids[0]}, which nova-compute does not '
                'publish: leave them out here, and give them to '
                'nova-ext-resources-agent',
            )

    def _wake(self) -> None:
        self.publisher.notice()
        self.periodic.wake_soon()

    def list_held(self, rp_uuid: str, classes: Set[str]) -> frozenset[str]:
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

    def is_old(self, allocations: view_obj.Amounts) -> bool:
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
        self.allocated.start()
        # Nothing is wrong so early, and a start asks placement enough.
        self.unheld.start(self._interval)
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

    def describe(self, servers: Mapping[str, server_obj.NovaServer]) -> None:
        """See :meth:`.lifecycle.Lifecycle.describe`; raises nothing."""
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
        self.allocated.stop()
        self.unheld.stop()
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

        :param is_move: see :meth:`.lifecycle.Lifecycle.claim`
        :raises ExtResourcesError: nothing is held; but a guest that may run
            keeps what it has
        """
        request = self.follower.read_anew(request)
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
        self.follower.follow(request, entry)

    def _may_clear(self, consumer_uuid: str) -> bool:
        return self._is_reported(consumer_uuid) and self.is_off(consumer_uuid)

    def is_off(self, server_uuid: str) -> bool:
        """Return whether it is certain that no guest of a server runs here.

        Neither one that is paused. Asks the hypervisor.
        """
        running = self._guests.read()
        return running is not None and server_uuid not in running

    def read_allocations(self, consumer_uuid: str) -> view_obj.Amounts:
        """Return rp_uuid -> resource class -> amount, of all hosts.

        :raises PlacementError: it does not answer
        """
        return self._placement.get_allocations(consumer_uuid).resources

    def _restore_entry(
        self, request: assignment.ClaimRequest, *, is_applied: bool
    ) -> assignment.Entry | None:
        entry = self.host.restore(request, is_applied=is_applied)
        # A guest keeps what it runs with, also where placement refuses it:
        # the comparison has placement follow, or tells.
        if entry is not None and is_applied:
            self._wake()
        elif entry is not None:
            self.follower.follow(request, entry)
        return entry

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
            self.follower.forget(consumer_uuid)
            if is_ours:
                self._wake()

    def hold(
        self, server_uuid: str, migration_uuid: str, *, is_retry: bool = False
    ) -> None:
        """See :meth:`.lifecycle.Lifecycle.hold`."""
        try:
            self.host.hold(server_uuid, migration_uuid, is_retry=is_retry)
        finally:
            self._wake()

    def take_back(self, server_uuid: str, migration_uuid: str) -> None:
        """See :meth:`.lifecycle.Lifecycle.take_back`."""
        try:
            self.host.take_back(server_uuid, migration_uuid)
        finally:
            self._wake()

    def _is_reported(self, consumer_uuid: str) -> bool:
        """Return whether anything is wrong with a server."""
        problems = (*self.host.problems, *self._restore.problems)
        return any(one.subject == consumer_uuid for one in problems)
