# SPDX-License-Identifier: Apache-2.0

"""Everything that each machine can give out, at once."""

from collections.abc import Iterator
import dataclasses

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes as rdt_classes
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_provider
from nova_ext_resources import plugins
from tests import machines
from tests.unit.host import with_resctrl

OPTIONS = {
    'burst_ways': 3,
    'shared_ways': 2,
    'memory_bandwidth': 40000,
}

#: What each kind of server asks for, where the machine has it.
KINDS = (
    {rdt_classes.WAYS: 2, rdt_classes.PERCENT: 20, rdt_classes.MBPS: 2000},
    {rdt_classes.BURST: 2, rdt_classes.PERCENT: 20, rdt_classes.MBPS: 2000},
    {rdt_classes.SHARED: 1},
    {rdt_classes.L2_WAYS: 2},
)

ATTRIBUTES = {
    rdt_classes.BURST: {'max': '3'},
    rdt_classes.PERCENT: {'max': '60'},
    rdt_classes.MBPS: {'max': '9000'},
}


class ShapesCases(with_resctrl.ResctrlHostTestCase):
    """What holds in process and on a mount."""

    SHAPE = machines.get_default()

    def use(self, shape: str) -> None:
        self.machine = self.useFixture(machines.make(shape))
        self.kernel = self.machine.kernel

    def list_wishes(self) -> Iterator[dict[str, dict[str, int]]]:
        """Return what can be asked for, all of the first caches."""
        found = self.discover()
        for kind in KINDS:
            asked: dict[str, dict[str, int]] = {}
            for key in ('L3_0', 'L2_0'):
                there = found[key].inventories if key in found else {}
                amounts = {
                    name: amount
                    for name, amount in kind.items()
                    if name in there
                }
                if amounts:
                    asked[key] = amounts
            if asked:
                yield asked

    def discover(self) -> dict[str, host_provider.HostProvider]:
        plugin = self.load_resctrl(plugins.INVENTORY_PROVIDERS, **OPTIONS)
        return {one.key: one for one in plugin['resctrl'].discover()}

    def list_cpus(self) -> list[int]:
        """Give CPUs that share both caches, or the only one."""
        found = self.discover()
        cpus = [
            bitmask.parse_list(found[key].cpus)
            for key in ('L3_0', 'L2_0')
            if key in found
        ]
        return sorted(frozenset.intersection(*cpus))

    def check_shape(self, shape: str) -> set[str]:
        self.use(shape)
        before = self.kernel.list_groups()
        self.host = self.make_resctrl_host(**OPTIONS)
        cpus = self.list_cpus()
        uuids = []
        classes: set[str] = set()
        # A machine with few CPUs or classes has not room for all kinds.
        for number, asked in enumerate(self.list_wishes()):
            if number >= min(len(cpus), self.kernel.count_free_classes() + 1):
                break
            uuids.append(getattr(uuidsentinel, f'{shape}{number}'))
            self.start_with(
                uuids[-1],
                asked,
                cpus=frozenset({cpus[number]}),
                attributes=ATTRIBUTES,
                thread_policy='isolate',
            )
            classes |= {one for part in asked.values() for one in part}
        self.check_healthy()
        self.move_everything()
        self.check_healthy()
        for uuid in uuids:
            self.host.release(uuid)
        self.assertEqual(before, self.kernel.list_groups())
        self.host.close()
        return classes

    def check_healthy(self) -> None:
        before = self.kernel.list_groups()
        self.host.refresh()
        self.host.heal()
        self.assertEqual((), self.host.problems)
        self.assertEqual(before, self.kernel.list_groups())
        self.assert_exclusive(self.host)

    def move_everything(self) -> None:
        """Bring all to their minimums, and one each to its maximum."""
        enforcer = self.host.enforcement._enforcers['resctrl']
        for one in enforcer.list_tunables():
            least = dataclasses.replace(one, amount=one.minimum)
            enforcer.set_tunables([least])
        for one in enforcer.list_tunables():
            for amount in (one.maximum, one.minimum):
                enforcer.set_tunables(
                    [dataclasses.replace(one, amount=amount)]
                )
        self.assertTrue(
            all(one.amount == one.minimum for one in enforcer.list_tunables())
        )

    def test_every_machine_gives_out_all_that_it_has(self) -> None:
        seen: set[str] = set()
        for shape in machines.list_shapes():
            with self.subTest(shape=shape):
                seen |= self.check_shape(shape)
        if not machines.is_kernel():
            self.assertEqual({one for kind in KINDS for one in kind}, seen)
