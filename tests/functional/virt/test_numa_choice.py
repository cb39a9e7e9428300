# SPDX-License-Identifier: Apache-2.0

"""Nova chooses CPUs near the ways that placement has allocated."""

import types
from typing import Any
from unittest import mock

import fixtures
from nova import exception as nova_exc
from nova import objects

from nova_ext_resources.objects import host_view
from nova_ext_resources.virt.hooks import numa_choice
from tests import base
from tests.functional.virt import moving

#: More than half of what a cache has.
_WAYS = 6


class NumaChoiceTest(moving.MovesTestCase):
    """On host2, the cell with more CPUs left has too few ways left."""

    def setUp(self) -> None:
        super().setUp()
        other = self.boot(self.make_pinned_flavor(_WAYS), host='host2')
        flavor = self._create_flavor(
            vcpu=4,
            memory_mb=64,
            disk=0,
            extra_spec={'hw:cpu_policy': 'dedicated'},
        )
        plain = self.boot(str(flavor), host='host2')
        self.full = self._find_domain(other)
        (cell,) = moving.find_instance(plain['id']).numa_topology.cells
        self.assertNotEqual(self.full, f'L3_{cell.id}')
        self.flavor = self.make_pinned_flavor(_WAYS)

    def _find_domain(self, server: Any) -> str:
        entry = self.get_host('host2').entries[server['id']]
        (found,) = {
            one.rp_key
            for one in entry.assignments
            if one.resource_class == 'CUSTOM_LLC_WAYS'
        }
        return str(found)

    def assert_steered(self, server: Any) -> None:
        self.assert_in_force(server, _WAYS, self.get_host('host2'))
        self.assertNotEqual(self.full, self._find_domain(server))

    def test_boot(self) -> None:
        server = self.boot(self.flavor, host='host2')

        self.assert_steered(server)

    def test_unshelve(self) -> None:
        server = self.boot(self.flavor, host='host1')
        self.act(server, 'shelve')
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        self.disable('host1')

        self.act(server, 'unshelve')
        self._wait_for_state_change(server, 'ACTIVE')

        self.assert_steered(server)

    def test_cold_migration(self) -> None:
        server = self.boot(self.flavor, host='host1')

        self.migrate(server)

        self.assert_steered(server)

    def test_resize(self) -> None:
        server = self.boot(self.make_pinned_flavor(2), host='host1')

        self.resize(server, self.flavor)

        self.assert_steered(server)

    def test_live_migration(self) -> None:
        server = self.boot(self.flavor, host='host1')

        self.migrate_live(server)

        self.assert_steered(server)

    def test_evacuation(self) -> None:
        server = self.boot(self.flavor, host='host1')
        self.stop_compute(self.services['host1'])
        self.admin_api.put_service_force_down(
            self.services['host1'].service_ref.uuid, True
        )

        self._evacuate_server(
            server, expected_host='host2', expected_state='SHUTOFF'
        )
        self.act(server, 'os-start')
        self._wait_for_state_change(server, 'ACTIVE')

        self.assert_steered(server)

    def disable(self, host: str) -> None:
        self.admin_api.put_service(
            self.services[host].service_ref.uuid, {'status': 'disabled'}
        )


def make_view(*cpus: str | None) -> host_view.HostView:
    """Make a view of providers 0, 1, ... that serve these CPUs."""
    return host_view.HostView(
        tracked={
            (str(number), 'CUSTOM_LLC_WAYS'): host_view.Tracked(
                tracker='cache_ways', state=mock.Mock(), cpus=one
            )
            for number, one in enumerate(cpus)
        }
    )


def make_topology(*cells: tuple[set[int], set[int]]) -> str:
    """Make one of cells with these shared and dedicated CPUs."""
    made = objects.NUMATopology(
        cells=[
            objects.NUMACell(
                id=number,
                cpuset=shared,
                pcpuset=dedicated,
                network_metadata=objects.NetworkMetadata(
                    physnets={'net'}, tunneled=True
                ),
            )
            for number, (shared, dedicated) in enumerate(cells)
        ]
    )
    return str(made._to_json())


def list_names(topology: str) -> list[set[str]]:
    found = objects.NUMATopology.obj_from_db_obj(topology)
    return [set(cell.network_metadata.physnets) for cell in found.cells]


class MarkTest(base.TestCase):
    def test_each_cell_names_what_serves_its_cpus(self) -> None:
        topology = make_topology(({0}, {1}), (set(), {2, 3}))

        marked = numa_choice.mark(topology, make_view('0-1', '2', '0-3', None))

        self.assertEqual(
            [
                {'net', 'ext-resources:0-1', 'ext-resources:0-3'},
                {'net', 'ext-resources:2', 'ext-resources:0-3'},
            ],
            list_names(marked),
        )

    def test_a_cell_without_networks_gets_names(self) -> None:
        cell = objects.NUMACell(id=0, cpuset={0}, pcpuset=set())
        topology = objects.NUMATopology(cells=[cell])._to_json()

        marked = numa_choice.mark(topology, make_view('0'))

        self.assertEqual([{'ext-resources:0'}], list_names(marked))

    def test_a_host_whose_units_serve_all_cpus_stays_as_it_is(self) -> None:
        topology = make_topology(({0}, {1}))

        self.assertIs(topology, numa_choice.mark(topology, make_view(None)))


class WatchTest(base.TestCase):
    """What a claim asks for, and what of it Nova hears."""

    def setUp(self) -> None:
        super().setUp()
        self.asked: list[Any] = []
        self.refused = 0
        self.tracker = types.SimpleNamespace(
            instance_claim=self.claim,
            live_migration_claim=lambda _limits, _allocs: None,
            rebuild_claim=lambda _allocations, _limits: None,
            resize_claim=self.claim_move,
        )
        numa_choice.watch(self.tracker, lambda: make_view('0-1', None))
        self.limits = {
            'vcpu': 8,
            'numa_topology': objects.NUMATopologyLimits(
                cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0
            ),
        }

    def claim_move(
        self,
        instance: Any,
        flavor: Any,
        migration: Any,
        allocations: Any,
        limits: Any = None,
    ) -> str:
        return self.claim(instance, allocations, limits)

    def claim(
        self, instance: Any, allocations: Any, limits: Any = None
    ) -> str:
        self.asked.append(limits)
        if len(self.asked) <= self.refused:
            raise nova_exc.ComputeResourcesUnavailable(reason='no room')
        return 'claimed'

    def take(self, rp_uuid: str, limits: Any, cells: int = 1) -> None:
        topology = objects.InstanceNUMATopology(
            cells=[objects.InstanceNUMACell(id=one) for one in range(cells)]
        )
        made = self.tracker.instance_claim(
            types.SimpleNamespace(numa_topology=topology if cells else None),
            self.make_allocations(rp_uuid),
            limits=limits,
        )
        self.assertEqual('claimed', made)

    def make_allocations(self, rp_uuid: str) -> Any:
        return {rp_uuid: {'resources': {'CUSTOM_LLC_WAYS': 1}}}

    def test_limits_of_either_form(self) -> None:
        for limits in (
            self.limits,
            objects.SchedulerLimits.from_dict(self.limits),
        ):
            self.asked.clear()

            self.take('0', limits)

            (asked,) = self.asked
            metadata = asked['numa_topology'].network_metadata
            self.assertEqual({'ext-resources:0-1'}, metadata.physnets)
            self.assertFalse(metadata.tunneled)
            self.assertEqual(8, asked['vcpu'])

    def test_networks_of_the_server_are_asked_for_as_before(self) -> None:
        numa = self.limits['numa_topology']
        numa.network_metadata = objects.NetworkMetadata(
            physnets={'net'}, tunneled=True
        )

        self.take('0', self.limits)

        (asked,) = self.asked
        metadata = asked['numa_topology'].network_metadata
        self.assertEqual({'net', 'ext-resources:0-1'}, metadata.physnets)
        self.assertTrue(metadata.tunneled)
        self.assertEqual({'net'}, numa.network_metadata.physnets)

    def test_others_are_left_alone(self) -> None:
        for rp_uuid, limits in (
            ('1', self.limits),
            ('of Nova', self.limits),
            ('0', None),
            ('0', {'vcpu': 8}),
        ):
            self.asked.clear()

            self.take(rp_uuid, limits)

            self.assertIs(limits, *self.asked)

    def test_so_are_servers_of_several_cells_and_of_none(self) -> None:
        """Of several, Nova would give CPUs of one cell to another."""
        for cells in (0, 2):
            self.asked.clear()

            self.take('0', self.limits, cells)

            self.assertIs(self.limits, *self.asked)

    def test_of_a_move_the_new_flavor_says_how_many_there_are(self) -> None:
        flavors = [
            objects.Flavor(
                vcpus=2,
                memory_mb=64,
                extra_specs={'hw:numa_nodes': str(cells)},
            )
            for cells in (1, 2)
        ]
        instance = types.SimpleNamespace(
            flavor=flavors[1], image_meta=objects.ImageMeta.from_dict({})
        )
        for flavor in flavors:
            self.tracker.resize_claim(
                instance,
                flavor,
                'migration',
                self.make_allocations('0'),
                limits=self.limits,
            )

        steered, last = self.asked
        self.assertIsNot(self.limits, steered)
        self.assertIs(self.limits, last)

    def test_an_error_leaves_it_to_nova(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.limits['numa_topology'] = 'broken'

        self.take('0', self.limits)

        self.assertIs(self.limits, *self.asked)
        self.assertIn('without regard to caches', log.output)

    def test_without_room_there_nova_chooses(self) -> None:
        self.refused = 1

        self.take('0', self.limits)

        steered, last = self.asked
        self.assertIsNot(self.limits, steered)
        self.assertIs(self.limits, last)

    def test_without_any_room_nova_refuses(self) -> None:
        self.refused = 2

        self.assertRaises(
            nova_exc.ComputeResourcesUnavailable,
            self.take,
            '0',
            self.limits,
        )
