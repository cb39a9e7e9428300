# SPDX-License-Identifier: Apache-2.0

"""Makes entries anew for servers that the ledger has lost.

Of a server that Nova and the hypervisor have here, placement knows how much
of what was allocated to it, and the host shows what is applied. Where these
agree, the server has its entry again, and notices nothing. Where they do not,
an alarm is raised, and what the server uses is given to no other.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.host import resources as host_mod
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import assignment

LOG = logging.getLogger(__name__)

Requests = Mapping[str, assignment.ClaimRequest]
Allocations = Mapping[str, Mapping[str, int]]


class Restore:
    """Tries again in every round. Used by one thread at a time.

    :ivar problems: of servers that have no entry yet
    :param restore: calls :meth:`.lifecycle.Lifecycle.restore`, and has
        placement follow
    :param read_allocations: returns all that placement has allocated to a
        server
    """

    def __init__(
        self,
        host: host_mod.HostResources,
        *,
        restore: Callable[..., assignment.Entry | None],
        read_allocations: Callable[[str], Allocations],
    ) -> None:
        self._host = host
        self._restore = restore
        self._read_allocations = read_allocations
        self._waiting: dict[str, assignment.ClaimRequest] = {}
        self.problems: tuple[alarm_mod.Problem, ...] = ()

    def expect(self, requests: Requests) -> None:
        """Note what the servers request that are here, without allocations."""
        self._waiting = dict(requests)

    def run(self) -> None:
        """Restore what can be restored now. Does I/O where any is missing."""
        self._drop_known()
        if not self._waiting:
            self._report(())
            return
        applied, failures = self._host.enforcement.list_applied()
        if failures or self._host.found.missing:
            # These have alarms of their own; without them nothing is certain.
            return
        everywhere = frozenset[str]().union(*applied.values())
        problems = [
            self._restore_one(request, uuid in everywhere)
            for uuid, request in tuple(self._waiting.items())
        ]
        self._drop_known()
        self._report(filter(None, problems))

    def _drop_known(self) -> None:
        """Drop all that has what it claimed, is gone, or requests nothing.

        A claim that is not applied yet may fail.
        """
        host = self._host
        classes = host.view.resource_classes
        for uuid, request in tuple(self._waiting.items()):
            entry = host.find_entry(uuid)
            if (
                (entry and entry.state is assignment.State.APPLIED)
                or uuid in host.gone
                or not classes & request.requirement.resources.keys()
            ):
                del self._waiting[uuid]

    def _restore_one(
        self, request: assignment.ClaimRequest, is_applied: bool
    ) -> alarm_mod.Problem | None:
        uuid = request.consumer_uuid
        if self._host.find_entry(uuid) or self._host.is_starting(uuid):
            return None
        try:
            whole = dataclasses.replace(
                request, allocations=self._read_allocations(uuid)
            )
            if not self._host.view.list_places(whole.allocations):
                # Built before there were any, or its settings are unknown.
                del self._waiting[uuid]
                return None
            entry = self._restore(whole, is_applied=is_applied)
        except exception.ExtResourcesError as err:
            return _make_problem(uuid, str(err).rstrip('.'))
        if entry is not None:
            LOG.warning(
                'Host %(host)s: the ledger had no entry for server %(uuid)s, '
                'which is on this host; made it anew from %(source)s',
                {
                    'host': self._host.host,
                    'uuid': uuid,
                    'source': 'what is applied for it'
                    if is_applied
                    else 'its allocations in placement',
                },
            )
        elif is_applied and uuid not in self._host.entries:
            return _make_problem(
                uuid,
                'it cannot be told for certain which of the units in use are '
                'its own',
            )
        return None

    def _report(self, problems: Iterable[alarm_mod.Problem]) -> None:
        """Log each problem once."""
        found = tuple(problems)
        for one in found:
            if one not in self.problems:
                LOG.error(
                    'Host %(host)s: %(problem)s',
                    {'host': self._host.host, 'problem': one},
                )
        self.problems = found


def _make_problem(uuid: str, reason: str) -> alarm_mod.Problem:
    return alarm_mod.Problem(
        alarm=alarm_mod.NOT_RECORDED,
        subject=uuid,
        text=f'server {uuid} is on this host and has allocations of it in '
        f'placement, but the ledger has no entry for it: {reason}. What is '
        'applied for it is given to no other server. Reboot the server hard, '
        'which claims its resources anew; if that is refused, shelve and '
        'unshelve it',
    )
