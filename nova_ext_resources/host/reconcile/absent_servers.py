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

from nova_ext_resources import debounce
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host.claims import manager
from nova_ext_resources.host.reconcile.rules import drift
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment

Role = consumer_role.Role

LOG = logging.getLogger(__name__)

_WRONG = (Role.LEFT, Role.IN_DOUBT, Role.ELSEWHERE)

#: An entry, its role, and the server's host in Nova, where that was asked for.
_Found: TypeAlias = tuple[assignment.Entry, Role, str]


class AbsentServers:
    """Compares one answer with the one before. Used by one thread at a time.

    :param host: whose entries are compared
    """

    def __init__(self, host: manager.ClaimManager) -> None:
        self._host = host
        self._logged = log_on_change.LogOnChange()
        self._debounce = debounce.Debounce[str, _Found](confirmations=2)
        self._found: list[tuple[assignment.Entry, alarm.Problem]] = []

    def compare(
        self,
        before: drift.Entries,
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
        self._found = [
            (one[0], _make_problem(self._host.host, *one))
            for one in self._debounce.observe(found).values()
        ]
        self._logged.log_new(
            LOG.error, [problem for _, problem in self._found]
        )

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        """Return those that still have the same entry."""
        return tuple(
            problem
            for entry, problem in self._found
            if self._host.find_entry(entry.consumer_uuid) == entry
        )


def _make_problem(
    host: str, entry: assignment.Entry, role: Role, nova_host: str
) -> alarm.Problem:
    if role is Role.ELSEWHERE:
        return alarm.Problem(
            alarm=alarm.GUEST_HERE_SERVER_ELSEWHERE,
            subject=entry.server_uuid,
            text=_explain_elsewhere(host, entry, nova_host),
        )
    if role is Role.IN_DOUBT:
        return alarm.Problem(
            alarm=alarm.MIGRATION_UNCLEAR,
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
            'while Nova has the server on no host (for example after a failed '
            'unshelve or create, if the hypervisor could not end the guest). '
            f"Host {host} keeps the server's resources, and refuses to build "
            'the server again. End the guest on the host (with libvirt: '
            f'"virsh destroy {entry.server_uuid}", then "virsh undefine '
            f'{entry.server_uuid}"). The resources are released after the '
            'next comparison with Nova. See guest_here_server_elsewhere in '
            'the documentation'
        )
    return (
        f'the guest of server {entry.server_uuid} is on host {host}, while '
        f'Nova has the server on host {nova_host}, and no migration in '
        f"progress explains the difference. Host {host} keeps the server's "
        'resources. Do not start, reboot or migrate the server: Nova would '
        f'start a second guest on host {nova_host}. Nova has no operation to '
        'correct this: decide which guest to keep, and see '
        'guest_here_server_elsewhere in the documentation'
    )


def _explain_doubt(host: str, entry: assignment.Entry) -> str:
    words = (
        f'Nova does not continue migration {entry.consumer_uuid} of server '
        f'{entry.server_uuid}, but host {host} still keeps the resources'
    )
    if _is_coming(entry):
        return (
            f'{words} claimed for the server, because the server may still '
            'move to this host. If the alarm stays, look at the migration and '
            'at the allocations of both uuids, see migration_unclear in the '
            'documentation'
        )
    return (
        f'{words} that the server had before, because the server may still '
        'need them. If the server is in ERROR, reboot it hard. If it is not '
        'in ERROR, or the alarm stays, look at the migration and at the '
        'allocations of both uuids, see migration_unclear in the documentation'
    )


def _explain_missing(host: str, entry: assignment.Entry) -> str:
    if _is_coming(entry):
        return (
            f'host {host} holds resources for a move of server '
            f'{entry.server_uuid}, but no migration to the host is in '
            'progress: Nova has abandoned the move, or has moved the server '
            'to another host. Neither Nova nor the hypervisor has the server '
            'on this host. If Nova has the server on another host or on no '
            'host, and shows no task for the server, restart nova-compute, '
            'which then releases the resources'
        )
    return (
        f'server {entry.server_uuid} holds resources of host {host}, but '
        'neither Nova nor the hypervisor has the server on this host. If the '
        'server belongs on another host, or on no host, restart nova-compute, '
        'which then releases the resources'
    )


def _is_coming(entry: assignment.Entry) -> bool:
    return entry.purpose is assignment.Purpose.MIGRATION_DEST
