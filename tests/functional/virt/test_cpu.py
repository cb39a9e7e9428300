# SPDX-License-Identifier: Apache-2.0

"""Traits for frequency and idle states of CPUs on real Nova services."""

from typing import Any

from nova_ext_resources.testing import cpu
from tests.functional.virt import devices

TURBO = 'CUSTOM_CPU_TURBO'
C6 = 'CUSTOM_CPU_C_STATE_C6'

#: Of an operator.
OWN = 'CUSTOM_CPU_OF_THE_OPERATOR'


class CpuTest(devices.DevicesTestCase):
    """Two hosts; turbo is on on the first, and C6 off on the second."""

    plugins = 'cpu'

    def setUp(self) -> None:
        self.trees: dict[str, cpu.Sysfs] = {}
        super().setUp()

    def start_host(self, host: str, **settings: Any) -> Any:
        tree = cpu.Sysfs(str(self.folder / host / 'sys'))
        self.trees[host] = tree
        tree.add_policies()
        tree.set_no_turbo(host == 'host2')
        tree.add_idle_states()
        if host == 'host2':
            tree.disable('C6', range(4))
        self.host_options = f'[ext_resources_cpu]\npath = {tree.path}\n'
        return super().start_host(host, **settings)

    def boot_with(self, state: str = 'ACTIVE', **traits: str) -> Any:
        """Boot a server with traits; return its host."""
        flavor = self.make_flavor(
            **{f'trait__{name}': value for name, value in traits.items()}
        )
        server = self.boot(flavor, state=state)
        return server['OS-EXT-SRV-ATTR:host']

    def list_traits(self, host: str) -> set[str]:
        """Return all traits of a compute node, as placement has them."""
        return set(
            self._get_provider_traits(self._get_provider_uuid_by_host(host))
        )

    def list_own(self, host: str) -> set[str]:
        """Return those of CPUs."""
        return {one for one in self.list_traits(host) if 'CUSTOM_CPU_' in one}

    def test_a_server_has_the_host_whose_cpus_are_as_requested(self) -> None:
        for traits, expected in (
            ({TURBO: 'required'}, 'host1'),
            ({TURBO: 'forbidden'}, 'host2'),
            ({C6: 'forbidden'}, 'host2'),
            ({C6: 'required', TURBO: 'required'}, 'host1'),
        ):
            with self.subTest(traits=traits):
                self.assertEqual(expected, self.boot_with(**traits))
        self.boot_with('ERROR', **{C6: 'forbidden', TURBO: 'required'})

    def test_traits_follow_settings_at_run_time(self) -> None:
        self.trees['host1'].set_no_turbo(True)
        self.publish_all()
        self.boot_with('ERROR', **{TURBO: 'required'})

        self.trees['host2'].set_no_turbo(False)
        self.publish_all()

        self.assertEqual('host2', self.boot_with(**{TURBO: 'required'}))
        self.assertNotIn(TURBO, self.list_own('host1'))

    def test_nova_keeps_its_own_traits_and_those_of_operators(self) -> None:
        uuid = self._get_provider_uuid_by_host('host1')
        self._create_trait(OWN)
        before = self.list_traits('host1')
        self.assertIn('COMPUTE_NODE', before)
        self._set_provider_traits(uuid, [*before, OWN])
        for service in self.services.values():
            service.manager.reset()

        self.trees['host1'].set_no_turbo(True)
        self.publish_all()

        self.assertEqual({*before, OWN} - {TURBO}, self.list_traits('host1'))

    def test_a_plugin_that_is_no_longer_enabled_leaves_nothing(self) -> None:
        self._create_trait(OWN)
        uuid = self._get_provider_uuid_by_host('host1')
        self._set_provider_traits(uuid, [*self.list_traits('host1'), OWN])
        file = self.folder / 'host1.conf'
        service = self.services['host1']

        self.stop_compute(service)
        file.write_text('[ext_resources]\ninventory_providers =\n')
        self.services['host1'] = self.start_again(service)
        self.publish_all()

        self.assertEqual({OWN}, self.list_own('host1'))
        self.assertIn('CUSTOM_CPU_P_STATES', self.list_own('host2'))

    def test_nothing_is_removed_while_the_host_cannot_be_read(self) -> None:
        before = self.list_own('host1')
        self.assertIn(TURBO, before)
        service = self.services['host1']
        self.stop_compute(service)
        self.trees['host1'].write('online', 'nonsense')

        self.services['host1'] = self.start_again(service)
        self.publish_all()

        self.assertEqual(before, self.list_own('host1'))

        self.trees['host1'].write('online', '0-3')
        self.trees['host1'].set_no_turbo(True)
        self.publish_all()
        self.assertEqual(before - {TURBO}, self.list_own('host1'))
