# SPDX-License-Identifier: Apache-2.0

"""Finds what is planned on resource providers that are gone.

A host that was installed anew has the name that it had, and other providers. A
device that was taken out has none. What was planned on the former ones is kept
for nobody there.
"""

from collections.abc import Set

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation import outage
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import servers

#: Seconds after which placement is asked again.
CHECK_SECONDS = 60


class Replaced:
    """Asks placement for all providers, from time to time."""

    def __init__(
        self, database: databases.Database, cloud: cloud_services.Cloud
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._asked: Set[str] = frozenset()
        self._asked_at = interval.ALWAYS
        self._gone: Set[str] = frozenset()

    def list(self, hosts: Set[str], now: int) -> frozenset[outage.Part]:
        """Return what is planned on providers that its host does not have.

        :param hosts: that are in placement
        :param now: seconds since the epoch
        :raises PlacementError: placement cannot be read
        """
        with self._database.transaction() as connection:
            found = [
                one
                for one in servers.list_providers(connection, now)
                if one[1] in hosts
            ]
        self._ask({rp_uuid for one in found for rp_uuid in one[2]}, now)
        return frozenset(
            (key, host) for key, host, own in found if own & self._gone
        )

    def _ask(self, rp_uuids: Set[str], now: int) -> None:
        is_due = not 0 <= now - self._asked_at < CHECK_SECONDS
        if rp_uuids <= self._asked and not is_due:
            return
        self._gone = self._cloud.find_gone(rp_uuids)
        self._asked, self._asked_at = rp_uuids, now
