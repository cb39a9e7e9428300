# SPDX-License-Identifier: Apache-2.0

"""The audit of a cloud in which nothing is wrong, and of its races."""

from typing import Any

from nova_ext_resources.objects import hold
from nova_ext_resources.placement import responses
from tests.functional.virt import audits
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import pools


class HealthyCloudTest(audits.AuditTestCase):
    """Servers in every state, of which none is wrong."""

    def make_servers(self) -> Any:
        flavor, large = self.make_pool_flavor(2), self.make_pool_flavor(3)
        self.boot(flavor, host='host1')
        self._stop_server(self.boot(flavor, host='host2'))
        self.boot(self.make_flavor(), host='host3')
        self.resize(self.boot(flavor, host='host1'), large)
        self._shelve_server(self.boot(flavor, host='host2'))
        self.migrate_live(self.boot(flavor, host='host1'), 'host3')
        self.confirm(self.migrate(self.boot(flavor, host='host2')))
        self.revert(self.resize(self.boot(flavor, host='host2'), large))
        self.flags(reclaim_instance_interval=3600)
        deleted = self.boot(flavor, host='host3')
        self.admin_api.delete_server(deleted['id'])
        self._wait_for_server_parameter(deleted, {'status': 'SOFT_DELETED'})
        self.boot(self.make_pool_flavor(90), state='ERROR', host='host1')
        self.reserve()
        guest = self.useFixture(breaking.WaitingGuest())
        self.boot(flavor, state='BUILD', host='host3')
        self.assertTrue(guest.began.wait(base.SECONDS))
        return guest

    def reserve(self) -> None:
        """Have a consumer hold room for a reserved server to come."""
        self.client.put_allocations(
            responses.Allocations(
                consumer_uuid=hold.make_consumer('night 1'),
                resources={self.find_seats('host1'): {pools.SEAT: 5}},
                project_id=hold.PROJECT,
                user_id='user',
                consumer_type=hold.CONSUMER_TYPE,
            )
        )

    def test_nothing_is_found(self) -> None:
        self.make_servers()
        states = {one['status'] for one in self.admin_api.get_servers()}
        self.assertLessEqual(
            {'ACTIVE', 'BUILD', 'ERROR', 'SHUTOFF', 'SHELVED_OFFLOADED'}
            | {'VERIFY_RESIZE'},
            states,
        )
        before = self.read_placement()

        self.assertEqual((0, []), self.audit())
        self.assertEqual((0, []), self.audit('--in-progress'))

        self.assertEqual(before, self.read_placement())
