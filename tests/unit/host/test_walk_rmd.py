# SPDX-License-Identifier: Apache-2.0

"""A random walk of a host with RMD, with all that RMD and libpqos do to it.

The numbers are those of ``testing.rmd_simulator``'s traps.
"""

from collections.abc import Mapping
import contextlib
from typing import Any

import fixtures
import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import classes as sim_classes
from nova_ext_resources.testing.rmd_simulator import enforcement
from nova_ext_resources.testing.rmd_simulator import faults
from tests import rmd_groups
from tests.unit.host import walking
from tests.unit.host import with_host
from tests.unit import strategies

FOREIGN = 'db'

#: Neither POST nor DELETE is allowed to a user certificate.
_READ_ONLY = faults.Fault(
    kind='status',
    status=403,
    body='User "nova" is not authorized to access this resource\n',
    methods=('POST', 'DELETE'),
)


#: What may happen: a method and its arguments. Where servers have all classes
#: of service, none is left for the shared pool, which is trap 23.
MISHAPS: tuple[tuple[Any, ...], ...] = (
    # Traps 17 and 21: libpqos fails at POST, or at DELETE.
    ('fail_libpqos', *enforcement.CALLS),
    *(('fail_libpqos', call) for call in sorted(enforcement.CALLS)),
    ('fail_libpqos',),
    # Trap 18: how often a mask comes to the right cache.
    *(('draw_odds', odds) for odds in (0.27, 0.72, 1.0)),
    # Trap 19: RMD keeps its records, and the kernel does not.
    ('restart_rmd', True, False),
    ('remount',),
    ('restart_rmd', True, True),
    ('restart_rmd', False, False),
    # Trap 20: after all else was done.
    ('fail_plugins', True),
    ('fail_plugins', False),
    # Trap 22.
    ('refuse_writes', True),
    ('refuse_writes', False),
    ('drop', 'before'),
    ('drop', 'after'),
    # Other software takes ways, and goes.
    *(('come', run) for run in (0x6, 0x18, 0x60, 0x380, 0x400)),
    ('leave',),
)


class RmdWalk(walking.Walk):
    SHARED_MASKS = (0x400, 0x200)

    def set_up(self) -> None:
        self.fixture = self.stack.useFixture(
            rmd_simulator.RmdSimulatorFixture(
                plugins=('pstate',), has_cache_mixup=True, mixup_odds=1.0
            )
        )
        self.simulator = self.fixture.simulator
        # Whether a single call of libpqos has failed. No page shows all that
        # comes of that: one that RMD refuses for want of classes does.
        self.is_blind = False
        self.stack.addCleanup(losses.forget_all)

    def make_host(self) -> manager.HostManager:
        # A new process knows what is in files.
        losses.forget_all()
        return super().make_host()

    def load_backend(self, entries: Any) -> list[Any]:
        return [
            with_host.load(
                self.conf,
                namespace,
                'rmd',
                url=self.fixture.url,
                timeout=60.0,
                retries=0,
                burst_ways=3,
                shared_servers=2,
                entries=entries,
            )
            for namespace in (
                plugins.INVENTORY_PROVIDERS,
                plugins.ENFORCERS,
            )
        ]

    def list_groups(self) -> list[tuple[frozenset[int], Mapping[int, int]]]:
        return [
            (frozenset(group.cpus), dict(group.ways))
            for name, group in self.simulator.groups.items()
            if name != '.'
        ]

    def list_left(self) -> list[str]:
        return [one.id for one in self.simulator.daemon.list_records()]

    def check(self) -> None:
        """And no class of service is offered that RMD has lost."""
        super().check()
        if self.is_blind:
            return
        # The audit has just released what was left.
        self.host.refresh()
        free = self.simulator.daemon.enforcement.classes.free
        offered = self.host.view.tracked.get((with_host.RDT, with_host.CLOS))
        # With credentials that may only read, nothing is offered.
        assert not offered or offered.state.free <= len(free), (offered, free)

    def mend(self) -> None:
        if 'COS1' not in self.simulator.groups:
            self.restart_rmd(True, True)
        self.simulator.faults.clear()
        self.simulator.lie(False)
        self.simulator.break_plugins(False)
        self.draw_odds(1.0)
        self.leave()

    @stateful.rule(mishap=st.sampled_from(MISHAPS))
    def happen(self, mishap: tuple[Any, ...]) -> None:
        name, *how = mishap
        getattr(self, name)(*how)

    def fail_libpqos(self, *calls: str) -> None:
        self.simulator.lie(calls=calls)
        self.is_blind |= len(calls) == 1

    def draw_odds(self, odds: float) -> None:
        self.simulator.daemon.resctrl.mixup_odds = odds

    def restart_rmd(self, keep_database: bool, keep_groups: bool) -> None:
        # Where its groups are gone, only the second start succeeds.
        with contextlib.suppress(sim_classes.StartFailed):
            self.simulator.restart(
                keep_database=keep_database, keep_groups=keep_groups
            )
        self.simulator.restart()

    def remount(self) -> None:
        self.simulator.remount()

    def fail_plugins(self, is_failing: bool) -> None:
        self.simulator.break_plugins(is_failing)

    def refuse_writes(self, is_refused: bool) -> None:
        self.simulator.faults.clear()
        if is_refused:
            self.simulator.faults.add(_READ_ONLY)

    def drop(self, when: faults.When) -> None:
        self.simulator.faults.add(
            faults.Fault(
                kind='drop', when=when, count=1, methods=('POST', 'DELETE')
            )
        )

    def come(self, run: int) -> None:
        self.leave()
        self.simulator.add_foreign_group(FOREIGN, {0: run})

    def leave(self) -> None:
        if FOREIGN in self.simulator.groups:
            self.simulator.remove_foreign_group(FOREIGN)


# A run is many steps long.
RmdWalk.TestCase.settings = hypothesis.settings(
    max_examples=strategies.EXAMPLES // 10, stateful_step_count=25
)

RmdWalkTest = RmdWalk.TestCase


class KernelWalk(RmdWalk):
    """The control groups and the process of RMD can be seen."""

    def set_up(self) -> None:
        super().set_up()
        self.stack.useFixture(rmd_groups.ShownGroups(self.simulator))
        self.starts = 0
        self.stack.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.rmd.api.losses.find_life',
                lambda: str(self.starts),
            )
        )

    def fail_libpqos(self, *calls: str) -> None:
        self.simulator.lie(calls=calls)

    def restart_rmd(self, keep_database: bool, keep_groups: bool) -> None:
        super().restart_rmd(keep_database, keep_groups)
        self.starts += 1
        # Where the kernel had nothing of a workload, nothing shows whether
        # the first call of its DELETE has failed.
        self.is_blind = keep_database and not keep_groups

    def check(self) -> None:
        """And no server shares its ways with CPUs of others, unseen."""
        super().check()
        told = {one.subject for one in self.host.problems}
        if told & {'rmd', 'rmd groups'}:
            return
        own = {
            uuid: entry.cpus or frozenset()
            for uuid, entry in self.host.entries.items()
            if uuid not in told
        }
        for cpus, _masks in self.list_groups():
            for uuid, used in own.items():
                if used & cpus and not is_shared(self.host.entries[uuid]):
                    assert used == cpus, (uuid, used, cpus)


def is_shared(entry: assignment.Entry) -> bool:
    return bool(classes.pick(entry.assignments, classes.SHARED))


KernelWalk.TestCase.settings = RmdWalk.TestCase.settings

KernelWalkTest = KernelWalk.TestCase
