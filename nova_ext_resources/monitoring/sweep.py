# SPDX-License-Identifier: Apache-2.0

"""Read the counters of all servers of a host."""

from collections.abc import Callable, Mapping, Set
import dataclasses
import time

from nova_ext_resources.drivers.resctrl.kernel import counters
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import mon_groups
from nova_ext_resources import exception
from nova_ext_resources.monitoring import frequency
from nova_ext_resources.monitoring import mon_groups as upkeep_mod
from nova_ext_resources.monitoring import rates
from nova_ext_resources.monitoring import sample

_NOTHING = (
    f'this CPU or kernel has no counters: {counters.INFO} does not exist, or '
    f'has none of {", ".join(counters.EVENTS)}'
)

#: Seconds after which a counter without a number is a problem.
LONG = 120.0

_TAKEN = (
    'other software has put its threads into {}, and they are counted there; '
    'have it leave servers out (with cAdvisor, --resctrl_interval=0)'
)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Seen:
    """What one sweep has found so far."""

    readings: dict[str, rates.Reading] = dataclasses.field(
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
        clock: Callable[[], float] = time.monotonic,
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
        self._before: Mapping[str, rates.Reading] = {}

    def sweep(self) -> sample.Sweep:
        """Measure everything once.

        Errors of the host do not raise: the sweep that is returned has them.
        """
        started_at = self._clock()
        seen = _Seen()
        servers = self._find_servers(seen)
        try:
            self._look(seen, servers)
        except errors.ResctrlError as err:
            seen.problem = seen.problem or str(err)
        samples = self._make_samples(seen.readings, servers or {})
        # Readings of servers that have left are forgotten.
        self._before = seen.readings
        finished_at = self._clock()
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
        reader = counters.Reader(
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
        self, seen: _Seen, reader: counters.Reader, uuid: str, path: str
    ) -> None:
        at = self._clock()
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
        seen.readings[uuid] = rates.Reading(
            at=at, group=found, whole_at=whole_at
        )
        if at - whole_at >= LONG:
            seen.problems[uuid] = (
                f'it has no number for {at - whole_at:.0f} s: {found.failure}'
            )

    def _make_samples(
        self,
        readings: Mapping[str, rates.Reading],
        servers: Mapping[str, sample.MonitoredServer],
    ) -> dict[str, sample.ServerSample]:
        pinned = {
            uuid: servers[uuid].cpus or frozenset()
            for uuid in readings
            if uuid in servers
        }
        frequencies = frequency.read_frequencies(
            self._cpu_path, sorted(frozenset().union(*pinned.values()))
        )
        return {
            uuid: sample.ServerSample(
                consumer_uuid=uuid,
                domains=rates.make_samples(self._before.get(uuid), reading),
                frequency=frequency.find_mean(frequencies, pinned.get(uuid)),
            )
            for uuid, reading in readings.items()
        }
