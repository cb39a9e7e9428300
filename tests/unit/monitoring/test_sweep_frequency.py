# SPDX-License-Identifier: Apache-2.0

import os

from nova_ext_resources.monitoring import sweep
from tests import base


class FrequencyTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = self.make_folder()

    def write(self, cpu: int, text: str) -> None:
        folder = os.path.join(self.path, f'cpu{cpu}', 'cpufreq')
        os.makedirs(folder)
        with open(os.path.join(folder, 'scaling_cur_freq'), 'w') as file:
            file.write(text)

    def test_khz_become_hz(self) -> None:
        self.write(3, '2400000\n')

        found = sweep.read_frequencies(self.path, [3])

        self.assertEqual({3: 2.4e9}, found)

    def test_cpus_that_do_not_tell_are_left_out(self) -> None:
        self.write(0, '1000000\n')
        self.write(1, '<unknown>\n')
        self.write(2, '')
        self.write(3, 'é')

        found = sweep.read_frequencies(self.path, range(6))

        self.assertEqual({0: 1e9}, found)

    def test_the_mean_is_over_those_that_tell(self) -> None:
        mean = sweep.find_mean({0: 1e9, 1: 3e9, 2: 9e9}, {0, 1, 7})

        self.assertEqual(2e9, mean)

    def test_there_is_no_mean_of_nothing(self) -> None:
        self.assertIsNone(sweep.find_mean({}, {0}))
        self.assertIsNone(sweep.find_mean({0: 1e9}, None))
        self.assertIsNone(sweep.find_mean({0: 1e9}, {7}))
