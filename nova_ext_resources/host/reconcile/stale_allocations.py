# SPDX-License-Identifier: Apache-2.0

"""Finds what placement has allocated here to consumers that hold nothing here.

Nova leaves allocations behind: a nova-compute or another service was killed in
a move, a server was evacuated in the midst of one, or one was deleted while
placement was away. No other server gets these units, and no server has them.
"""

from collections.abc import Iterable, Mapping
import contextlib
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources import debounce
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.host import nova_compute
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)

#: One look asks placement for each provider, and finds something rarely.
ROUNDS = 10

#: Seconds. Nova allocates to all servers of a request before it makes the
#: first of them, and gives its scheduler so long (``[DEFAULT]
#: long_rpc_timeout``).
PATIENCE = 1800.0

_Allocated: TypeAlias = Mapping[host_view.Place, int]


class StaleAllocations(worker.Worker):
    """Looks again and again, until stopped; nothing that fails ends it.

    It only reports. It has a thread of its own, and holds no lock while it
    talks.

    :param loops: woken when other problems were found than before
    :param interval: seconds from one refresh of the host to the next
    """

    THREAD = 'ext-resources-stale-allocations'

    #: It reads only.
    STOP_TIMEOUT = 1.0

    def __init__(
        self,
        host: manager.HostManager,
        compute: nova_compute.NovaCompute,
        client: placement_client.Client,
        *,
        loops: worker.WorkerGroup,
        interval: float,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        super().__init__()
        self._host = host
        self._compute = compute
        self._client = client
        self._loops = loops
        self._interval = interval * ROUNDS
        self._debounce = debounce.Debounce[str, _Allocated](
            age=PATIENCE, clock=clock
        )
        self._found: tuple[alarm.Problem, ...] = ()
        self._failures = log_on_change.LogOnChange()
        self._logged = log_on_change.LogOnChange()
        #: Those that were there in the last look.
        self._holds: frozenset[str] = frozenset()

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        return tuple(
            one
            for one in self._found
            if self._host.find_entry(one.subject) is None
        )

    def do_round(self) -> float:
        self.run_round()
        return publisher.find_delay(0, self._interval)

    def run_round(self) -> None:
        """Look once; raises nothing. In doubt, all stays as it was."""
        before = self._found
        try:
            self._look()
        # Placement, Nova, or a bug here.
        except Exception as err:
            self._note_failure(err)
            return
        self._failures.clear()
        self._logged.log_new(LOG.warning, self._found)
        if self._found != before:
            self._loops.wake_soon()

    def _note_failure(self, err: Exception) -> None:
        """Begin anew with what may be over while nothing can be read."""
        is_placement = isinstance(err, exception.PlacementError)
        # The texts of Nova's time-outs are never the same.
        failure = plugins.describe(err) if is_placement else type(err).__name__
        found = {one.subject for one in self._found}
        self._debounce.observe({}, lambda uuid, _: uuid in found)
        if self._failures.note(failure):
            LOG.warning(
                'Host %(host)s: allocations could not be compared with Nova, '
                'and this will be retried: %(failure)s',
                {'host': self._host.host, 'failure': plugins.describe(err)},
                exc_info=not is_placement,
            )

    def _look(self) -> None:
        stale = self._list_stale()
        self._holds = frozenset(
            uuid
            for uuid in stale
            if uuid in self._holds
            or (planned_hold.may_be_hold(uuid) and self._is_hold(uuid))
        )
        for uuid in self._holds:
            del stale[uuid]
        explained = self._ask(stale)
        lasting = self._debounce.observe(
            {uuid: stale[uuid] for uuid in explained}
        )
        self._found = tuple(
            self._make_problem(uuid, lasting[uuid], reason)
            for uuid, reason in explained.items()
            if uuid in lasting
        )

    def _is_hold(self, consumer_uuid: str) -> bool:
        """Ask placement whether a consumer holds room for servers to come."""
        found = self._client.get_allocations(consumer_uuid)
        return found.consumer_type == planned_hold.CONSUMER_TYPE

    def _ask(self, stale: Iterable[str]) -> Mapping[str, str]:
        uuids = sorted(stale)
        entries = self._host.entries.values()
        holding = frozenset(one.server_uuid for one in entries)
        return self._compute.explain(uuids, holding) if uuids else {}

    def _list_stale(self) -> dict[str, dict[host_view.Place, int]]:
        """Return consumer uuid -> what it is given, of those without entry."""
        before, tracked = self._host.entries, self._host.view.tracked
        found: dict[str, dict[host_view.Place, int]] = {}
        for rp_uuid in sorted({place[0] for place in tracked}):
            for name, amounts in self._read(rp_uuid).items():
                for uuid, amount in amounts.items():
                    if (rp_uuid, name) in tracked:
                        found.setdefault(uuid, {})[rp_uuid, name] = amount
        recorded = before.keys() | self._host.entries.keys()
        return {uuid: found[uuid] for uuid in found.keys() - recorded}

    def _read(self, rp_uuid: str) -> Mapping[str, Mapping[str, int]]:
        with contextlib.suppress(exception.NotFound):
            return self._client.list_holders(rp_uuid)
        return {}

    def _make_problem(
        self, uuid: str, allocated: _Allocated, reason: str
    ) -> alarm.Problem:
        keys = self._host.view.keys
        amounts = ' and '.join(
            f'{amount} {name} of {keys.get(rp_uuid, rp_uuid)}'
            for (rp_uuid, name), amount in sorted(allocated.items())
        )
        return alarm.Problem(
            alarm=alarm.STALE_ALLOCATION,
            subject=uuid,
            text=f'placement has allocated {amounts} of host '
            f'{self._host.host} to {uuid}, which holds no resources on the '
            f'host: {reason}. No other server gets these units. See '
            'stale_allocation in the documentation before you delete any '
            'allocation',
        )
