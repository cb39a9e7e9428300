# SPDX-License-Identifier: Apache-2.0

"""Tells the owners of servers that these are to leave.

By the metadata of the server, which its owner and its guest can read. They can
change it, too: nothing is done by it.
"""

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation import nova_server

LOG = logging.getLogger(__name__)

#: From when on the server is shelved or deleted.
LEAVES_AT = 'nova_ext:leaves_at'

#: What is done with it then: ``shelve`` or ``delete``.
LEAVES_BY = 'nova_ext:leaves_by'


class Owners:
    """Tells each owner until the server says so."""

    def __init__(self, cloud: cloud_services.Cloud) -> None:
        self._cloud = cloud
        #: Servers whose owners could not be told, so that it is logged once.
        self._failed: set[str] = set()

    def tell(
        self,
        effort: time_budget.Effort,
        server: nova_server.NovaServer,
        one: lending.Borrower,
    ) -> None:
        """Tell the owner of a server, if it has not been done.

        A failure is logged, and does not matter to whoever has the room next.

        :param one: the same server, which was told to leave
        """
        if one.leaves_at is None or effort.is_over:
            return
        metadata = {
            LEAVES_AT: interval.format_time(one.leaves_at),
            LEAVES_BY: 'delete' if one.lease.is_deleted else 'shelve',
        }
        if metadata.items() <= server.metadata.items():
            return
        try:
            self._cloud.set_metadata(one.uuid, metadata)
        except exception.ComputeUnavailable as err:
            effort.note(err)
            self._report(one.uuid, err)
        else:
            self._failed.discard(one.uuid)

    def _report(self, uuid: str, err: exception.ComputeUnavailable) -> None:
        if uuid not in self._failed:
            self._failed.add(uuid)
            LOG.warning(
                'Could not tell the owner of server %(uuid)s, by its '
                'metadata, that the server must leave; the server leaves '
                'nevertheless: %(err)s',
                {'uuid': uuid, 'err': err},
            )
