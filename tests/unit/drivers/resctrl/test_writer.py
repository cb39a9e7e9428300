# SPDX-License-Identifier: Apache-2.0

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import machine as machine_mod
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import write_order
from nova_ext_resources.drivers.resctrl import writer
from nova_ext_resources.testing import resctrl
from tests import base

SERVER = uuidsentinel.server


class WriterTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(resctrl.ResctrlFixture('skylake2'))
        self.kernel = self.machine.kernel
        self.writer = self.make_writer(self.machine)

    def make_writer(
        self, machine: resctrl.ResctrlFixture, shared_ways: int = 0
    ) -> writer.Writer:
        return writer.Writer(
            machine.file_system,
            machine.cpu_path,
            machine_mod.HostMachine(shared_ways=shared_ways),
        )

    def put(self, mask: int, name: str = groups.make_name(SERVER)) -> None:
        ways = {schemata.Cache(3, 0): schemata.Ways(mask)}

        def plan(
            tree: groups.Tree, *names: str
        ) -> list[write_order.GroupChange]:
            owned = ownership.build(tree, self.writer.machine, {})
            desired = layout.layout(
                owned,
                {SERVER: layout.Wanted(ways=ways)},
                members={
                    one: layout.GroupMembers(cpus=frozenset({1, 2}))
                    for one in names
                },
            )
            return list(write_order.plan_writes(self.writer.tree, desired))

        with self.writer.changing() as tree:
            self.writer.run(
                plan(tree, name), undo=lambda now: plan(now.without(name))
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
        self.writer = self.make_writer(self.machine, shared_ways=2)
        self.kernel.fail(operation='write', path='*/cpus_list')

        self.assertRaises(errors.ResctrlFailed, self.put, 0, groups.SHARED)

        self.assertEqual({''}, set(self.kernel.list_groups()))
        self.assertEqual(0x7FF, self.get_default())
        self.put(0, groups.SHARED)
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
        self.assertIsNone(self.writer.known)

    def test_nobody_is_ever_left_without_a_way(self) -> None:
        # This hardware would take it.
        machine = self.useFixture(resctrl.ResctrlFixture('epyc16'))
        self.kernel = machine.kernel
        self.writer = self.make_writer(machine)

        def put() -> None:
            name = groups.make_name(SERVER)
            with self.writer.changing():
                self.writer.run(
                    [
                        write_order.Make(name=name),
                        write_order.Write(
                            name=name,
                            kind=write_order.WriteKind.FILL,
                            values={('L3', 0): 0},
                        ),
                    ],
                    undo=lambda _now: [write_order.Remove(name=name)],
                )

        err = self.assertRaises(errors.ResctrlRefused, put)

        self.assertIn('would have no way of L3', str(err))
        self.assertEqual({''}, set(self.kernel.list_groups()))

    def test_what_is_remembered_is_forgotten_after_an_error(self) -> None:
        self.put(0x00F)
        self.kernel.fail(operation='write', path='*/schemata')

        self.assertRaises(errors.ResctrlFailed, self.put, 0x0F0)

        self.assertIsNone(self.writer.known)
        self.put(0x0F0)
        self.assertEqual(0x0F0, self.kernel.get_values(f'nova-{SERVER}')['0'])

    def test_reading_believes_nothing_that_was_known(self) -> None:
        self.put(0x00F)
        self.kernel.fail(operation='read', path='*/cpus_list')

        self.assertRaises(errors.ResctrlFailed, self.writer.read)

        self.assertIsNone(self.writer.known)

    def test_cpus_that_the_kernel_does_not_show_are_not_believed(
        self,
    ) -> None:
        files = self.machine.file_system
        read = files.read
        files.read = lambda path: (
            '1\n' if path.endswith('/cpus_list') else read(path)
        )

        err = self.assertRaises(errors.NotApplied, self.put, 0x00F)

        self.assertIn('1-2 is expected, but the kernel shows 1', str(err))
