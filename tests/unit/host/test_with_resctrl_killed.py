# SPDX-License-Identifier: Apache-2.0

"""A host that dies at any change of what servers share."""

from collections.abc import Callable
import itertools
from typing import Any

from nova_ext_resources.drivers.rdt import classes
from tests.unit.host import test_with_resctrl_pools as pools
from tests.unit import watching

A, B, C = pools.A, pools.B, pools.C

#: Far more than there are; a run that is longer does not end.
MAX_STEPS = 60


class Killed(BaseException):
    """The process is no more: nothing handles this."""


class Dying:
    """Kills at a change of the kernel's files, before or after it."""

    def __init__(self, files: Any) -> None:
        self._left: int | None = None
        for name in ('write', 'assign', 'mkdir', 'rmdir'):
            self._wrap(files, name)

    def _wrap(self, files: Any, name: str) -> None:
        change = getattr(files, name)

        def change_and_die(*arguments: Any) -> None:
            self._step()
            change(*arguments)
            self._step()

        setattr(files, name, change_and_die)

    def _step(self) -> None:
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self._left = None
                raise Killed

    def run(self, work: Callable[[], object], step: int) -> bool:
        """Do it up to a step; tell whether that came."""
        self._left = step
        try:
            work()
        except Killed:
            return True
        finally:
            self._left = None
        return False


class DyingTestCase(pools.PoolsTestCase):
    """A and B run all the time, and C comes and goes."""

    OPTIONS = {'burst_ways': 6, 'shared_ways': 2}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.watch = watching.Watch(self.machine, 0x600)
        self.dying = Dying(self.machine.file_system)

    def check_everywhere(
        self, resource_class: str, amount: int = 1, most: int | None = None
    ) -> None:
        self.take(A, resource_class, amount, most)
        self.take(B, resource_class, amount, most)
        before = self.kernel.list_groups()

        def come_and_go() -> None:
            self.take(C, resource_class, amount, most)
            self.host.release(C)

        for step in itertools.count(1):
            self.assertLess(step, MAX_STEPS)
            was_killed = self.dying.run(come_and_go, step)
            with self.subTest(step=step):
                for live in ([A, B, C], [A, B]):
                    self.reopen()
                    self.host.reconcile(live)
                    self.assertEqual((), self.host.problems)
                    self.heal()
                self.assertEqual(
                    {A: 'applied', B: 'applied'}, self.read_rows()
                )
                self.assertEqual(before, self.kernel.list_groups())
            if not was_killed:
                break
        self.assertEqual([], self.watch.faults)
        self.assertGreater(step, 4)

    def test_burst_ways_are_whole_again(self) -> None:
        self.check_everywhere(classes.BURST)

    def test_the_shared_pool_is_whole_again(self) -> None:
        self.check_everywhere(classes.SHARED)

    def test_bandwidth_is_whole_again(self) -> None:
        self.check_everywhere(classes.PERCENT, 10, 80)

    def test_a_move_that_was_cut_off_leaves_what_was_sold(self) -> None:
        for uuid in (A, B, C):
            self.take(uuid, classes.BURST, 1)
            self.watch.least[uuid, '0'] = 1

        for step in itertools.count(1):
            self.assertLess(step, MAX_STEPS)
            was_killed = self.dying.run(
                lambda: self.share(a=4, b=1, c=1), step
            )
            with self.subTest(step=step):
                self.reopen()
                self.host.reconcile([A, B, C])
                self.assertEqual((), self.host.problems)
                self.assertEqual([], self.watch.faults)
                self.share(a=1, b=1, c=4)
            if not was_killed:
                break
        self.assertGreater(step, 4)
