# SPDX-License-Identifier: Apache-2.0

"""Machines of the model as the emulator is told of them."""

from dev.kernel import machines
from tests import base


class MachinesTest(base.TestCase):
    def describe(self, name: str) -> list[str]:
        return machines.MACHINES[name].describe().split()

    def list_words(self, name: str) -> str:
        return ' '.join(machines.MACHINES[name].list_words())

    def test_intel_is_described_as_cpuid_has_it(self) -> None:
        self.assertEqual(
            [
                'cpus=48',
                'l3=11,16,1536,4',
                'size=11,36864',
                'mb=90,8,4',
                'mon=192,65536,7,20',
            ],
            self.describe('skylake2'),
        )

    def test_amd_counts_bandwidth_in_bits(self) -> None:
        words = self.describe('epyc16')

        self.assertIn('amd=1', words)
        self.assertIn('mb=11,16,0', words)

    def test_cpus_that_share_an_l2_follow_each_other(self) -> None:
        self.assertEqual(['l2=8,4,0,0'], self.describe('atom_l2'))

    def test_ids_are_those_of_all_clusters(self) -> None:
        self.assertIn('mon=224,65536,7,20', self.describe('icelake_snc'))

    def test_cpus_are_dealt_as_in_the_shape(self) -> None:
        for name, smp, nodes in (
            ('skylake2', '48,sockets=2,dies=1,cores=12,threads=2', 2),
            ('epyc16', '128,sockets=2,dies=8,cores=4,threads=2', 2),
            ('icelake_snc', '64,sockets=2,dies=1,cores=16,threads=2', 4),
        ):
            with self.subTest(name=name):
                words = self.list_words(name)

                self.assertIn(f'-smp {smp} ', words)
                self.assertEqual(nodes, words.count('-numa'))

    def test_cpus_of_a_node_are_those_of_the_shape(self) -> None:
        self.assertIn(
            'nodeid=1,memdev=m1,cpus=12-23,cpus=36-47',
            self.list_words('skylake2'),
        )
