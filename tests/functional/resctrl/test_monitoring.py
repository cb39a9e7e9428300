# SPDX-License-Identifier: Apache-2.0

"""Sweeps over a mounted resctrl: real system calls and inodes."""

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.monitoring import sample
from nova_ext_resources.testing import resctrl
from tests.functional.resctrl import mounting
from tests import machines
from tests.unit.monitoring import with_sweeper

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

MIB = with_sweeper.MIB

#: Machines that count something.
SHAPES = tuple(
    name
    for name, one in machines.list_shapes().items()
    if one.monitoring is not None
)


class MountedSweepTest(with_sweeper.SweeperTestCase):
    SHAPE = machines.get_default()

    def use(self, shape: str | resctrl.Shape) -> None:
        self.machine = mounting.make(shape)
        self.useFixture(self.machine)
        self.kernel = self.machine.kernel
        self.sweeper = self.make_sweeper()

    def test_servers_of_every_machine_are_seen(self) -> None:
        for shape in SHAPES:
            with self.subTest(shape=shape):
                self.use(shape)
                name = self.add_control_group(SERVER)
                self.start(OTHER, holds=True)
                first = self.sweep()
                self.kernel.add_traffic(name, 0, 64 * MIB)
                self.kernel.add_traffic(
                    f'mon_groups/nova-{OTHER}', 0, 32 * MIB
                )

                swept = self.sweep(1)

                self.assertEqual(('', {}), (first.problem, first.problems))
                self.assertEqual(('', {}), (swept.problem, swept.problems))
                self.assertEqual(
                    {SERVER: 64.0 * MIB, OTHER: 32.0 * MIB},
                    {
                        u: with_sweeper.find_total_rate(s)
                        for u, s in swept.servers.items()
                    },
                )

    def test_a_group_made_anew_is_another_one(self) -> None:
        name = self.add_control_group(SERVER)
        self.sweep()
        self.assertEqual(
            0.0, with_sweeper.find_total_rate(self.sweep().servers[SERVER])
        )
        self.kernel.remove_group(name)
        self.kernel.add_group(name)

        swept = self.sweep()

        self.assertIsNone(with_sweeper.find_total_rate(swept.servers[SERVER]))

    def test_ids_that_are_used_up_are_said(self) -> None:
        self.servers[SERVER] = sample.MonitoredServer()
        self.start(SERVER)
        self.kernel.fail(operation='mkdir', error='ENOSPC')

        swept = self.sweep()

        self.assertIn('monitoring ids are in use', swept.problems[SERVER])
