# SPDX-License-Identifier: Apache-2.0

"""Loads the resources of a host from options, and keeps them published.

The one place where the host side, placement and a thread come together.
Nova's driver runs it inside nova-compute.
"""

from collections.abc import Mapping
import os
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import reader
from nova_ext_resources import exception
from nova_ext_resources.host import allocated
from nova_ext_resources.host import following
from nova_ext_resources.host import guests
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host import health as health_mod
from nova_ext_resources.host import ledger as ledger_mod
from nova_ext_resources.host import nova_compute
from nova_ext_resources.host import periodic
from nova_ext_resources.host import resources as host_mod
from nova_ext_resources.host import restore
from nova_ext_resources.host import servers
from nova_ext_resources.host import telemetry
from nova_ext_resources.host import unheld
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import health as health_obj
from nova_ext_resources.objects import operation as operation_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import server as server_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import publisher
from nova_ext_resources import plugins

if TYPE_CHECKING:
    from nova_ext_resources.monitoring.exporter import series
    from nova_ext_resources.monitoring.exporter import server as metrics_server

LOG = logging.getLogger(__name__)

#: What is known of a host is no longer believed after so many intervals
#: of refreshing, and so many seconds.
_STALE_ROUNDS = 3
_STALE = 300.0


def find_ledger_path(
    options: cfg.ConfigOpts.GroupAttr, state_path: str, host: str
) -> str:
    """Return the file of a host's ledger.

    :param options: of ``[ext_resources]``
    :param state_path: its folder where the options name no file
    """
    name = f'{reader.make_file_name(host)}.sqlite'
    return options.ledger_path or os.path.join(state_path, name)


def find_audit_path(state_path: str, host: str) -> str:
    """Return the file of a host's audit trail where no option names it."""
    return os.path.join(
        state_path, f'{reader.make_file_name(host)}-tuning.jsonl'
    )


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
        self._guests = guests.GuestList(compute.list_guests, host=host)
        options = conf.ext_resources
        self._ledger_path = find_ledger_path(options, state_path, host)
        self.grammar = plugins.load_grammar()
        self._placement = placement_client.from_conf(conf)
        self.host = self._make_host(host, node)
        self.health = health_mod.Health(
            host,
            inventory_providers=options.inventory_providers,
            enforcers=options.enforcers,
            stale_after=_STALE_ROUNDS * options.refresh_interval + _STALE,
        )
        self.audit_path = find_audit_path(state_path, host)
        self._measuring: telemetry.Measuring | None = None
        self._servers = servers.ServerList(
            compute.list_servers, host=host, interval=options.refresh_interval
        )
        self._metrics: metrics_server.MetricsServer | None = None
        self._is_node_noticed = False
        self.publisher = publisher.Publisher(
            self._placement,
            node,
            wanted=self.host.providers,
            is_complete=lambda: self.host.found.is_complete,
            on_deleted=compute.on_deleted,
            interval=options.refresh_interval,
        )
        self._restore = restore.Restore(
            self.host,
            restore=self._restore_entry,
            read_allocations=self.read_allocations,
        )
        self.follower = following.Follower(
            self.host,
            self._placement,
            on_claimed=lambda: self.periodic.wake(),
            find_building=compute.find_building,
        )
        self.allocated = allocated.Allocated(
            self.host,
            list_holders=self._placement.list_holders,
            follow=self.follower.move,
            find_moves=compute.find_moves,
            on_changed=lambda: self.periodic.wake(),
            interval=options.refresh_interval,
        )
        self.unheld = unheld.Unheld(
            self.host,
            list_holders=self._placement.list_holders,
            explain=compute.explain,
            on_changed=lambda: self.periodic.wake(),
            interval=options.refresh_interval,
        )
        self.periodic = periodic.Periodic(
            self.host,
            self.health,
            self.publisher,
            self._restore,
            list_differences=lambda: (
                *self.allocated.problems,
                *self.unheld.problems,
            ),
            list_roles=compute.list_roles,
            find_hosts=compute.find_hosts,
            list_requests=compute.list_requests,
            expect=self._servers.expect,
            on_changed=compute.on_changed,
            interval=options.refresh_interval,
        )

    def _make_host(
        self, host: str, node: provider.Node
    ) -> host_mod.HostResources:
        """Load all plugins, then open the ledger."""
        options = self.conf.ext_resources
        trackers = plugins.load_trackers()
        tests = plugins.load_claim_tests(trackers, options.claim_tests)
        providers, enforcers = plugins.load_for_host(
            self.conf,
            host,
            lambda: self.host.entries,
            options.inventory_providers,
            options.enforcers,
            guests=self._guests.read,
        )
        ledger = ledger_mod.Ledger(self._ledger_path)
        try:
            journal.check_none(self._ledger_path, self._list_enabled())
            return host_mod.HostResources(
                host=host,
                node=node,
                providers=providers,
                trackers=trackers,
                tests=tests,
                enforcers=enforcers,
                ledger=ledger,
            )
        except BaseException:
            ledger.close()
            raise

    @property
    def is_enabled(self) -> bool:
        """Whether any inventory provider is enabled."""
        return bool(self.conf.ext_resources.inventory_providers)

    def prepare(self) -> None:
        """Make what measures, and what serves metrics; :meth:`stop` ends it.

        :raises InvalidConfiguration: an option for metrics or measuring
            cannot be used
        """
        self._measuring = telemetry.Measuring(
            self.conf,
            self.host,
            self.health,
            audit_path=self.audit_path,
            list_uuids=self._servers.list_uuids,
            list_guests=self._guests.read,
        )
        if self.conf.ext_resources_metrics.port:
            # Only a host with metrics needs an HTTP server.
            from nova_ext_resources.monitoring.exporter import server

            self._metrics = server.from_conf(
                self.conf, read=self.read_metrics, health=self.read_health
            )

    def start(self) -> None:
        """Discover, repair, publish, and go on in threads.

        Nova goes on with its own start afterwards: nothing is released before
        :meth:`accept_host`. What has to leave placement does so before this
        returns, when Nova has not read its provider tree yet.

        :raises InvalidConfiguration: see :meth:`prepare`, which this calls
            unless the caller has; nothing was started
        """
        if self._measuring is None:
            self.prepare()
        assert self._measuring is not None
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
        if self._metrics is not None or self._measuring.is_enabled:
            self._servers.start()
        self.periodic.run_round()
        self.periodic.start()
        self.publisher.run_round()
        self.publisher.start()
        self.allocated.start()
        # Nothing is wrong so early, and a start asks placement enough.
        self.unheld.start(options.refresh_interval)
        self._measuring.start()
        if self._metrics is not None:
            self._metrics.start()
        # Not before: a start that fails may be followed by one as before.
        journal.forget(self._ledger_path, self._list_enabled())

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

    def _list_enabled(self) -> frozenset[str]:
        options = self.conf.ext_resources
        return frozenset({*options.inventory_providers, *options.enforcers})

    def stop(self) -> None:
        """End the threads and close the ledger; what is applied stays."""
        if self._metrics is not None:
            self._metrics.stop()
        if self._measuring is not None:
            self._measuring.stop()
        self._servers.stop()
        self.periodic.stop()
        self.publisher.stop()
        self.allocated.stop()
        self.unheld.stop()
        self.host.close()

    def accept_host(self) -> None:
        """Note that Nova has checked host name and cell. No I/O."""
        self.periodic.accept_host()

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
        :raises ExtResourcesError: nothing is held
        """
        request = self.follower.read_anew(request)
        try:
            entry = self.host.claim(request, is_move=is_move)
        except exception.ClaimError:
            if not self._may_clear(request.consumer_uuid):
                raise
            self.host.clear(request.consumer_uuid)
            entry = self.host.claim(request, is_move=is_move)
        self.follower.follow(request, entry)

    def _may_clear(self, consumer_uuid: str) -> bool:
        if not self._is_reported(consumer_uuid):
            return False
        running = self._guests.read()
        return running is not None and consumer_uuid not in running

    def read_allocations(self, consumer_uuid: str) -> view_obj.Amounts:
        """Return rp_uuid -> resource class -> amount, of all hosts.

        :raises PlacementError: it does not answer
        """
        return self._placement.get_allocations(consumer_uuid).resources

    def _restore_entry(
        self, request: assignment.ClaimRequest, *, is_applied: bool
    ) -> assignment.Entry | None:
        entry = self.host.restore(request, is_applied=is_applied)
        if entry is not None:
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
                self.periodic.wake()

    def hold(
        self, server_uuid: str, migration_uuid: str, *, is_retry: bool = False
    ) -> None:
        """See :meth:`.lifecycle.Lifecycle.hold`."""
        try:
            self.host.hold(server_uuid, migration_uuid, is_retry=is_retry)
        finally:
            self.periodic.wake()

    def take_back(self, server_uuid: str, migration_uuid: str) -> None:
        """See :meth:`.lifecycle.Lifecycle.take_back`."""
        try:
            self.host.take_back(server_uuid, migration_uuid)
        finally:
            self.periodic.wake()

    def _is_reported(self, consumer_uuid: str) -> bool:
        """Return whether anything is wrong with a server."""
        problems = (*self.host.problems, *self._restore.problems)
        return any(one.subject == consumer_uuid for one in problems)

    def read_health(self) -> health_obj.HostHealth:
        """Return how the host is, without I/O."""
        self.health.observe_publisher(self.publisher.status)
        return self.health.snapshot()

    def read_metrics(self) -> 'series.HostSnapshot':
        """Return all that metrics are made of, without I/O."""
        from nova_ext_resources.monitoring.exporter import series

        return series.HostSnapshot(
            health=self.read_health(),
            view=self.host.view,
            entries=self.host.entries,
            servers=self._servers.latest,
            sweep=self._measuring.latest if self._measuring else None,
            tuning_changes=self._measuring.changes if self._measuring else {},
        )
