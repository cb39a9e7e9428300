# SPDX-License-Identifier: Apache-2.0

"""What a host with resctrl publishes, as others then draw it."""

import collections

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.inspection import legend
from nova_ext_resources.inspection import rows
from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_provider
from nova_ext_resources.reservation import publication
from tests.unit import builders
from tests.unit.host import with_resctrl

#: Server -> its letter.
LETTERS = {uuidsentinel.a: 'A', uuidsentinel.b: 'B'}


class PictureTest(with_resctrl.ResctrlHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_resctrl_host(
            reserved_ways=2, burst_ways=2, shared_ways=1
        )
        self.start_with(uuidsentinel.a, {'L3_0': {classes.WAYS: 2}})
        self.start_with(
            uuidsentinel.b,
            {'L3_0': {classes.BURST: 1}},
            cpus=frozenset({2}),
        )

    def read_tree(self) -> host_tree.HostTree:
        """Return what placement shows when all is published."""
        held: dict[tuple[str, str], dict[str, int]] = collections.defaultdict(
            dict
        )
        for entry in self.host.entries.values():
            for one in entry.assignments:
                if one.is_allocated:
                    place = one.rp_uuid, one.resource_class
                    held[place][entry.consumer_uuid] = one.amount
        return host_tree.HostTree(
            providers=tuple(
                self.make_provider(one, held) for one in self.host.providers()
            )
        )

    def make_provider(
        self,
        one: host_provider.Provider,
        held: dict[tuple[str, str], dict[str, int]],
    ) -> host_tree.TreeProvider:
        return host_tree.TreeProvider(
            rp_uuid=one.rp_uuid,
            name=one.name,
            parent_uuid=one.parent_uuid,
            traits=one.traits,
            amounts={
                name: host_tree.Amount(
                    capacity=given.capacity,
                    used=sum(held[one.rp_uuid, name].values()),
                    inventory=given,
                )
                for name, given in one.inventories.items()
            },
            holders={
                name: held[one.rp_uuid, name] for name in one.inventories
            },
        )

    def draw(self, key: str = 'L3_0', name: str = classes.WAYS) -> str:
        """Return a row: the highest way first, or amounts."""
        told = self.host.list_stats()
        published = publication.Publication(
            host='host1',
            document=told[stats.KEY],
            holders=told[holders.KEY],
        )
        [row] = [
            one
            for one in rows.list_rows(
                self.read_tree(), published, builders.make_trackers()
            )
            if one.provider.endswith(key) and one.resource_class == name
        ]
        self.assertIs(rows.RowSource.UNITS, row.source)
        marks = [
            LETTERS.get(one.consumer) or legend.MARKS[one.kind]
            for one in row.parts
        ]
        if row.ways is not None:
            return ''.join(marks[one] for one in reversed(row.ways))
        return ''.join(
            mark * one.amount
            for mark, one in zip(marks, row.parts, strict=True)
        )

    def test_all_that_has_ways(self) -> None:
        self.host.refresh()
        self.assertEqual('==....AA~~~', self.draw())

        self.kernel.add_group('db', 'L3:0=6;1=600\n')
        self.host.refresh()

        self.assertEqual('==....AA%%~', self.draw())

    def test_what_the_host_keeps_is_its_own(self) -> None:
        # Whatever fills it, too.
        self.kernel.add_group('db', 'L3:0=600;1=6\n')
        self.host.refresh()

        self.assertEqual('==....AA~~~', self.draw())

    def test_a_server_that_comes_between_two_looks(self) -> None:
        self.host.refresh()
        self.host.release(uuidsentinel.a)
        self.assertEqual('==......~~~', self.draw())

        self.start_with(uuidsentinel.a, {'L3_0': {classes.WAYS: 3}})

        self.assertEqual(3, self.draw().count('A'))

    def test_all_that_has_classes_of_service(self) -> None:
        self.kernel.add_group('db', 'L3:0=6;1=600\n')
        self.host.refresh()

        drawn = self.draw('RDT', classes.CLOS)

        self.assertEqual('AB', ''.join(sorted(drawn[:2])))
        self.assertEqual('=%~...', drawn[2:])
