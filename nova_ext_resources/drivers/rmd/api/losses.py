# SPDX-License-Identifier: Apache-2.0

"""Classes of service that an RMD has lost until it is restarted.

RMD v0.3.1 gives a class back only when all went well:

* libpqos failed: POST answers 201 and nothing is applied, and the DELETE that
  follows keeps the class.
* libpqos fails at DELETE: it answers 200, but the kernel keeps the CPUs in
  the class, with its ways, and RMD keeps the class.
* A plugin failed: POST answers 500, without a record, but class, ways and
  CPUs stay taken.

RMD reports none of this. The ways read as taken, so that nobody is promised
them; the class would be counted as free. A restart of RMD mends it all.

The API does not show a restart: ids go on counting, and there is no time of
start. It is certain where nothing listened at RMD's address in between, or
where a lost class is on record again. Otherwise losses are forgotten with this
process only.
"""

from collections.abc import Callable, Iterable
import dataclasses
import threading
import time

from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import writer_lock

#: After so many losses, nothing is applied for a while.
MANY = 2

#: Seconds from the last loss on.
PAUSE = 600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One class of service.

    :ivar text: what happened
    :ivar cos_name: the class, '' if RMD has not reported it
    :ivar is_of_plugin: whether a plugin failed
    """

    text: str
    cos_name: str = ''
    is_of_plugin: bool = False


class Losses:
    """What one RMD has lost. Thread-safe.

    :param clock: returns seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._losses: tuple[Loss, ...] = ()
        self._last_at = 0.0

    def add(self, loss: Loss) -> None:
        """Note a loss."""
        with self._lock:
            self._losses = (*self._losses, loss)
            self._last_at = self._clock()

    def see(self, workloads: Iterable[values.RmdWorkload]) -> None:
        """Forget the classes that are on record: RMD gives them again."""
        # A workload without a class, and what a plugin lost, have no name.
        names = {one.cos_name for one in workloads} - {''}
        with self._lock:
            self._losses = tuple(
                one for one in self._losses if one.cos_name not in names
            )

    def forget(self) -> None:
        """Forget all: RMD does not run, and begins anew when it does."""
        with self._lock:
            self._losses = ()

    def list_all(self) -> tuple[Loss, ...]:
        """Return all of them, the oldest first."""
        return self._losses

    @property
    def is_pausing(self) -> bool:
        """Whether the next attempt would most likely lose another class."""
        with self._lock:
            is_recent = self._clock() - self._last_at < PAUSE
            return len(self._losses) >= MANY and is_recent

    @property
    def has_failed_plugin(self) -> bool:
        """Whether another attempt with a plugin would lose a class."""
        return any(one.is_of_plugin for one in self._losses)


_losses: dict[str, Losses] = {}
_losses_guard = threading.Lock()


def find_losses(url: str) -> Losses:
    """Return those of the RMD at ``url``, whichever client asks."""
    with _losses_guard:
        return _losses.setdefault(writer_lock.identify(url), Losses())


def forget_all() -> None:
    """Be as a new process, for tests."""
    with _losses_guard:
        _losses.clear()
