# SPDX-License-Identifier: Apache-2.0

"""The host's loop: discover, audit and repair, observe, publish.

Publishing has a thread of its own, which is only woken here: a placement
that hangs delays no repair. Nova's servers are compared after Nova has made
sure that host name and cell are right, and every few minutes from then on.
Only the first comparison releases servers that are missing; each of them
releases what a move has left that has ended, what a server has that Nova has
recorded as deleted or on no host, and, where an option says so, what has been
missing for long.
"""

from collections.abc import Callable, Iterable, Mapping
import contextlib
import dataclasses
import threading
import time
from typing import TypeVar

from oslo_log import log as logging

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host import manager
from nova_ext_resources.host import nova_compute
from nova_ext_resources.host.reconcile import absent_servers
from nova_ext_resources.host.reconcile import ended_migrations
from nova_ext_resources.host.reconcile import orphaned_entries
from nova_ext_resources.host.reconcile import rebuild_entries
from nova_ext_resources.host.reconcile.rules import drift
from nova_ext_resources.host.service import health as health_mod
from nova_ext_resources.host.service import server_names
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.placement.publish import publisher as publisher_mod
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)

#: Seconds from one question for Nova's servers to the next, at least.
_PAUSE = 600.0

#: The same while servers are on their way.
_MOVE_PAUSE = 60.0

_Said = TypeVar('_Said')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What Nova and the hypervisor have said.

    :ivar before: the entries before they were asked
    :ivar roles: role of each consumer that one of them knows
    :ivar hosts: server -> its host in Nova, '' for none, of those that have
        settings here and no entry, and are not live; and of those whose role
        is ``ELSEWHERE``
    :ivar is_first: whether it is the first one of this process
    """

    before: drift.Entries
    roles: Mapping[str, consumer_role.Role]
    hosts: Mapping[str, str]
    is_first: bool

    @property
    def live(self) -> frozenset[str]:
        """Return the consumers that may hold something here."""
        return frozenset(
            uuid
            for uuid, role in self.roles.items()
            if role is not consumer_role.Role.LEFT
        )


def find_pause(interval: float) -> float:
    """Return the seconds from one question for Nova's servers to the next.

    While no server is on its way.

    :param interval: seconds from one round to the next
    """
    return max(_PAUSE, interval)


def find_max_gap(interval: float) -> float:
    """Return the seconds between two answers, beyond which one was missed.

    Nova is asked in the first round after the pause, and a round may be a
    tenth of the interval late, see :func:`.publisher.find_delay`.

    :param interval: seconds from one round to the next
    """
    return 2 * (find_pause(interval) + 1.1 * interval)


class Periodic(worker.Worker):
    """Runs rounds in a thread until stopped; nothing that fails ends it.

    :param servers: hears which servers have entries after each round
    :param list_differences: returns where placement and ledger differ; no
        I/O
    :param interval: seconds from one round to the next
    """

    THREAD = 'ext-resources-host'

    #: A move is several claims and releases within seconds. What the
    #: scheduler must know of them at once, it has from Nova.
    GATHERED = 5.0

    def __init__(
        self,
        host: manager.HostManager,
        compute: nova_compute.NovaCompute,
        health: health_mod.Health,
        publisher: publisher_mod.Publisher,
        restore: rebuild_entries.RebuildEntries,
        *,
        orphans: orphaned_entries.OrphanedEntries,
        servers: server_names.ServerList,
        interval: float,
        list_differences: Callable[[], Iterable[alarm.Problem]] = tuple,
    ) -> None:
        super().__init__()
        self._host = host
        self._health = health
        self._publisher = publisher
        self._restore = restore
        self._orphans = orphans
        self._compute = compute
        self._list_differences = list_differences
        self._servers = servers
        self._interval = interval
        self._failures = log_on_change.LogOnChange()
        self._unsettled = 0
        self._absent = absent_servers.AbsentServers(host)
        self._answer: _Answer | None = None
        self._requests: rebuild_entries.Requests | None = None
        self._is_accepted = False
        self._asking: threading.Thread | None = None
        self._asked_at = 0.0

    def start(self, pause: float | None = None) -> None:
        """Start the thread; its first round begins after the interval."""
        super().start(self._find_delay() if pause is None else pause)

    def accept_host(self) -> None:
        """Note that Nova has checked host name and cell.

        Only then are the resources of servers that are gone released. No
        I/O: a thread asks which servers are here, and ends with the answer.
        """
        if not self._is_accepted:
            # Where no thread can be started, the next round tries, and reports
            # that.
            with contextlib.suppress(RuntimeError):
                self._ask(is_first=True)
            self._is_accepted = True

    def _ask(self, *, is_first: bool) -> None:
        asking = threading.Thread(
            target=self._ask_live,
            args=(is_first,),
            name='ext-resources-live',
            daemon=True,
        )
        asking.start()
        self._asked_at, self._asking = time.monotonic(), asking

    def _ask_again(self) -> None:
        """Ask for the first time, and when the last answer is old."""
        if self._asking is None:
            if self._is_accepted:
                self._ask(is_first=True)
            return
        if self._asking.is_alive():
            return
        # A move may end on the other host, or nowhere, at any time.
        pause = (
            _MOVE_PAUSE
            if ended_migrations.is_any(self._host.entries)
            else _PAUSE
        )
        if self._answer is None and (
            time.monotonic() - self._asked_at >= pause
        ):
            self._ask(is_first=False)

    def _ask_live(self, is_first: bool) -> None:
        # What is claimed from now on may be missing from the answer: Nova may
        # still name the former host of a server that is evacuated to here.
        before = self._host.entries
        self._orphans.begin()
        roles = self._insist(
            lambda: self._compute.list_roles(before), self._orphans.forget
        )
        if roles is None:
            return
        asked = (self._host.unrecorded - roles.keys()) | {
            uuid
            for uuid, role in roles.items()
            if role is consumer_role.Role.ELSEWHERE
        }
        hosts = self._insist(
            lambda: self._compute.find_hosts(asked), self._orphans.forget
        )
        if hosts is None:
            return
        self._answer = _Answer(
            before=before, roles=roles, hosts=hosts, is_first=is_first
        )
        self._orphans.end()
        # Whoever is gone is released, even if the next question fails.
        self.wake()
        requests = self._insist(self._compute.list_requests)
        if requests is None:
            return
        self._requests = requests
        self.wake()
        # Last, as it may ask for long.
        self._orphans.compare(before, roles, self._is_stopping.is_set)

    def _insist(
        self,
        ask: Callable[[], _Said],
        on_failure: Callable[[], object] = lambda: None,
    ) -> _Said | None:
        """Ask until there is an answer; return None when stopped."""
        failures = 0
        while not self._is_stopping.is_set():
            try:
                return ask()
            # Of Nova, the hypervisor or placement; each may be away.
            except Exception as err:
                failures += 1
                on_failure()
                LOG.warning(
                    'Host %(host)s: cannot read the servers of this host and '
                    'their resources from Nova, the hypervisor or placement. '
                    'This will be retried; until then, the resources of '
                    'deleted servers are not released, and lost entries are '
                    'not restored: %(err)s',
                    {'host': self._host.host, 'err': plugins.describe(err)},
                )
            delay = publisher_mod.find_delay(failures, self._interval)
            self._is_stopping.wait(delay)
        return None

    def run_round(self) -> None:
        """Discover, audit and repair, observe, have it published."""
        self._survive('query of Nova', self._ask_again)
        self._survive('discovery', self._host.refresh)
        self._survive('audit', self._repair)
        self._survive('restore', self._restore.run)
        self._survive('comparison', self._report_differences)
        self._servers.expect(
            one.server_uuid for one in self._host.entries.values()
        )
        try:
            self._health.observe_host(
                self._host,
                waiting=self._restore.waiting,
                failure='; '.join(self._failures.problems.values()),
            )
        # Only what is reported of the host depends on it.
        except Exception:
            LOG.exception(
                'Host %(host)s: cannot report the health of this host. Please '
                'report this bug',
                {'host': self._host.host},
            )
        self._publisher.wake_soon()

    def _repair(self) -> None:
        answer, requests = self._answer, self._requests
        if requests is not None:
            self._restore.expect(requests)
            self._requests = None
        waiting = self._restore.waiting
        if answer is not None and answer.is_first:
            self._host.reconcile(
                answer.live,
                before=answer.before,
                waiting=waiting,
                hosts=answer.hosts,
            )
        else:
            self._host.heal(waiting)
        if answer is not None:
            ended_migrations.finish(self._host, answer.before, answer.roles)
            self._absent.compare(answer.before, answer.roles, answer.hosts)
            self._answer = None

    def _report_differences(self) -> None:
        """Report what the comparison with Nova and placement has found."""
        orphans = self._orphans.problems
        orphaned = {one.subject for one in orphans}
        self._health.report(
            'comparison',
            (
                *self._restore.problems,
                *orphans,
                *(
                    one
                    for one in self._absent.problems
                    if one.alarm != alarm.NOT_IN_NOVA
                    or one.subject not in orphaned
                ),
                *self._list_differences(),
            ),
        )

    def _survive(self, step: str, act: Callable[[], None]) -> None:
        """Run a step; whatever it raises, the others go on."""
        try:
            act()
        except Exception as err:
            if self._failures.note(f'{step}: {plugins.describe(err)}', step):
                LOG.exception(
                    'Host %(host)s: the %(step)s failed and will be retried; '
                    'applied settings are unchanged. Please report this bug',
                    {'host': self._host.host, 'step': step},
                )
        else:
            self._failures.clear(step)

    def do_round(self) -> float:
        self.run_round()
        return self._find_delay()

    def _find_delay(self) -> float:
        is_well = (
            self._host.is_settled
            and not self._restore.problems
            and not self._failures.problems
        )
        self._unsettled = 0 if is_well else self._unsettled + 1
        return publisher_mod.find_delay(self._unsettled, self._interval)
