# SPDX-License-Identifier: Apache-2.0

"""What runs must be by itself in its ways after every single change."""

from collections.abc import Callable
import random
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import machine
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import write_order
from nova_ext_resources.drivers.resctrl import writer
from nova_ext_resources.testing import resctrl
from tests import base
from tests.unit.drivers.resctrl.policy import states

SERVERS = tuple(
    getattr(uuidsentinel, name) for name in ('a', 'b', 'c', 'd', 'e')
)


class OrderTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(resctrl.ResctrlFixture('skylake2'))
        self.kernel = self.machine.kernel
        self.ways: dict[str, int] = {}
        self.shared = ''
        self.steps: list[str] = []
        files = self.machine.file_system
        for name in ('write', 'assign', 'mkdir', 'rmdir'):
            setattr(files, name, self.watched(getattr(files, name)))
        self.writer = writer.Writer(
            files, self.machine.cpu_path, machine.HostMachine()
        )

    def change(
        self,
        tree: groups.Tree,
        wanted: dict[str, layout.Wanted],
        members: dict[str, layout.GroupMembers],
    ) -> None:
        entries = {
            uuid: states.make_entry(uuid, mask=f'{mask:x}')
            if mask
            else states.make_entry(uuid, classes.PERCENT)
            for uuid, mask in self.ways.items()
        }
        owned = ownership.build(tree, self.writer.machine, entries)
        desired = layout.layout(owned, wanted, members=members)
        self.writer.run(write_order.plan_writes(self.writer.tree, desired))

    def watched(self, call: Callable[..., Any]) -> Callable[..., None]:
        def watched(path: str, *arguments: Any) -> None:
            call(path, *arguments)
            self.steps.append(f'{path} {arguments}')
            self.check()

        return watched

    def check(self) -> None:
        """Compare the ways of whatever runs with those of who has its own."""
        groups = self.kernel.list_groups()
        masks = {
            name: self.kernel.get_values(name)['0']
            for name, group in groups.items()
            if not name or group['cpus']
        }
        for uuid, mask in self.ways.items():
            own = masks.get(f'nova-{uuid}', 0)
            if not mask or (uuid == self.shared and own != mask):
                continue
            for name, other in masks.items():
                if name != f'nova-{uuid}':
                    self.assertEqual(0, own & other, f'{name} {self.steps}')

    def put(self, uuid: str, mask: int) -> None:
        self.steps.clear()
        # Who shared what was left does so until it gets its own.
        self.shared = uuid if self.ways.get(uuid) == 0 else ''
        self.ways[uuid] = mask
        number = SERVERS.index(uuid)
        cpus = frozenset({2 * number, 2 * number + 1})
        with self.writer.changing() as tree:
            self.change(
                tree,
                {uuid: states.want(mask)},
                {groups.make_name(uuid): layout.GroupMembers(cpus=cpus)},
            )
        self.assertEqual(
            mask or self.get_default(),
            self.kernel.get_values(f'nova-{uuid}')['0'],
        )

    def remove(self, uuid: str) -> None:
        self.steps.clear()
        del self.ways[uuid]
        with self.writer.changing(is_quick=True) as tree:
            self.change(tree.without(groups.make_name(uuid)), {}, {})
        self.assertNotIn(f'nova-{uuid}', self.kernel.list_groups())

    def get_default(self) -> int:
        value: int = self.kernel.get_values('')['0']
        return value

    def test_a_server_that_starts_is_alone_before_it_runs(self) -> None:
        self.put(SERVERS[0], 0x00F)
        self.put(SERVERS[1], 0x0F0)

        self.assertEqual(0x700, self.get_default())

    def test_a_server_that_moves_is_alone_all_the_time(self) -> None:
        self.put(SERVERS[0], 0x1F0)
        self.put(SERVERS[1], 0)

        self.put(SERVERS[0], 0x00F)

        self.assertEqual(0x7F0, self.get_default())
        self.put(SERVERS[0], 0x01E)

    def test_who_has_none_is_out_of_the_way_first(self) -> None:
        self.put(SERVERS[0], 0)

        self.put(SERVERS[1], 0x00F)

        self.assertEqual(
            0x7F0, self.kernel.get_values(f'nova-{SERVERS[0]}')['0']
        )

    def test_whatever_comes_and_goes_nobody_is_disturbed(self) -> None:
        for seed in range(10):
            with self.subTest(seed=seed):
                self.shuffle(random.Random(seed))

    def shuffle(self, chance: random.Random) -> None:
        for _ in range(12):
            uuid = chance.choice(SERVERS)
            if uuid in self.ways and chance.random() < 0.4:
                self.remove(uuid)
            else:
                self.put(uuid, self.choose(chance, uuid))
        for uuid in tuple(self.ways):
            self.remove(uuid)
        self.assertEqual(0x7FF, self.get_default())

    def choose(self, chance: random.Random, uuid: str) -> int:
        """Choose ways that nobody else has and the host does not keep."""
        allocated = sum(mask for one, mask in self.ways.items() if one != uuid)
        masks = [
            mask
            for mask in (
                (1 << n) - 1 << s for n in (1, 2, 3) for s in range(9)
            )
            if mask < 0x200 and not mask & allocated
        ]
        return chance.choice([0, *masks])
