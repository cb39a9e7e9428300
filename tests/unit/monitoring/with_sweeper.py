# SPDX-License-Identifier: Apache-2.0

"""A base for tests that sweep over a kernel that answers back."""

from collections.abc import Collection, Mapping
import dataclasses
from typing import Any

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources import exception
from nova_ext_resources.monitoring import sample
from nova_ext_resources.monitoring import sweep
from nova_ext_resources.testing import fake_clock
from nova_ext_resources.testing import resctrl
from tests import base
from tests import machines

MIB = 1 << 20


@dataclasses.dataclass
class Clock:
    """Goes on when it is told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def find_total_rate(one: sample.ServerSample) -> float | None:
    """Return the sum over all caches; None where there is no rate."""
    rates = [each.total_rate for each in one.caches]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


class SweeperTestCase(base.TestCase):
    """Has a machine, servers that run, and a sweeper over them.

    :ivar servers: who shall be monitored
    :ivar threads: of each server that runs
    :ivar scans: how often all threads were asked for
    :ivar cpu_path: where frequencies would be
    """

    SHAPE = 'skylake2'

    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()
        self.servers: dict[str, sample.MonitoredServer] = {}
        self.threads: dict[str, list[int]] = {}
        self.scans = 0
        self.is_ledger_locked = False
        self.is_proc_hidden = False
        self.cpu_path = self.make_folder()
        self.use(self.SHAPE)

    def use(self, shape: str | resctrl.Shape) -> None:
        self.machine = self.useFixture(machines.make(shape))
        self.kernel: Any = self.machine.kernel
        self.sweeper = self.make_sweeper()

    def make_sweeper(self) -> sweep.Sweeper:
        return sweep.Sweeper(
            self.machine.file_system,
            cpu_path=self.cpu_path,
            list_servers=self.list_servers,
            list_threads=self.list_threads,
            clock=fake_clock.FakeClock(self.clock),
        )

    def list_servers(self) -> Mapping[str, sample.MonitoredServer]:
        if self.is_ledger_locked:
            raise exception.LedgerError(path='ledger', reason='it is locked')
        return dict(self.servers)

    def list_threads(
        self, uuids: Collection[str]
    ) -> Mapping[str, Collection[int]]:
        if self.is_proc_hidden:
            raise errors.ResctrlFailed(action='look', reason='hidepid')
        self.scans += 1
        return {uuid: self.threads.get(uuid, ()) for uuid in uuids}

    def start(self, uuid: str, **server: Any) -> int:
        """Start a server that has no control group; give its process."""
        self.servers[uuid] = sample.MonitoredServer(**server)
        pid: int = self.kernel.start_task()
        self.threads[uuid] = [pid, self.kernel.clone_task(pid)]
        return pid

    def add_control_group(self, uuid: str, **found: Any) -> str:
        """Have an enforcer make a group, and give its path."""
        name = f'nova-{uuid}'
        self.kernel.add_group(name, **found)
        self.servers.setdefault(uuid, sample.MonitoredServer(holds=True))
        return name

    def sweep(self, seconds: float = 10.0) -> sample.Sweep:
        """Let time pass, and sweep."""
        self.clock.now += seconds
        return self.sweeper.sweep()
