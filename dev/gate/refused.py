# SPDX-License-Identifier: Apache-2.0

"""Servers for which there is no room, or no right."""

from collections.abc import Callable

from openstack import connection

from dev.cloud import servers
from dev.cloud import told
from dev.gate import site as sites


def boot(
    site: sites.Site,
    name: str,
    flavor: str,
    *,
    reservation: str | None = None,
    reason: str = 'No valid host',
    sdk: connection.Connection | None = None,
    look: Callable[[str], None] | None = None,
) -> None:
    """Ask for a server for which no host must be found, and delete it.

    :param reservation: of which it is to have a place
    :param reason: what Nova must say of it
    :param sdk: of the user who asks
    :param look: looks at it by its uuid, before it is deleted
    :raises NotAsTold: it is built, or Nova says something else
    """
    made = site.ask(name, flavor, reservation=reservation, sdk=sdk)
    fault = servers.fault(made)
    told.expect(
        made.status == 'ERROR' and reason in fault,
        f'{name} is refused: {reason}',
        f'{made.status}: {fault}',
    )
    if look is not None:
        look(made.id)
    site.delete(made.id)
