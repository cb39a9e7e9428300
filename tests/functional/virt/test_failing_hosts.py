# SPDX-License-Identifier: Apache-2.0

"""Where Nova puts servers while a host cannot apply what it offers."""

from typing import Any

import fixtures
from nova import context as nova_context
from nova import objects

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_health
from nova_ext_resources.testing import resctrl
from tests.functional.virt import base

WAYS = 'CUSTOM_LLC_WAYS'


class FailingHostTestCase(base.NovaTestCase):
    """Two hosts, of which the one that a server has got breaks."""

    ALARM = alarm.ENFORCER_FAILED

    def break_host(self, host: str) -> None:
        self.rmds[host].simulator.refuse_connections()

    def mend_host(self, host: str) -> None:
        self.rmds[host].simulator.accept_connections()

    def setUp(self) -> None:
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.services = {
            host: self.start_host(host) for host in ('host1', 'host2')
        }
        self.flavor = self.make_pinned_flavor(1)
        self.server = self.boot(self.flavor)
        self.broken = self.find_host(self.server)
        (self.other,) = self.services.keys() - {self.broken}

    def find_host(self, server: Any) -> str:
        return str(self.api.get_server(server['id'])['OS-EXT-SRV-ATTR:host'])

    def get_ext(self, host: str) -> Any:
        return self.services[host].driver._ext

    def read_refused(self, host: str) -> dict[str, str]:
        """Return what schedulers read."""
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            nova_context.get_admin_context(), host
        )
        document = stats.decode(node.stats[stats.KEY])
        assert document is not None
        return dict(stats.read_constraints(document.constraints).refused)

    def test_servers_go_elsewhere_until_it_is_mended(self) -> None:
        ext = self.get_ext(self.broken)
        inventories = self._get_all_providers_with_inventories()
        self.break_host(self.broken)
        self.publish(self.services[self.broken])

        snapshot = ext.health.snapshot()
        self.assertIs(host_health.HealthStatus.FAILING, snapshot.status)
        self.assertEqual(self.ALARM, self.read_refused(self.broken)[WAYS])
        self.assertEqual({}, self.read_refused(self.other))
        self.assertEqual(
            inventories, self._get_all_providers_with_inventories()
        )
        # A host that fails is not chosen, be it the emptier one.
        for _ in range(2):
            again = self.boot(self.flavor)
            self.assertEqual(self.other, self.find_host(again))
        # Not even by name; Nova has then no other host for it.
        self.boot(self.flavor, state='ERROR', host=self.broken)
        # Who asks for nothing of it is welcome.
        self.boot(self.make_flavor(), host=self.broken)
        self.check_who_stays()

        self.mend_host(self.broken)
        self.publish(self.services[self.broken])

        self.assertEqual({}, self.read_refused(self.broken))
        again = self.boot(self.flavor, host=self.broken)
        self.assertEqual(self.broken, self.find_host(again))

    def check_who_stays(self) -> None:
        """A server that is there keeps what it has, and may leave."""
        before = self.read_entry()
        self.assertIsNotNone(before)
        service = self.services[self.other].service_ref
        self.admin_api.put_service(service.uuid, {'status': 'disabled'})
        more = self.make_pinned_flavor(2)
        self.api.post_server_action(
            self.server['id'], {'resize': {'flavorRef': more}}
        )
        self._wait_for_action_fail_completion(
            self.server, 'resize', 'conductor_migrate_server'
        )
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual(before, self.read_entry())
        self.admin_api.put_service(service.uuid, {'status': 'enabled'})
        self._resize_server(self.server, more)
        self.assertEqual(self.other, self.find_host(self.server))

    def read_entry(self) -> Any:
        return self.get_ext(self.broken).host.find_entry(self.server['id'])

    def _get_all_providers_with_inventories(self) -> dict[str, Any]:
        return {
            one['uuid']: self._get_provider_inventory(one['uuid'])
            for one in self._get_all_providers()
        }


class RmdTest(FailingHostTestCase):
    """The daemon is gone."""


class ResctrlTest(FailingHostTestCase):
    """The root of the kernel's file system is gone."""

    plugins = 'resctrl'
    enforcers = 'resctrl'
    ALARM = alarm.RESCTRL_MISSING

    def setUp(self) -> None:
        self.machines: dict[str, Any] = {}
        # As the mount shows it, where nothing can be mounted.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.resctrl.kernel.file_system.'
                'RealFileSystem',
                lambda path, **_options: self.machines[path[1:]].file_system,
            )
        )
        super().setUp()

    def start_host(self, host: str, **settings: Any) -> Any:
        self.machines[host] = self.useFixture(
            resctrl.ResctrlFixture('skylake2')
        )
        self.host_options = (
            '[ext_resources_resctrl]\n'
            f'path = /{host}\n'
            f'cpu_path = {self.machines[host].cpu_path}\n'
        )
        return super().start_host(host, **settings)

    def break_host(self, host: str) -> None:
        self.machines[host].kernel.unmount()

    def mend_host(self, host: str) -> None:
        self.machines[host].kernel.remount()


del FailingHostTestCase
