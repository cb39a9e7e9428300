# SPDX-License-Identifier: Apache-2.0

"""Servers for which there is no room, or no right."""

from openstack.compute.v2 import server as sdk_server
from openstack import connection

from cloud import reservations
from cloud import servers
from cloud import told
from tools.gate import site as sites


def boot(
    site: sites.Site,
    name: str,
    flavor: str,
    *,
    reservation: str | None = None,
    reason: str = 'No valid host',
    sdk: connection.Connection | None = None,
) -> None:
    """Do as :func:`ask` does, and delete the server."""
    made = ask(
        site, name, flavor, reservation=reservation, reason=reason, sdk=sdk
    )
    site.delete(made.id)


def ask(
    site: sites.Site,
    name: str,
    flavor: str,
    *,
    reservation: str | None = None,
    reason: str = 'No valid host',
    sdk: connection.Connection | None = None,
) -> sdk_server.Server:
    """Ask for a server for which no host must be found; return it.

    :param reservation: of which it is to have a place
    :param reason: what Nova must say of it
    :param sdk: of the user who asks
    :raises NotAsTold: it is built, or Nova says something else
    """
    made = servers.boot(
        sdk or site.cloud.sdk,
        name,
        flavor_id=site.flavors[flavor],
        image_id=site.images[sites.IMAGES[0]],
        hints={reservations.HINT: reservation} if reservation else None,
        seconds=sites.PATIENCE,
    )
    fault = servers.fault(made)
    told.expect(
        made.status == 'ERROR' and reason in fault,
        f'{name} is refused: {reason}',
        f'{made.status}: {fault}',
    )
    return made
