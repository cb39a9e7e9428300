# SPDX-License-Identifier: Apache-2.0

"""What a host offers about itself: metrics, its health, what is measured."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from oslo_config import cfg

from nova_ext_resources.host import guests
from nova_ext_resources.host import health as health_mod
from nova_ext_resources.host import resources as host_mod
from nova_ext_resources.host import servers
from nova_ext_resources.host import telemetry
from nova_ext_resources.objects import health as health_obj
from nova_ext_resources.placement import publisher as publisher_mod

if TYPE_CHECKING:
    from nova_ext_resources.monitoring.exporter import series
    from nova_ext_resources.monitoring.exporter import server as metrics_server


class Metrics:
    """Metrics, health and measurements of one host, with their threads.

    :ivar servers: Nova's servers of this host
    :ivar audit_path: see :class:`.telemetry.Measuring`
    :param list_servers: describes them, by uuid
    :param list_guests: see :meth:`.GuestList.read`
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: host_mod.HostResources,
        health: health_mod.Health,
        publisher: publisher_mod.Publisher,
        *,
        list_servers: Callable[[], servers.Servers],
        list_guests: Callable[[], guests.Guests | None],
        audit_path: str,
    ) -> None:
        self._conf = conf
        self._host = host
        self._health = health
        self._publisher = publisher
        self.servers = servers.ServerList(
            list_servers,
            host=host.host,
            interval=conf.ext_resources.refresh_interval,
        )
        health.watch(self.servers)
        self._list_guests = list_guests
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
            audit_path=self.audit_path,
            list_uuids=self.servers.list_uuids,
            list_guests=self._list_guests,
        )
        if self._conf.ext_resources_metrics.port:
            # Only a host with metrics needs an HTTP server.
            from nova_ext_resources.monitoring.exporter import server

            self._server = server.from_conf(
                self._conf, read=self.read, health=self.read_health
            )
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

    def read_health(self) -> health_obj.HostHealth:
        """Return how the host is, without I/O."""
        self._health.observe_publisher(
            self._publisher.status, self.describe_consumer
        )
        return self._health.snapshot()

    def describe_consumer(self, uuid: str) -> str:
        """Return what a consumer of placement is, without I/O.

        With the name of its server, if Nova has that on this host and has
        answered.
        """
        entry = self._host.entries.get(uuid)
        server_uuid = entry.server_uuid if entry else uuid
        server = self.servers.look_up(server_uuid)
        name = server.name if server else ''
        named = f'{name} ({server_uuid})' if name else server_uuid
        if server_uuid == uuid:
            return named
        return f'migration {uuid} of {named}'

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
