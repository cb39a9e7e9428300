# SPDX-License-Identifier: Apache-2.0

"""Each action of Nova on a server, but for those that change its host."""

from nova.tests import fixtures as nova_fixtures

from nova_ext_resources.objects import assignment
from tests.functional.virt import moving

State = assignment.State


class LifeSuite(moving.MovesTestCase):
    """What every backend and kind of server goes through on its host."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']
        self.assert_held()

    def assert_held(self) -> None:
        """All agree; the server has its units, whether its guest is on."""
        self.assert_agreement(host1={self.uuid: State.APPLIED})

    def do(self, action: str, status: str, **body: str) -> None:
        """Have the server do something; all agree afterwards."""
        self.act(self.server, action, **body)
        self._wait_for_server_parameter(
            self.server, {'status': status, 'OS-EXT-STS:task_state': None}
        )
        self.assert_held()

    def test_stop_and_start(self) -> None:
        self.do('os-stop', 'SHUTOFF')
        self.do('os-start', 'ACTIVE')

    def test_reboot(self) -> None:
        self.do('reboot', 'ACTIVE', type='SOFT')
        self.do('reboot', 'ACTIVE', type='HARD')

    def test_pause_and_unpause(self) -> None:
        self.do('pause', 'PAUSED')
        self.do('unpause', 'ACTIVE')

    def test_suspend_and_resume(self) -> None:
        self.do('suspend', 'SUSPENDED')
        self.do('resume', 'ACTIVE')

    def test_rescue_and_unrescue(self) -> None:
        self.do('rescue', 'RESCUE')
        self.do('unrescue', 'ACTIVE')

    def test_image_create(self) -> None:
        self.do('createImage', 'ACTIVE', name='image')

    def test_rebuild(self) -> None:
        image = nova_fixtures.GlanceFixture.auto_disk_config_enabled_image
        self.do('rebuild', 'ACTIVE', imageRef=image['id'])

    def test_shelve_offload_and_unshelve(self) -> None:
        self.flags(shelved_offload_time=-1)
        self.do('shelve', 'SHELVED')
        self.act(self.server, 'shelveOffload')
        self._wait_for_state_change(self.server, 'SHELVED_OFFLOADED')
        self.assert_agreement()
        self.act(self.server, 'unshelve')
        server = self._wait_for_state_change(self.server, 'ACTIVE')
        host = server['OS-EXT-SRV-ATTR:host']
        self.assert_agreement(**{host: {self.uuid: State.APPLIED}})

    def test_unshelve_to_a_host(self) -> None:
        self.flags(shelved_offload_time=0)
        self._shelve_server(self.server)
        self.assert_agreement()
        self.admin_api.microversion = '2.91'
        self.act(self.server, 'unshelve', host='host2')
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_agreement(host2={self.uuid: State.APPLIED})

    def test_soft_delete_and_restore(self) -> None:
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

    def test_delete(self) -> None:
        self._delete_server(self.server)
        self.assert_agreement()

    def test_restart_of_nova_compute(self) -> None:
        self.restart('host1')
        self.assert_held()

    def test_restart_of_the_host(self) -> None:
        self.flags(resume_guests_state_on_host_boot=True)
        del self.services['host1'].driver.instances[self.uuid]
        self.restart('host1')
        self.assertIn(self.uuid, self.services['host1'].driver.instances)
        self.assert_held()
