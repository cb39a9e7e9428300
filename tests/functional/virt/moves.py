# SPDX-License-Identifier: Apache-2.0

"""Resizes, cold migrations and evacuations, with each backend."""

from typing import Any

from nova_ext_resources.objects import assignment
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import moving

State = assignment.State


class ResizesSuite(moving.MovesTestCase):
    """Resizes and cold migrations, within a cell or to another one."""

    #: The method of a driver in which the source powers the guest off.
    POWER_OFF = 'migrate_disk_and_power_off'

    def setUp(self) -> None:
        super().setUp()
        self.small = self.make_own_flavor(2)
        self.large = self.make_own_flavor(4)

    def boot_on(self, flavor: str, host: str = 'host1') -> Any:
        return self.boot(flavor, host=host)

    def assert_moved(self, server: Any, host: str = 'host2') -> None:
        """Make sure that a server is on host2, and host1 keeps its own."""
        self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
        self.assert_agreement(
            host1={self.find_migration(server).uuid: self.WAITS},
            host2={server['id']: State.APPLIED},
        )

    def test_resizes(self) -> None:
        self.tell(
            self.cold_migration,
            self.resize_up_and_down,
            self.to_a_flavor_without_and_from_one,
            self.revert_after_a_restart_of_the_source,
            self.deleted_during_a_resize,
            self.deleted_before_it_is_confirmed,
        )

    def cold_migration(self) -> None:
        server = self.boot_on(self.small)
        self.assert_agreement(host1={server['id']: State.APPLIED})

        self.assert_moved(self.migrate(server))
        self.confirm(server)
        self.assert_agreement(host2={server['id']: State.APPLIED})

        server = self.migrate(server)
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        before = self.get_host('host2').entries
        self.revert(server)
        self.assert_agreement(host2={server['id']: State.APPLIED})
        (kept,) = before.values()
        after = self.get_host('host2').entries[server['id']]
        self.assertEqual(
            [one.units for one in kept.assignments],
            [one.units for one in after.assignments],
        )
        self._delete_server(server)
        self.assert_agreement()

    def resize_up_and_down(self) -> None:
        server = self.boot_on(self.small)

        self.assert_moved(self.resize(server, self.large))
        self.revert(server)
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self.assert_moved(self.resize(server, self.large))
        self.confirm(server)
        self.assert_agreement(host2={server['id']: State.APPLIED})

        server = self.resize(server, self.small)
        self.assert_agreement(
            host2={self.find_migration(server).uuid: self.WAITS},
            host1={server['id']: State.APPLIED},
        )
        self.confirm(server)
        self.assert_agreement(host1={server['id']: State.APPLIED})

    def to_a_flavor_without_and_from_one(self) -> None:
        plain = self.make_flavor()
        server = self.boot_on(self.small)

        server = self.resize(server, plain)
        self.assert_agreement(
            host1={self.find_migration(server).uuid: self.WAITS}
        )
        self.revert(server)
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self.resize(server, plain)
        self.confirm(server)
        self.assert_agreement()

        self.resize(server, self.small)
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self.revert(server)
        self.assert_agreement()

    def revert_after_a_restart_of_the_source(self) -> None:
        server = self.resize(self.boot_on(self.small), self.large)

        self.restart('host1')

        self.assert_moved(server)
        self.revert(server)
        self.assert_agreement(host1={server['id']: State.APPLIED})

    def deleted_during_a_resize(self) -> None:
        server = self.boot_on(self.small)
        with breaking.WaitingMove(self.POWER_OFF) as move:
            self.act(server, 'resize', flavorRef=self.large)
            self.assertTrue(move.began.wait(base.SECONDS))

            self._delete_server(server)
            move.go.set()

            self.assert_gone(server)
        self.forget(server)

    def deleted_before_it_is_confirmed(self) -> None:
        server = self.boot_on(self.small)
        self.assert_moved(self.resize(server, self.large))

        self._delete_server(server)

        self.assert_agreement()


class MovesSuite(ResizesSuite):
    """The operations that every backend and kind of server goes through."""

    def test_evacuations(self) -> None:
        self.tell(
            self.evacuate,
            self.evacuate_and_the_source_is_back_meanwhile,
            self.evacuate_and_the_guest_does_not_start,
        )

    def evacuate(self) -> None:
        server = self.boot_on(self.small)
        self.fail_host()

        self._evacuate_server(
            server, expected_host='host2', expected_state='SHUTOFF'
        )
        self.act(server, 'os-start')
        self._wait_for_state_change(server, 'ACTIVE')
        self.bring_back()

        self.assert_agreement(host2={server['id']: State.APPLIED})

    def evacuate_and_the_source_is_back_meanwhile(self) -> None:
        server = self.boot_on(self.small)
        self.fail_host()
        with breaking.WaitingGuest() as guest:
            self.act(server, 'evacuate', host='host2')
            self.assertTrue(guest.began.wait(base.SECONDS))

            self.bring_back()

            self.assertEqual({}, self.get_host('host1').entries)
            guest.go.set()
            self.wait_for_evacuation(server)
        self.act(server, 'os-start')
        self._wait_for_state_change(server, 'ACTIVE')
        self.assert_agreement(host2={server['id']: State.APPLIED})

    def evacuate_and_the_guest_does_not_start(self) -> None:
        server = self.boot_on(self.small)
        self.fail_host()

        with moving.failing('spawn'):
            self._evacuate_server(
                server,
                expected_host='host1',
                expected_state='ERROR',
                expected_migration_status='failed',
            )

        self.assertEqual({}, self.get_host('host2').entries)
        self.bring_back()
        self.assert_agreement(host1={server['id']: State.APPLIED})

    def fail_host(self) -> None:
        self.stop_compute(self.services['host1'])
        self.force_down(True)

    def bring_back(self) -> None:
        """Start host1 again; its guests have run all the time."""
        self.services['host1'] = self.start_again(self.services['host1'])
        self.force_down(False)

    def force_down(self, is_down: bool) -> None:
        ref = self.services['host1'].service_ref.uuid
        self.admin_api.put_service_force_down(ref, is_down)


class OneHostSuite(moving.MovesTestCase):
    """Nova may resize a server on the host that it is on."""

    HOSTS = ('host1',)

    def setUp(self) -> None:
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.small = self.make_own_flavor(2)
        self.large = self.make_own_flavor(4)

    def assert_both(self, server: Any) -> None:
        self.assert_agreement(
            host1={
                self.find_migration(server).uuid: self.WAITS,
                server['id']: State.APPLIED,
            }
        )

    def test_resizes(self) -> None:
        self.tell(
            self.resize_up_and_down, self.to_a_flavor_without_and_from_one
        )

    def resize_up_and_down(self) -> None:
        server = self.boot(self.small)

        self.resize(server, self.large)
        self.assert_both(server)
        self.revert(server)
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self.resize(server, self.large)
        self.confirm(server)
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self.resize(server, self.small)
        self.restart('host1')
        self.assert_both(server)
        self.confirm(server)
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self._delete_server(server)
        self.assert_agreement()

    def to_a_flavor_without_and_from_one(self) -> None:
        plain = self.make_flavor()
        server = self.boot(self.small)

        self.resize(server, plain)
        self.assert_agreement(
            host1={self.find_migration(server).uuid: self.WAITS}
        )
        self.revert(server)
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self.resize(server, plain)
        self.confirm(server)
        self.assert_agreement()
        self.resize(server, self.small)
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self._delete_server(server)
        self.assert_agreement()
