# SPDX-License-Identifier: Apache-2.0

"""A cloud that servers are booted in: with image, flavors and machines."""

from collections.abc import Callable, Mapping
import dataclasses
import functools
from typing import Any, TypeVar

from openstack.compute.v2 import server as sdk_server
from openstack import connection

from dev.cloud import base
from dev.cloud import commands
from dev.cloud.machines import base as machines_base
from dev.cloud import reservations
from dev.cloud import servers
from dev.cloud import waiting

_Found = TypeVar('_Found')


@dataclasses.dataclass(kw_only=True)
class Site:
    """What the acts of a story share, or the scenarios of a gate.

    :ivar machines: host -> its machine
    :ivar image_id: the image that servers boot from
    :ivar flavors: name -> id of the flavors
    :ivar patience: seconds for what takes a few of them on an idle machine
    """

    cloud: base.Cloud
    machines: Mapping[str, machines_base.Machine] = dataclasses.field(
        default_factory=dict
    )
    image_id: str = ''
    flavors: dict[str, str] = dataclasses.field(default_factory=dict)
    patience: float = servers.SECONDS

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the compute hosts."""
        return self.cloud.settings.hosts

    @property
    def sdk(self) -> connection.Connection:
        """The administrator's openstacksdk connection."""
        return self.cloud.sdk

    def run(self, *words: str) -> str:
        """Run one ``openstack`` command; return what it printed.

        :raises NotAsTold: it fails
        """
        return commands.run(self.cloud.folder, *words)

    def wait_until(self, find: Callable[[], _Found | None], told: str) -> None:
        """Wait for something that services do in their own time.

        :param told: what should become so, for the error
        :raises NotAsTold: it did not
        """
        waiting.until(find, told, seconds=self.patience, poll_seconds=1.0)

    def upload_image(self, name: str) -> str:
        """Make an image of 512 bytes; return its id."""
        image = self.sdk.image.upload_image(
            name=name,
            disk_format='raw',
            container_format='bare',
            # Users of other projects boot from it, too.
            visibility='public',
            data=bytes(512),
        )
        return str(image.id)

    def add_flavor(
        self,
        name: str,
        extra_specs: Mapping[str, str],
        *,
        vcpus: int = 1,
        ram: int = 64,
    ) -> None:
        """Make one more flavor.

        :param ram: MiB
        """
        compute = self.sdk.compute
        made = compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=1)
        if extra_specs:
            compute.create_flavor_extra_specs(made, dict(extra_specs))
        self.flavors[name] = str(made.id)

    def create(
        self,
        name: str,
        flavor: str,
        *,
        host: str | None = None,
        reservation: str | None = None,
        sdk: connection.Connection | None = None,
    ) -> str:
        """Ask for a server; return its uuid at once.

        :param host: the host to build on, past the scheduler's choice
        :param reservation: of which it is to have a place
        :param sdk: of the user who asks
        """
        where: dict[str, Any] = {'host': host} if host else {}
        if reservation:
            where['scheduler_hints'] = {reservations.HINT: reservation}
        asked = (sdk or self.sdk).compute.create_server(
            name=name,
            flavor_id=self.flavors[flavor],
            image_id=self.image_id,
            networks='none',
            **where,
        )
        return str(asked.id)

    def ask(
        self,
        name: str,
        flavor: str,
        *,
        host: str | None = None,
        reservation: str | None = None,
        sdk: connection.Connection | None = None,
    ) -> sdk_server.Server:
        """Create a server and wait until Nova has decided; it may be ERROR.

        :raises NotAsTold: it was still building after a long time
        """
        server_id = self.create(
            name, flavor, host=host, reservation=reservation, sdk=sdk
        )
        return waiting.until(
            functools.partial(
                servers.find_decided, sdk or self.sdk, server_id
            ),
            f'server {name} is ACTIVE or ERROR',
            seconds=self.patience,
        )

    def boot(
        self,
        name: str,
        flavor: str,
        *,
        host: str | None = None,
        reservation: str | None = None,
        sdk: connection.Connection | None = None,
    ) -> sdk_server.Server:
        """Create a server that must be ACTIVE.

        :raises NotAsTold: it is not
        """
        made = self.ask(
            name, flavor, host=host, reservation=reservation, sdk=sdk
        )
        servers.check_active(made)
        return made

    def wait_for(self, status: str, *server_ids: str) -> None:
        """Wait until servers have a status and no task.

        :raises NotAsTold: one has not
        """
        for server_id in server_ids:
            servers.wait_for(
                self.sdk, server_id, status, seconds=self.patience
            )

    def delete(self, server_id: str) -> None:
        """Delete a server and wait until it is gone.

        :raises NotAsTold: it stays
        """
        servers.delete(self.sdk, server_id, seconds=self.patience)
