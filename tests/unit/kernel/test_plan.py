# SPDX-License-Identifier: Apache-2.0

"""What the default run of the kernel tests covers."""

import collections
import pathlib
import re

from tests import base
from tools.kernel import machines
from tools.kernel import plan

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
        play = 'playbooks/kernel/run.yaml'

        self.assertIn(command, (ROOT / play).read_text())
        self.assertIn(f'run: {play}', (ROOT / '.zuul.yaml').read_text())
        self.assertIn(command, (ROOT / 'CONTRIBUTING.rst').read_text())
        # It takes half an hour.
        self.assertNotIn('kernel', (ROOT / '.ci' / 'run').read_text())
