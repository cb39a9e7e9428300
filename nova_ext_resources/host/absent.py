# SPDX-License-Identifier: Apache-2.0

"""Finds entries of servers that are nowhere, and of moves in doubt.

At a start, what they hold is released: Nova has just checked that it knows
this host. Later a server may be missing from one answer of Nova for many
reasons, such as an evacuation that has not ended, and nothing is released. A
server that is missing from two answers in a row is reported, and so is a move
with which Nova does not go on, while what it has kept must stay.
"""

from collections.abc import Mapping
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources.host import audit
from nova_ext_resources.host import lifecycle
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import role as role_obj

Role = role_obj.Role

LOG = logging.getLogger(__name__)

_WRONG = (Role.LEFT, Role.IN_DOUBT)

_Found: TypeAlias = tuple[assignment.Entry, Role]


class Absent:
    """Compares one answer with the one before. Used by one thread at a time.

    :param host: whose entries are compared
    """

    def __init__(self, host: lifecycle.Lifecycle) -> None:
        self._host = host
        self._once: Mapping[str, _Found] = {}
        self._twice: Mapping[str, _Found] = {}

    def compare(
        self, before: audit.Entries, roles: Mapping[str, Role]
    ) -> None:
        """Take an answer.

        :param before: the entries before Nova and the hypervisor were asked
        :param roles: of all consumers that one of them knows
        """
        found = {
            uuid: (entry, roles.get(uuid, Role.LEFT))
            for uuid, entry in before.items()
            if roles.get(uuid, Role.LEFT) in _WRONG
            and entry.state is not assignment.State.RELEASING
            and not self._host.is_starting(uuid)
        }
        former = self._twice
        self._twice = {
            uuid: one
            for uuid, one in found.items()
            if self._once.get(uuid) == one
        }
        for uuid, one in self._twice.items():
            if former.get(uuid) != one:
                LOG.error('%(problem)s', {'problem': self._make_problem(*one)})
        self._once = found

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        """Return those that still have the same entry."""
        return tuple(
            self._make_problem(entry, role)
            for uuid, (entry, role) in self._twice.items()
            if self._host.find_entry(uuid) == entry
        )

    def _make_problem(
        self, entry: assignment.Entry, role: Role
    ) -> alarm.Problem:
        if role is Role.IN_DOUBT:
            return alarm.Problem(
                alarm=alarm.MOVE_IN_DOUBT,
                subject=entry.server_uuid,
                text=f'Nova does not go on with migration '
                f'{entry.consumer_uuid} of server {entry.server_uuid}, and '
                f'host {self._host.host} still keeps what the server had '
                'before, because nothing proves whose it is. If the server '
                'is in ERROR, reboot it hard. Otherwise, and if this stays, '
                'look at the migration and at the allocations of both uuids, '
                'see move_in_doubt in the documentation',
            )
        return alarm.Problem(
            alarm=alarm.NOT_IN_NOVA,
            subject=entry.consumer_uuid,
            text=f'server {entry.server_uuid} holds resources of host '
            f'{self._host.host}, but is neither among the servers that Nova '
            'has on it nor known to its hypervisor. If the server is to be '
            'on another host, or nowhere, restart nova-compute, which then '
            'releases them',
        )
