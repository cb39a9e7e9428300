# SPDX-License-Identifier: Apache-2.0

"""Read the counters of all servers of a host.

Their rates, too, and how fast CPUs run now. Counters may restart at any time.
"""

from collections.abc import Callable, Iterable, Mapping, Set
import dataclasses
import os
import statistics

from nova_ext_resources import clocks
from nova_ext_resources.drivers.resctrl.kernel import counters
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import mon_groups
from nova_ext_resources import exception
from nova_ext_resources.monitoring import mon_groups as upkeep_mod
from nova_ext_resources.monitoring import sample

_NOT_READ = counters.Counters()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CounterReading:
    """The counters of a group, and when they were read.

    :ivar at: on the monotonic clock, in seconds
    :ivar whole_at: when all counters had a number for the last time
    """

    at: float
    group: counters.GroupCounters
    whole_at: float


def make_samples(
    before: CounterReading | None, after: CounterReading
) -> tuple[sample.DomainSample, ...]:
    """Make the samples of one group.

    :param before: of the last sweep, None when there was none. It is ignored
        when it is of an earlier group of the same name.
    """
    old: Mapping[counters.Domain, counters.Counters] = {}
    seconds = 0.0
    if before is not None and before.group.inode == after.group.inode:
        old, seconds = before.group.domains, after.at - before.at
    return tuple(
        sample.DomainSample(
            domain=domain,
            counters=new,
            total_rate=find_rate(first.total, new.total, seconds),
            local_rate=find_rate(first.local, new.local, seconds),
        )
        for domain, new in after.group.domains.items()
        for first in (old.get(domain, _NOT_READ),)
    )


def find_rate(
    before: int | None, after: int | None, seconds: float
) -> float | None:
    """Return the growth per second.

    None where a number is missing, where no time has passed, and where the
    counter went backwards: it was reset, at an unknown time.
    """
    if before is None or after is None or seconds <= 0 or after < before:
        return None
    return (after - before) / seconds


#: The file has kHz (kernel documentation, "CPU Performance Scaling").
_UNIT = 1000


def read_frequencies(cpu_path: str, cpus: Iterable[int]) -> dict[int, float]:
    """Return CPU -> Hz, for those that report it.

    :param cpu_path: ``/sys/devices/system/cpu``
    """
    found = {}
    for cpu in cpus:
        path = os.path.join(cpu_path, f'cpu{cpu}', 'cpufreq/scaling_cur_freq')
        try:
            with open(path, encoding='ascii') as file:
                text = file.read().strip()
        except (OSError, UnicodeDecodeError):
            # The CPU is offline, or that of a guest: most hypervisors
            # show no frequency.
            continue
        # Some drivers write "<unknown>".
        if text.isdecimal():
            found[cpu] = float(int(text) * _UNIT)
    return found


def find_mean(
    frequencies: Mapping[int, float], cpus: Iterable[int] | None
) -> float | None:
    """Return the mean of the CPUs whose frequency is known."""
    known = [frequencies[cpu] for cpu in cpus or () if cpu in frequencies]
    return statistics.fmean(known) if known else None


_NOTHING = (
    f'this CPU or kernel has no counters: {counters.INFO} does not exist, or '
    f'has none of {", ".join(counters.EVENTS)}'
)

#: Seconds after which a counter without a number is a problem.
LONG = 120.0

_TAKEN = (
    'other software has moved the threads of the server into {}, so the '
    'kernel counts them there; exclude servers in the configuration of the '
    'other software (with cAdvisor, --resctrl_interval=0)'
)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Seen:
    """What one sweep has found so far."""

    readings: dict[str, CounterReading] = dataclasses.field(
        default_factory=dict
    )
    problems: dict[str, str] = dataclasses.field(default_factory=dict)
    problem: str = ''
    ids: sample.RmidBudget | None = None


class Sweeper:
    """Measures what every server of this host uses.

    Not for more than one thread at a time.

    :param cpu_path: ``/sys/devices/system/cpu``
    :param list_servers: returns the servers to monitor, by uuid; see
        :func:`.sample.describe_servers`. Servers with a control group of
        their own are monitored in any case.
    :param list_threads: see :class:`.mon_groups.MonGroupKeeper`
    """

    def __init__(
        self,
        files: counters.Files,
        *,
        cpu_path: str,
        list_servers: Callable[[], Mapping[str, sample.MonitoredServer]],
        list_threads: upkeep_mod.ListThreads,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self._files = files
        self._cpu_path = cpu_path
        self._list_servers = list_servers
        self._clock = clock
        self._list_threads = list_threads
        self._changer = mon_groups.MonGroups(files)
        self._upkeep = upkeep_mod.MonGroupKeeper(
            self._changer, list_threads, clock
        )
        self._before: Mapping[str, CounterReading] = {}

    def sweep(self) -> sample.Sweep:
        """Measure everything once.

        Errors of the host do not raise: the sweep that is returned has them.
        """
        started_at = self._clock.monotonic()
        seen = _Seen()
        servers = self._find_servers(seen)
        try:
            self._look(seen, servers)
        except errors.ResctrlError as err:
            seen.problem = seen.problem or str(err)
        samples = self._make_samples(seen.readings, servers or {})
        # Readings of servers that have left are forgotten.
        self._before = seen.readings
        finished_at = self._clock.monotonic()
        return sample.Sweep(
            finished_at=finished_at,
            duration=finished_at - started_at,
            servers=samples,
            problems=seen.problems,
            problem=seen.problem,
            ids=seen.ids,
        )

    def _find_servers(
        self, seen: _Seen
    ) -> Mapping[str, sample.MonitoredServer] | None:
        """Return the servers to monitor, None when they are not known."""
        try:
            return self._list_servers()
        except (exception.ExtResourcesError, OSError) as err:
            seen.problem = f'the servers of this host cannot be listed: {err}'
            return None

    def _look(
        self, seen: _Seen, servers: Mapping[str, sample.MonitoredServer] | None
    ) -> None:
        info = counters.read_info(self._files)
        if info is None or not info.events:
            seen.problem = _NOTHING
            return
        listing = self._changer.list_all()
        seen.ids = upkeep_mod.make_budget(listing)
        there = listing.mon_groups
        uuids = listing.controls | (servers or {}).keys()
        taken = self._find_taken(listing, uuids)
        if servers is not None:
            there, seen.problems = self._upkeep.maintain(
                listing, seen.ids, servers
            )
        seen.problems |= taken
        reader = counters.CounterReader(
            self._files, counters.list_domains(self._files), info.events
        )
        paths = {one.consumer_uuid: one.path for one in there}
        # A server that has both is moving from one to the other.
        paths |= {uuid: groups.make_name(uuid) for uuid in listing.controls}
        for uuid in paths.keys() - taken.keys():
            self._read(seen, reader, uuid, paths[uuid])

    def _find_taken(
        self, listing: mon_groups.Listing, uuids: Set[str]
    ) -> dict[str, str]:
        """Return server -> why what it does is counted elsewhere.

        The numbers of its own group are too small then, and mostly 0.
        """
        inside = {path: tids for path, tids in listing.others.items() if tids}
        try:
            threads = self._list_threads(uuids) if inside else {}
        except (exception.ExtResourcesError, OSError) as err:
            return dict.fromkeys(uuids, str(err))
        return {
            uuid: _TAKEN.format(path)
            for uuid, tids in threads.items()
            for path, others in inside.items()
            if not others.isdisjoint(tids)
        }

    def _read(
        self, seen: _Seen, reader: counters.CounterReader, uuid: str, path: str
    ) -> None:
        at = self._clock.monotonic()
        try:
            found = reader.read(path)
        except errors.GroupGone:
            # Removed meanwhile; its earlier reading is forgotten too.
            return
        except errors.ResctrlError as err:
            seen.problems[uuid] = str(err)
            return
        before = self._before.get(uuid)
        whole_at = before.whole_at if before and found.failure else at
        seen.readings[uuid] = CounterReading(
            at=at, group=found, whole_at=whole_at
        )
        if at - whole_at >= LONG:
            seen.problems[uuid] = (
                f'a counter has had no value for {at - whole_at:.0f} s: '
                f'{found.failure}'
            )

    def _make_samples(
        self,
        readings: Mapping[str, CounterReading],
        servers: Mapping[str, sample.MonitoredServer],
    ) -> dict[str, sample.ServerSample]:
        pinned = {
            uuid: servers[uuid].cpus or frozenset()
            for uuid in readings
            if uuid in servers
        }
        frequencies = read_frequencies(
            self._cpu_path, sorted(frozenset().union(*pinned.values()))
        )
        return {
            uuid: sample.ServerSample(
                consumer_uuid=uuid,
                domains=make_samples(self._before.get(uuid), reading),
                frequency=find_mean(frequencies, pinned.get(uuid)),
            )
            for uuid, reading in readings.items()
        }
