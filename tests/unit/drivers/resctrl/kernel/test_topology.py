# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import topology
from nova_ext_resources.testing import resctrl
from tests import base


class TopologyTest(base.TestCase):
    def use(self, shape: str) -> resctrl.ResctrlFixture:
        machine: resctrl.ResctrlFixture = self.useFixture(
            resctrl.ResctrlFixture(shape)
        )
        return machine

    def test_every_domain_has_its_cpus(self) -> None:
        for shape, count, size in (
            ('skylake2', 2, 24),
            ('icelake_snc', 2, 32),
            ('epyc16', 16, 8),
        ):
            with self.subTest(shape=shape):
                found = topology.read_domains(self.use(shape).cpu_path)

                self.assertEqual(list(range(count)), sorted(found))
                self.assertEqual(
                    {size}, {len(cpus) for cpus in found.values()}
                )

    def test_cpus_that_are_offline_are_left_out(self) -> None:
        machine = self.use('skylake2')
        machine.kernel.set_offline('0-3')

        found = topology.read_domains(machine.cpu_path)

        self.assertEqual(20, len(found[0]))
        self.assertNotIn(0, topology.read_online(machine.cpu_path))

    def test_a_domain_without_cpus_is_gone(self) -> None:
        machine = self.use('skylake2')
        machine.kernel.set_offline('0-11,24-35')

        self.assertEqual({1}, set(topology.read_domains(machine.cpu_path)))

    def test_what_cannot_be_read_is_told(self) -> None:
        folder = self.make_folder()

        for read in (topology.read_domains, topology.read_online):
            err = self.assertRaises(errors.ResctrlError, read, folder)
            self.assertIn(folder, str(err))
            self.assertIn('[ext_resources_resctrl] cpu_path', str(err))
