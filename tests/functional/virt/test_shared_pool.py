# SPDX-License-Identifier: Apache-2.0

"""A pool of three hosts on real Nova: what is counted, and when twice."""

import dataclasses
import pathlib
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import alarm
from tests.functional.virt import base
from tests.functional.virt import live
from tests.functional.virt import pools


class PoolTest(pools.PoolTestCase):
    def list_having(self) -> list[str]:
        """Return the providers that have the pool's class."""
        return [
            one['uuid']
            for one in self._get_all_providers()
            if pools.CLASS in self._get_provider_inventory(one['uuid'])
        ]

    def test_it_is_counted_once_and_no_more_is_allocated(self) -> None:
        self.assertEqual([pools.POOL.rp_uuid], self.list_having())
        flavor = self.make_pool_flavor(4)

        servers = [self.boot(flavor) for _ in range(2)]

        self.assert_counted(8)
        refused = self.boot(flavor, state='ERROR')
        self.assertIn('No valid host', refused['fault']['message'])
        self.assert_counted(8)

        self._delete_server(refused)
        self._delete_server(servers[0])
        self.assert_counted(4)
        self.boot(flavor)
        self.assert_counted(8)

    def test_servers_of_each_host_have_the_same_pool(self) -> None:
        flavor = self.make_pool_flavor(3)

        for host in self.HOSTS:
            server = self.boot(flavor, host=host)
            self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])

        self.assert_counted(9)

    def test_a_resize_has_both_until_it_is_confirmed(self) -> None:
        small, large = self.make_pool_flavor(3), self.make_pool_flavor(5)
        server = self.boot(small)

        self.resize(server, large)
        self.assert_counted(8)
        self.revert(server)
        self.assert_counted(3)

        self.resize(server, large)
        self.confirm(server)
        self.assert_counted(5)

    def test_a_cold_migration_has_it_twice_until_it_is_confirmed(
        self,
    ) -> None:
        server = self.boot(self.make_pool_flavor(4))

        self.migrate(server)
        self.assert_counted(8)
        self.revert(server)
        self.assert_counted(4)

        self.migrate(server)
        self.confirm(server)
        self.assert_counted(4)

    def test_a_live_migration_has_it_twice_until_it_ends(self) -> None:
        server = self.boot(self.make_pool_flavor(4))
        transfer: live.Transfer = self.useFixture(live.Transfer())
        self.act(server, 'os-migrateLive', host=None, block_migration='auto')
        self.assertTrue(transfer.began.wait(base.SECONDS))

        self.assert_counted(8)

        transfer.go.set()
        self._wait_for_migration_status(server, ['completed'])
        self.assert_counted(4)

    def test_without_room_for_twice_no_server_moves(self) -> None:
        server = self.boot(self.make_pool_flavor(6))

        self.act(server, 'migrate')
        self._wait_for_migration_status(server, ['error'])
        self.assert_counted(6)

    def test_an_evacuation_has_it_once(self) -> None:
        server = self.boot(self.make_pool_flavor(4), host='host1')

        self.evacuate(server)
        moved = self.wait_for_evacuation(server)
        self.assertNotEqual('host1', moved['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(4, self.count_used())

        self.bring_back('host1')
        self.assert_counted(4)
        self._delete_server(server)
        self.assert_counted(0)

    def test_an_evacuation_needs_room_for_twice_all_the_same(self) -> None:
        server = self.boot(self.make_pool_flavor(6), host='host1')

        self.evacuate(server)

        self.wait_until(lambda: self.find_migration(server).status == 'error')
        self.assertEqual(6, self.count_used())

    def test_what_keeps_the_host_keeps_it(self) -> None:
        server = self.boot(self.make_pool_flavor(6))

        self.act(server, 'os-stop')
        self._wait_for_state_change(server, 'SHUTOFF')
        self.act(server, 'os-start')
        self._wait_for_state_change(server, 'ACTIVE')
        self.act(server, 'reboot', type='HARD')
        self._wait_for_state_change(server, 'ACTIVE')
        self.act(
            server, 'rebuild', imageRef='155d900f-4e14-4e4c-a73d-069cbf4541e6'
        )
        self._wait_for_state_change(server, 'ACTIVE')

        self.assert_counted(6)

    def test_shelved_servers_hold_none(self) -> None:
        server = self.boot(self.make_pool_flavor(4))

        self._shelve_server(server)
        self.assert_counted(0)
        self.act(server, 'unshelve')
        self._wait_for_state_change(server, 'ACTIVE')
        self.assert_counted(4)


class TwoPoolsTest(pools.PoolTestCase):
    """host1 reaches another pool of the same class than host2 does."""

    HOSTS = ('host1', 'host2')

    def find_pools_file(self, host: str) -> pathlib.Path:
        path = super().find_pools_file(host)
        if host == 'host2':
            path = self.folder / 'other.yaml'
            text = pools.POOLS.format(path=self.path)
            path.write_text(text.replace('name: rack1', 'name: rack2'))
        return path

    def test_an_evacuation_leaves_what_the_first_pool_gave(self) -> None:
        server = self.boot(self.make_pool_flavor(4), host='host1')
        other = dataclasses.replace(pools.POOL, name='rack2')

        self.evacuate(server)
        self.wait_for_evacuation(server)
        self.bring_back('host1')

        self.wait_for_used(4)
        self.assertEqual(
            {pools.CLASS: 4}, self._get_provider_usages(other.rp_uuid)
        )

        # A live or cold migration takes what it needs, and no more.
        self._delete_server(server)
        server = self.boot(self.make_pool_flavor(4), host='host1')
        self.migrate_live(server)
        self.wait_for_used(0)
        self.assertEqual(
            {pools.CLASS: 4}, self._get_provider_usages(other.rp_uuid)
        )


class OthersReadTest(pools.PoolTestCase):
    """host1 reads the pool, and host2 only reaches it."""

    HOSTS = ('host1', 'host2')

    def find_pools_file(self, host: str) -> pathlib.Path:
        if host == 'host1':
            return super().find_pools_file(host)
        path = self.folder / 'reached.yaml'
        path.write_text(
            'pools:\n'
            '  - name: rack1\n'
            f'    resource_class: {pools.CLASS}\n'
            '    source: none\n'
        )
        return path

    def test_a_host_that_only_reaches_it(self) -> None:
        flavor = self.make_pool_flavor(4)

        self.boot(flavor, host='host2')
        self.assert_counted(4)

        self.set_pool('gone')
        self.publish_when_read()
        self.assertEqual(
            [(alarm.POOL_NOT_READ, 'rack1')], self.list_alarms('host1')
        )
        self.assertEqual([], self.list_alarms('host2'))
        self.set_pool(total=20)
        self.stop_compute(self.services['host2'])
        self.services['host2'] = self.start_again(self.services['host2'])
        self.publish_when_read()
        self.assertEqual((20, 0), self.find_numbers())
        self.boot(flavor, host='host2')
        self.assert_counted(8)


class RequestGroupTest(pools.PoolTestCase):
    """Without a request group of its own, some requests find no host."""

    def make_plain_flavor(self, amount: int) -> str:
        return self.make_flavor(**{f'resources__{pools.CLASS}': amount})

    def test_a_host_that_is_named(self) -> None:
        plain = self.make_plain_flavor(2)

        self.boot(plain)
        self.assert_counted(2)
        self.boot(plain, state='ERROR', host='host1')
        self.assert_counted(2)
        self.boot(self.make_pool_flavor(2), host='host1')
        self.assert_counted(4)

    def test_moves_to_a_host_that_is_named(self) -> None:
        server = self.boot(self.make_pool_flavor(2), host='host1')
        other = self.boot(self.make_plain_flavor(2))
        [target, *_] = {*self.HOSTS} - {other['OS-EXT-SRV-ATTR:host']}
        # The scheduler is asked for that host.
        self.admin_api.microversion = '2.79'

        server = self.migrate_live(server, host='host2')
        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
        self.act(server, 'migrate', host='host3')
        server = self._wait_for_state_change(server, 'VERIFY_RESIZE')
        self.assertEqual('host3', server['OS-EXT-SRV-ATTR:host'])
        self.confirm(server)
        self.assert_counted(4)

        self.act(other, 'migrate', host=target)
        self._wait_for_migration_status(other, ['error'])
        self.assert_counted(4)

    def test_an_availability_zone(self) -> None:
        plain = self.make_plain_flavor(2)
        aggregate = self._create_aggregate('one', availability_zone='one')
        for host in self.HOSTS[:2]:
            self.admin_api.api_post(
                f'/os-aggregates/{aggregate}/action',
                {'add_host': {'host': host}},
            )

        self.boot(plain, state='ERROR', az='one')
        self.assert_counted(0)
        server = self.boot(self.make_pool_flavor(2), az='one')
        self.assertIn(server['OS-EXT-SRV-ATTR:host'], self.HOSTS[:2])
        self.assert_counted(2)

        # By hand, and left alone from there on.
        [uuid] = self._get_provider_aggregates(
            self.get_host('host1').node.uuid
        )
        self._join(uuid)
        self.publish_all()
        self.boot(plain, az='one')
        self.assert_counted(4)

    def _join(self, aggregate_uuid: str) -> None:
        path = f'/resource_providers/{pools.POOL.rp_uuid}'
        before = self.placement.get(f'{path}/aggregates', version='1.19').body
        self.placement.put(
            f'{path}/aggregates',
            {
                **before,
                'aggregates': [*before['aggregates'], aggregate_uuid],
            },
            version='1.19',
        )


class SourceTest(pools.PoolTestCase):
    HOSTS = ('host1', 'host2')

    def test_a_source_that_lies_or_is_gone_changes_nothing(self) -> None:
        self.boot(self.make_pool_flavor(4))
        for text in (
            'no JSON',
            '{"total": NaN}',
            '{"total": -1}',
            '{"total": 0}',
            '{"total": 5, "free": 6}',
            '{}',
        ):
            with self.subTest(text=text):
                self.set_pool(text)
                self.publish_when_read()

                self.assertEqual((pools.TOTAL, 0), self.find_numbers())
                for host in self.HOSTS:
                    self.assertEqual(
                        [(alarm.POOL_NOT_READ, 'rack1')],
                        self.list_alarms(host),
                    )
        self.path.unlink()
        # So it is after a restart, which knows no value.
        self.restart('host1')
        self.assertEqual((pools.TOTAL, 0), self.find_numbers())
        self.boot(self.make_pool_flavor(4))

        self.set_pool(total=20)
        self.publish_when_read()
        self.assertEqual((20, 0), self.find_numbers())
        self.assert_counted(8)

    def test_what_others_use_is_not_given_to_servers(self) -> None:
        flavor = self.make_pool_flavor(4)
        self.boot(flavor)
        self.publish_all()
        # 10 in all, 4 of the server: others have 3.
        self.set_pool(total=10, free=3)
        self.publish_when_read()

        self.assertEqual((10, 3), self.find_numbers())
        refused = self.boot(flavor, state='ERROR')
        self._delete_server(refused)

        self.set_pool(total=10, free=6)
        self.publish_when_read()
        self.assertEqual((10, 0), self.find_numbers())
        self.boot(flavor)
        self.assert_counted(8)

    def test_less_than_servers_hold_closes_it(self) -> None:
        flavor = self.make_pool_flavor(4)
        for _ in range(2):
            self.boot(flavor)

        self.set_pool(total=7)
        self.publish_when_read()

        self.assertEqual((pools.TOTAL, 2), self.find_numbers())
        self.compare('host1')
        self.assertEqual(
            [(alarm.POOL_OVERALLOCATED, 'rack1')], self.list_alarms('host1')
        )
        self.boot(self.make_pool_flavor(1), state='ERROR')

    def test_the_last_host_that_leaves_it_takes_it_away(self) -> None:
        server = self.boot(self.make_pool_flavor(4))
        (self.folder / 'pools.yaml').write_text('pools: []\n')

        self.publish_all()
        self.assertEqual((pools.TOTAL, pools.TOTAL), self.find_numbers())
        self._delete_server(server)

        def is_gone() -> bool:
            # A host may have been quicker; Nova may not be ready yet.
            self.publish_all()
            left = {one['uuid'] for one in self._get_all_providers()}
            return pools.POOL.rp_uuid not in left

        self.wait_until(is_gone)
        # Nova misses nothing of it.
        for host in self.HOSTS:
            self.boot(self.make_flavor(), host=host)


class DiskTest(pools.PoolTestCase):
    """DISK_GB of a pool, which Nova does not count as others would.

    An operator has made the sharing provider by hand: this package refuses to.
    """

    def setUp(self) -> None:
        super().setUp()
        self.placement.post(
            '/resource_providers',
            {'uuid': uuids.nfs, 'name': 'nfs'},
            version='1.20',
        )
        for noun, content in (
            ('inventories', {'DISK_GB': {'total': 1000}}),
            ('traits', ['MISC_SHARES_VIA_AGGREGATE']),
            ('aggregates', [pools.POOL.aggregate_uuid]),
        ):
            path = f'/resource_providers/{uuids.nfs}'
            found = self.placement.get(path, version='1.20').body
            self.placement.put(
                f'{path}/{noun}',
                {
                    'resource_provider_generation': found['generation'],
                    noun: content,
                },
                version='1.20',
            )
        self._run_periodics()

    def list_offers(self) -> list[str]:
        """Return the provider of DISK_GB in each candidate of placement."""
        url = '/allocation_candidates?resources=VCPU:1,DISK_GB:10'
        found = self.placement.get(url, version='1.29').body
        return sorted(
            rp_uuid
            for one in found['allocation_requests']
            for rp_uuid, held in one['allocations'].items()
            if 'DISK_GB' in held['resources']
        )

    def list_disks(self, server: Any) -> list[str]:
        """Return the providers whose DISK_GB a server has."""
        held = self._get_allocations_by_server_uuid(server['id'])
        return [
            rp_uuid
            for rp_uuid, one in held.items()
            if 'DISK_GB' in one['resources']
        ]

    def make_disk_flavor(self, **specs: str) -> str:
        return str(
            self._create_flavor(
                vcpu=1, memory_mb=64, disk=10, ephemeral=0, extra_spec=specs
            )
        )

    def test_each_host_offers_its_own_beside_the_pool(self) -> None:
        own = [self.get_host(host).node.uuid for host in self.HOSTS]

        self.assertEqual(sorted([*own, *[uuids.nfs] * 3]), self.list_offers())

        server = self.boot(self.make_disk_flavor())
        [rp_uuid] = self.list_disks(server)
        self.assertIn(rp_uuid, [*own, uuids.nfs])

    def test_where_all_of_the_host_is_reserved_the_pool_has_it(self) -> None:
        root = self.get_host('host1').node.uuid
        total = self._get_provider_inventory(root)['DISK_GB']['total']
        self.flags(reserved_host_disk_mb=total * 1024)
        self._run_periodics()

        self.assertEqual([uuids.nfs] * 3, self.list_offers())
        flavor = self.make_disk_flavor()
        for _ in self.HOSTS:
            server = self.boot(flavor)
            self.assertEqual([uuids.nfs], self.list_disks(server))
        self.assertEqual({'DISK_GB': 30}, self._get_provider_usages(uuids.nfs))

    def test_a_class_of_its_own_takes_the_place_of_disk_gb(self) -> None:
        specs = {
            'resources:DISK_GB': '0',
            f'resources_POOL:{pools.CLASS}': '4',
        }

        server = self.boot(self.make_disk_flavor(**specs))

        self.assertEqual([], self.list_disks(server))
        self.assert_counted(4)
