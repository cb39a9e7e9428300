# SPDX-License-Identifier: Apache-2.0

"""What becomes of a resource whose definition in YAML changes, or breaks."""

import dataclasses
import os
from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources import plugins
from tests.unit import builders
from tests.unit.host import with_host

SEATS = builders.SEATS

STATIC = host_provider.make_rp_uuid(with_host.NODE.uuid, 'STATIC')

GOOD = f"""
resources:
  - name: {SEATS}
    units: seats
    description: Seats of a licence.
    inventory: {{total: 5}}
"""
BAD = GOOD.replace('5', 'many')


class StaticHostTestCase(with_host.HostTestCase):
    """A host with five seats, two of which a server holds."""

    def setUp(self) -> None:
        super().setUp()
        self.path = os.path.join(
            os.path.dirname(self.ledger_path), 'definitions.yaml'
        )
        self.written = 0
        self.write(GOOD)
        self.host = self.start()
        self.claim(self.host, 'server', 2)

    def write(self, text: str) -> None:
        with open(self.path, 'w', encoding='utf-8') as file:
            file.write(text)
        self.written += 1
        os.utime(self.path, (self.written, self.written))

    def start(self) -> manager.HostManager:
        static: dict[str, Any] = self.load(
            plugins.INVENTORY_PROVIDERS,
            'static',
            definitions_file=self.path,
            entries=lambda: host.entries,
        )
        host: manager.HostManager = with_host.make_host(
            static, self.load_noop(), self.open_ledger()
        )
        host.refresh()
        return host

    def restart(self) -> manager.HostManager:
        self.host.close()
        self.host = self.start()
        return self.host

    def claim(self, host: manager.HostManager, uuid: str, amount: int) -> None:
        host.claim(
            assignment.ClaimRequest(
                consumer_uuid=uuid,
                allocations={STATIC: {SEATS: amount}},
                requirement=builders.make_requirement(_={SEATS: amount}),
            )
        )
        host.apply(uuid)


class BrokenDefinitionTest(StaticHostTestCase):
    def find_offered(self, host: manager.HostManager) -> tuple[int, int]:
        """Return what placement shall see: the total, and what is left."""
        (one,) = host.providers()
        inventory = one.inventories[SEATS]
        return inventory.total, inventory.capacity

    def test_a_trait_that_was_its_own_once_stays_its_own(self) -> None:
        self.write(f'{GOOD}    traits: [CUSTOM_FAST]\n')
        self.host.refresh()
        self.host.providers()
        self.write(GOOD)

        (one,) = self.restart().providers()

        self.assertEqual({host_provider.OWNER_TRAIT}, one.traits)
        self.assertEqual(
            {host_provider.OWNER_TRAIT, 'CUSTOM_FAST'}, one.published_traits
        )

    def test_while_it_runs_the_former_one_stays_and_it_is_reported(
        self,
    ) -> None:
        self.write(BAD)

        self.host.refresh()
        self.claim(self.host, 'other', 3)

        self.assertEqual({SEATS}, self.host.found.left_out)
        self.assertEqual((5, 5), self.find_offered(self.host))

    def test_after_a_restart_what_is_held_stays_and_nothing_is_sold(
        self,
    ) -> None:
        self.write(BAD)
        host = self.restart()

        self.assertEqual({SEATS}, host.found.left_out)
        self.assertEqual((2, 0), self.find_offered(host))
        self.assertEqual(2, host.view.tracked[STATIC, SEATS].state.used)
        host.heal()
        self.assertEqual((), host.problems)
        self.assertRaises(exception.ClaimError, self.claim, host, 'other', 1)

    def test_a_class_of_nova_is_requested_as_before(self) -> None:
        self.write(f'{GOOD}  - {{name: VGPU, units: GPUs}}\n')
        host = self.restart()
        request = assignment.ClaimRequest(
            consumer_uuid='other',
            allocations={'gpu': {'VGPU': 1}},
            requirement=builders.make_requirement(_={'VGPU': 1}),
        )

        self.assertEqual((), host.claim(request).assignments)

    def test_what_a_server_leaves_is_not_sold_either(self) -> None:
        self.write(BAD)
        host = self.restart()

        host.release('server')

        self.assertRaises(exception.ClaimError, self.claim, host, 'other', 1)
        host.refresh()
        self.assertRaises(exception.ClaimError, self.claim, host, 'other', 1)

    def test_once_it_is_corrected_all_of_it_is_offered(self) -> None:
        self.write(BAD)
        host = self.restart()
        self.write(GOOD)

        host.refresh()

        self.assertEqual((5, 5), self.find_offered(host))
        self.claim(host, 'other', 3)
        self.assertEqual(frozenset(), host.found.left_out)


class ShrinkingTest(StaticHostTestCase):
    """Servers come and go while it is found that they hold too much."""

    def setUp(self) -> None:
        super().setUp()
        self.claim(self.host, 'other', 3)
        self.write(GOOD.replace('5', '3'))
        self.run_round()

    def run_round(self) -> list[str]:
        self.host.refresh()
        self.host.heal()
        return [one.alarm for one in self.host.problems]

    def change_during_scans(self, uuid: str) -> None:
        """Let an entry change in each scan, so that the last one is forced."""
        discovery = self.host._discovery
        scan = discovery.scan

        def change_and_scan() -> Any:
            entry = self.host.find_entry(uuid)
            assert entry is not None
            self.host.state.put(
                dataclasses.replace(entry, flavor=f'{entry.flavor}+')
            )
            return scan()

        self.useFixture(
            fixtures.MockPatchObject(discovery, 'scan', change_and_scan)
        )

    def test_the_alarm_stays_over_a_scan_that_is_forced(self) -> None:
        self.change_during_scans('other')

        self.assertEqual([alarm.OVERALLOCATED], self.run_round())
        self.assertEqual([alarm.OVERALLOCATED], self.run_round())

    def test_it_is_cleared_when_the_amounts_agree(self) -> None:
        self.host.release('other')

        self.assertEqual([], self.run_round())

    def test_what_comes_during_a_forced_scan_raises_none(self) -> None:
        self.host.release('other')
        self.assertEqual([], self.run_round())
        self.claim(self.host, 'third', 1)
        self.change_during_scans('third')

        self.assertEqual([], self.run_round())
