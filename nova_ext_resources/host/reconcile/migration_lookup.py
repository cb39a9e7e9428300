# SPDX-License-Identifier: Apache-2.0

"""Asks Nova which consumers are migrations of servers."""

from collections.abc import Mapping

from oslo_log import log as logging

from nova_ext_resources.host import nova_compute
from nova_ext_resources.host.reconcile.rules import allocations
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)


class Migrations:
    """Asks for all differences of a host in turn, in one thread."""

    def __init__(self, host: str, compute: nova_compute.NovaCompute) -> None:
        self._host = host
        self._compute = compute
        # Server -> how the question for it has failed when it was asked last.
        self._failed: dict[str, type[Exception]] = {}

    def ask(
        self, differences: Mapping[str, allocations.Difference]
    ) -> dict[str, dict[str, bool]]:
        """Return which of the others of each are migrations, or may be.

        None is asked after one that fails: each may last as long as Nova
        waits. One that has failed comes last in the next round, so that it
        keeps no other from being asked.

        :param differences: by consumer uuid
        :returns: consumer uuid -> its migrations -> whether Nova may still go
            on with them, as it may with all where Nova does not answer
        """
        answers = {
            uuid: dict.fromkeys(one.others, True)
            for uuid, one in differences.items()
        }
        for uuid, one in self._sort(differences):
            server_uuid = one.entry.server_uuid
            try:
                found = self._compute.find_migrations(server_uuid, one.others)
            # Of Nova, which may be away for a while; or a bug.
            except Exception as err:
                self._note_failed(server_uuid, err)
                break
            self._failed.pop(server_uuid, None)
            answers[uuid] = dict(found)
        return answers

    def _sort(
        self, differences: Mapping[str, allocations.Difference]
    ) -> list[tuple[str, allocations.Difference]]:
        """Return those to ask for, and forget failures of all others."""
        asked = [item for item in differences.items() if item[1].others]
        servers = {one.entry.server_uuid for _, one in asked}
        self._failed = {
            uuid: error
            for uuid, error in self._failed.items()
            if uuid in servers
        }
        return sorted(
            asked, key=lambda item: item[1].entry.server_uuid in self._failed
        )

    def _note_failed(self, server_uuid: str, err: Exception) -> None:
        """Log it once for all servers, by its type.

        The texts of Nova's time-outs are never the same.
        """
        is_known = type(err) in self._failed.values()
        self._failed[server_uuid] = type(err)
        if not is_known:
            LOG.warning(
                'Host %(host)s: cannot read from Nova which migrations of '
                'server %(server)s Nova has abandoned; this will be retried: '
                '%(failure)s',
                {
                    'host': self._host,
                    'server': server_uuid,
                    'failure': plugins.describe(err),
                },
                exc_info=err,
            )
