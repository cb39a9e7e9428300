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

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import partition
from nova_ext_resources.resctrl import pools
from nova_ext_resources.resctrl import schemata
from nova_ext_resources.testing import resctrl
from tests import base

SERVER = uuidsentinel.server


class PartitionTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(resctrl.ResctrlFixture('skylake2'))
        self.kernel = self.machine.kernel
        self.partition = partition.Partition(
            self.machine.file_system, self.machine.cpu_path, 1
        )

    def put(self, mask: int) -> None:
        with self.partition.changing():
            self.partition.put(
                SERVER,
                wanted=layout.Wanted(
                    ways={schemata.Cache(3, 0): schemata.Ways(mask)}
                ),
                cpus=frozenset({1, 2}),
            )

    def get_default(self) -> int:
        value: int = self.kernel.get_values('')['0']
        return value

    def test_a_server_that_moves_gives_its_old_ways_back(self) -> None:
        self.put(0x1F0)

        self.put(0x00F)

        self.assertEqual(0x7F0, self.get_default())
        self.assertEqual(0x00F, self.kernel.get_values(f'nova-{SERVER}')['0'])

    def test_what_fails_half_way_is_undone_at_once(self) -> None:
        self.kernel.fail(operation='write', path='*/cpus_list')

        self.assertRaises(errors.ResctrlFailed, self.put, 0x00F)

        self.assertEqual({''}, set(self.kernel.list_groups()))
        self.assertEqual(0x7FF, self.get_default())

    def test_a_pool_that_fails_half_way_is_undone_at_once(self) -> None:
        self.partition = partition.Partition(
            self.machine.file_system,
            self.machine.cpu_path,
            1,
            pools.Sizes(shared=2),
        )
        self.kernel.fail(operation='write', path='*/cpus_list')

        def put() -> None:
            with self.partition.changing():
                self.partition.put_shared(frozenset({1}), None)

        self.assertRaises(errors.ResctrlFailed, put)

        self.assertEqual({''}, set(self.kernel.list_groups()))
        self.assertEqual(0x7FF, self.get_default())
        put()
        self.assertEqual(0x7FC, self.get_default())

    def test_whatever_goes_wrong_half_way_is_undone_and_forgotten(
        self,
    ) -> None:
        """The helper of oslo.privsep has errors of its own."""
        files = self.machine.file_system
        write = files.write

        def fail(path: str, text: str) -> None:
            if path.endswith('/cpus_list'):
                raise RuntimeError('the helper has ended')
            write(path, text)

        files.write = fail
        self.assertRaises(RuntimeError, self.put, 0x00F)

        self.assertEqual({''}, set(self.kernel.list_groups()))
        self.assertEqual(0x7FF, self.get_default())
        self.assertIsNone(self.partition.known)

    def test_nobody_is_ever_left_without_a_way(self) -> None:
        # This hardware would take it.
        machine = self.useFixture(resctrl.ResctrlFixture('epyc16'))
        self.kernel = machine.kernel
        self.partition = partition.Partition(
            machine.file_system, machine.cpu_path, 1
        )

        err = self.assertRaises(errors.ResctrlRefused, self.put, 0)

        self.assertIn('without any way of L3', str(err))
        self.assertEqual({''}, set(self.kernel.list_groups()))

    def test_what_is_remembered_is_forgotten_after_an_error(self) -> None:
        self.put(0x00F)
        self.kernel.fail(operation='write', path='*/schemata')

        self.assertRaises(errors.ResctrlFailed, self.put, 0x0F0)

        self.assertIsNone(self.partition.known)
        self.put(0x0F0)
        self.assertEqual(0x0F0, self.kernel.get_values(f'nova-{SERVER}')['0'])

    def test_a_look_believes_nothing_that_was_known(self) -> None:
        self.put(0x00F)
        self.kernel.fail(operation='read', path='*/cpus_list')

        self.assertRaises(errors.ResctrlFailed, self.partition.look)

        self.assertIsNone(self.partition.known)

    def test_cpus_that_the_kernel_does_not_show_are_not_believed(
        self,
    ) -> None:
        files = self.machine.file_system
        read = files.read
        files.read = lambda path: (
            '1\n' if path.endswith('/cpus_list') else read(path)
        )

        err = self.assertRaises(errors.NotInForce, self.put, 0x00F)

        self.assertIn('1-2 is wanted and 1 is shown', str(err))
