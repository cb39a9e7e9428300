# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Sweeps over a mounted resctrl: real system calls and inodes."""

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.monitoring import sample
from nova_ext_resources.testing import resctrl
from tests.functional.resctrl import mounting
from tests.unit.monitoring import with_sweeper

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

MIB = with_sweeper.MIB

#: Machines that count something.
SHAPES = tuple(
    name for name, one in resctrl.SHAPES.items() if one.monitoring is not None
)


class MountedSweepTest(with_sweeper.SweeperTestCase):
    def use(self, shape: str | resctrl.Shape) -> None:
        mounting.require()
        self.machine = resctrl.ResctrlFixture(shape, fuse=True)
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
                    {u: s.total_rate for u, s in swept.servers.items()},
                )

    def test_a_group_made_anew_is_another_one(self) -> None:
        name = self.add_control_group(SERVER)
        self.sweep()
        self.assertEqual(0.0, self.sweep().servers[SERVER].total_rate)
        self.kernel.remove_group(name)
        self.kernel.add_group(name)

        swept = self.sweep()

        self.assertIsNone(swept.servers[SERVER].total_rate)

    def test_ids_that_are_used_up_are_said(self) -> None:
        self.servers[SERVER] = sample.Server()
        self.start(SERVER)
        self.kernel.fail(operation='mkdir', error='ENOSPC')

        swept = self.sweep()

        self.assertIn('monitoring ids are in use', swept.problems[SERVER])
