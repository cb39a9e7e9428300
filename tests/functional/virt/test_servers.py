# SPDX-License-Identifier: Apache-2.0

"""The life of a server on real Nova services."""

import dataclasses
import json
import time
from typing import Any
from unittest import mock

import fixtures
from nova import context
from nova import objects
from nova.tests.functional.api import client as api_client

from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import stats

from tests.functional.virt import base

_SECONDS = 60.0

_DEFINITIONS = """
resources:
  - name: CUSTOM_ONLY_ONE
    type: count
    units: servers
    description: At most one server of this kind on a host.
    inventory: {total: 1}
"""

_OTHER_DEFINITIONS = """
resources:
  - name: CUSTOM_OTHER
    provider: OTHER
    units: servers
    description: Something else, on a provider of its own.
    inventory: {total: 1}
"""


class OneHostTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')
        self.host = self.service.driver._ext.host

    def test_a_pinned_server_gets_its_ways_and_gives_them_back(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))

        entry = self.host.find_entry(server['id'])
        self.assertEqual(assignment.State.APPLIED, entry.state)
        self.assertEqual(2, len(entry.cpus))
        self.assert_in_force(server, 4)
        self._delete_server(server)
        self.assertEqual({}, self.host.entries)
        self.assertEqual([], self.list_workloads('host1'))
        self.assertEqual([], self.service.driver.list_instance_uuids())

    def test_ways_lie_in_the_cache_of_the_cpus_whatever_placement_chose(
        self,
    ) -> None:
        flavor = self.make_pinned_flavor(3)

        servers = [self.boot(flavor) for _ in range(4)]

        for server in servers:
            self.assert_in_force(server, 3)
            self.assert_allocated_as_held(server)

    def test_a_server_that_asks_for_nothing_holds_nothing(self) -> None:
        server = self.boot(self.make_flavor())

        self.assertIsNone(self.host.find_entry(server['id']))

    def test_a_floating_server_with_ways_is_refused(self) -> None:
        flavor = self.make_flavor(resources__CUSTOM_LLC_WAYS=2)

        self.boot(flavor, state='ERROR')

        self.assertEqual({}, self.host.entries)

    def test_a_floating_server_is_claimed_for_the_cpus_of_its_numa_cells(
        self,
    ) -> None:
        shared = {0: {0, 24}, 1: {12, 36}}
        for policy, cells in (('shared', 1), ('mixed', 1), ('shared', 2)):
            specs = {'hw__cpu_policy': policy, 'hw__numa_nodes': cells}
            if policy == 'mixed':
                specs['hw__cpu_dedicated_mask'] = '1'
            with self.subTest(policy=policy, cells=cells):
                asked, server = self.boot_watched(self.make_flavor(**specs))

                topology = server.numa_topology
                expected = set[int]()
                for cell in topology.cells:
                    expected |= shared[cell.id]
                    expected |= set((cell.cpu_pinning or {}).values())
                self.assertEqual(cells, len(topology.cells))
                self.assertIsNone(asked.cpus)
                self.assertEqual(expected, asked.float_cpus)

    def test_other_servers_are_confined_to_no_cpus(self) -> None:
        for flavor in (self.make_flavor(), self.make_pinned_flavor(2)):
            asked, _server = self.boot_watched(flavor)

            self.assertIsNone(asked.float_cpus)

    def boot_watched(self, flavor: str) -> tuple[Any, Any]:
        """Boot a server; return what it claimed, and Nova's instance."""
        with mock.patch.object(
            self.host, 'claim', wraps=self.host.claim
        ) as claim:
            server = self.boot(flavor)
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(),
            server['id'],
            expected_attrs=['numa_topology'],
        )
        return claim.call_args.args[0], instance

    def test_the_last_class_of_service_is_not_sold_twice(self) -> None:
        flavor = self.make_pinned_flavor(1)

        for _ in range(6):
            self.boot(flavor)
        self.publish(self.service)
        server = self.boot(flavor, state='ERROR')

        self.assertEqual(6, len(self.host.entries))
        self.assertIsNone(self.host.find_entry(server['id']))

    def test_many_at_once_fill_both_caches(self) -> None:
        flavor = self.make_pinned_flavor(2)

        body = self._build_server(flavor_id=flavor, networks='none')
        body.update(min_count=4, max_count=4)
        self.api.post_server({'server': body})
        servers = self.api.get_servers()
        for server in servers:
            self._wait_for_state_change(server, 'ACTIVE')
            self.assert_in_force(server, 2)

        self.assertEqual(4, len(servers))

    def test_a_boot_right_after_a_delete_finds_the_room(self) -> None:
        flavor = self.make_pinned_flavor(6)
        servers = [self.boot(flavor) for _ in range(2)]
        self.publish(self.service)
        self.boot(flavor, state='ERROR')

        self._delete_server(servers[0])
        self.service.driver._ext.periodic.run_round()
        self.service.driver._ext.publisher.run_round()

        self.boot(flavor)

    def test_the_view_reaches_the_compute_node(self) -> None:
        self.boot(self.make_pinned_flavor(4))
        self.publish(self.service)

        document = stats.decode(self.read_stats())

        assert document is not None
        self.assertEqual(3, len(document.providers))

    def test_rebuild_and_hard_reboot_keep_the_ways(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))

        self._reboot_server(server, hard=True)
        self.assert_in_force(server, 4)
        self._rebuild_server(server, '155d900f-4e14-4e4c-a73d-069cbf4541e6')
        self.assert_in_force(server, 4)

    def test_a_server_whose_rebuild_failed_can_be_started_again(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        image = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
        simulator = self.rmds['host1'].simulator
        simulator.refuse_connections()
        self.api.post_server_action(
            server['id'], {'rebuild': {'imageRef': image}}
        )
        self._wait_for_state_change(server, 'ERROR')
        self.assertIsNotNone(self.host.find_entry(server['id']))

        simulator.accept_connections()
        self._reboot_server(server, hard=True)

        self.assert_in_force(server, 4)
        self._delete_server(server)
        self.assertEqual({}, self.host.entries)

    def test_shelved_servers_give_back_and_unshelved_take(self) -> None:
        self.flags(shelved_offload_time=0)
        server = self.boot(self.make_pinned_flavor(4))

        self._shelve_server(server)
        self.assertEqual({}, self.host.entries)
        self._unshelve_server(server)

        self.assert_in_force(server, 4)

    def test_a_flavor_that_was_changed_does_not_change_its_servers(
        self,
    ) -> None:
        flavor = self.make_pinned_flavor(4)
        server = self.boot(flavor)
        self.admin_api.post_extra_spec(
            flavor, {'extra_specs': {'resources:CUSTOM_LLC_WAYS': '2'}}
        )

        self._rebuild_server(server, '155d900f-4e14-4e4c-a73d-069cbf4541e6')

        self.assert_in_force(server, 4)

    def test_malformed_amounts_are_refused_by_the_api(self) -> None:
        for value in ('-1', '0', 'abc', '4.0', '99999999999'):
            with self.subTest(value=value):
                error = self.assertRaises(
                    api_client.OpenStackApiException,
                    self.make_flavor,
                    resources__CUSTOM_LLC_WAYS=value,
                )
                self.assertEqual(400, error.response.status_code)

    def test_what_the_api_let_through_does_not_boot_without(self) -> None:
        self.admin_api.microversion = '2.85'
        flavor = self.make_flavor(resources__CUSTOM_LLC_WAYS='-1')
        self.admin_api.microversion = 'latest'

        self.boot(flavor, state='ERROR')

        self.assertEqual({}, self.host.entries)

    def test_a_restart_changes_nothing(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        before = self.host.find_entry(server['id'])

        self.stop_compute(self.service)
        self.service = self.restart_compute_service(
            self.service, keep_hypervisor_state=False
        )
        ext = self.service.driver._ext
        self.addCleanup(ext.stop)

        self.assertEqual(before, ext.host.find_entry(server['id']))
        self.assert_in_force(server, 4, ext.host)

    def test_the_start_after_an_upgrade_completes_entries(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        before = self.host.find_entry(server['id'])
        self.assertEqual(
            (server['id'], server['tenant_id']),
            (before.server_uuid, before.project_id),
        )
        self.assertEqual(
            server['flavor']['original_name'],
            before.flavor,
        )
        self.stop_compute(self.service)
        ext = self.service.driver._ext
        # Whenever Nova does it.
        ext.stop()
        ledger.downgrade(ext._ledger_path)

        again = self._start_compute('host1').driver._ext
        self.addCleanup(again.stop)

        self.assertEqual(
            dataclasses.replace(before, claimed_at=None),
            again.host.find_entry(server['id']),
        )

    def test_a_host_that_starts_without_rmd_keeps_its_inventory(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        self.stop_compute(self.service)
        self.rmds['host1'].simulator.refuse_connections()

        restarted = self._start_compute('host1')
        self.addCleanup(restarted.driver._ext.stop)
        self.publish(restarted)

        providers = {p['name'] for p in self._get_all_providers()}
        self.assertEqual(
            {'host1', 'host1_RDT', 'host1_L3_0', 'host1_L3_1'}, providers
        )
        host = restarted.driver._ext.host
        self.assertIsNotNone(host.find_entry(server['id']))
        self.boot(self.make_pinned_flavor(1), state='ERROR')

        self.rmds['host1'].simulator.accept_connections()
        self.publish(restarted)
        self.boot(self.make_pinned_flavor(1))

        self.assert_in_force(server, 4, host)

    def test_a_server_that_went_while_the_host_was_down_is_released(
        self,
    ) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        self.stop_compute(self.service)
        self.admin_api.put_service_force_down(
            self.service.service_ref.uuid, True
        )
        self._delete_server(server)
        self.admin_api.put_service_force_down(
            self.service.service_ref.uuid, False
        )

        restarted = self._start_compute('host1')
        self.addCleanup(restarted.driver._ext.stop)

        self.wait_until_empty(restarted.driver._ext.host)
        self.assertEqual([], self.list_workloads('host1'))

    def wait_until_empty(self, host: manager.HostManager) -> None:
        deadline = time.monotonic() + _SECONDS
        while host.entries:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def read_stats(self) -> str | None:
        node = self.service.manager.rt.compute_nodes['host1']
        stat: dict[str, Any] = node.stats
        value = stat[stats.KEY]
        json.loads(value)
        return str(value)


class StaticTest(base.NovaTestCase):
    """Resources that no plugin of ours enforces."""

    plugins = 'static'
    enforcers = ''

    def setUp(self) -> None:
        super().setUp()
        path = self.folder / 'definitions.yaml'
        path.write_text(_DEFINITIONS)
        with (self.folder / 'ext.conf').open('a') as conf:
            conf.write(f'[ext_resources_static]\ndefinitions_file = {path}\n')
        self.service = self.start_host('host1')

    def test_only_one_server_of_this_kind_per_host(self) -> None:
        flavor = self.make_flavor(resources__CUSTOM_ONLY_ONE=1)

        first = self.boot(flavor)
        self.boot(flavor, state='ERROR')
        self._delete_server(first)
        self.boot(flavor)

        self.assertEqual(1, len(self.service.driver._ext.host.entries))


class RemovedWhileRunningTest(StaticTest):
    def test_only_one_server_of_this_kind_per_host(self) -> None:
        """The next build does not stumble over a provider that is gone."""
        path = self.folder / 'definitions.yaml'
        path.write_text(_OTHER_DEFINITIONS)

        self.service.driver._ext.periodic.run_round()
        self.service.driver._ext.publisher.run_round()

        names = {p['name'] for p in self._get_all_providers()}
        self.assertEqual(1, len(names - {'host1'}), names)
        self.boot(self.make_flavor())


class RemovedWhileHeldTest(StaticTest):
    def test_only_one_server_of_this_kind_per_host(self) -> None:
        """Who holds what should go is named, as soon as Nova has answered."""
        server = self.boot(self.make_flavor(resources__CUSTOM_ONLY_ONE=1))
        (self.folder / 'definitions.yaml').write_text(_OTHER_DEFINITIONS)

        self.publish(self.service)

        named = f'{server["name"]} ({server["id"]})'
        ext = self.service.driver._ext
        self.wait_until(lambda: named in self.find_text(ext))
        ext.publisher.run_round()
        self.assertIn(f'held by {named}:', self.stdlog.logger.output)

    def find_text(self, ext: Any) -> str:
        # An audit also says which server holds what is no longer there.
        texts = {
            one.name: one.text for one in ext.metrics.read_health().alarms
        }
        self.assertLessEqual(
            {*texts}, {alarm.PROVIDER_IN_USE, alarm.UNIT_LOST}
        )
        return str(texts[alarm.PROVIDER_IN_USE])


class DisabledLaterTest(base.NovaTestCase):
    """The plugin is taken out while a server still holds something."""

    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')

    def disable(self) -> None:
        self.stop_compute(self.service)
        self.plugins = ''
        self._write_conf()
        self.service = self._start_compute('host1')
        self.addCleanup(self.service.driver._ext.stop)
        self._run_periodics()

    def test_what_is_not_offered_any_more_is_not_booted_without(self) -> None:
        flavor = self.make_pinned_flavor(4)
        self.boot(flavor)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.placement.publish.publisher.Publisher.run_round',
                lambda _: None,
            )
        )

        self.disable()

        server = self.boot(flavor, state='ERROR')

        [reason] = self.list_reasons(server, 'ext_resources_claim:')
        self.assertIn('no longer offers this resource', reason)

    def test_extra_specs_mean_nothing_where_nothing_is_enabled(self) -> None:
        self.disable()
        self.admin_api.microversion = '2.85'
        flavor = self.make_flavor(resources__CUSTOM_FOO='0')
        self.admin_api.microversion = 'latest'
        self.flags(enabled_filters=['ComputeFilter'], group='filter_scheduler')
        self.scheduler_service.stop()
        self.scheduler_service = self.start_service('scheduler')

        self.boot(flavor)


class NothingEnabledTest(base.NovaTestCase):
    plugins = ''
    enforcers = ''

    def test_nova_is_as_if_nothing_were_installed(self) -> None:
        self.start_host('host1')

        self.boot(self.make_flavor())

        providers = self._get_all_providers()
        self.assertEqual(['host1'], [p['name'] for p in providers])


class TwoHostsTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.services = {
            host: self.start_host(host) for host in ('host1', 'host2')
        }

    def test_a_host_that_refuses_passes_the_server_on(self) -> None:
        flavor = self.make_pinned_flavor(4)
        busy = self.take_all_ways('host1')

        server = self.boot(flavor, host=None)

        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual({}, busy.entries)
        self.assertEqual(0, self.count_failed_builds('host1'))

    def test_a_host_without_rmd_passes_the_server_on(self) -> None:
        self.rmds['host1'].simulator.refuse_connections()

        server = self.boot(self.make_pinned_flavor(4))

        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])

    def test_nobody_boots_without_when_no_rmd_answers(self) -> None:
        for rmd in self.rmds.values():
            rmd.simulator.refuse_connections()

        server = self.boot(self.make_pinned_flavor(4), state='ERROR')

        reasons = self.list_reasons(server, 'ext_resources_claim:')
        self.assertEqual(2, len(reasons))
        for reason in reasons:
            self.assertIn('is not available', reason)
        # Who may read these names must not read those of hosts there.
        names = ' '.join(one['event'] for one in self.list_events(server))
        self.assertNotIn('host', names)

    def test_an_evacuated_server_takes_on_the_new_host(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        old = server['OS-EXT-SRV-ATTR:host']
        new = 'host2' if old == 'host1' else 'host1'
        self.stop_compute(self.services[old])
        self.admin_api.put_service_force_down(
            self.services[old].service_ref.uuid, True
        )

        self._evacuate_server(server, expected_host=new)

        entry = self.services[new].driver._ext.host.find_entry(server['id'])
        self.assertEqual(assignment.State.APPLIED, entry.state)

    def take_all_ways(self, host: str) -> Any:
        """Play other software that takes ways behind everybody's back."""
        for cache_id, mask in ((0, 0x7E), (1, 0x3F)):
            self.rmds[host].simulator.add_foreign_group(
                f'other{cache_id}', {cache_id: mask}
            )
        return self.services[host].driver._ext.host

    def count_failed_builds(self, host: str) -> int:
        node = self.services[host].manager.rt.stats[host]
        return int(node.get('failed_builds', 0))
