# SPDX-License-Identifier: Apache-2.0

"""Monitoring ids, and what is counted under them."""

from collections.abc import Callable, Iterable
import errno

from nova_ext_resources.testing.resctrl import controls
from nova_ext_resources.testing.resctrl import shape

#: Seconds between two looks at the ids in limbo.
LIMBO_INTERVAL = 1.0

OCCUPANCY = 'llc_occupancy'


class Monitor:
    """The counters of a machine.

    An id that is given back stays in limbo until the cache holds next to
    nothing of it in every domain.

    :ivar limit: bytes of the cache; the threshold cannot be more
    :ivar threshold: bytes of that next to nothing
    """

    def __init__(
        self,
        monitoring: shape.Monitoring,
        limit: int,
        clock: Callable[[], float],
    ) -> None:
        self.monitoring = monitoring
        self.limit = limit
        self.set_threshold(limit // monitoring.num_rmids)
        self._clock = clock
        self._looked_at = clock()
        self._free = list(range(1, monitoring.num_rmids))
        self._limbo: list[int] = []
        self._values: dict[tuple[int, int, str], int] = {}
        self._readings: dict[tuple[int, int, str], str] = {}
        self._online: set[int] = set()

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def limbo(self) -> tuple[int, ...]:
        return tuple(self._limbo)

    @property
    def online(self) -> tuple[shape.MonitorDomain, ...]:
        """Return the domains with a CPU that is online."""
        return tuple(
            d for d in self.monitoring.domains if d.id in self._online
        )

    def follow(self, cpus: Iterable[int]) -> None:
        """Know the domains that have an online CPU, and no others."""
        here = set(cpus)
        self._online = {
            domain.id
            for domain in self.monitoring.domains
            if domain.cpus & here
        }

    def allocate(self) -> int:
        """Take the id that is free for longest.

        :raises controls.Refused: EBUSY when some are in limbo, else ENOSPC
        """
        self.look(force=False)
        if not self._free:
            raise controls.Refused(
                'Out of RMIDs', errno.EBUSY if self._limbo else errno.ENOSPC
            )
        rmid = self._free.pop(0)
        for key in [k for k in self._values if k[0] == rmid]:
            if key[2] != OCCUPANCY:
                del self._values[key]
        return rmid

    def free(self, rmid: int) -> None:
        for key in [k for k in self._readings if k[0] == rmid]:
            del self._readings[key]
        if OCCUPANCY in self.monitoring.events:
            self._limbo.append(rmid)
        else:
            self._free.append(rmid)

    def look(self, *, force: bool) -> None:
        """Free the ids of which the cache holds next to nothing."""
        now = self._clock()
        if not force and now - self._looked_at < LIMBO_INTERVAL:
            return
        self._looked_at = now
        clean = [rmid for rmid in self._limbo if self._is_clean(rmid)]
        self._free += clean
        self._limbo = [rmid for rmid in self._limbo if rmid not in clean]

    def _is_clean(self, rmid: int) -> bool:
        return all(
            self._values.get((rmid, domain, OCCUPANCY), 0) < self.threshold
            for domain in self._online
        )

    def flush(self) -> None:
        """Forget what the cache holds of the ids in limbo."""
        for rmid in self._limbo:
            for domain in self.monitoring.domains:
                self._values.pop((rmid, domain.id, OCCUPANCY), None)
        self.look(force=True)

    def set_threshold(self, size: int) -> None:
        """Set what counts as next to nothing, in whole steps."""
        self.threshold = size // self.monitoring.scale * self.monitoring.scale

    def set_value(
        self, rmid: int, domain: int, event: str, value: int
    ) -> None:
        self._values[rmid, domain, event] = value

    def add(self, rmid: int, domain: int, event: str, value: int) -> None:
        key = (rmid, domain, event)
        self._values[key] = self._values.get(key, 0) + value

    def set_reading(
        self, rmid: int, domain: int, event: str, text: str | None
    ) -> None:
        """Have a file say this, until it is set to None."""
        self._readings.pop((rmid, domain, event), None)
        if text is not None:
            self._readings[rmid, domain, event] = text

    def show(
        self, rmids: Iterable[int], domains: Iterable[int], event: str
    ) -> str:
        """Return the text of a counter's file, summed up."""
        total = 0
        for domain in domains:
            for rmid in rmids:
                key = (rmid, domain, event)
                if key in self._readings:
                    return f'{self._readings[key]}\n'
                total += self._values.get(key, 0)
        scale = self.monitoring.scale
        return f'{total // scale * scale}\n'
