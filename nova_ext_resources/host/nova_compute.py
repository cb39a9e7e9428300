# SPDX-License-Identifier: Apache-2.0

"""What a host needs of the nova-compute in which it runs.

The driver that Nova has loaded answers, from Nova's records and from the
hypervisor. Nothing here imports Nova.
"""

from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Mapping,
)
import dataclasses
from typing import TypeAlias

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.facts import deletion_evidence
from nova_ext_resources.facts import guest
from nova_ext_resources.facts import server
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment

Entries: TypeAlias = Mapping[str, assignment.Entry]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NovaCompute:
    """What a host tells nova-compute, and what it asks.

    None of it has a default: a question that Nova does not hear would be
    answered as if it had no servers here. A question may raise anything, and
    take as long as Nova's conductor or the hypervisor does.

    :ivar on_deleted: called after providers were deleted from placement
    :ivar list_roles: returns the role of each consumer that Nova or the
        hypervisor has here, and of each entry that a move has left; gets the
        entries; called in a thread, after :meth:`.Periodic.accept_host`
    :ivar find_migrations: asks Nova's database; gets the uuid of a server and
        those of consumers; returns which of these are migrations of the
        server, and whether Nova may still go on with them
    :ivar explain: gets the uuids of consumers without an entry, and those of
        the servers for which the host has one; returns uuid -> words for an
        operator, of those consumers with which Nova does not go on, or only
        does for a moment
    :ivar examine: asks Nova and the hypervisor about the server of an entry
        now; called like ``list_roles``
    :ivar list_known: returns the uuids of the servers that Nova has here, or
        moves from or to here, whatever the hypervisor has; called like
        ``list_roles``
    :ivar find_hosts: returns server -> its host in Nova, '' for none, of the
        servers that it is given; called like ``list_roles``
    :ivar list_requests: returns what each server requests, see
        :meth:`.RebuildEntries.expect`, of those that Nova and the hypervisor
        have here, and that nothing is done with now; called like
        ``list_roles``
    :ivar list_servers: describes Nova's servers here, by uuid; called in a
        thread of its own, and for metrics and monitoring only
    :ivar list_guests: returns server -> its guest, of all that have
        processes on this host now; called in threads of its own, often
    :ivar find_building: returns which of these consumers are servers that
        Nova builds here, or may build here; called in threads of claims
    :ivar list_problems: returns what is wrong with the configuration of Nova
        itself; no I/O
    :ivar long_call_timeout: seconds for which Nova's services wait for each
        other in a call that may take long
    """

    on_deleted: Callable[[], None]
    list_roles: Callable[[Entries], Mapping[str, consumer_role.Role]]
    find_migrations: Callable[[str, Collection[str]], Mapping[str, bool]]
    explain: Callable[[Iterable[str], Container[str]], Mapping[str, str]]
    examine: Callable[[assignment.Entry], deletion_evidence.Evidence]
    list_known: Callable[[], Collection[str]]
    find_hosts: Callable[[frozenset[str]], Mapping[str, str]]
    list_requests: Callable[[], Mapping[str, assignment.ClaimRequest]]
    list_servers: Callable[[], Mapping[str, server.NovaServer]]
    list_guests: Callable[[], Mapping[str, guest.Guest]]
    find_building: Callable[[frozenset[str]], Collection[str]]
    list_problems: Callable[[], Iterable[alarm.Problem]]
    long_call_timeout: float
