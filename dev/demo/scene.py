# SPDX-License-Identifier: Apache-2.0

"""Everything that the acts of the story share."""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses

from openstack import connection

from dev.cloud import endpoints
from dev.cloud import extended
from dev.cloud import folder as folders
from dev.cloud import journal
from dev.cloud.lite import cloud as clouds
from dev.cloud import machines
from dev.cloud.machines import base as machines_base
from dev.cloud import options
from dev.cloud import reservations as reservations_mod
from dev.cloud import settings as cloud_settings
from dev.cloud import site
from dev.cloud import told
from dev.cloud import tree
from dev.demo import stage as stages
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import schema

#: How often Nova asks a host for its statistics, in seconds, after which
#: the host looks at what it has and tells placement. It is a minute where
#: nobody watches.
REFRESH_SECONDS = 2


@dataclasses.dataclass(kw_only=True)
class Scene(site.Site):
    """The running cloud and what the story has made in it so far.

    :ivar backend: what manages the cache, as in ``nova.conf``
    :ivar pages: host -> URL of its health and metrics
    :ivar servers: name -> id of the servers that exist now
    :ivar names: id -> name of all servers that ever were
    """

    stage: stages.Stage
    cloud: clouds.Cloud
    backend: str
    pages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    servers: dict[str, str] = dataclasses.field(default_factory=dict)
    names: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def manager(self) -> str:
        """What manages the cache, for people."""
        return next(iter(self.machines.values())).manager

    def create(
        self,
        name: str,
        flavor: str,
        *,
        host: str | None = None,
        reservation: str | None = None,
        sdk: connection.Connection | None = None,
    ) -> str:
        """Ask for a server of the story; return its uuid at once."""
        server_id = super().create(
            name, flavor, host=host, reservation=reservation, sdk=sdk
        )
        self.servers[name] = server_id
        self.names[server_id] = name
        return server_id

    def delete(self, name: str) -> None:
        """Delete a server of the story.

        :raises NotAsTold: it does not go away, or still holds something
        """
        server_id = self.servers.pop(name)
        super().delete(server_id)
        left = tree.list_allocations(self.cloud.placement, server_id)
        told.expect(not left, f'{name} holds nothing', left)

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
            started = machines.start(
                dict.fromkeys(hosts, backend), folder, stack
            )
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
                'ext_resources': {'ledger_path': str(folder.get_ledger(host))},
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
        # dev.demo.hearing; the others would only fill the log.
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
        # So strong that free memory alone decides, see dev.demo.ballast.
        'ram_weight_multiplier': '100',
    },
}
