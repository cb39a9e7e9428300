# SPDX-License-Identifier: Apache-2.0

"""Shelves servers that are to wait for their reservation."""

import functools

from nova_ext_resources.reservation.manager import case as case_mod
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import removal
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation import waiting


class Shelving:
    """Has servers shelved and offloaded whose owners ask for it.

    By their metadata, which is looked at again directly before.
    """

    def __init__(
        self, database: databases.Database, cloud: cloud_services.Cloud
    ) -> None:
        self._database = database
        self._removal = removal.Removal(cloud)

    def begin(self, effort: time_budget.Effort, now: int) -> None:
        """Begin a pass.

        :param effort: of the part of the pass that shelves servers
        :param now: seconds since the epoch
        """
        self._removal.begin(effort, now)

    def shelve(
        self, case: case_mod.Case, server: nova_server.NovaServer
    ) -> bool:
        """Ask Nova for the next step until a server waits.

        :returns: whether it is on its way
        """
        if not case.is_steady:
            return True
        missing = self._removal.remove(
            server.uuid,
            functools.partial(self._check, case),
            is_deleted=False,
        )
        return bool(missing)

    def _check(
        self, case: case_mod.Case, server: nova_server.NovaServer
    ) -> str:
        """Return why a server is not shelved: it is not as it was."""
        if not waiting.can_be_shelved(server):
            return (
                'its owner has locked the server, or the server no longer runs'
            )
        name = server.metadata.get(nova_server.RESERVATION, '')
        if not plan_request.is_named(case.key, name):
            return f'the server no longer belongs to reservation {case.key}'
        with self._database.transaction() as connection:
            found = progress.list_unfinished(connection, case.key)
            taken = servers.find_taken(connection, server.uuid)
        if not found or found[0].during != case.one.during:
            return f'reservation {case.key} has changed meanwhile'
        if taken is not None:
            return 'it has a place in a reservation now'
        return ''
