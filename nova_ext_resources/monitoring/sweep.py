# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""One look at all servers of a host, again and again."""

from collections.abc import Callable, Mapping
import dataclasses
import time

from nova_ext_resources import exception
from nova_ext_resources.monitoring import frequency
from nova_ext_resources.monitoring import rates
from nova_ext_resources.monitoring import sample
from nova_ext_resources.monitoring import upkeep as upkeep_mod
from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import mon_groups
from nova_ext_resources.resctrl import monitoring

_NOTHING = (
    'the CPU or the kernel counts nothing here: there is no '
    f'{monitoring.INFO}, or none of {", ".join(monitoring.EVENTS)} in it'
)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Seen:
    """What one sweep has found so far."""

    readings: dict[str, rates.Reading] = dataclasses.field(
        default_factory=dict
    )
    problems: dict[str, str] = dataclasses.field(default_factory=dict)
    problem: str = ''
    ids: sample.Ids | None = None


class Sweeper:
    """Sees what every server of this host uses.

    Not for more than one thread at a time.

    :param cpu_path: ``/sys/devices/system/cpu``
    :param list_servers: gives who shall be monitored, by uuid; see
        :func:`.sample.describe_servers`. Servers with a control group of
        their own are monitored in any case.
    :param list_threads: see :class:`.upkeep.Upkeep`
    """

    def __init__(
        self,
        files: monitoring.Files,
        *,
        cpu_path: str,
        list_servers: Callable[[], Mapping[str, sample.Server]],
        list_threads: upkeep_mod.ListThreads,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._cpu_path = cpu_path
        self._list_servers = list_servers
        self._clock = clock
        self._changer = mon_groups.MonGroups(files)
        self._upkeep = upkeep_mod.Upkeep(self._changer, list_threads, clock)
        self._before: Mapping[str, rates.Reading] = {}

    def sweep(self) -> sample.Sweep:
        """Look at everything once.

        What fails on the host is said in the answer and does not raise.
        """
        started_at = self._clock()
        seen = _Seen()
        servers = self._find_servers(seen)
        try:
            self._look(seen, servers)
        except errors.ResctrlError as err:
            seen.problem = seen.problem or str(err)
        samples = self._make_samples(seen.readings, servers or {})
        # Whoever is not among them any more is forgotten.
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

    def _find_servers(self, seen: _Seen) -> Mapping[str, sample.Server] | None:
        """Give those that shall be monitored, None when nobody knows."""
        try:
            return self._list_servers()
        except (exception.ExtResourcesError, OSError) as err:
            seen.problem = f'the servers of this host are not known: {err}'
            return None

    def _look(
        self, seen: _Seen, servers: Mapping[str, sample.Server] | None
    ) -> None:
        info = monitoring.read_info(self._files)
        if info is None or not info.events:
            seen.problem = _NOTHING
            return
        listing = self._changer.list_all()
        seen.ids = sample.Ids(total=info.num_rmids, used=listing.num_rmids)
        there = listing.mon_groups
        if servers is not None:
            budget = upkeep_mod.make_budget(listing, info.num_rmids)
            there, seen.problems = self._upkeep.maintain(
                listing, budget, servers
            )
        reader = monitoring.Reader(
            self._files, monitoring.list_domains(self._files), info.events
        )
        paths = {one.consumer_uuid: one.path for one in there}
        # Whoever has both is on the way from one to the other.
        paths |= {uuid: groups.make_name(uuid) for uuid in listing.controls}
        for uuid, path in paths.items():
            self._read(seen, reader, uuid, path)

    def _read(
        self, seen: _Seen, reader: monitoring.Reader, uuid: str, path: str
    ) -> None:
        at = self._clock()
        try:
            found = reader.read(path)
        except errors.GroupGone:
            # Removed while this looked; so is what was known of it.
            return
        except errors.ResctrlError as err:
            seen.problems[uuid] = str(err)
            return
        seen.readings[uuid] = rates.Reading(at=at, group=found)
        if found.failure:
            seen.problems[uuid] = f'not all can be read: {found.failure}'

    def _make_samples(
        self,
        readings: Mapping[str, rates.Reading],
        servers: Mapping[str, sample.Server],
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
