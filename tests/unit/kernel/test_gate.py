# SPDX-License-Identifier: Apache-2.0

"""The command that runs the tests on kernels, without a guest."""

import argparse
from collections.abc import Iterator
import contextlib
import pathlib
import subprocess
import threading
from typing import Any
from unittest import mock

import fixtures

from dev.kernel.boot import guest as guest_mod
from dev.kernel import gate
from dev.kernel import obstacle
from dev.kernel import plan
from tests import base

PROGRAM = pathlib.Path('/qemu')


def make_arguments(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(
        **{
            'kernel': None,
            'machine': None,
            'shell': False,
            'tests': [],
            **given,
        }
    )


class ChooseTest(base.TestCase):
    def test_the_plan_is_the_default(self) -> None:
        self.assertEqual(list(plan.JOBS), gate.choose(make_arguments()))

    def test_a_kernel_outside_of_the_plan_needs_tests(self) -> None:
        err = self.assertRaises(
            obstacle.Obstacle, gate.choose, make_arguments(kernel='7.3')
        )

        self.assertIn('kernel 7.3', str(err))
        self.assertIn('6.12 with skylake2', str(err))

    def test_a_machine_outside_of_the_plan_needs_tests(self) -> None:
        err = self.assertRaises(
            obstacle.Obstacle, gate.choose, make_arguments(machine='no_mba')
        )

        self.assertIn('machine no_mba', str(err))

    def test_with_tests_it_is_any_kernel_and_any_machine(self) -> None:
        made = gate.choose(
            make_arguments(kernel='7.3', machine='granite', tests=['a'])
        )

        self.assertEqual(
            [plan.Job(series='7.3', machine='granite', tests=('a',))], made
        )

    def test_a_machine_that_nobody_knows_is_refused(self) -> None:
        err = self.assertRaises(
            obstacle.Obstacle,
            gate.choose,
            make_arguments(machine='skylake', tests=['a']),
        )

        self.assertIn('epyc16', str(err))


class WarmUpTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # Bytecode of a unit test is no use to a guest.
        self.useFixture(
            fixtures.MonkeyPatch('dev.kernel.gate._ENVIRONMENT', {})
        )

    def test_a_test_that_cannot_be_loaded_stops_it(self) -> None:
        name = 'tests.unit.kernel.test_gate.NoSuchTest'
        job = plan.Job(series='6.1', tests=(name,))

        err = self.assertRaises(obstacle.Obstacle, gate.warm_up, [job])

        self.assertIn('NoSuchTest', str(err))

    def test_what_can_be_loaded_is_fine(self) -> None:
        name = 'tests.unit.kernel.test_gate.WarmUpTest'

        gate.warm_up([plan.Job(series='6.1', tests=(name,))])


class Guest:
    """Ends each step as it is told.

    :param ends: a status, or what is raised, in turn
    """

    def __init__(self, *ends: int | Exception) -> None:
        self._ends = list(ends)

    def run(self, _script: str, _seconds: float) -> int:
        end = self._ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


class JobTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('dev.kernel.gate.CACHE', self.folder)
        )

    def run_job(
        self, job: plan.Job, *ends: int | Exception, is_up: bool = True
    ) -> list[str]:
        """Return the problems of a job."""

        @contextlib.contextmanager
        def running(*_words: Any) -> Iterator[Guest]:
            if not is_up:
                raise ends[0]  # type: ignore[misc]
            yield Guest(*ends)

        with mock.patch.object(guest_mod, 'running', running):
            return gate.run_job(
                PROGRAM, self.folder / 'linux-image-6.1', job, make_arguments()
            ).problems

    def test_one_that_does_not_come_up_is_a_problem(self) -> None:
        job = plan.Job(series='6.1', tests=('a',))

        for err in (
            guest_mod.Lost('no "up"'),
            FileNotFoundError(2, 'No such file or directory', 'setpriv'),
            subprocess.CalledProcessError(1, ['depmod']),
            subprocess.TimeoutExpired(['gcc'], 300),
        ):
            with self.subTest(error=type(err).__name__):
                problems = self.run_job(job, err, is_up=False)

                self.assertEqual([f'{type(err).__name__}: {err}'], problems)

    def test_a_model_that_hangs_is_a_problem(self) -> None:
        job = plan.Job(series='6.1', is_asked=True)
        hangs = subprocess.TimeoutExpired(['python'], 3600)

        with mock.patch.object(subprocess, 'run', side_effect=hangs):
            problems = self.run_job(job, 0)

        self.assertEqual([f'TimeoutExpired: {hangs}'], problems)

    def test_a_kernel_that_did_not_answer_is_a_problem(self) -> None:
        job = plan.Job(series='6.1', is_asked=True)
        ended: Any = subprocess.CompletedProcess([], 0)

        with mock.patch.object(subprocess, 'run', return_value=ended):
            problems = self.run_job(job, 0)

        self.assertIn('kernel.json', problems[0])

    def test_one_that_is_lost_has_run_no_test(self) -> None:
        job = plan.Job(series='6.1', tests=('a',))

        problems = self.run_job(job, guest_mod.Lost('it has ended'))

        self.assertIn('Lost: it has ended', problems)
        self.assertEqual(2, len(problems))


class RunTest(base.TestCase):
    """The whole plan, without a guest."""

    def setUp(self) -> None:
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name, value in {
            'gate.CACHE': folder,
            'gate.get_kernel': lambda _archive, series: pathlib.Path(series),
            'gate.warm_up': lambda _jobs: None,
            'gate.run_job': self.run_job,
            'archive.Archive.update': lambda _self: None,
            'emulator.build.get': lambda *_words: (PROGRAM, '7.2'),
            'report.tell': self.tell,
            'room.count_guests': lambda _jobs: 2,
        }.items():
            self.useFixture(fixtures.MonkeyPatch(f'dev.kernel.{name}', value))
        self.together = threading.Barrier(2, timeout=60)
        self.told: list[plan.Job] = []

    def run_job(
        self, _qemu: Any, tree: pathlib.Path, job: plan.Job, _arguments: Any
    ) -> plan.Job:
        self.assertEqual(job.series, tree.name)
        # Two of them run beside each other, or this fails.
        self.together.wait()
        return job

    def tell(self, results: list[plan.Job]) -> int:
        self.told = results
        return 0

    def test_guests_run_beside_each_other_and_are_told_in_order(self) -> None:
        self.assertEqual(0, gate.run(make_arguments()))

        self.assertEqual(list(plan.JOBS), self.told)
