# SPDX-License-Identifier: Apache-2.0

"""The thread that keeps a compute node's tree in placement up to date.

It only publishes. Whatever placement does, no other thread waits for it.
"""

from collections.abc import Collection, Iterable
import dataclasses
import datetime
import random
import re
import threading
import time

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.pools import removal
from nova_ext_resources.placement.pools import writer
from nova_ext_resources.placement.publish import bare_metal
from nova_ext_resources.placement.publish import diff
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.placement.publish import tree_writer
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
class PublisherStatus:
    """How publishing goes, for health checks.

    :ivar last_success_at: when everything last was as wanted; None: never, or
        not known, because providers are only believed
    :ivar last_failure_at: when something last failed; None: never
    :ivar failure: what is wrong now, '' when nothing is
    :ivar failures: rounds that failed since the last one that did not
    :ivar believed: see :attr:`.tree_writer.TreeWriter.believed`
    :ivar undeleted: what should go and cannot, because it is in use
    :ivar problems: of pools that belong to no host, and of bare-metal nodes
    """

    last_success_at: datetime.datetime | None = None
    last_failure_at: datetime.datetime | None = None
    failure: str = ''
    failures: int = 0
    believed: int = 0
    undeleted: tuple[diff.UndeletedProvider, ...] = ()
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
    providers: tuple[host_provider.Provider, ...]
    pools: tuple[pool.SharedPool, ...]
    nodes: bare_metal.Trees


class PublicationSource:
    """What placement shall have of a host, and who hears of it.

    Read in the thread of the publisher. A subclass has what is not empty.

    :ivar pools: those that the host reaches, as they were read
    :ivar published: the uuids of what this host has ever published
    :ivar owned: the same where only these are to be changed; None: all of
        this package is, see :func:`.diff.plan`
    :ivar named: resource classes that the compute node itself will have; what
        it has is closed below it
    :ivar is_complete: whether all is there that the host has; while it is
        not, nothing is deleted
    """

    @property
    def pools(self) -> Iterable[pool.SharedPool]:
        return ()

    @property
    def published(self) -> Collection[str]:
        return frozenset()

    @property
    def owned(self) -> Collection[str] | None:
        return None

    @property
    def named(self) -> frozenset[str]:
        return frozenset()

    @property
    def is_complete(self) -> bool:
        return True

    def make_providers(self) -> Iterable[host_provider.Provider]:
        """Return the tree below the compute node."""
        return ()

    def make_nodes(self) -> bare_metal.Trees:
        """Return what bare-metal nodes shall have, by their uuids."""
        return {}

    def describe(self, consumer_uuid: str) -> str:
        """Return what a consumer is, for the log."""
        return consumer_uuid

    def note_doubled(self) -> None:
        """Note that :attr:`Publisher.doubled` has changed."""

    def note_deleted(self) -> None:
        """Note that providers were deleted, see :class:`.TreeWriter`."""


class _WorkerClock(clocks.Clock):
    """Wakes up when the worker is to stop."""

    def __init__(self, is_stopping: threading.Event) -> None:
        self._is_stopping = is_stopping

    def sleep(self, seconds: float) -> None:
        self._is_stopping.wait(seconds)


class Publisher(worker.Worker):
    """Publishes the latest wanted tree, again and again, until stopped.

    Nothing that fails ends it. It holds no lock while it talks.

    :param node: None: the host has none, and only pools are published
    :param source: what placement shall have
    :param host: its name, where it has no node
    :param memory: see :class:`.tree_writer.TreeWriter`
    :param interval: seconds from one round to the next
    """

    THREAD = 'ext-resources-publisher'

    def __init__(
        self,
        client: placement_client.Client,
        node: host_provider.Node | None,
        source: PublicationSource,
        *,
        host: str = '',
        memory: provider_tree_cache.Memory | None = None,
        interval: float = 60.0,
    ) -> None:
        super().__init__()
        self._node = node
        self._host_without_node = host
        self._source = source
        self._interval = interval
        self._status = PublisherStatus()
        self._logged = log_on_change.LogOnChange()
        self._problems = log_on_change.LogOnChange()
        self._is_due = False
        self._due_at = 0.0
        self._last: _Wanted | None = None
        clock = _WorkerClock(self._is_stopping)
        self._writer = tree_writer.TreeWriter(
            client,
            memory=memory,
            closes_doubles=True,
            clock=clock,
            on_deleted=source.note_deleted,
        )
        self._pools = writer.PoolWriter(client, clock=clock)
        self._nodes = bare_metal.BareMetalWriter(client, clock=clock)
        self._sweeper = removal.PoolSweeper(
            client, clock=clock, on_deleted=source.note_deleted
        )

    @property
    def status(self) -> PublisherStatus:
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
        node: host_provider.Node,
        wanted: Iterable[host_provider.Provider],
        *,
        may_delete: bool = True,
    ) -> tree_writer.PublishResult:
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
                owned=self._source.owned,
                named=self._source.named,
            )
        finally:
            if self._writer.doubled != before:
                self._source.note_doubled()

    def wake(self) -> None:
        """Publish now. :meth:`wake_soon` does so where there is a change.

        What others have changed in placement is seen each ``interval``.
        """
        self._is_due = True
        super().wake()

    def run_round(self) -> None:
        """Publish, and note how it went; raises nothing."""
        self._last = None
        try:
            last = self._read_wanted()
            published = tree_writer.PublishResult()
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
            if not published.errors and not published.undeleted:
                self._last = last

    def _publish_nodes(self, wanted: _Wanted) -> tree_writer.PublishResult:
        """Publish what bare-metal nodes have, and empty what they had.

        :raises PlacementError: placement could not be read, or went away
        """
        own = {one.rp_uuid for one in wanted.providers}
        return self._nodes.publish(
            wanted.nodes,
            published={*self._source.published} - own,
            may_delete=wanted.is_complete,
        )

    def _publish_pools(
        self, wanted: _Wanted, published: tree_writer.PublishResult
    ) -> tree_writer.PublishResult:
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
            is_complete=self._source.is_complete,
            providers=tuple(self._source.make_providers()),
            pools=tuple(self._source.pools),
            nodes=self._source.make_nodes(),
        )

    def _note(self, published: tree_writer.PublishResult) -> None:
        undeleted = '; '.join(
            one.explain(self._source.describe) for one in published.undeleted
        )
        if self._logged.note(undeleted, 'undeleted'):
            LOG.warning(
                'Host %(host)s: resources in use were not removed from '
                'placement: %(held)s',
                {
                    'host': self._host,
                    'held': undeleted,
                },
            )
        # The numbers in their texts change with each reading.
        for problem in self._problems.list_new(
            published.problems, key=lambda one: (one.alarm, one.subject)
        ):
            LOG.warning(
                'Host %(host)s: %(problem)s',
                {'host': self._host, 'problem': problem},
            )
        self._status = dataclasses.replace(
            self._status,
            undeleted=published.undeleted,
            problems=published.problems,
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
        self._logged.clear('failure')
        if not self._writer.believed:
            self._status = dataclasses.replace(
                self._status,
                last_success_at=clocks.MACHINE.read(),
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
        if self._logged.note(_VARYING.sub('', failure), 'failure'):
            LOG.log(
                level,
                'Some extended resources of host %(host)s could not be '
                'published; placement keeps their former inventory: '
                '%(failure)s',
                {
                    'host': self._host,
                    'failure': failure,
                },
                exc_info=exc_info,
            )
        self._status = dataclasses.replace(
            self._status,
            last_failure_at=clocks.MACHINE.read(),
            failure=failure,
            failures=self._status.failures + 1,
            believed=self._writer.believed,
        )
