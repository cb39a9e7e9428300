# SPDX-License-Identifier: Apache-2.0

"""Each action of Nova on a server, but for those that change its host."""

from typing import Any

from nova.tests import fixtures as nova_fixtures

from nova_ext_resources.objects import assignment
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import moving

State = assignment.State

#: Another one than servers boot from.
IMAGE = nova_fixtures.GlanceFixture.auto_disk_config_enabled_image['id']


class LifeSuite(moving.MovesTestCase):
    """What every backend and kind of server goes through on its host."""

    def setUp(self) -> None:
        super().setUp()
        self.flavor = self.make_own_flavor(2)

    def boot_server(self) -> None:
        self.server = self.boot(self.flavor, host='host1')
        self.uuid = self.server['id']
        self.assert_held()

    def assert_held(self) -> None:
        """All agree; the server has its units, whether its guest is on."""
        self.assert_agreement(host1={self.uuid: State.APPLIED})

    def assert_agreement_of(self, *servers: Any) -> None:
        """All agree; each server has its units on the host that it is on."""
        expected: dict[str, dict[str, State]] = {}
        for one in servers:
            shown = self.admin_api.get_server(one['id'])
            host = shown['OS-EXT-SRV-ATTR:host']
            expected.setdefault(host, {})[one['id']] = State.APPLIED
        self.assert_agreement(**expected)

    def do(self, action: str, status: str, **body: str) -> None:
        """Have the server do something; all agree afterwards."""
        self.act(self.server, action, **body)
        self._wait_for_server_parameter(
            self.server, {'status': status, 'OS-EXT-STS:task_state': None}
        )
        self.assert_held()

    def test_life(self) -> None:
        self.tell(
            self.on_and_off,
            self.rebuild,
            self.rebuild_that_fails,
            self.shelve_offload_and_unshelve,
            self.unshelve_to_a_host,
            self.soft_delete_and_restore,
            self.several_in_one_request,
            self.restart_of_nova_compute,
            self.restart_of_the_host,
        )

    def test_deleted(self) -> None:
        """What has not begun or cannot be told is not left behind."""
        self.tell(
            self.deleted_while_it_is_built, self.deleted_while_its_host_is_dead
        )

    def on_and_off(self) -> None:
        self.boot_server()
        self.do('os-stop', 'SHUTOFF')
        self.do('os-start', 'ACTIVE')
        self.do('reboot', 'ACTIVE', type='SOFT')
        self.do('reboot', 'ACTIVE', type='HARD')
        self.do('pause', 'PAUSED')
        self.do('unpause', 'ACTIVE')
        self.do('suspend', 'SUSPENDED')
        self.do('resume', 'ACTIVE')
        self.do('rescue', 'RESCUE')
        self.do('unrescue', 'ACTIVE')
        self.do('createImage', 'ACTIVE', name='image')

    def rebuild(self) -> None:
        self.boot_server()
        self.do('rebuild', 'ACTIVE', imageRef=IMAGE)

    def rebuild_that_fails(self) -> None:
        """Nova deletes its allocations, and makes them when it unshelves."""
        self.boot_server()
        with moving.failing('spawn'):
            self.act(self.server, 'rebuild', imageRef=IMAGE)
            self._wait_for_server_parameter(
                self.server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
            )
        held = self.get_host('host1').entries
        self.assertEqual([self.uuid], [*held])
        self._assert_ledger('host1', held)
        self._assert_applied('host1', held)

        self.act(self.server, 'rebuild', imageRef=IMAGE)
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual([self.uuid], [*self.get_host('host1').entries])
        self.flags(shelved_offload_time=0)
        self._shelve_server(self.server)
        self.assert_agreement()
        self._unshelve_server(self.server)
        self.assert_agreement_of(self.server)

    def shelve_offload_and_unshelve(self) -> None:
        self.flags(shelved_offload_time=-1)
        self.boot_server()
        self.do('shelve', 'SHELVED')
        self.act(self.server, 'shelveOffload')
        self._wait_for_state_change(self.server, 'SHELVED_OFFLOADED')
        self.assert_agreement()
        self.act(self.server, 'unshelve')
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_agreement_of(self.server)

    def unshelve_to_a_host(self) -> None:
        self.flags(shelved_offload_time=0)
        self.boot_server()
        self._shelve_server(self.server)
        self.assert_agreement()
        self.admin_api.microversion = '2.91'
        self.act(self.server, 'unshelve', host='host2')
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_agreement(host2={self.uuid: State.APPLIED})

    def soft_delete_and_restore(self) -> None:
        self.boot_server()
        self.flags(reclaim_instance_interval=3600)
        self.admin_api.delete_server(self.uuid)
        self._wait_for_server_parameter(
            self.server, {'status': 'SOFT_DELETED'}
        )
        self.assert_held()
        self.do('restore', 'ACTIVE')
        self.act(self.server, 'forceDelete')
        self._wait_until_deleted(self.server)
        self.assert_agreement()
        self.flags(reclaim_instance_interval=0)

    def several_in_one_request(self) -> None:
        """More than one host has room; each domain has some left."""
        self.boot_server()
        body = self._build_server(flavor_id=self.flavor, networks='none')
        body.update(min_count=4, max_count=4)
        self.admin_api.post_server({'server': body})

        servers = self.admin_api.get_servers()
        for one in servers:
            self._wait_for_state_change(one, 'ACTIVE')
        self.assertEqual(5, len(servers))
        self.assert_agreement_of(*servers)

    def restart_of_nova_compute(self) -> None:
        self.boot_server()
        self.restart('host1')
        self.assert_held()

    def restart_of_the_host(self) -> None:
        self.flags(resume_guests_state_on_host_boot=True)
        self.boot_server()
        del self.services['host1'].driver.instances[self.uuid]
        self.restart('host1')
        self.assertIn(self.uuid, self.services['host1'].driver.instances)
        self.assert_held()

    def deleted_while_it_is_built(self) -> None:
        with breaking.WaitingGuest() as guest:
            server = self.boot(self.flavor, state='BUILD', host='host1')
            self.assertTrue(guest.began.wait(base.SECONDS))
            self.assertIn(server['id'], self.get_host('host1').entries)

            self.admin_api.delete_server(server['id'])
            guest.go.set()
            self._wait_until_deleted(server)

            self.wait_until(lambda: not self.get_host('host1').entries)

    def deleted_while_its_host_is_dead(self) -> None:
        self.boot_server()
        ref = self.services['host1'].service_ref.uuid
        self.stop_compute(self.services['host1'])
        self.admin_api.put_service_force_down(ref, True)

        self._delete_server(self.server)
        self.services['host1'].driver.instances.clear()
        self.services['host1'] = self.start_again(self.services['host1'])
        self.admin_api.put_service_force_down(ref, False)

        self.wait_until(lambda: not self.get_host('host1').entries)
