# SPDX-License-Identifier: Apache-2.0

"""What the default run of the kernel tests covers."""

import collections
import pathlib
import re

from dev.kernel import machines
from dev.kernel import plan
from tests import base

ROOT = pathlib.Path(__file__).parents[3]


class PlanTest(base.TestCase):
    def test_each_kernel_is_compared_and_tried_as_a_user(self) -> None:
        series = {one.series for one in plan.JOBS}
        whole = {
            one.series
            for one in plan.JOBS
            if one.is_asked and one.is_user and {*plan.KERNEL} <= {*one.tests}
        }

        self.assertGreaterEqual(len(series), 2)
        self.assertEqual(series, whole)

    def test_each_kind_of_processor_is_in_it(self) -> None:
        found = [machines.MACHINES[one.machine] for one in plan.JOBS]
        shapes = [one.shape for one in found]
        levels = [{one.level for one in shape.caches} for shape in shapes]

        self.assertIn(True, [one.is_amd for one in found])
        self.assertIn({2}, levels)
        self.assertIn({2, 3}, levels)
        self.assertEqual(
            16,
            max(
                len(one.domains)
                for shape in shapes
                for one in shape.caches
                if one.level == 3
            ),
        )
        self.assertTrue(
            any(
                one.monitoring and one.monitoring.has_clusters
                for one in shapes
            )
        )

    def test_the_longest_tests_run_on_one_kernel(self) -> None:
        times = collections.Counter(
            name for one in plan.JOBS for name in one.tests
        )

        self.assertEqual(
            dict.fromkeys(plan.PACKAGE, 1),
            {name: times[name] for name in plan.PACKAGE},
        )

    def test_each_guest_tests_something(self) -> None:
        for one in plan.JOBS:
            with self.subTest(job=one):
                self.assertIn(one.machine, machines.MACHINES)
                self.assertTrue(one.tests)

    def test_each_name_is_of_a_module(self) -> None:
        for one in plan.JOBS:
            for name in one.list_tests():
                with self.subTest(name=name):
                    path = ROOT / name.replace('.', '/')

                    self.assertTrue(path.with_suffix('.py').is_file())

    def test_each_series_is_in_the_support_matrix(self) -> None:
        page = ROOT / 'doc' / 'source' / 'admin' / 'support.rst'
        listed = re.findall(
            r'^   \* - (\d+\.\d+)\.\S+ \(', page.read_text(), re.M
        )

        self.assertLessEqual({one.series for one in plan.JOBS}, {*listed})

    def test_it_is_a_job_of_its_own_that_contributors_hear_of(self) -> None:
        command = 'sh tools/tox -e kernel'
        play = 'playbooks/privileged/run.yaml'

        jobs = (ROOT / '.zuul.yaml').read_text()
        self.assertTrue((ROOT / play).exists())
        self.assertIn(
            f'run: {play}\n    vars:\n      tox_envlist: kernel', jobs
        )
        self.assertIn(command, (ROOT / 'CONTRIBUTING.rst').read_text())
        # It takes half an hour.
        self.assertNotIn('kernel', (ROOT / '.ci' / 'run').read_text())
