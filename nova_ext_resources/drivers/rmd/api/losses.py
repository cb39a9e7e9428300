# SPDX-License-Identifier: Apache-2.0

"""Classes of service that an RMD has lost until it is restarted.

RMD v0.3.1 gives a class back only when all went well:

* libpqos failed: POST answers 201 and nothing is applied, and the DELETE that
  follows keeps the class.
* libpqos fails at DELETE: it answers 200, but RMD keeps the class. The kernel
  keeps its ways, or its ways and CPUs; or its group is gone, because resctrl
  was mounted anew.
* A plugin failed: POST answers 500, without a record, but class, ways and
  CPUs stay taken.

RMD reports none of this. The ways read as taken, so that nobody is promised
them; the class would be counted as free. A restart of RMD mends it all.

The API does not show a restart: ids go on counting, and there is no time of
start. It is certain where RMD's process is another one than before, where
nothing listened at its address in between, or where a lost class is on record
again. Until then losses are remembered, over restarts of this process too.
"""

from collections.abc import Callable, Iterable
import contextlib
import dataclasses
import json
import threading

from nova_ext_resources import clocks
from nova_ext_resources.drivers.resctrl.guest import procfs
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import writer_lock
from nova_ext_resources import exception
from nova_ext_resources.objects.documents import foreign_data

#: After so many losses, nothing is applied for a while.
MANY = 2

#: Seconds from the last loss on.
PAUSE = 600.0

#: RMD writes it at its start.
PID_FILE = '/var/run/rmd.pid'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One class of service.

    :ivar text: what happened
    :ivar cos_name: the class, '' if RMD has not reported it
    :ivar is_of_plugin: whether a plugin failed
    :ivar is_doubtful: whether nothing shows that libpqos has failed: the
        kernel had none of it before
    """

    text: str
    cos_name: str = ''
    is_of_plugin: bool = False
    is_doubtful: bool = False


class Losses:
    """What one RMD has lost. Thread-safe."""

    def __init__(self, clock: clocks.Clock = clocks.MACHINE) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._losses: tuple[Loss, ...] = ()
        self._last_at = 0.0
        self._life = find_life()
        self._write: Callable[[str], object] = str
        self._written = ''

    def restore(self, text: str, write: Callable[[str], object]) -> None:
        """Go on with what was written before a restart of this process.

        :param text: what was written last, '' for nothing
        :param write: called with each change
        """
        with contextlib.suppress(*foreign_data.UNREADABLE):
            self._life, found = foreign_data.load_json(text)
            self._losses = tuple(Loss(**one) for one in found)
        self._write, self._written = write, text

    def add(self, loss: Loss) -> None:
        """Note a loss."""
        self._last_at = self._clock.monotonic()
        self._keep(lambda _one: True, loss)

    def _keep(self, is_lost: Callable[[Loss], bool], *new: Loss) -> None:
        """Forget the losses that are none, and those of a former start."""
        life = find_life()
        # Held over the write, so that the last one is what is known last.
        with self._lock:
            kept = filter(is_lost, self._losses if life == self._life else ())
            self._losses, self._life = (*kept, *new), life
            found = [dataclasses.asdict(one) for one in self._losses]
            text = json.dumps([life, found])
            if text == self._written or not (found or self._written):
                return
            # The status of the ledger shows a failure; the next look repeats.
            with contextlib.suppress(exception.LedgerError):
                self._write(text)
                self._written = text

    def see(self, workloads: Iterable[values.RmdWorkload]) -> None:
        """Forget the classes that are on record: RMD gives them again."""
        # A workload without a class, and what a plugin lost, have no name.
        names = {one.cos_name for one in workloads} - {''}
        self._keep(lambda one: one.cos_name not in names)

    def settle(self) -> None:
        """Forget those in doubt: libpqos works, and the kernel has groups."""
        self._keep(lambda one: not one.is_doubtful)

    def forget(self) -> None:
        """Forget all: RMD does not run, and begins anew when it does."""
        self._keep(lambda _one: False)

    def list_all(self) -> tuple[Loss, ...]:
        """Return all of them, the oldest first."""
        return self._losses

    @property
    def is_pausing(self) -> bool:
        """Whether the next attempt would most likely lose another class."""
        with self._lock:
            is_recent = self._clock.monotonic() - self._last_at < PAUSE
            certain = [one for one in self._losses if not one.is_doubtful]
            return len(certain) >= MANY and is_recent

    @property
    def has_failed_plugin(self) -> bool:
        """Whether another attempt with a plugin would lose a class."""
        return any(one.is_of_plugin for one in self._losses)


def find_life() -> str:
    """Name the process that RMD is now, as far as this host shows it."""
    text = procfs.read_file(PID_FILE)[:9].strip()
    pid = int(text) if text.isdigit() else 0
    process = procfs.ProcReader('/proc').find(pid)
    boot = procfs.read_file('/proc/sys/kernel/random/boot_id').decode()
    # In a container, its process may not be seen.
    return f'{boot.strip()} {pid} {process}'


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
