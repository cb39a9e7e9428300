# SPDX-License-Identifier: Apache-2.0

"""Finds what placement has allocated here to consumers that hold nothing here.

Nova leaves allocations behind: a nova-compute or another service was killed in
a move, a server was evacuated in the midst of one, or one was deleted while
placement was away. No other server gets these units, and no server has them.
"""

from collections.abc import Callable, Container, Iterable, Mapping
import contextlib
import time
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.host import resources as host_mod
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import hold
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.placement import publisher
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)

#: One look asks placement for each provider, and finds something rarely.
ROUNDS = 10

#: Seconds. Nova allocates to all servers of a request before it makes the
#: first of them, and gives its scheduler so long (``[DEFAULT]
#: long_rpc_timeout``).
PATIENCE = 1800.0

_Given: TypeAlias = Mapping[view_obj.Place, int]

#: Gets the uuids of consumers without an entry, and those of the servers for
#: which the host has one; returns uuid -> words for an operator, of those
#: consumers with which Nova does not go on, or only does for a moment.
Explain: TypeAlias = Callable[
    [Iterable[str], Container[str]], Mapping[str, str]
]


class Unheld(worker.Worker):
    """Looks again and again, until stopped; nothing that fails ends it.

    It only reports. It has a thread of its own, and holds no lock while it
    talks.

    :param list_holders: returns resource class -> consumer uuid -> amount of
        one provider, by its uuid
    :param is_hold: returns whether a consumer holds room for reserved
        servers to come, which is no server; asks placement
    :param explain: see :data:`Explain`; asks Nova
    :param on_changed: called when other problems were found than before
    :param interval: seconds from one refresh of the host to the next
    :param monotonic: returns seconds that no step of the clock changes
    """

    THREAD = 'ext-resources-unheld'

    #: It reads only.
    STOP_TIMEOUT = 1.0

    def __init__(
        self,
        host: host_mod.HostResources,
        *,
        list_holders: Callable[[str], Mapping[str, Mapping[str, int]]],
        is_hold: Callable[[str], bool],
        explain: Explain,
        on_changed: Callable[[], None],
        interval: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._host = host
        self._list_holders = list_holders
        self._is_hold = is_hold
        self._explain = explain
        self._on_changed = on_changed
        self._interval = interval * ROUNDS
        self._monotonic = monotonic
        self._since: dict[str, tuple[_Given, float]] = {}
        self._found: tuple[alarm.Problem, ...] = ()
        self._failure = ''
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
        self._failure = ''
        for one in self._found:
            if one not in before:
                LOG.warning('%(problem)s', {'problem': one})
        if self._found != before:
            self._on_changed()

    def _note_failure(self, err: Exception) -> None:
        """Begin anew with what may be over while nothing can be read."""
        is_placement = isinstance(err, exception.PlacementError)
        # The texts of Nova's time-outs are never the same.
        failure = plugins.describe(err) if is_placement else type(err).__name__
        found = {one.subject for one in self._found}
        self._since = {
            uuid: one for uuid, one in self._since.items() if uuid in found
        }
        if failure != self._failure:
            LOG.warning(
                'Host %(host)s: allocations could not be compared with Nova, '
                'and this will be retried: %(failure)s',
                {'host': self._host.host, 'failure': plugins.describe(err)},
                exc_info=not is_placement,
            )
        self._failure = failure

    def _look(self) -> None:
        now = self._monotonic()
        unheld = self._list_unheld()
        self._holds = frozenset(
            uuid
            for uuid in unheld
            if uuid in self._holds
            or (hold.may_be_hold(uuid) and self._is_hold(uuid))
        )
        for uuid in self._holds:
            del unheld[uuid]
        explained = self._ask(unheld)
        self._since = {
            uuid: (unheld[uuid], self._find_since(uuid, unheld[uuid], now))
            for uuid in explained
        }
        lasting = {
            uuid: given
            for uuid, (given, since) in self._since.items()
            if since <= now - PATIENCE
        }
        self._found = tuple(
            self._make_problem(uuid, lasting[uuid], reason)
            for uuid, reason in explained.items()
            if uuid in lasting
        )

    def _ask(self, unheld: Iterable[str]) -> Mapping[str, str]:
        uuids = sorted(unheld)
        entries = self._host.entries.values()
        holding = frozenset(one.server_uuid for one in entries)
        return self._explain(uuids, holding) if uuids else {}

    def _list_unheld(self) -> dict[str, dict[view_obj.Place, int]]:
        """Return consumer uuid -> what it is given, of those without entry."""
        before, tracked = self._host.entries, self._host.view.tracked
        found: dict[str, dict[view_obj.Place, int]] = {}
        for rp_uuid in sorted({place[0] for place in tracked}):
            for name, amounts in self._read(rp_uuid).items():
                for uuid, amount in amounts.items():
                    if (rp_uuid, name) in tracked:
                        found.setdefault(uuid, {})[rp_uuid, name] = amount
        recorded = before.keys() | self._host.entries.keys()
        return {uuid: found[uuid] for uuid in found.keys() - recorded}

    def _read(self, rp_uuid: str) -> Mapping[str, Mapping[str, int]]:
        with contextlib.suppress(exception.NotFound):
            return self._list_holders(rp_uuid)
        return {}

    def _find_since(self, uuid: str, given: _Given, now: float) -> float:
        former, since = self._since.get(uuid, (given, now))
        return since if former == given else now

    def _make_problem(
        self, uuid: str, given: _Given, reason: str
    ) -> alarm.Problem:
        keys = self._host.view.keys
        amounts = ' and '.join(
            f'{amount} {name} of {keys.get(rp_uuid, rp_uuid)}'
            for (rp_uuid, name), amount in sorted(given.items())
        )
        return alarm.Problem(
            alarm=alarm.NOT_HELD,
            subject=uuid,
            text=f'placement has allocated {amounts} of host '
            f'{self._host.host} to {uuid}, which holds nothing there: '
            f'{reason}. No other server gets these units. See not_held in '
            'the documentation before you delete any allocation',
        )
