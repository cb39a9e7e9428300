# SPDX-License-Identifier: Apache-2.0

"""Makes entries anew for servers that the ledger has lost.

Of a server that Nova and the hypervisor have here, placement knows how much
of what was allocated to it, and the host shows what is applied. Where these
agree, the server has its entry again, and notices nothing. Where they do not,
an alarm is raised, and what the server uses is given to no other.
"""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.host.claims import allocation_writer
from nova_ext_resources.host import manager
from nova_ext_resources.host.reconcile import incomplete_entries
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import publisher as publisher_mod
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)

_CLAIM = (
    'Reboot the server hard, so that it claims its resources again; if the '
    'reboot is refused, shelve and unshelve it'
)
_WAIT = 'Placement is asked again in every round'
_ASK = 'The hypervisor is asked again in every round'
_ALLOCATE = (
    'Shelve and unshelve the server, so that its resources are allocated and '
    'claimed again'
)
_MOVE = (
    'If this alarm stays, restart nova-compute, which moves the allocation; '
    'see old_inventory in the documentation'
)
_NOT_PUBLISHED = (
    'nothing was published since the start, so the inventory of the compute '
    'node itself is unknown'
)
_IN_DOUBT = 'it is not certain which units in use belong to the server'

Requests = Mapping[str, assignment.ClaimRequest]


class RebuildEntries:
    """Tries again in every round. Used by one thread at a time.

    :ivar problems: of servers that have no entry yet
    :param publisher: knows which resource classes the compute node itself
        still offers: servers that have these wait until they are moved. While
        that is not known, all wait
    """

    def __init__(
        self,
        host: manager.HostManager,
        client: placement_client.Client,
        writer: allocation_writer.AllocationWriter,
        publisher: publisher_mod.Publisher,
    ) -> None:
        self._host = host
        self._client = client
        self._writer = writer
        self._publisher = publisher
        self._waiting: dict[str, assignment.ClaimRequest] | None = None
        self._incomplete = incomplete_entries.IncompleteEntries(
            host, client, publisher
        )
        self._logged = log_on_change.LogOnChange(f'Host {host.host}: ')
        self.problems: tuple[alarm.Problem, ...] = ()

    @property
    def waiting(self) -> frozenset[str] | None:
        """Return the servers without an entry; None before any is expected."""
        return None if self._waiting is None else frozenset(self._waiting)

    def expect(self, requests: Requests) -> None:
        """Note what the servers request that are here.

        :param requests: without what is allocated to them, and with what a
            migration has instead with which Nova does not go on
        """
        self._waiting = dict(requests)
        self._incomplete.compare(requests)
        self._drop_known()

    def run(self) -> None:
        """Restore what can be restored now. Does I/O where any is missing."""
        self._drop_known()
        host = self._host
        doubled = self._publisher.doubled
        requests = [
            request
            for uuid, request in (self._waiting or {}).items()
            if not host.find_entry(uuid)
            and not host.is_starting(uuid)
            and self._list_own(request).isdisjoint(doubled or ())
        ]
        applied = host.applied
        if requests and (applied is None or host.found.missing):
            # These have alarms of their own; without them nothing is certain.
            return
        everywhere = frozenset[str]().union(*(applied or {}).values())
        # What was released is left over, and may be gone by now.
        holders = everywhere - frozenset(host.enforcement.released)
        away = _NOT_PUBLISHED if doubled is None else ''
        found = tuple(self._try_known(requests, holders, away))
        self._drop_known()
        # The user may have started a server while placement was asked.
        waiting = self.waiting or ()
        left = (one for one in found if one.subject in waiting)
        self.problems = (*left, *self._incomplete.list_problems())
        self._logged.log_new(LOG.error, self.problems)

    def _drop_known(self) -> None:
        """Drop all that has what it claimed, is gone, or requests nothing.

        A claim that is not applied yet may fail.
        """
        for uuid, request in tuple((self._waiting or {}).items()):
            entry = self._host.find_entry(uuid)
            if (
                (entry and entry.state in incomplete_entries.CERTAIN)
                or uuid in self._host.gone
                or not self._list_own(request)
            ):
                self._drop(uuid)

    def _drop(self, uuid: str) -> None:
        if self._waiting is not None:
            self._waiting.pop(uuid, None)

    def _list_own(self, request: assignment.ClaimRequest) -> frozenset[str]:
        """Return the resource classes of this host that it requests."""
        wanted = request.requirement.resources.keys()
        return self._host.view.resource_classes & wanted

    def _try_known(
        self,
        requests: list[assignment.ClaimRequest],
        holders: frozenset[str],
        away: str,
    ) -> Iterator[alarm.Problem]:
        """Restore each server, first those whose units can be told.

        Of the others, a claim could take what the guest of one of these has.

        :param holders: see :meth:`_try_all`, as is ``away``
        """
        wanted = {one.consumer_uuid: self._list_own(one) for one in requests}
        try:
            holders |= self._host.enforcement.list_in_guests(wanted)
        except exception.EnforcementFailed as err:
            reason = str(err).rstrip('.')
            for uuid in wanted:
                yield _make_problem(uuid, reason, uuid in holders, _ASK)
            return
        requests.sort(key=lambda one: one.consumer_uuid not in holders)
        yield from self._try_all(requests, holders, away)

    def _try_all(
        self,
        requests: Iterable[assignment.ClaimRequest],
        holders: frozenset[str],
        away: str,
    ) -> Iterator[alarm.Problem]:
        """Restore each server; yield what keeps it from that.

        :param holders: the servers for which something is applied
        :param away: why none can be restored now, '' if some may be
        """
        for request in requests:
            uuid = request.consumer_uuid
            reason, advice = away, _WAIT
            try:
                if not away:
                    advice = _CLAIM
                    reason, advice = self._restore_one(
                        request, uuid in holders
                    )
            except exception.PlacementUnavailable as err:
                # Each of the others would wait as long, and repair with them.
                away = reason = str(err).rstrip('.')
                advice = _WAIT
            except exception.ExtResourcesError as err:
                reason = str(err).rstrip('.')
            # Of one server; a third party's plugin may raise anything.
            except Exception as err:
                LOG.debug('Server %(uuid)s', {'uuid': uuid}, exc_info=True)
                reason = plugins.describe(err)
            if reason:
                yield _make_problem(uuid, reason, uuid in holders, advice)

    def _restore_one(
        self, request: assignment.ClaimRequest, is_applied: bool
    ) -> tuple[str, str]:
        """Restore a server; return what is in doubt, or '', and what to do.

        :raises ExtResourcesError: it has no entry
        """
        uuid, host = request.consumer_uuid, self._host
        whole = self._complete(request)
        if not (
            host.view.list_places(whole.allocations)
            or host.found.left_out & self._list_own(request)
        ):
            return self._explain_unallocated(whole)
        entry = self._writer.restore(whole, is_applied=is_applied)
        if entry is not None:
            self._log_restored(uuid, is_applied)
        elif is_applied and uuid not in host.entries:
            return _IN_DOUBT, _CLAIM
        return '', ''

    def _complete(
        self, request: assignment.ClaimRequest
    ) -> assignment.ClaimRequest:
        """Return a request with what is allocated to its server.

        What is left with a migration counts if the server has nothing here.
        """
        uuid = request.consumer_uuid
        own = self._client.get_allocations(uuid).resources
        list_places, left = self._host.view.list_places, request.allocations
        is_left = list_places(left) and not list_places(own)
        return dataclasses.replace(
            request, allocations=left if is_left else own
        )

    def _explain_unallocated(
        self, request: assignment.ClaimRequest
    ) -> tuple[str, str]:
        """Return what is wrong with a server that has nothing of this host.

        :param request: with all that placement has allocated to it
        """
        own = self._list_own(request)
        root = request.allocations.get(self._host.node.uuid, {})
        if on_root := own & root.keys():
            names = ' and '.join(sorted(on_root))
            return (
                f'the server holds {names} on the compute node itself',
                _MOVE,
            )
        if own & frozenset[str]().union(*request.allocations.values()):
            # Built when other software offered the same.
            self._drop(request.consumer_uuid)
            return '', ''
        names = ' and '.join(sorted(own))
        return f'placement has allocated no {names} to the server', _ALLOCATE

    def _log_restored(self, uuid: str, is_applied: bool) -> None:
        LOG.warning(
            'Host %(host)s: the ledger had no entry for server %(uuid)s, '
            'which is on this host; made the entry again from %(source)s',
            {
                'host': self._host.host,
                'uuid': uuid,
                'source': 'its applied settings'
                if is_applied
                else 'its allocations in placement',
            },
        )


def _make_problem(
    uuid: str, reason: str, is_applied: bool, advice: str
) -> alarm.Problem:
    state = (
        'The server keeps its applied units, and no other server gets them'
        if is_applied
        else 'Nothing is applied for the server'
    )
    return alarm.Problem(
        alarm=alarm.NOT_RECORDED,
        subject=uuid,
        text=f'server {uuid} is on this host, but the ledger has no entry '
        f'for it: {reason}. {state}. {advice}',
    )
