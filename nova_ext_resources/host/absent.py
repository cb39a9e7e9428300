# SPDX-License-Identifier: Apache-2.0

"""Finds entries of servers that are nowhere or elsewhere, or move in doubt.

At a start, what they hold is released: Nova has just checked that it knows
this host. Later a server may be missing from one answer of Nova for many
reasons, such as an evacuation that has not ended, and nothing is released but
what Nova has a record of: a move that has ended, a server that is deleted or
shelved, or was never built. A server that is missing from two answers in a row
is reported. So are a move with which Nova does not go on, while what it has
kept must stay, and a server that Nova has on another host or on none, while
its guest is on this one and keeps what it has.
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

_WRONG = (Role.LEFT, Role.IN_DOUBT, Role.ELSEWHERE)

#: An entry, its role, and the server's host in Nova, where that was asked for.
_Found: TypeAlias = tuple[assignment.Entry, Role, str]


class Absent:
    """Compares one answer with the one before. Used by one thread at a time.

    :param host: whose entries are compared
    """

    def __init__(self, host: lifecycle.Lifecycle) -> None:
        self._host = host
        self._once: Mapping[str, _Found] = {}
        self._twice: Mapping[str, _Found] = {}

    def compare(
        self,
        before: audit.Entries,
        roles: Mapping[str, Role],
        hosts: Mapping[str, str],
    ) -> None:
        """Take an answer.

        :param before: the entries before Nova and the hypervisor were asked
        :param roles: of all consumers that one of them knows
        :param hosts: server -> its host in Nova, of those that are elsewhere
        """
        found = {
            uuid: (entry, roles.get(uuid, Role.LEFT), hosts.get(uuid, ''))
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
                problem = _make_problem(self._host.host, *one)
                LOG.error('%(problem)s', {'problem': problem})
        self._once = found

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        """Return those that still have the same entry."""
        return tuple(
            _make_problem(self._host.host, *one)
            for uuid, one in self._twice.items()
            if self._host.find_entry(uuid) == one[0]
        )


def _make_problem(
    host: str, entry: assignment.Entry, role: Role, nova_host: str
) -> alarm.Problem:
    if role is Role.ELSEWHERE:
        return alarm.Problem(
            alarm=alarm.SERVER_ELSEWHERE,
            subject=entry.server_uuid,
            text=_explain_elsewhere(host, entry, nova_host),
        )
    if role is Role.IN_DOUBT:
        return alarm.Problem(
            alarm=alarm.MOVE_IN_DOUBT,
            subject=entry.server_uuid,
            text=_explain_doubt(host, entry),
        )
    return alarm.Problem(
        alarm=alarm.NOT_IN_NOVA,
        subject=entry.consumer_uuid,
        text=_explain_missing(host, entry),
    )


def _explain_elsewhere(
    host: str, entry: assignment.Entry, nova_host: str
) -> str:
    if not nova_host:
        return (
            f'the guest of server {entry.server_uuid} is on host {host}, '
            'while Nova has the server on no host, as after an unshelve or a '
            'create that failed when the hypervisor could not end the guest. '
            f'Host {host} keeps what the server holds, and does not build the '
            'server anew. End the guest on the host, with libvirt by "virsh '
            f'destroy {entry.server_uuid}" and "virsh undefine '
            f'{entry.server_uuid}": what it holds is released after the next '
            'comparison with Nova. See server_elsewhere in the documentation'
        )
    return (
        f'the guest of server {entry.server_uuid} is on host {host}, while '
        f'Nova has the server on host {nova_host}, and no migration in '
        f'progress explains that. Host {host} keeps what the server holds. Do '
        'not start, reboot or migrate the server: Nova would start a second '
        f'guest on host {nova_host}. Nova has no operation that mends this: '
        'find out which of the two hosts has the guest that is to stay, and '
        'see server_elsewhere in the documentation'
    )


def _explain_doubt(host: str, entry: assignment.Entry) -> str:
    words = (
        f'Nova does not go on with migration {entry.consumer_uuid} of server '
        f'{entry.server_uuid}, and host {host} still keeps what'
    )
    if _is_coming(entry):
        return (
            f'{words} it has claimed for the server, which is to move to '
            'this host, because nothing proves that it will not come. If '
            'this stays, look at the migration and at the allocations of '
            'both uuids, see move_in_doubt in the documentation'
        )
    return (
        f'{words} the server had before, because nothing proves whose it is. '
        'If the server is in ERROR, reboot it hard. Otherwise, and if this '
        'stays, look at the migration and at the allocations of both uuids, '
        'see move_in_doubt in the documentation'
    )


def _explain_missing(host: str, entry: assignment.Entry) -> str:
    if _is_coming(entry):
        return (
            f'server {entry.server_uuid} is to move to host {host}, which '
            'holds resources for it, but no migration in progress brings it '
            'there: Nova has given the move up, or has moved the server to '
            'another host. It is neither among the servers that Nova has on '
            'the host nor known to its hypervisor. If Nova has the server on '
            'another host, or nowhere, and no task of it goes on, restart '
            'nova-compute, which then releases them'
        )
    return (
        f'server {entry.server_uuid} holds resources of host {host}, but is '
        'neither among the servers that Nova has on it nor known to its '
        'hypervisor. If the server is to be on another host, or nowhere, '
        'restart nova-compute, which then releases them'
    )


def _is_coming(entry: assignment.Entry) -> bool:
    return entry.purpose is assignment.Purpose.INCOMING
