# SPDX-License-Identifier: Apache-2.0

"""Virtual functions in the guests of Nova's libvirt driver."""

from collections.abc import Iterator
import re
from typing import Any

import fixtures
from nova import context as nova_context
from nova import objects
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt.libvirt import config
from nova.virt.libvirt import driver

from nova_ext_resources.objects import alarm
from tests.functional.virt import devices
from tests.functional.virt import emulated

#: As libvirt's page "Domain XML format" has it ("PCI devices").
_HOSTDEV = re.compile(
    r"<hostdev mode='subsystem' type='pci' managed='yes'>\s*<source>\s*"
    r"<address domain='0x(\w+)' bus='0x(\w+)' slot='0x(\w+)' "
    r"function='0x(\w)'/>"
)


def _power_off(
    self: Any, _context: Any, instance: Any, *_args: Any, **_kwargs: Any
) -> str:
    """Stand for the part of a move that copies disks."""
    self._destroy(instance)
    return '[]'


class HostdevTestCase(emulated.EmulatedTestCase, devices.CardsTestCase):
    plugins = 'sriov'
    enforcers = 'hostdev'

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MockPatchObject(
                driver.LibvirtDriver, 'migrate_disk_and_power_off', _power_off
            )
        )

    def boot_on(self, host: str, **kwargs: Any) -> Any:
        return self.boot(self.make_vf_flavor(), host=host, **kwargs)

    def list_held(self, server: Any) -> dict[str, list[str]]:
        """Return host -> names of the functions that a server holds there."""
        return {
            host: names
            for host in self.HOSTS
            if (names := [*self._list_names(host, server['id'])])
        }

    def _list_names(self, host: str, uuid: str) -> Iterator[str]:
        entry = self.get_host(host).find_entry(uuid)
        for one in entry.assignments if entry else ():
            yield from one.units['names']

    def list_passed(self, server: Any) -> dict[str, list[str]]:
        """Return host -> PCI functions in the guest that runs there."""
        found = {}
        for host in self.HOSTS:
            for one in self.connections[host].listAllDomains(
                emulated.ALL_DOMAINS
            ):
                if one.UUIDString() == server['id'] and one.isActive():
                    found[host] = [
                        '{}:{}:{}.{}'.format(*fields)
                        for fields in _HOSTDEV.findall(one.XMLDesc(0))
                    ]
        return found

    def assert_passed(self, server: Any, host: str) -> None:
        """The guest has what the server holds, which is of this host."""
        held = self.list_held(server)
        self.assertEqual([host], [*held])
        self.assertEqual(held, self.list_passed(server))

    def unplug_unseen(self) -> None:
        """Take the card out of host1, which finds it out by itself.

        A round follows each claim and each start of a host soon: it would be
        the first to see that the card is gone.
        """
        self.get_ext('host1').periodic.stop()
        self.trees['host1'].unplug(devices.PF)

    def reboot_hard(self, server: Any) -> None:
        self._reboot_server(server, hard=True)

    def wait_for_faults(self, server: Any, count: int = 1) -> None:
        """Wait until Nova has recorded them, and is done with the server."""
        self.wait_until(lambda: len(self.list_faults(server)) >= count)
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )

    def list_faults(self, server: Any) -> list[str]:
        found = objects.InstanceFaultList.get_by_instance_uuids(
            nova_context.get_admin_context(), [server['id']]
        )
        return [one.message for one in found]


class HostdevTest(HostdevTestCase):
    def test_two_guests_have_functions_of_their_own(self) -> None:
        servers = [self.boot_on('host1') for _ in range(devices.COUNT)]

        for one in servers:
            self.assert_passed(one, 'host1')
        passed = [self.list_passed(one)['host1'] for one in servers]
        self.assertEqual([[one] for one in self.names['host1']], passed)

    def test_a_guest_of_a_server_without_any_has_none(self) -> None:
        server = self.boot(self.make_flavor(), host='host1')

        self.assertEqual({'host1': []}, self.list_passed(server))

    def test_every_start_of_a_guest(self) -> None:
        server = self.boot_on('host1')
        held = self.list_held(server)

        for name, start in (
            ('hard reboot', self.reboot_hard),
            ('start', self.stop_and_start),
            ('resume', self.suspend_and_resume),
            ('rescue', self.rescue),
            ('unrescue', self._unrescue_server),
            ('rebuild', self.rebuild),
            ('start of the host', self.start_host_again),
        ):
            with self.subTest(name=name):
                start(server)

                self.assertEqual(held, self.list_passed(server))
                self.assertEqual(held, self.list_held(server))

    def stop_and_start(self, server: Any) -> None:
        self._stop_server(server)
        self.assertEqual({}, self.list_passed(server))
        self._start_server(server)

    def suspend_and_resume(self, server: Any) -> None:
        saved: list[Any] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.libvirt.guest.Guest.save_memory_state',
                lambda guest: saved.append(guest.get_xml_desc()),
            )
        )
        self._suspend_server(server)
        # libvirt saves no guest with a device of the host.
        [xml] = saved
        self.assertNotIn('hostdev', xml)
        self._resume_server(server)

    def rescue(self, server: Any) -> None:
        self.act(server, 'rescue')
        self._wait_for_state_change(server, 'RESCUE')

    def rebuild(self, server: Any) -> None:
        self._rebuild_server(server, '155d900f-4e14-4e4c-a73d-069cbf4541e6')

    def start_host_again(self, server: Any) -> None:
        self.flags(resume_guests_state_on_host_boot=True)
        service = self.services['host1']
        self.stop_compute(service)
        [domain] = self.connections['host1'].listAllDomains(
            emulated.ALL_DOMAINS
        )
        domain.destroy()
        self.assertEqual({}, self.list_passed(server))
        self.start_again(service)

    def test_a_move_there_and_back(self) -> None:
        server = self.boot_on('host1')

        self.migrate(server)
        self.assert_passed(server, 'host2')

        self.act(server, 'revertResize')
        self._wait_for_state_change(server, 'ACTIVE')
        self.assert_passed(server, 'host1')

    def test_a_server_that_was_shelved(self) -> None:
        server = self.boot_on('host1')
        self._shelve_server(server)
        self.assertEqual({}, self.list_passed(server))
        self.trees['host1'].unplug(devices.PF)
        self.publish(self.services['host1'])

        server = self._unshelve_server(server)

        self.assert_passed(server, 'host2')

    def test_a_claim_that_is_gone(self) -> None:
        server = self.boot_on('host1')

        self.resize(server, self.make_flavor())

        [found] = self.list_passed(server).values()
        self.assertEqual([], found)
        self.act(server, 'confirmResize')
        self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual({}, self.list_held(server))
        other = self.boot_on('host1')
        self.assert_passed(other, 'host1')

    def test_a_function_that_is_gone(self) -> None:
        server = self.boot_on('host1')
        held = self.list_held(server)
        [name] = held['host1']
        self.unplug_unseen()

        self.act(server, 'reboot', type='HARD')
        self._wait_for_state_change(server, 'ACTIVE')

        # It was not touched.
        self.wait_for_faults(server)
        self.assertEqual(held, self.list_passed(server))
        [message] = self.list_faults(server)
        for words in ('(device)', devices.VF, 'unshelve'):
            self.assertIn(words, message)
        # Addresses of the host are for its operators.
        self.assertNotIn(name, message)

        # A guest that does not run does not start.
        self._stop_server(server)
        self.act(server, 'os-start')
        self.wait_for_faults(server, 2)
        self.assertEqual({}, self.list_passed(server))

        # Its functions are there again.
        self.trees['host1'].add_card(devices.PF, interfaces=['ens1f0'])
        self.trees['host1'].enable(devices.PF, devices.COUNT)
        self._start_server(server)
        self.assertEqual(held, self.list_passed(server))

    def test_a_card_that_has_failed(self) -> None:
        server = self.boot_on('host1')
        self.get_ext('host1').periodic.stop()
        self.trees['host1'].kill(devices.PF)

        self.act(server, 'reboot', type='HARD')

        self.wait_for_faults(server)
        self.assertIn('has failed', self.list_faults(server)[0])

    def test_a_function_that_vanishes_before_the_first_start(self) -> None:
        # The scheduler prefers the host with more memory left.
        self.boot(self.make_flavor(), host='host2')
        self.unplug_unseen()
        started: list[Any] = []
        create = fakelibvirt.Domain.createWithFlags

        def create_noted(domain: Any, flags: int) -> None:
            started.append(domain._connection)
            create(domain, flags)

        self.useFixture(
            fixtures.MockPatchObject(
                fakelibvirt.Domain, 'createWithFlags', create_noted
            )
        )

        server = self.boot(self.make_vf_flavor())

        # host1 has found out before it started the guest.
        self.assert_passed(server, 'host2')
        self.assertEqual([self.connections['host2']], started)
        reasons = self.list_reasons(server, 'ext_resources_apply:')
        self.assertIn('is gone', ' '.join(filter(None, reasons)))

    def test_a_live_migration_is_refused(self) -> None:
        server = self.boot_on('host1')

        self.act(server, 'os-migrateLive', host=None, block_migration='auto')

        self.wait_until(lambda: self.list_faults(server))
        self.wait_until(lambda: self.find_migration(server).status == 'error')
        self.assert_passed(server, 'host1')
        faults = self.list_faults(server)
        self.assertTrue(any('migrate the server cold' in m for m in faults))
        self._wait_for_state_change(server, 'ACTIVE')

    def test_a_host_without_an_iommu_offers_none(self) -> None:
        for tree in self.trees.values():
            (tree.path / 'kernel/iommu_groups/0').rmdir()
            self.publish(self.services['host1'])
        found = self.get_ext('host1').health.snapshot().alarms

        self.assertIn(
            (alarm.DISCOVERY_FAILED, 'sriov'),
            [(one.name, one.subject) for one in found],
        )
        self.assertTrue(any('IOMMU' in one.text for one in found))


class OptionTest(HostdevTestCase):
    enforcers = ''

    def test_nothing_is_handed_over_unasked(self) -> None:
        server = self.boot_on('host1')

        self.assertEqual({'host1': []}, self.list_passed(server))
        self.assertEqual(['host1'], [*self.list_held(server)])


class ConfigTest(HostdevTestCase):
    """Of Nova: what it writes is what it finds again."""

    HOSTS = ('host1',)

    def test_devices_are_compared_by_their_addresses(self) -> None:
        server = self.boot_on('host1')
        host = self.services['host1'].driver._host
        instance = objects.Instance(uuid=server['id'])
        guest = host.get_guest(instance)

        [found] = guest.get_all_devices(config.LibvirtConfigGuestHostdevPCI)

        [name] = self.list_held(server)['host1']
        made = self.services['host1'].driver._get_guest_pci_device(
            objects.PciDevice(address=name, extra_info={})
        )
        self.assertEqual(made, found)
