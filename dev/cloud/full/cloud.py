# SPDX-License-Identifier: Apache-2.0

"""Start, restart and stop the cloud."""

import datetime
import functools

from dev.cloud import base
from dev.cloud import child
from dev.cloud import endpoints
from dev.cloud import folder as folders
from dev.cloud.full import bus as buses
from dev.cloud.full import catalog
from dev.cloud.full import config
from dev.cloud.full import database as databases
from dev.cloud.full import schemas
from dev.cloud.full import services
from dev.cloud import settings as cloud_settings

#: Seconds; a machine under load takes many times what an idle one takes.
_READY_SECONDS = 900.0

#: Each look costs several services a request.
_POLL_SECONDS = 0.5

_BEFORE_NOVA = ('placement', 'glance', 'network')

#: The services of Nova beside its computes.
CONTROL = ('nova-api', 'nova-conductor', 'nova-scheduler')


class Cloud(base.Cloud):
    """A cloud in which each service is a process; a context manager.

    Its services can be stopped, killed and started again by name: those of
    :data:`CONTROL`, ``keystone``, ``placement``, ``glance``, and each host.
    """

    stop_seconds = 20.0

    def __init__(
        self,
        settings: cloud_settings.Settings | None = None,
        *,
        folder: folders.Folder | None = None,
    ) -> None:
        super().__init__(settings, folder=folder)
        self._bound: endpoints.Endpoints | None = None
        self._parts: config.Parts | None = None
        self._services: dict[str, child.Child] = {}

    def stop(self) -> None:
        """Stop what runs and remove the folder; twice is once."""
        if self._bound is not None:
            self._bound.close()
        # While database and bus answer: else the last words in every log
        # would be about those.
        self.halt(*reversed(self._services))
        super().stop()

    @property
    def parts(self) -> config.Parts:
        """What the files of one service more must name.

        :raises RuntimeError: before :meth:`start`
        """
        if self._parts is None:
            raise RuntimeError('The cloud was not started.')
        return self._parts

    def get_service(self, name: str) -> child.Child:
        """Return the process of a service."""
        return self._services[name]

    def halt(self, *names: str) -> None:
        """Stop services in order, and wait for their ends."""
        child.stop(
            [self._services[name] for name in names],
            seconds=self.stop_seconds,
        )

    def restart(self, *names: str) -> None:
        """Stop services and start them again; wait until they work.

        :raises ChildFailed: one ended, or does not work in time
        """
        self.halt(*names)
        self.resume(*names)

    def kill(self, *names: str) -> None:
        """End services at once, as a crash would."""
        for name in names:
            self._services[name].kill()

    def resume(self, *names: str) -> None:
        """Start services that were ended, and wait until they work.

        :raises ChildFailed: one ended, or does not work in time
        """
        # What they reported before they were ended does not count.
        now = datetime.datetime.now(datetime.UTC)
        since = now.replace(tzinfo=None).isoformat()
        for name in names:
            self._services[name].start()
        for name in names:
            self._wait(name, since)

    def configure(self, settings: cloud_settings.Settings) -> None:
        """Write other files for the same hosts; services are not restarted.

        :raises ValueError: the hosts are others
        """
        if settings.hosts != self.settings.hosts or self._parts is None:
            raise ValueError('These are not the hosts of this cloud.')
        self.settings = settings
        config.write(self._parts, settings)

    def reconfigure(self, name: str, own: cloud_settings.Options) -> None:
        """Restart one of :data:`CONTROL` with options of its own.

        :raises ChildFailed: it does not start
        """
        self.halt(name)
        config.write_service(self.folder, name, own)
        self.resume(name)

    def ensure_database(self, name: str) -> str:
        """Make a database without tables if there is none; return its URL."""
        self.parts.database.create([name])
        return self.parts.database.url(name)

    def _start(self) -> None:
        self._bound = endpoints.Endpoints.bind()
        parts = config.Parts(
            folder=self.folder,
            urls=self._bound.urls(),
            database=databases.Database(self.folder),
            bus=buses.Bus(self.folder),
        )
        self._parts = parts
        self._urls = parts.urls
        self._children = [*parts.bus.children, parts.database.child]
        parts.bus.start()
        parts.database.start()
        config.write(parts, self.settings)
        parts.database.wait()
        schemas.make(parts)
        self._make_services(self._bound)
        self._start_identity(parts)
        parts.bus.wait()
        self._start_rest(parts)

    def _make_services(self, bound: endpoints.Endpoints) -> None:
        config.write_service(self.folder, 'nova-api', {})
        made = [
            services.make_api('keystone', bound.identity, self.folder),
            services.make_api('placement', bound.placement, self.folder),
            services.make_api('glance', bound.image, self.folder),
            services.make_api('nova-api', bound.compute, self.folder),
            services.make_network(bound.network, self.folder),
            services.make_daemon('nova-conductor', self.folder),
            services.make_daemon('nova-scheduler', self.folder),
            *(
                services.make_compute(host, self.folder)
                for host in self.settings.hosts
            ),
        ]
        self._services = {one.name: one for one in made}
        # Computes first: they are the first to be stopped.
        self._children = [*reversed(made), *self._children]

    def _start_identity(self, parts: config.Parts) -> None:
        self._services['keystone'].start()
        self._wait('keystone')
        catalog.make(self.sdk, parts.urls)
        # It knows the catalog as it was at the first request.
        del self.sdk

    def _start_rest(self, parts: config.Parts) -> None:
        # Nova's conductor ends where placement does not answer yet.
        for names in (_BEFORE_NOVA, (*CONTROL, *self.settings.hosts)):
            for name in names:
                self._services[name].start()
            for name in names:
                self._wait(name)
        schemas.map_hosts(parts)

    def _wait(self, name: str, since: str = '') -> None:
        self._services[name].wait_until(
            functools.partial(self._is_ready, name, since),
            seconds=_READY_SECONDS,
            poll_seconds=_POLL_SECONDS,
        )

    def _is_ready(self, name: str, since: str) -> bool:
        url = self._find_url(name)
        if url:
            return base.answers(url)
        return self._read_reports().get(name, '') > since

    def _find_url(self, name: str) -> str | None:
        urls = self.urls
        return {
            'keystone': f'{urls.identity}/v3',
            'placement': urls.placement,
            'glance': urls.image,
            'nova-api': urls.compute,
            'network': urls.network,
        }.get(name)

    def _read_reports(self) -> dict[str, str]:
        """Return service -> time of its last report to Nova, in UTC."""
        if not base.answers(self.urls.compute):
            return {}
        return {
            one.host
            if one.binary == 'nova-compute'
            else one.binary: f'{one.updated_at}'
            for one in self.sdk.compute.services()
            if one.updated_at
        }
