# SPDX-License-Identifier: Apache-2.0

"""Nova's provider configuration files that would cost a host its inventory."""

from collections.abc import Mapping
from typing import Any

import fixtures
from nova.compute import provider_tree
from nova import context as nova_context
from nova.virt import fake as nova_fake
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import alarm
from nova_ext_resources.virt.provider_config import collisions as module
from tests import base as tests_base
from tests.functional.virt import backends

_FILE = """\
meta: {schema_version: '1.0'}
providers:
  - identification: {uuid: $COMPUTE_NODE}
    inventories:
      additional:
        - CUSTOM_OTHER: {total: 3}
  - identification: {name: host1_STATIC}
    inventories:
      additional:
        - CUSTOM_SEAT: {total: 2}
        - CUSTOM_MORE: {total: 2}
"""

_PMEM = 'CUSTOM_PMEM_NAMESPACE_4GB'

_PMEM_FILE = """\
meta: {schema_version: '1.0'}
providers:
  - identification: {uuid: $COMPUTE_NODE}
    inventories:
      additional:
        - CUSTOM_OTHER: {total: 3}
        - CUSTOM_PMEM_NAMESPACE_4GB: {total: 9}
"""


class CollisionsTestCase(backends.Static):
    """One host with six seats."""

    HOSTS = ('host1',)
    TEXT = _FILE

    def start_host(self, host: str, **settings: Any) -> Any:
        files = self.folder / 'files'
        files.mkdir()
        self.path = files / 'seats.yaml'
        self.path.write_text(self.TEXT)
        self.flags(provider_config_location=str(files), group='compute')
        return super().start_host(host, **settings)

    def start_anew(self) -> None:
        former = self.services['host1']
        self.stop_compute(former)
        self.services['host1'] = self.start_again(former)
        self._run_periodics()

    def update(self) -> None:
        """Have Nova update twice, with what placement has now."""
        for _ in range(2):
            client = self.services['host1'].manager.rt.reportclient
            client.clear_provider_cache()
            self._run_periodics()

    def list_totals(self, rp_uuid: str) -> dict[str, int]:
        return {
            name: one['total']
            for name, one in self._get_provider_inventory(rp_uuid).items()
        }

    def find_root(self) -> str:
        return str(self._get_provider_uuid_by_host('host1'))

    def find_seats(self) -> str:
        return str(self._get_provider_uuid_by_name('host1_STATIC'))

    def list_alarms(self) -> dict[str, str]:
        ext = self.get_ext('host1')
        ext.periodic.run_round()
        return {
            one.subject: one.text
            for one in ext.metrics.read_health().alarms
            if one.name == alarm.PROVIDER_CONFIG
        }

    def assert_nova_would_fail(self, resource_class: str) -> None:
        """Let Nova add all that its files have."""
        tracker = self.services['host1'].manager.rt
        collisions = self.services['host1'].driver._ext_collisions
        tracker.provider_configs = collisions._configs
        with fixtures.MonkeyPatch(
            'nova_ext_resources.virt.provider_config.collisions.Collisions.refuse',
            lambda *_: None,
        ):
            error = self.assertRaises(
                ValueError,
                tracker.update_available_resource,
                nova_context.get_admin_context(),
                'host1',
            )
        self.assertIn(resource_class, str(error))


class OwnProviderTest(CollisionsTestCase):
    """A file adds to a provider that a plugin reports."""

    def test_the_host_has_all_of_its_inventory(self) -> None:
        self.update()

        root = self.list_totals(self.find_root())
        self.assertEqual(3, root['CUSTOM_OTHER'])
        self.assertIn('PCPU', root)
        self.assertEqual(
            {'CUSTOM_SEAT': 6}, self.list_totals(self.find_seats())
        )
        self.assert_nova_would_fail('CUSTOM_SEAT')
        self.assertNotIn(
            'OWNER_NOVA', self._get_provider_traits(self.find_seats())
        )
        self.boot(self.make_own_flavor(6))

    def test_the_alarm_names_file_line_and_host(self) -> None:
        alarms = self.list_alarms()

        self.assertEqual(
            {'host1_STATIC CUSTOM_SEAT', 'host1_STATIC CUSTOM_MORE'}, {*alarms}
        )
        text = alarms['host1_STATIC CUSTOM_SEAT']
        self.assertIn(f'{self.path}, line 10: CUSTOM_SEAT', text)
        self.assertIn('host host1 and its whole inventory', text)
        self.assertIn('Remove the entry from the file', text)

    def test_the_log_has_it_from_the_first_start(self) -> None:
        self.assertIn(
            f'Host host1: {self.path}, line 11: CUSTOM_MORE of provider '
            'host1_STATIC is refused',
            self.stdlog.logger.output,
        )

    def test_servers_keep_what_they_have_over_a_restart(self) -> None:
        server = self.boot(self.make_own_flavor(4))
        other = self.boot(self.make_flavor(resources__CUSTOM_OTHER=2))
        before = self._get_allocations_by_server_uuid(server['id'])

        self.start_anew()
        self.update()

        self.assertEqual(
            before, self._get_allocations_by_server_uuid(server['id'])
        )
        self.assertIn(server['id'], self.get_host('host1').entries)
        self.assertEqual(3, self.list_totals(self.find_root())['CUSTOM_OTHER'])
        for one in (server, other):
            self._reboot_server(one, hard=True)
            self._delete_server(one)
        self.boot(self.make_own_flavor(6))

    def test_a_provider_that_is_no_longer_one_of_a_plugin(self) -> None:
        path = self.folder / 'definitions.yaml'
        text = path.read_text()
        new = self.folder / 'new.yaml'
        new.write_text(text.replace('  units', '  provider: MINE\n    units'))
        new.rename(path)
        self.publish(self.services['host1'])

        self.update()

        self.assertEqual({}, self.list_alarms())
        self.boot(self.make_own_flavor(6))

    def test_a_file_that_was_corrected(self) -> None:
        self.path.write_text(_FILE.partition('  - identification: {n')[0])

        self.start_anew()

        self.assertEqual({}, self.list_alarms())
        self.assertEqual(3, self.list_totals(self.find_root())['CUSTOM_OTHER'])


class DriverTest(CollisionsTestCase):
    """A file adds what the driver of Nova reports of the compute node."""

    TEXT = _PMEM_FILE

    def setUp(self) -> None:
        original = nova_fake.FakeDriver.update_provider_tree

        def update(
            driver: Any, tree: Any, nodename: str, *args: Any, **kwargs: Any
        ) -> None:
            original(driver, tree, nodename, *args, **kwargs)
            inventory = dict(tree.data(nodename).inventory)
            inventory[_PMEM] = {'total': 4}
            tree.update_inventory(nodename, inventory)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.fake.FakeDriver.update_provider_tree', update
            )
        )
        super().setUp()

    def test_the_compute_node_has_what_the_driver_reports(self) -> None:
        self.update()

        root = self.list_totals(self.find_root())
        self.assertEqual((3, 4), (root['CUSTOM_OTHER'], root[_PMEM]))
        self.assertIn('PCPU', root)
        self.assert_nova_would_fail(_PMEM)
        [(subject, text)] = self.list_alarms().items()
        self.assertEqual(f'host1 {_PMEM}', subject)
        self.assertIn(f'{self.path}, line 7: {_PMEM} of provider', text)
        self.assertIn('already has this inventory', text)
        self.boot(self.make_flavor(**{f'resources__{_PMEM}': 4}))


class OldInventoryTest(CollisionsTestCase):
    """What the compute node alone has is none of it."""

    TEXT = _FILE.partition('  - identification: {n')[0].replace(
        'CUSTOM_OTHER', 'CUSTOM_SEAT'
    )

    def test_it_stays(self) -> None:
        self.update()

        self.assertEqual(3, self.list_totals(self.find_root())['CUSTOM_SEAT'])
        self.assertEqual({}, self.list_alarms())


def _make_entry(*classes: str, traits: tuple[str, ...] = ()) -> dict[str, Any]:
    added = [{one: {'total': 1}} for one in classes]
    return {
        '__source_file': 'a.yaml',
        'inventories': {'additional': added},
        'traits': {'additional': list(traits)},
    }


class RefusedTest(tests_base.TestCase):
    """What is left of files, with a tree of Nova's."""

    def setUp(self) -> None:
        super().setUp()
        self.tree = provider_tree.ProviderTree()
        self.tree.new_root('host1', uuids.root)
        self.tree.new_child('host1_STATIC', uuids.root, uuid=uuids.child)
        self.tree.update_inventory(uuids.root, {'CUSTOM_A': {'total': 4}})

    def find(
        self, configs: Mapping[str, Any], *own: str
    ) -> tuple[list[tuple[str, str]], Any]:
        found = tuple(module.list_refused(configs, self.tree, 'host1', own))
        self.assertEqual({'a.yaml'}, {one.file for one in found} or {'a.yaml'})
        return (
            [(one.provider, one.resource_class) for one in found],
            module.leave_out(configs, found),
        )

    def test_nothing(self) -> None:
        configs = {
            '$COMPUTE_NODE': _make_entry('CUSTOM_B'),
            'elsewhere': _make_entry('CUSTOM_A'),
            uuids.child: _make_entry('CUSTOM_A'),
        }

        self.assertEqual(([], configs), self.find(configs))

    def test_a_class_of_the_compute_node(self) -> None:
        for name in ('$COMPUTE_NODE', 'host1', uuids.root):
            configs = {name: _make_entry('CUSTOM_A', 'CUSTOM_B')}

            found, left = self.find(configs)

            self.assertEqual([('host1', 'CUSTOM_A')], found)
            self.assertEqual({name: _make_entry('CUSTOM_B')}, left)

    def test_an_entry_stays_in_place_of_that_for_all_nodes(self) -> None:
        configs = {
            '$COMPUTE_NODE': _make_entry('CUSTOM_A', 'CUSTOM_B'),
            'host1': _make_entry('CUSTOM_A'),
        }

        found, left = self.find(configs)

        self.assertEqual([('host1', 'CUSTOM_A')], found)
        self.assertEqual({**configs, 'host1': _make_entry()}, left)

    def test_a_provider_of_a_plugin(self) -> None:
        for name in ('host1_STATIC', uuids.child):
            configs = {name: _make_entry('CUSTOM_B')}
            self.assertEqual(
                ([('host1_STATIC', 'CUSTOM_B')], {}), self.find(configs, name)
            )
            configs = {name: _make_entry('CUSTOM_B', traits=('CUSTOM_T',))}
            _found, left = self.find(configs, name)
            self.assertEqual({name: _make_entry(traits=('CUSTOM_T',))}, left)

    def test_traits_alone_are_added(self) -> None:
        configs = {'host1_STATIC': _make_entry(traits=('CUSTOM_T',))}

        self.assertEqual(([], configs), self.find(configs, 'host1_STATIC'))
