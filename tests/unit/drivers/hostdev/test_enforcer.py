# SPDX-License-Identifier: Apache-2.0

import dataclasses

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.hostdev import enforcer
from nova_ext_resources import exception
from nova_ext_resources.facts import guest
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources.testing import sriov
from tests import base

CLASS = 'SRIOV_NET_VF'
CARD = '0000:3b:00.0'


def make_entry(
    *names: str, resource_class: str = CLASS, key: str = f'SRIOV_{CARD}'
) -> assignment.Entry:
    """Make one of a server that holds these devices of one provider."""
    return assignment.Entry(
        consumer_uuid=uuidsentinel.server,
        state=assignment.State.CLAIMED,
        assignments=(
            assignment.Assignment(
                rp_uuid=uuidsentinel.card,
                rp_key=key,
                resource_class=resource_class,
                amount=len(names),
                units={'names': list(names)},
            ),
        ),
    )


class HostdevEnforcerTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = self.useFixture(fixtures.TempDir()).path
        self.tree = sriov.Sysfs(f'{folder}/sys')
        self.tree.add_card(CARD)
        self.names = self.tree.enable(CARD, 2)
        self.entries: dict[str, assignment.Entry] = {}
        self.guests: dict[str, guest.Guest] | None = {}
        self.enforcer = self.make_enforcer()

    def make_enforcer(self, **values: object) -> enforcer.HostdevEnforcer:
        options = plugins.register_opts(
            self.conf, 'hostdev', enforcer.HostdevEnforcer.OPTIONS
        )
        for name, value in {'path': str(self.tree.path), **values}.items():
            self.conf.set_override(name, value, 'ext_resources_hostdev')
        return enforcer.HostdevEnforcer(
            options, 'host-1', lambda: self.entries, lambda: self.guests
        )

    def run_guest(self, server: str, *functions: str) -> None:
        assert self.guests is not None
        self.guests[server] = guest.Guest(
            name='instance-1', number=1, pci_functions=frozenset(functions)
        )

    def refuse(self, entry: assignment.Entry) -> str:
        return str(
            self.assertRaises(
                exception.EnforcementFailed, self.enforcer.apply, entry
            )
        )

    def test_functions_that_are_there(self) -> None:
        entry = make_entry(*self.names[::-1])

        self.assertEqual(entry.assignments, self.enforcer.apply(entry))
        self.assertEqual(
            tuple(self.names), self.enforcer.list_pci_functions(entry)
        )

    def test_a_device_without_an_address_is_counted_only(self) -> None:
        entry = make_entry(
            f'{CARD}-port0', resource_class='FPGA', key='FPGA_x'
        )

        self.assertEqual((), self.enforcer.list_pci_functions(entry))
        self.assertEqual(entry.assignments, self.enforcer.apply(entry))

    def test_other_classes_are_left_alone(self) -> None:
        entry = make_entry(self.names[0], resource_class='CUSTOM_OTHER')

        self.assertFalse(self.enforcer.serves('CUSTOM_OTHER'))
        self.assertEqual((), self.enforcer.list_pci_functions(entry))

    def test_the_classes_are_those_of_the_option(self) -> None:
        made = self.make_enforcer(resource_classes=['CUSTOM_OTHER'])

        self.assertTrue(made.serves('CUSTOM_OTHER'))
        self.assertFalse(made.serves(CLASS))

    def test_a_function_that_is_gone(self) -> None:
        self.tree.unplug(CARD)

        said = self.refuse(make_entry(self.names[0]))

        for words in (
            'host-1',
            self.names[0],
            f'SRIOV_{CARD}',
            CLASS,
            'the host has no such device',
            'shelve and unshelve',
            uuidsentinel.server,
        ):
            self.assertIn(words, said)

    def test_a_card_that_has_failed(self) -> None:
        self.tree.kill(CARD)

        self.assertIn(
            f'{CARD} does not answer', self.refuse(make_entry(self.names[0]))
        )

    def test_a_card_that_cannot_be_read(self) -> None:
        (self.tree.find(CARD) / 'config').unlink()

        self.assertIn(
            'the device cannot be read', self.refuse(make_entry(self.names[0]))
        )

    def test_a_function_that_is_no_virtual_one(self) -> None:
        entry = make_entry(CARD)

        self.assertEqual(entry.assignments, self.enforcer.apply(entry))
        self.tree.kill(CARD)
        self.assertIn('has failed', self.refuse(entry))

    def test_no_iommu(self) -> None:
        self.assertEqual('', self.enforcer.find_host_problem())
        self.enforcer.check_ready()
        (self.tree.path / 'kernel/iommu_groups/0').rmdir()

        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcer.check_ready
        )

        self.assertIn('IOMMU', str(err))
        self.assertIn('IOMMU', self.enforcer.find_host_problem())

    def test_there_is_nothing_to_release(self) -> None:
        self.enforcer.release(make_entry(*self.names))

        self.assertIsNone(self.enforcer.list_applied())

    def test_what_another_guest_has(self) -> None:
        entry = make_entry(self.names[0])
        self.run_guest(entry.server_uuid, self.names[0])
        self.run_guest(uuidsentinel.other, self.names[1])
        self.enforcer.apply(entry)

        said = self.refuse(make_entry(*self.names))

        self.assertIn(
            f'{self.names[1]} is in the guest of server {uuidsentinel.other}',
            said,
        )

    def test_what_its_own_guest_has_is_its_own_in_a_move(self) -> None:
        """The entry of a move has another uuid than its server."""
        entry = self.make_moved(self.names[0])
        self.run_guest(entry.server_uuid, self.names[0])

        self.assertEqual(entry.assignments, self.enforcer.apply(entry))

    def make_moved(self, *names: str) -> assignment.Entry:
        return dataclasses.replace(
            make_entry(*names), consumer_uuid=uuidsentinel.migration
        )

    def test_what_guests_have_while_that_is_unknown(self) -> None:
        self.guests = None

        self.enforcer.apply(make_entry(self.names[0]))

        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcer.list_in_guests
        )
        self.assertIn('does not report the running guests', str(err))

    def recover_units(
        self, lost: assignment.Entry
    ) -> list[tuple[str, object]]:
        """Return nothing where it is in doubt."""
        self.enforcer.list_in_guests()
        found = self.enforcer.recover_units(lost)
        return [(one.rp_key, one.units) for one in found or ()]

    def test_the_functions_of_a_guest(self) -> None:
        self.run_guest(uuidsentinel.server, self.names[1])
        self.run_guest(uuidsentinel.other)
        lost = make_entry('')

        self.assertEqual({lost.server_uuid}, self.enforcer.list_in_guests())
        self.assertEqual(
            [(f'SRIOV_{CARD}', {'names': [self.names[1]]})],
            self.recover_units(lost),
        )

    def test_a_function_that_is_a_provider_of_its_own(self) -> None:
        self.run_guest(uuidsentinel.server, *self.names)
        lost = make_entry(
            '', resource_class='FPGA', key=f'FPGA_{self.names[1]}'
        )

        self.assertEqual(
            [(f'FPGA_{self.names[1]}', {'names': [self.names[1]]})],
            self.recover_units(lost),
        )

    def test_what_other_enforcers_apply_stays(self) -> None:
        self.run_guest(uuidsentinel.server, self.names[1])
        lost = make_entry('', resource_class='CUSTOM_OTHER')

        self.assertEqual(
            [(f'SRIOV_{CARD}', {'names': ['']})], self.recover_units(lost)
        )

    def test_functions_that_are_in_doubt(self) -> None:
        other = '0000:5e:00.0'
        self.tree.add_card(other)
        [foreign] = self.tree.enable(other, 1)
        for functions in ((), self.names, (foreign,)):
            with self.subTest(functions=functions):
                self.run_guest(uuidsentinel.server, *functions)

                self.assertEqual([], self.recover_units(make_entry('')))

    def test_functions_that_a_move_of_the_server_keeps(self) -> None:
        self.run_guest(uuidsentinel.server, *self.names[::-1])
        kept = self.make_moved(*self.names)
        self.entries[kept.consumer_uuid] = kept

        for lost in (make_entry('', ''), self.make_moved('', '')):
            self.assertEqual(
                [(f'SRIOV_{CARD}', {'names': [*self.names]})],
                self.recover_units(lost),
            )

    def test_a_card_of_another_domain(self) -> None:
        """Those of VMD have five digits."""
        self.run_guest(uuidsentinel.server, self.names[1])

        for address in (CARD, self.names[1]):
            lost = make_entry('', key=f'SRIOV_1{address}')

            self.assertEqual([], self.recover_units(lost))

    def test_a_function_that_another_server_holds(self) -> None:
        self.run_guest(uuidsentinel.server, self.names[1])
        self.entries[uuidsentinel.other] = dataclasses.replace(
            make_entry(self.names[1]),
            consumer_uuid=uuidsentinel.other,
            server_uuid=uuidsentinel.other,
        )

        self.assertEqual([], self.recover_units(make_entry('')))

    def test_it_is_installed(self) -> None:
        found = plugins.load_classes(plugins.ENFORCERS, ['hostdev'])

        self.assertIs(enforcer.HostdevEnforcer, found['hostdev'])
