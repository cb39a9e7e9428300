# SPDX-License-Identifier: Apache-2.0

"""What a host offers about itself: metrics, its health, what is measured."""

from typing import TYPE_CHECKING

from oslo_config import cfg

from nova_ext_resources.host import manager
from nova_ext_resources.host.reconcile import running_guests
from nova_ext_resources.host.service import health as health_mod
from nova_ext_resources.host.service import server_names
from nova_ext_resources.host.service import telemetry
from nova_ext_resources.objects import host_health
from nova_ext_resources.placement.publish import publisher as publisher_mod

if TYPE_CHECKING:
    from nova_ext_resources.monitoring.exporter import series
    from nova_ext_resources.monitoring.exporter import server as metrics_server


class Metrics:
    """Metrics, health and measurements of one host, with their threads.

    :ivar servers: Nova's servers of this host
    :ivar audit_path: see :class:`.telemetry.Measuring`
    :param guests: see :class:`.telemetry.Measuring`
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: manager.HostManager,
        health: health_mod.Health,
        publisher: publisher_mod.Publisher,
        servers: server_names.ServerList,
        *,
        guests: running_guests.GuestList | None,
        audit_path: str,
    ) -> None:
        self._conf = conf
        self._host = host
        self._health = health
        self._publisher = publisher
        self.servers = servers
        health.watch(servers)
        self._guests = guests
        self.audit_path = audit_path
        self._measuring: telemetry.Measuring | None = None
        self._server: metrics_server.MetricsServer | None = None

    def prepare(self) -> None:
        """Make what measures, and what serves metrics; :meth:`stop` ends it.

        Once more changes nothing.

        :raises InvalidConfiguration: an option for metrics or measuring
            cannot be used
        """
        if self._measuring is not None:
            return
        measuring = telemetry.Measuring(
            self._conf,
            self._host,
            self._health,
            self.servers,
            self._guests,
            audit_path=self.audit_path,
        )
        if self._conf.ext_resources_metrics.port:
            # Only a host with metrics needs an HTTP server.
            from nova_ext_resources.monitoring.exporter import server

            self._server = server.from_conf(self._conf, self.read)
            if self._server is not None:
                self._health.watch(self._server)
        # Last: what cannot be used is refused once more.
        self._measuring = measuring

    def ask_nova(self) -> None:
        """Begin to ask for its servers, if metrics or measuring need them."""
        if self._server is not None or (
            self._measuring is not None and self._measuring.is_enabled
        ):
            self.servers.start()

    def start(self) -> None:
        """Measure and serve in threads."""
        if self._measuring is not None:
            self._measuring.start()
        if self._server is not None:
            self._server.start()

    def stop(self) -> None:
        """End the threads."""
        if self._server is not None:
            self._server.stop()
        if self._measuring is not None:
            self._measuring.stop()
        self.servers.stop()

    def read_health(self) -> host_health.HostHealth:
        """Return how the host is, without I/O."""
        self._health.observe_publisher(
            self._publisher.status, self.describe_consumer
        )
        return self._health.snapshot()

    def describe_consumer(self, uuid: str) -> str:
        """See :meth:`.ServerList.describe_consumer`."""
        return self.servers.describe_consumer(
            uuid, self._host.entries.get(uuid)
        )

    def read(self) -> 'series.HostSnapshot':
        """Return all that metrics are made of, without I/O."""
        from nova_ext_resources.monitoring.exporter import series

        return series.HostSnapshot(
            health=self.read_health(),
            view=self._host.view,
            entries=self._host.entries,
            servers=self.servers.latest,
            sweep=self._measuring.latest if self._measuring else None,
            tuning_changes=self._measuring.changes if self._measuring else {},
            pools=self._host.found.pools,
        )
