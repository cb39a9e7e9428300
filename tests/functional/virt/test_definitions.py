# SPDX-License-Identifier: Apache-2.0

"""A folder of resource definitions, one file of which cannot be read."""

from typing import Any

from nova_ext_resources.objects import alarm
from tests.functional.virt import moving

_FILE = """
resources:
  - name: {name}
    units: seats
    description: Seats of this host.
    inventory: {{total: 5}}
"""

GOOD, BAD = 'CUSTOM_GOOD_SEAT', 'CUSTOM_BAD_SEAT'


class BadFileTest(moving.MovesTestCase):
    """A server holds what a file defines that is broken at the next start."""

    HOSTS = ('host1',)
    plugins = 'static'
    enforcers = ''

    def start_host(self, host: str, **settings: Any) -> Any:
        self.definitions = self.folder / 'definitions'
        self.definitions.mkdir()
        for name in (GOOD, BAD):
            self.write(name)
        self.host_options = (
            f'[ext_resources_static]\ndefinitions_file = {self.definitions}\n'
        )
        return super().start_host(host, **settings)

    def list_applied(self, host: str) -> None:
        return None

    def write(self, name: str, text: str = _FILE) -> None:
        path = self.definitions / f'{name}.yaml'
        path.write_text(text.format(name=name))

    def find_inventories(self) -> dict[str, tuple[int, int]]:
        """Return resource class -> total and reserved."""
        rp_uuid = self._get_provider_uuid_by_name('host1_STATIC')
        return {
            name: (one['total'], one['reserved'])
            for name, one in self._get_provider_inventory(rp_uuid).items()
        }

    def list_allocated(self, uuid: str) -> dict[str, Any]:
        found = self._get_allocations_by_server_uuid(uuid)
        return {key: one['resources'] for key, one in found.items()}

    def list_alarms(self) -> set[tuple[str, str]]:
        found = self.get_ext('host1').metrics.read_health().alarms
        return {(one.name, one.subject) for one in found}

    def test_a_server_holds_what_it_defines(self) -> None:
        flavors = {
            name: self.make_flavor(**{f'resources__{name}': 2})
            for name in (GOOD, BAD)
        }
        server = self.boot(flavors[BAD])
        entry = self.get_host('host1').find_entry(server['id'])
        allocated = self.list_allocated(server['id'])
        self.write(BAD, _FILE + '  bad')

        self.restart('host1')

        left_out = {f'{self.definitions}/{BAD}.yaml', BAD}
        self.assertEqual(
            {(alarm.RESOURCES_LEFT_OUT, one) for one in left_out},
            self.list_alarms(),
        )
        self.assertEqual({GOOD: (5, 0), BAD: (2, 2)}, self.find_inventories())
        found = self.get_host('host1').find_entry(server['id'])
        self.assertEqual(entry.assignments, found.assignments)
        self.assertEqual(allocated, self.list_allocated(server['id']))
        self.boot(flavors[GOOD])
        self.boot(flavors[BAD], state='ERROR')
        server = self._reboot_server(server, hard=True)
        self.assertEqual('ACTIVE', server['status'])

        self.write(BAD)
        self.publish(self.services['host1'])

        self.assertEqual(set(), self.list_alarms())
        self.assertEqual({GOOD: (5, 0), BAD: (5, 0)}, self.find_inventories())
        self.boot(flavors[BAD])

    def test_all_files_are_bad_and_say_nothing(self) -> None:
        flavor = self.make_flavor(**{f'resources__{BAD}': 2})
        server = self.boot(flavor)
        before = self.find_inventories()
        for name in (GOOD, BAD):
            self.write(name, '')

        self.restart('host1')

        # Placement has it as it was, and the host refuses more.
        self.assertEqual(before, self.find_inventories())
        self.assertEqual(2, len(self.list_alarms()))
        self.assertIn(server['id'], self.get_host('host1').entries)
        self.boot(flavor, state='ERROR')
        server = self._reboot_server(server, hard=True)
        self.assertEqual('ACTIVE', server['status'])

        for name in (GOOD, BAD):
            self.write(name)
        self.publish(self.services['host1'])
        self.assertEqual(set(), self.list_alarms())
        self.boot(flavor)
