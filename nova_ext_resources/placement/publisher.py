# SPDX-License-Identifier: Apache-2.0

"""The thread that keeps a compute node's tree in placement up to date.

It only publishes. Whatever placement does, no other thread waits for it.
"""

from collections.abc import Callable, Collection, Iterable
import dataclasses
import datetime
import random
import re
import time

from oslo_log import log as logging
from oslo_utils import timeutils

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import pool as pool_obj
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import bare_metal
from nova_ext_resources.placement import changes
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import memory as memory_mod
from nova_ext_resources.placement import pool_sweep
from nova_ext_resources.placement import pools as pools_mod
from nova_ext_resources.placement import tree
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)

#: Seconds after the first failure; doubled after each further one, up to
#: the interval.
FIRST_BACK_OFF = 1.0

#: Seconds from one round to the next, before they are varied at random, while
#: providers are only believed: a minute at most.
CHECK_INTERVAL = 54.0

#: What differs each time in texts that say the same: addresses of objects,
#: ids of requests.
_VARYING = re.compile(r'0x[0-9a-f]+|req-[0-9a-f-]+')

#: No secret: hosts that started together shall not report in step.
_RANDOM = random.SystemRandom()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How publishing goes, for health checks.

    :ivar last_success_at: when everything last was as wanted; None: never, or
        not known, because providers are only believed
    :ivar last_failure_at: when something last failed; None: never
    :ivar failure: what is wrong now, '' when nothing is
    :ivar failures: rounds that failed since the last one that did not
    :ivar believed: see :attr:`.tree.TreeWriter.believed`
    :ivar held: what should go and cannot, because it is in use
    :ivar problems: of pools that belong to no host, and of bare-metal nodes
    """

    last_success_at: datetime.datetime | None = None
    last_failure_at: datetime.datetime | None = None
    failure: str = ''
    failures: int = 0
    believed: int = 0
    held: tuple[changes.Held, ...] = ()
    problems: tuple[alarm.Problem, ...] = ()


def find_delay(failures: int, interval: float) -> float:
    """Return the seconds until the next round, a little at random.

    :param failures: rounds that failed since the last success
    :param interval: seconds where none did
    """
    if not failures:
        return interval * _RANDOM.uniform(0.9, 1.1)
    # Bounded before it is raised to a power, too.
    back_off = FIRST_BACK_OFF * 2.0 ** min(failures - 1, 16)
    return min(back_off, interval) * _RANDOM.uniform(0.5, 1.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What placement shall have.

    :ivar is_complete: whether it is all that the host has
    """

    is_complete: bool
    providers: tuple[provider_obj.Provider, ...]
    pools: tuple[pool_obj.SharedPool, ...]
    nodes: bare_metal.Trees


class Publisher(worker.Worker):
    """Publishes the latest wanted tree, again and again, until stopped.

    Nothing that fails ends it. It holds no lock while it talks.

    :param node: None: the host has none, and only pools are published
    :param host: its name, where it has no node
    :param wanted: returns the tree as it shall be
    :param pools: returns those that the host reaches, as they were read
    :param nodes: returns what bare-metal nodes shall have, by their uuids
    :param published: returns the uuids of what this host has ever published
    :param describe: returns what a consumer is, by its uuid
    :param owned: returns them where only these are to be changed; None: all
        of this package is, see :func:`.sync.plan`
    :param named: returns resource classes that the compute node itself will
        have; what it has is closed below it
    :param on_doubled: called when :attr:`doubled` has changed
    :param is_complete: whether ``wanted`` has everything; while it has not,
        nothing is deleted
    :param memory: see :class:`.tree.TreeWriter`, as is ``on_deleted``
    :param interval: seconds from one round to the next
    """

    THREAD = 'ext-resources-publisher'

    def __init__(
        self,
        client: placement_client.Client,
        node: provider_obj.Node | None,
        *,
        host: str = '',
        wanted: Callable[[], Iterable[provider_obj.Provider]],
        pools: Callable[[], Iterable[pool_obj.SharedPool]] = tuple,
        nodes: Callable[[], bare_metal.Trees] = dict,
        published: Callable[[], Collection[str]] = frozenset,
        describe: Callable[[str], str] = str,
        owned: Callable[[], Collection[str] | None] = lambda: None,
        named: Callable[[], frozenset[str]] = frozenset,
        on_doubled: Callable[[], None] = lambda: None,
        is_complete: Callable[[], bool] = lambda: True,
        memory: memory_mod.Memory | None = None,
        on_deleted: Callable[[], None] = lambda: None,
        interval: float = 60.0,
    ) -> None:
        super().__init__()
        self._node = node
        self._host_without_node = host
        self._wanted = wanted
        self._list_pools = pools
        self._list_nodes = nodes
        self._list_published = published
        self._describe = describe
        self._owned = owned
        self._named = named
        self._on_doubled = on_doubled
        self._is_complete = is_complete
        self._interval = interval
        self._status = Status()
        self._logged = ''
        self._logged_held = ''
        self._is_due = False
        self._due_at = 0.0
        self._last: _Wanted | None = None
        self._writer = tree.TreeWriter(
            client,
            memory=memory,
            closes_doubles=True,
            sleep=self._sleep,
            on_deleted=on_deleted,
        )
        self._pools = pools_mod.PoolWriter(client, sleep=self._sleep)
        self._nodes = bare_metal.BareMetalWriter(client, sleep=self._sleep)
        self._sweeper = pool_sweep.PoolSweeper(
            client, sleep=self._sleep, on_deleted=on_deleted
        )

    @property
    def status(self) -> Status:
        return self._status

    @property
    def doubled(self) -> frozenset[str] | None:
        """The classes of this host that the compute node itself offers.

        As the last round has found it; None before one has. Below the
        compute node they are closed.
        """
        return self._writer.doubled

    @property
    def _host(self) -> str:
        # Nova knows its node only when its driver has started.
        if self._node is None:
            return self._host_without_node
        return self._node.hypervisor_hostname

    def publish_once(
        self,
        node: provider_obj.Node,
        wanted: Iterable[provider_obj.Provider],
        *,
        may_delete: bool = True,
    ) -> tree.Published:
        """Publish in the caller's thread; not while the own one runs.

        :param may_delete: whether ``wanted`` is all that the host has

        :raises NotFound: Nova has not yet created the node's own provider
        :raises PlacementError: placement could not be read, or went away
        """
        before = self._writer.doubled
        try:
            return self._writer.publish(
                node,
                wanted,
                may_delete=may_delete,
                owned=self._owned(),
                named=self._named(),
            )
        finally:
            if self._writer.doubled != before:
                self._on_doubled()

    def wake(self) -> None:
        self._is_due = True
        super().wake()

    def notice(self) -> None:
        """Begin the next round now, unless it would publish the same.

        What others have changed in placement is seen each ``interval``.
        """
        super().wake()

    def run_round(self) -> None:
        """Publish, and note how it went; raises nothing."""
        self._last = None
        try:
            last = self._read_wanted()
            published = tree.Published()
            if self._node is not None:
                published = self.publish_once(
                    self._node, last.providers, may_delete=last.is_complete
                )
            published = published.add(self._publish_nodes(last))
            published = published.add(self._publish_pools(last, published))
        except exception.NotFound as err:
            # The one that is expected, at the first start of a host.
            self._note_failure(str(err), logging.INFO)
        except exception.ExtResourcesError as err:
            self._note_failure(str(err), logging.WARNING)
        except Exception as err:
            # A bug in a plugin: the thread has to outlive it, and the log
            # has to show where it is.
            self._note_failure(
                f'{type(err).__name__}: {err}', logging.ERROR, exc_info=True
            )
        else:
            self._note(published)
            if not published.errors and not published.held:
                self._last = last

    def _publish_nodes(self, wanted: _Wanted) -> tree.Published:
        """Publish what bare-metal nodes have, and empty what they had.

        :raises PlacementError: placement could not be read, or went away
        """
        own = {one.rp_uuid for one in wanted.providers}
        return self._nodes.publish(
            wanted.nodes,
            published={*self._list_published()} - own,
            may_delete=wanted.is_complete,
        )

    def _publish_pools(
        self, wanted: _Wanted, published: tree.Published
    ) -> tree.Published:
        """Publish what the host, which is published, reaches beside it.

        :raises PlacementError: placement could not be read, or went away
        """
        self._sweeper.note(wanted.pools, published.left)
        done = self._pools.publish(wanted.pools)
        if wanted.is_complete:
            done = done.add(self._sweeper.sweep(wanted.pools))
        return done

    def do_round(self) -> float:
        is_due = time.monotonic() >= self._due_at
        if is_due or self._is_due or self._has_changed():
            # Before the round: what wakes it from now on is not missed.
            self._is_due = False
            self.run_round()
            interval = self._interval
            if self._status.believed:
                interval = min(interval, CHECK_INTERVAL)
            delay = find_delay(self._status.failures, interval)
            self._due_at = time.monotonic() + delay
        return max(self._due_at - time.monotonic(), 0.0)

    def _has_changed(self) -> bool:
        """Return whether other things are wanted than were published."""
        if self._last is None:
            return True
        try:
            return self._last != self._read_wanted()
        except Exception:
            # The round meets it as well, and reports it.
            return True

    def _read_wanted(self) -> _Wanted:
        # First whether all is known: what is not known yet may become known
        # in between, and would be missing from what is wanted.
        return _Wanted(
            is_complete=self._is_complete(),
            providers=tuple(self._wanted()),
            pools=tuple(self._list_pools()),
            nodes=self._list_nodes(),
        )

    def _sleep(self, seconds: float) -> None:
        self._is_stopping.wait(seconds)

    def _note(self, published: tree.Published) -> None:
        held = '; '.join(one.explain(self._describe) for one in published.held)
        if held and held != self._logged_held:
            LOG.warning(
                'Host %(host)s: not removed from placement, because it is in '
                'use: %(held)s',
                {
                    'host': self._host,
                    'held': held,
                },
            )
        self._logged_held = held
        # The numbers in their texts change with each reading.
        known = {(one.alarm, one.subject) for one in self._status.problems}
        for problem in published.problems:
            if (problem.alarm, problem.subject) not in known:
                LOG.warning(
                    'Host %(host)s: %(problem)s',
                    {
                        'host': self._host,
                        'problem': problem,
                    },
                )
        self._status = dataclasses.replace(
            self._status, held=published.held, problems=published.problems
        )
        if published.errors:
            self._note_failure(
                '; '.join(map(str, published.errors)), logging.WARNING
            )
            return
        if published.written or self._status.failure:
            LOG.info(
                'Published the extended resources of host %(host)s: '
                '%(written)d providers written',
                {
                    'host': self._host,
                    'written': published.written,
                },
            )
        self._logged = ''
        if not self._writer.believed:
            self._status = dataclasses.replace(
                self._status,
                last_success_at=timeutils.utcnow(with_timezone=True),
            )
        self._status = dataclasses.replace(
            self._status,
            failure='',
            failures=0,
            believed=self._writer.believed,
        )

    def _note_failure(
        self, failure: str, level: int, *, exc_info: bool = False
    ) -> None:
        essence = _VARYING.sub('', failure)
        if essence != self._logged:
            self._logged = essence
            LOG.log(
                level,
                'The extended resources of host %(host)s could not all be '
                'published; placement keeps the rest as it was: %(failure)s',
                {
                    'host': self._host,
                    'failure': failure,
                },
                exc_info=exc_info,
            )
        self._status = dataclasses.replace(
            self._status,
            last_failure_at=timeutils.utcnow(with_timezone=True),
            failure=failure,
            failures=self._status.failures + 1,
            believed=self._writer.believed,
        )
