# SPDX-License-Identifier: Apache-2.0

"""What Nova's libvirt driver does with guests that move to another cell."""

from typing import Any

import fixtures

from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.driver import request
from tests.functional.virt import cells
from tests.functional.virt import emulated
from tests.functional.virt import moving

State = assignment.State


class CellGuestTest(emulated.EmulatedTestCase, cells.CellsTestCase):
    """A server on host1, in cell1."""

    def setUp(self) -> None:
        super().setUp()
        self.small = self.make_own_flavor(1)
        self.large = self.make_own_flavor(2)
        self.server = self.boot(self.small, host='host1')
        self.uuid = self.server['id']

    def assert_guest(self, host: str, *, runs: bool = True) -> None:
        """It is on this host only, with the CPUs of Nova and of the ledger."""
        cpus = request.find_cpus(moving.find_instance(self.uuid))
        assert cpus is not None
        self.assertEqual(
            {host: (runs, {*cpus})},
            {
                name: guests[self.uuid]
                for name in self.HOSTS
                if self.uuid in (guests := self.list_guests(name))
            },
        )
        entry = self.get_host(host).entries[self.uuid]
        self.assertEqual((cpus, State.APPLIED), (entry.cpus, entry.state))

    def test_it_gets_cpus_that_are_free_there(self) -> None:
        other = self.boot(self.small, host='host2')
        self.assertEqual(
            [self.list_guests('host1')[self.uuid]],
            [*self.list_guests('host2').values()],
        )

        self.migrate(self.server)

        self.assert_guest('host2')
        guests = self.list_guests('host2')
        self.assertFalse(guests[self.uuid][1] & guests[other['id']][1])
        self.revert(self.server)
        self.assert_guest('host1')
        self.resize(self.server, self.large)
        self.assert_guest('host2')
        self.confirm(self.server)
        self.assert_agreement(
            host2={self.uuid: State.APPLIED, other['id']: State.APPLIED}
        )

    def test_one_that_is_off_stays_off(self) -> None:
        self.act(self.server, 'os-stop')
        self._wait_for_state_change(self.server, 'SHUTOFF')

        self.resize(self.server, self.large)

        self.assert_guest('host2', runs=False)
        self.revert(self.server, 'SHUTOFF')
        self.assert_guest('host1', runs=False)
        self.assert_agreement(host1={self.uuid: State.APPLIED})

    def fail_to_start(self) -> Any:
        return fixtures.MockPatch(
            'nova.virt.libvirt.LibvirtDriver._create_guest_with_network',
            side_effect=RuntimeError('no network'),
        )

    def test_one_that_does_not_start_is_started_on_its_former_host(
        self,
    ) -> None:
        with self.fail_to_start():
            self.act(self.server, 'migrate')
            self._wait_for_migration_status(self.server, ['error'])
            self.wait_for_failure(self.server)

        self.assertEqual({}, self.get_host('host2').entries)
        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_guest('host1')
        self.assert_agreement(host1={self.uuid: State.APPLIED})
