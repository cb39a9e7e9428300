# SPDX-License-Identifier: Apache-2.0

import threading

import fixtures

from nova_ext_resources.monitoring import loop
from nova_ext_resources.monitoring import sample
from tests import base

EMPTY = sample.Sweep(finished_at=1.0, duration=0.1)


class LoopTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.logger = self.useFixture(fixtures.FakeLogger())
        self.next: list[sample.Sweep] = []
        self.seen: list[sample.Sweep] = []
        self.swept = threading.Semaphore(0)

    def sweep(self) -> sample.Sweep:
        self.swept.release()
        return self.next.pop(0) if self.next else EMPTY

    def make(self, interval: float = 60.0) -> loop.SweepLoop:
        return loop.SweepLoop(
            self.sweep,
            interval=interval,
            host='host1',
            on_sweep=self.seen.append,
        )

    def test_the_latest_one_is_kept_and_told(self) -> None:
        one = self.make()
        self.assertIsNone(one.latest)

        one.run_once()

        self.assertIs(EMPTY, one.latest)
        self.assertEqual([EMPTY], self.seen)

    def test_a_bug_does_not_end_it_and_is_told_to_all(self) -> None:
        one = self.make()
        one._sweep = lambda: 1 / 0  # type: ignore[assignment,return-value]

        for _ in range(2):
            one.run_once()

        assert one.latest is not None
        self.assertIn('ZeroDivisionError', one.latest.problem)
        self.assertEqual(one.latest, self.seen[-1])
        self.assertEqual(1, self.logger.output.count('ZeroDivisionError'))
        self.assertIn('host1', self.logger.output)

    def test_who_cannot_be_told_does_not_end_it(self) -> None:
        one = self.make()
        one._on_sweep = lambda _sweep: 1 / 0  # type: ignore[assignment]

        one.run_once()

        self.assertIs(EMPTY, one.latest)
        self.assertIn('could not be passed on', self.logger.output)

    def test_it_goes_on_until_it_is_stopped(self) -> None:
        one = self.make(0.01)

        one.start()
        for _ in range(3):
            self.assertTrue(self.swept.acquire(timeout=60))
        one.stop()

        self.assertFalse(one._thread and one._thread.is_alive())

    def test_it_can_be_stopped_before_it_was_started(self) -> None:
        self.make().stop()

    def test_what_is_wrong_is_logged_once(self) -> None:
        wrong = sample.Sweep(
            finished_at=1.0,
            duration=0.1,
            problem='it is not mounted',
            problems={'a': 'no id', 'b': 'no id either'},
        )
        self.next = [wrong, wrong, EMPTY, wrong]
        one = self.make()

        one.run_once()
        one.run_once()
        self.assertEqual(1, self.logger.output.count('it is not mounted'))
        self.assertEqual(1, self.logger.output.count('2 servers'))

        one.run_once()
        one.run_once()
        self.assertEqual(2, self.logger.output.count('it is not mounted'))
        self.assertEqual(1, self.logger.output.count('works again'))
