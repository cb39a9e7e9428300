# SPDX-License-Identifier: Apache-2.0

"""Everything that the acts of the story share."""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
import pathlib

from openstack.compute.v2 import server
from openstack import connection

from cloud import endpoints
from cloud import extended
from cloud import folder as folders
from cloud import journal
from cloud.lite import cloud as clouds
from cloud import machines as machines_mod
from cloud.machines import base as machines_base
from cloud import options
from cloud import reservations as reservations_mod
from cloud import servers
from cloud import settings as cloud_settings
from demo import stage as stages
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import schema

#: How often Nova asks a host for its statistics, in seconds, after which
#: the host looks at what it has and tells placement. It is a minute where
#: nobody watches.
REFRESH_SECONDS = 2


@dataclasses.dataclass(slots=True, kw_only=True)
class Scene:
    """The running cloud and what the story has made in it so far.

    :ivar backend: what manages the cache, as in ``nova.conf``
    :ivar machines: host -> its machine
    :ivar image_id: the image that all servers boot from
    :ivar pages: host -> URL of its health and metrics
    :ivar flavors: name -> id of the flavors
    :ivar servers: name -> id of the servers that exist now
    :ivar names: id -> name of all servers that ever were
    """

    stage: stages.Stage
    cloud: clouds.Cloud
    backend: str
    machines: Mapping[str, machines_base.Machine]
    pages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_id: str = ''
    flavors: dict[str, str] = dataclasses.field(default_factory=dict)
    servers: dict[str, str] = dataclasses.field(default_factory=dict)
    names: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the compute hosts."""
        return self.cloud.settings.hosts

    @property
    def manager(self) -> str:
        """What manages the cache, for people."""
        return next(iter(self.machines.values())).manager

    @property
    def sdk(self) -> connection.Connection:
        """The administrator's openstacksdk connection."""
        return self.cloud.sdk

    def boot(
        self,
        name: str,
        flavor: str,
        *,
        host: str | None = None,
        reservation: str | None = None,
    ) -> server.Server:
        """Boot a server of the story; it may be in ERROR.

        :param host: the only host that may build it
        :param reservation: of which it is to have a place
        :raises NotAsTold: Nova could not make up its mind
        """
        made = servers.boot(
            self.sdk,
            name,
            flavor_id=self.flavors[flavor],
            image_id=self.image_id,
            host=host,
            hints={reservations_mod.HINT: reservation}
            if reservation
            else None,
        )
        self.servers[name] = made.id
        self.names[made.id] = name
        return made

    def delete(self, name: str) -> None:
        """Delete a server of the story.

        :raises NotAsTold: it does not go away
        """
        servers.delete(self.sdk, self.servers.pop(name))

    @property
    def reservations(self) -> reservations_mod.Reservations:
        """The commands and the manager of reservations."""
        folder = self.cloud.folder
        return reservations_mod.Reservations(
            folder, [folder.etc / 'nova.conf']
        )

    @property
    def journal(self) -> journal.Journal:
        """The log of Nova's services."""
        return journal.Journal(self.cloud.folder.nova_log)


@contextlib.contextmanager
def opened(
    stage: stages.Stage, *, computes: int, backend: str
) -> Iterator[Scene]:
    """Start machines and cloud; stop and remove all of it at the end.

    :param backend: one of :data:`.machines.BACKENDS`
    :raises CloudError: something did not start
    """
    hosts = tuple(f'node{number + 1}' for number in range(computes))
    with contextlib.ExitStack() as stack:
        folder = folders.Folder.create()
        stack.callback(folder.remove)
        with stage.step(f'Start {computes} simulated machines with {backend}'):
            started = _start_machines(backend, hosts, folder, stack)
        ports = {host: endpoints.find_free_port() for host in hosts}
        # Without its tables, the filter lets no server in.
        schema.ensure(loading.open_database(_reservations_url(folder)))
        with stage.step('Start placement, Nova and glance') as step:
            cloud = stack.enter_context(
                clouds.Cloud(
                    _settings(backend, folder, started, ports),
                    folder=folder,
                )
            )
            step.result = f'{computes} computes'
        yield Scene(
            stage=stage,
            cloud=cloud,
            backend=backend,
            machines=started,
            pages={
                host: f'http://127.0.0.1:{port}'
                for host, port in ports.items()
            },
        )


def _start_machines(
    backend: str,
    hosts: tuple[str, ...],
    folder: folders.Folder,
    stack: contextlib.ExitStack,
) -> dict[str, machines_base.Machine]:
    make = machines_mod.BACKENDS[backend]
    made = {host: make(host, folder, machines_base.HARDWARE) for host in hosts}
    for one in made.values():
        stack.callback(one.stop)
        one.start()
    for one in made.values():
        one.wait()
    return made


def ledger_path(folder: folders.Folder, host: str) -> pathlib.Path:
    """Return the file of a host's ledger."""
    return folder.lib / f'{host}-ledger.sqlite'


def _settings(
    backend: str,
    folder: folders.Folder,
    started: Mapping[str, machines_base.Machine],
    ports: Mapping[str, int],
) -> cloud_settings.Settings:
    chosen = {'inventory_providers': backend, 'enforcers': backend}
    reserved = {'connection': _reservations_url(folder)}
    return cloud_settings.Settings(
        hosts=tuple(started),
        nova=options.merge(
            extended.NOVA,
            reservations_mod.SCHEDULER,
            _NOVA,
            {'ext_resources': chosen, 'ext_resources_reservation': reserved},
        ),
        per_host={
            host: {
                'ext_resources': {
                    'ledger_path': str(ledger_path(folder, host))
                },
                'ext_resources_metrics': {'port': str(ports[host])},
                **one.options(),
            }
            for host, one in started.items()
        },
    )


def _reservations_url(folder: folders.Folder) -> str:
    return f'sqlite:///{folder.lib}/reservations.db'


_NOVA: cloud_settings.Options = {
    'DEFAULT': {
        'update_resources_interval': str(REFRESH_SECONDS),
        # The resource tracker says when it begins and ends, see
        # demo.hearing; the others would only fill the log.
        'default_log_levels': 'nova.compute.resource_tracker=DEBUG,'
        'neutronclient=ERROR,sqlalchemy=WARN,stevedore=WARN',
    },
    'ext_resources_reservation': {
        # Seconds; a story has no time for the defaults.
        'interval': '1',
        'clock_wait': '0',
        # The end is never far away, and of no interest here.
        'end_notice': '0',
    },
    'filter_scheduler': {
        # So strong that free memory alone decides, see demo.ballast.
        'ram_weight_multiplier': '100',
    },
}
