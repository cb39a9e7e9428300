# SPDX-License-Identifier: Apache-2.0

"""Finds entries of servers that are nowhere while the service runs.

At a start, what they hold is released: Nova has just checked that it knows
this host. Later a server may be missing from one answer of Nova for many
reasons, such as an evacuation that has not ended, and nothing is released. A
server that is missing from two answers in a row is reported.
"""

from oslo_log import log as logging

from nova_ext_resources.host import audit
from nova_ext_resources.host import lifecycle
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment

LOG = logging.getLogger(__name__)


class Absent:
    """Compares one answer with the one before. Used by one thread at a time.

    :param host: whose entries are compared
    """

    def __init__(self, host: lifecycle.Lifecycle) -> None:
        self._host = host
        self._once: audit.Entries = {}
        self._twice: audit.Entries = {}

    def compare(self, before: audit.Entries, live: frozenset[str]) -> None:
        """Take an answer.

        :param before: the entries before Nova and the hypervisor were asked
        :param live: uuids of all consumers that one of them has here
        """
        missing = {
            uuid: entry
            for uuid, entry in before.items()
            if uuid not in live
            and entry.state is not assignment.State.RELEASING
            and not self._host.is_starting(uuid)
        }
        self._twice = {
            uuid: entry
            for uuid, entry in missing.items()
            if self._once.get(uuid) == entry
        }
        for entry in self._twice.values():
            LOG.error('%(problem)s', {'problem': self._make_problem(entry)})
        self._once = missing

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        """Return those that still have the same entry."""
        return tuple(
            self._make_problem(entry)
            for uuid, entry in self._twice.items()
            if self._host.find_entry(uuid) == entry
        )

    def _make_problem(self, entry: assignment.Entry) -> alarm.Problem:
        return alarm.Problem(
            alarm=alarm.NOT_IN_NOVA,
            subject=entry.consumer_uuid,
            text=f'server {entry.server_uuid} holds resources of host '
            f'{self._host.host}, but is neither among the servers that Nova '
            'has on it nor known to its hypervisor. If the server is to be '
            'on another host, or nowhere, restart nova-compute, which then '
            'releases them',
        )
