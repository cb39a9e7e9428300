# SPDX-License-Identifier: Apache-2.0

"""Devices that vanish while servers hold them, on a host."""

import os
import pathlib
from typing import Any

import fixtures

from nova_ext_resources.claims.trackers import device
from nova_ext_resources.drivers import base
from nova_ext_resources import exception
from nova_ext_resources.host.inventory import quarantine
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource
from tests.unit import builders
from tests.unit.host import with_host

CLASS = 'CUSTOM_CARD'
KEY = 'CARDS_0000:3b:00.0'
RP = host_provider.make_rp_uuid(with_host.NODE.uuid, KEY)


class Cards(base.InventoryProvider):
    """Reports the cards that a test has put into the host."""

    names: tuple[str, ...] = ('a', 'b', 'c')
    resource_class = CLASS
    is_broken = False
    is_unsteady = False

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset({KEY} if self.is_unsteady else ())

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (
            builders.make_definition(
                name=self.resource_class, type='device', units='cards'
            ),
        )

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        if self.is_broken:
            raise exception.DiscoveryFailed(plugin='cards', reason='broken')
        if not self.names:
            return ()
        return (
            host_provider.HostProvider(
                key=KEY,
                inventories={
                    self.resource_class: class_inventory.Inventory(
                        total=len(self.names)
                    )
                },
                trackers={self.resource_class: 'device'},
                units={self.resource_class: {'names': list(self.names)}},
            ),
        )


class WithheldTest(with_host.HostTestCase):
    is_enabled = True

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.folder = pathlib.Path(self.ledger_path + quarantine.SUFFIX)
        self.cards = Cards(None, 'host1')  # type: ignore[arg-type]
        self.start()

    def start(self) -> None:
        """Start, as a process does."""
        self.ledger = self.open_ledger()
        plugins = {'cards': self.cards} if self.is_enabled else {}
        self.host = with_host.make_host(plugins, {}, self.ledger)
        self.look()

    def restart(self) -> None:
        self.ledger.close()
        self.start()

    def look(self, *names: str) -> None:
        """Have a round, with these cards in the host."""
        if names:
            self.cards.names = names
        self.host.refresh()
        self.host.heal()

    def boot(self, uuid: str, amount: int = 1) -> list[str]:
        request = assignment.ClaimRequest(
            consumer_uuid=uuid,
            allocations={RP: {self.cards.resource_class: amount}},
            requirement=builders.make_requirement(
                _={self.cards.resource_class: amount}
            ),
        )
        [held] = self.host.claim(request).assignments
        self.host.apply(uuid)
        return list(held.units['names'])

    def list_alarms(self) -> list[tuple[str, str]]:
        found = (*self.host.problems, *self.host.found.problems)
        return [(one.alarm, one.subject) for one in found]

    def count(self) -> dict[str, Any]:
        """Return what placement shall see."""
        [made] = self.host.providers()
        given = made.inventories[CLASS]
        return {'total': given.total, 'reserved': given.reserved}

    def test_a_server_holds_names(self) -> None:
        self.assertEqual(['a'], self.boot('one'))
        self.assertEqual(['b', 'c'], self.boot('two', 2))
        self.assertRaises(exception.CapacityExceeded, self.boot, 'three')

        self.host.release('one')

        self.assertEqual(['a'], self.boot('three'))

    def test_names_survive_a_restart_with_more_cards(self) -> None:
        self.boot('one')
        self.boot('two')

        self.cards.names = ('0', 'a', 'b')
        self.restart()

        self.assertEqual(['0'], self.boot('three'))
        self.assertEqual([], self.list_alarms())

    def test_one_that_nobody_held_comes_and_goes(self) -> None:
        self.look('a')
        self.assertEqual({'total': 1, 'reserved': 0}, self.count())

        self.look('a', 'b')

        self.assertEqual({'total': 2, 'reserved': 0}, self.count())
        self.assertEqual([], self.list_alarms())

    def test_one_that_vanishes_while_it_is_held_is_reported(self) -> None:
        self.boot('one')
        self.look('b', 'c')

        self.assertEqual([(alarm.UNIT_LOST, 'one')], self.list_alarms())
        # The server's is counted, and two are left.
        self.assertEqual({'total': 3, 'reserved': 0}, self.count())
        self.assertEqual(['b', 'c'], self.boot('two', 2))
        self.assertRaises(exception.CapacityExceeded, self.boot, 'three')

    def test_it_is_given_to_no_server_when_it_comes_back(self) -> None:
        self.boot('one')
        self.look('b', 'c')
        self.look('a', 'b', 'c')
        self.assertIn((alarm.UNIT_LOST, 'one'), self.list_alarms())

        self.host.release('one')
        # Also before the next round.
        self.assertEqual(['b', 'c'], self.boot('two', 2))
        self.assertRaises(exception.CapacityExceeded, self.boot, 'three')
        self.look()

        subject = f'{KEY} {CLASS} a'
        self.assertEqual([(alarm.UNIT_WITHHELD, subject)], self.list_alarms())
        self.assertEqual({'total': 3, 'reserved': 1}, self.count())

    def test_nor_after_a_restart_until_its_file_is_deleted(self) -> None:
        self.boot('one')
        self.look('b')
        self.host.release('one')
        self.cards.names = ('a', 'b')
        self.restart()
        self.assertEqual(['b'], self.boot('two'))
        self.assertRaises(exception.CapacityExceeded, self.boot, 'three')
        [problem] = self.host.found.problems
        [file] = self.folder.iterdir()
        self.assertIn(str(file), problem.text)
        self.assertIn('while server one held the device', file.read_text())

        file.unlink()
        self.look()

        self.assertEqual([], self.list_alarms())
        self.assertEqual(['a'], self.boot('three'))
        self.assertIn('a is no longer withheld', self.log.output)

    def test_one_that_comes_later_than_nova_compute_is_not_withheld(
        self,
    ) -> None:
        self.boot('one')
        self.cards.names = ('c',)
        self.restart()
        self.assertEqual([(alarm.UNIT_LOST, 'one')], self.list_alarms())

        self.look('a', 'b', 'c')

        self.assertEqual([], self.list_alarms())
        self.assertFalse(self.folder.exists())

    def test_nor_is_one_whose_card_is_found_later(self) -> None:
        self.boot('one')
        self.cards.is_broken = True
        self.restart()
        self.cards.is_broken = False
        self.look('b', 'c')

        self.look('a', 'b', 'c')

        self.assertEqual([], self.list_alarms())
        self.assertFalse(self.folder.exists())

    def test_nor_is_one_whose_card_could_not_be_read_first(self) -> None:
        # Such a card is reported with what servers hold.
        self.boot('one')
        self.cards.is_unsteady = True
        self.restart()
        self.cards.is_unsteady = False
        self.look('b', 'c')

        self.look('a', 'b', 'c')

        self.assertEqual([], self.list_alarms())
        self.assertFalse(self.folder.exists())

    def test_one_that_vanishes_while_its_card_cannot_be_read_is(self) -> None:
        self.boot('one')
        self.cards.is_unsteady = True
        self.look()
        self.cards.is_unsteady = False
        self.look('b', 'c')

        self.assertEqual(1, len(list(self.folder.iterdir())))

    def test_a_file_that_was_deleted_is_not_written_again(self) -> None:
        self.boot('one')
        self.look('b', 'c')
        [file] = self.folder.iterdir()
        file.unlink()

        self.look('b', 'c')

        self.assertEqual([], list(self.folder.iterdir()))

    def test_so_it_is_when_its_whole_card_vanishes(self) -> None:
        self.boot('one')
        self.cards.names = ()
        self.look()
        [lost] = self.host.problems
        self.assertEqual((alarm.UNIT_LOST, 'one'), (lost.alarm, lost.subject))
        self.assertIn(f'holds a of {KEY},', lost.text)

        self.look('a', 'b')
        self.host.release('one')

        self.assertEqual(['b'], self.boot('two'))
        self.assertRaises(exception.CapacityExceeded, self.boot, 'three')
        self.look()
        subject = f'{KEY} {CLASS} a'
        self.assertEqual([(alarm.UNIT_WITHHELD, subject)], self.list_alarms())

    def test_a_card_that_cannot_be_read_has_lost_nothing(self) -> None:
        self.boot('one')
        self.cards.names, self.cards.is_unsteady = (), True
        self.look()

        self.assertEqual([], self.list_alarms())
        self.assertFalse(self.folder.exists())

    def test_of_a_class_that_was_renamed(self) -> None:
        """No server gets the unit under its new name."""
        self.boot('one')
        self.cards.resource_class = 'CUSTOM_NEW'
        self.restart()
        self.assertEqual([(alarm.UNIT_LOST, 'one')], self.list_alarms())

        self.assertEqual(['b', 'c'], self.boot('two', 2))
        self.assertRaises(exception.CapacityExceeded, self.boot, 'three')

        self.host.release('one')
        self.look()
        self.assertEqual([], self.list_alarms())
        self.assertEqual(['a'], self.boot('three'))

    def test_of_a_plugin_that_was_disabled(self) -> None:
        self.boot('one')
        self.is_enabled = False
        self.restart()
        self.assertEqual([(alarm.UNIT_LOST, 'one')], self.list_alarms())

        self.is_enabled = True
        self.restart()
        self.assertEqual([], self.list_alarms())

    def test_an_operator_may_withhold_one_by_hand(self) -> None:
        self.folder.mkdir()
        (
            self.folder
            / quarantine.QuarantinedUnit(KEY, CLASS, 'a').make_file_name()
        ).touch()
        (self.folder / 'README').touch()
        self.look()

        self.assertEqual(['b'], self.boot('one'))

    def test_a_folder_that_cannot_be_written_forgets_nothing_meanwhile(
        self,
    ) -> None:
        self.boot('one')
        self.folder.write_text('no folder')
        self.look('b', 'c')
        self.look('a', 'b', 'c')
        self.host.release('one')
        self.look()

        self.assertEqual(['b', 'c'], self.boot('two', 2))
        self.assertRaises(exception.CapacityExceeded, self.boot, 'three')
        [problem] = self.host.found.problems
        self.assertIn('forgets the withheld devices', problem.text)
        self.assertEqual(1, self.log.output.count('cannot use the folder'))

        self.folder.unlink()
        self.look()
        self.assertEqual(1, len(list(self.folder.iterdir())))

    def test_a_file_that_cannot_be_made_forgets_nothing_meanwhile(
        self,
    ) -> None:
        # Names of files have 255 characters at most.
        kept = quarantine.QuarantinedUnit(KEY, CLASS, 'a')
        long = kept._replace(resource_class=f'CUSTOM_{"X" * 248}')
        made = quarantine.Quarantine(
            self.ledger_path, 'host1', builders.make_trackers()
        )
        made._unsaved = {long: 'one', kept: 'two'}

        found = made.apply(self.host.found, ())

        self.assertEqual(
            {str(long), str(kept)}, {one.subject for one in found.problems}
        )

    def test_file_names_say_which_unit_it_is(self) -> None:
        unit = quarantine.QuarantinedUnit('A,B', 'CUSTOM_X', '../a%2f')

        name = unit.make_file_name()

        self.assertNotIn(os.sep, name)
        self.assertEqual(2, name.count(','))

    def test_two_servers_with_one_device_are_reported(self) -> None:
        self.boot('one')
        entry = self.host.find_entry('one')
        assert entry is not None
        other = assignment.Entry(
            consumer_uuid='two',
            state=entry.state,
            assignments=entry.assignments,
        )
        self.ledger.put(other)
        self.restart()

        self.assertIn(alarm.UNITS_HELD_TWICE, dict(self.list_alarms()))

    def test_the_tracker_of_the_test_is_the_installed_one(self) -> None:
        trackers, _tests = with_host.load_pure()

        self.assertIsInstance(trackers['device'], device.DeviceTracker)
