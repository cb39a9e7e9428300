# SPDX-License-Identifier: Apache-2.0

"""What a host needs of the nova-compute in which it runs.

The driver that Nova has loaded answers, from Nova's records and from the
hypervisor. Nothing here imports Nova.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses

from nova_ext_resources.host import guests
from nova_ext_resources.host import migrations
from nova_ext_resources.host import orphans
from nova_ext_resources.host import periodic
from nova_ext_resources.host import restore
from nova_ext_resources.host import unheld
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import server as server_obj


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
    :ivar find_migrations: see :data:`.migrations.FindMigrations`
    :ivar explain: see :data:`.unheld.Explain`
    :ivar examine: see :data:`.orphans.Examine`; called like ``list_roles``
    :ivar list_known: returns the uuids of the servers that Nova has here, or
        moves from or to here, whatever the hypervisor has; called like
        ``list_roles``
    :ivar find_hosts: returns server -> its host in Nova, '' for none, of the
        servers that it is given; called like ``list_roles``
    :ivar list_requests: returns what each server requests, see
        :meth:`.Restore.expect`, of those that Nova and the hypervisor have
        here, and that nothing is done with now; called like ``list_roles``
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
    list_roles: periodic.ListRoles
    find_migrations: migrations.FindMigrations
    explain: unheld.Explain
    examine: orphans.Examine
    list_known: Callable[[], Collection[str]]
    find_hosts: Callable[[frozenset[str]], Mapping[str, str]]
    list_requests: Callable[[], restore.Requests]
    list_servers: Callable[[], Mapping[str, server_obj.NovaServer]]
    list_guests: Callable[[], guests.Guests]
    find_building: Callable[[frozenset[str]], Collection[str]]
    list_problems: Callable[[], Iterable[alarm.Problem]]
    long_call_timeout: float
