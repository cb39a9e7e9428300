# SPDX-License-Identifier: Apache-2.0

"""Servers with CPUs of several caches, which have their amount in each."""

from collections.abc import Mapping
import pathlib
from typing import Any
from unittest import mock

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.facts import operation
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.driver import events
from tests.functional.virt import backends
from tests.functional.virt import life
from tests.functional.virt import live
from tests.functional.virt import moves
from tests.functional.virt import moving

State = assignment.State

WAYS = 'CUSTOM_LLC_WAYS'


class SpreadRmdMovesTest(backends.SpreadRmd, moves.MovesSuite):
    pass


class SpreadMovesTest(backends.SpreadResctrl, moves.MovesSuite):
    pass


class SpreadOneHostTest(backends.SpreadResctrl, moves.OneHostSuite):
    pass


class SpreadLifeTest(backends.SpreadResctrl, life.LifeSuite):
    pass


class SpreadLiveTest(backends.SpreadResctrl, live.LiveSuite):
    pass


class SpreadTestCase(backends.SpreadResctrl):
    """Hosts of two caches. ``self.most`` leaves two ways of one free."""

    def setUp(self) -> None:
        super().setUp()
        keys = {k: u for u, k in self.get_host('host1').view.keys.items()}
        self.caches = [keys['L3_0'], keys['L3_1']]
        found = self._get_provider_inventory(self.caches[1])[WAYS]
        self.most = found['total'] - found['reserved'] - 2

    def list_more(self, amount: int) -> dict[str, int]:
        return {}

    def list_allocated(self, server: Any) -> dict[str, int]:
        """Return the ways that placement has for a server, by provider."""
        found = self._get_allocations_by_server_uuid(server['id'])
        return {
            rp_uuid: one['resources'][WAYS]
            for rp_uuid, one in found.items()
            if WAYS in one['resources']
        }

    def allocate(self, consumer: str, allocations: Mapping[str, int]) -> None:
        """Allocate ways to a consumer, and nothing else."""
        self._delete_server_allocations(consumer)
        answer = self.placement.put(
            f'/allocations/{consumer}',
            {
                'allocations': {
                    rp_uuid: {'resources': {WAYS: amount}}
                    for rp_uuid, amount in allocations.items()
                },
                'project_id': uuidsentinel.project,
                'user_id': uuidsentinel.user,
                'consumer_generation': None,
            },
            version='1.28',
        )
        self.assertEqual(204, answer.status)


class OneHostTest(SpreadTestCase):
    HOSTS = ('host1',)

    def test_both_caches_have_it_until_the_server_is_deleted(self) -> None:
        server = self.boot(self.make_own_flavor(4))

        self.assertEqual(
            dict.fromkeys(self.caches, 4), self.list_allocated(server)
        )
        self.assert_agreement(host1={server['id']: State.APPLIED})
        self._delete_server(server)
        self.assertEqual({}, self.list_allocated(server))
        self.assert_agreement()

    def test_a_server_of_one_cache_causes_nothing(self) -> None:
        self.DOMAINS = 1
        with mock.patch(
            'nova_ext_resources.placement.allocations.set_allocations'
        ) as written:
            server = self.boot(self.make_pinned_flavor(4))

        written.assert_not_called()
        self.assertEqual([4], [*self.list_allocated(server).values()])
        self.assert_agreement(host1={server['id']: State.APPLIED})

    def test_what_is_missing_is_refused_and_stays_nowhere(self) -> None:
        other = self.boot(self.make_pinned_flavor(self.most))

        server = self.boot(self.make_own_flavor(4), state='ERROR')

        (full,) = self.list_allocated(other)
        key = self.get_host('host1').view.keys[full]
        self.assertIn(
            f'{WAYS} of {key}: 4 requested, 2 available',
            self.find_reason(server),
        )
        self.assertEqual({}, self.list_allocated(server))
        self.assertEqual([other['id']], [*self.get_host('host1').entries])

    def test_what_only_placement_knows_to_be_missing(self) -> None:
        self.allocate(uuidsentinel.other, {self.caches[1]: self.most})

        server = self.boot(self.make_own_flavor(4), state='ERROR')

        reason = self.find_reason(server)
        self.assertIn(f'{WAYS} of L3_1: 4 requested, 2 available', reason)
        self.assertIn(
            'placement has allocated the cache to other servers', reason
        )
        self.assertEqual({}, self.list_allocated(server))
        self.assertEqual({}, self.get_host('host1').entries)
        self.assertEqual({}, self.list_applied('host1'))

    def find_reason(self, server: Any) -> str:
        (reason,) = self.list_reasons(server, events.CLAIM)
        return reason

    def test_resize_to_one_cache_and_back(self) -> None:
        self.flags(allow_resize_to_same_host=True)
        both, one = self.make_own_flavor(2), self.make_pinned_flavor(4)
        server = self.boot(both)

        for flavor, expected in ((one, [4]), (both, [2, 2])):
            self.resize(server, flavor)
            self.assertEqual(expected, [*self.list_allocated(server).values()])
            self.revert(server)
            self.resize(server, flavor)
            self.confirm(server)
            self.assertEqual(expected, [*self.list_allocated(server).values()])
            held = self.get_host('host1').entries
            self.assertEqual([server['id']], [*held])
            self._assert_placement('host1', held)
            self.assert_no_difference('host1')

    def test_a_server_that_is_rebuilt_on_other_cpus(self) -> None:
        server = self.boot(self.make_own_flavor(4))
        instance = moving.find_instance(server['id'])
        driver = self.services['host1'].driver
        for number, cell in enumerate(instance.numa_topology.cells):
            cell.cpu_pinning = dict.fromkeys(cell.pcpuset, 13 + number)

        driver._ext_claims.claim(
            None,
            instance,
            self._get_allocations_by_server_uuid(server['id']),
            operation.Operation.REBUILD,
        )

        self.assertEqual({self.caches[1]: 4}, self.list_allocated(server))
        self.assert_no_difference('host1')


class GroupsTest(SpreadTestCase):
    """A host that does not spread; two request groups have it of both."""

    HOSTS = ('host1',)
    DOMAINS = 1

    def _write_conf(self) -> None:
        super()._write_conf()
        path = self.folder / 'ext.conf'
        path.write_text(path.read_text().replace('= each', '= refuse'))

    def test_what_placement_has_is_never_set(self) -> None:
        with mock.patch(
            'nova_ext_resources.placement.allocations.set_allocations'
        ) as written:
            server = self.boot(
                self.make_flavor(
                    hw__cpu_policy='dedicated',
                    hw__numa_nodes=2,
                    group_policy='isolate',
                    resources_A__CUSTOM_LLC_WAYS=4,
                    resources_B__CUSTOM_LLC_WAYS=4,
                )
            )
            self.assert_agreement(host1={server['id']: State.APPLIED})
            self.allocate(server['id'], {self.caches[0]: 4})
            (problem,) = self.list_differences('host1')

        written.assert_not_called()
        self.assertEqual({self.caches[0]: 4}, self.list_allocated(server))
        self.assertEqual(alarm.NOT_IN_PLACEMENT, problem.alarm)
        self.assertIn(f'holds 4 {WAYS} of L3_1', problem.text)
        (one,) = self.get_host('host1').state.unallocated[server['id']]
        self.assertEqual((self.caches[1], 4), (one.rp_uuid, one.amount))


class KilledTest(SpreadTestCase):
    """nova-compute was killed between the ledger and placement."""

    HOSTS = ('host1',)

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(4))

    def assert_all(self) -> None:
        self.assertEqual(
            dict.fromkeys(self.caches, 4), self.list_allocated(self.server)
        )
        self.assert_agreement(host1={self.server['id']: State.APPLIED})

    def test_what_placement_lacks_is_allocated(self) -> None:
        self.allocate(self.server['id'], {self.caches[0]: 4})

        self.restart('host1')

        self.assertEqual((), self.list_differences('host1'))
        self.assert_all()

    def test_what_cannot_be_allocated_is_told(self) -> None:
        self.allocate(self.server['id'], {self.caches[0]: 4})
        self.allocate(uuidsentinel.other, {self.caches[1]: self.most})

        (problem,) = self.list_differences('host1')

        self.assertIn('on some of these providers only', problem.text)
        self.assertIn('L3_1: 4 requested, 2 available', problem.text)
        self._delete_server_allocations(uuidsentinel.other)
        self.assertEqual((), self.list_differences('host1'))
        self.assert_all()

    def lose_ledger(self) -> None:
        path = self.get_ext('host1')._ledger_path
        self.stop_compute(self.services['host1'])
        for suffix in ('', '-wal', '-shm', '.lock'):
            pathlib.Path(f'{path}{suffix}').unlink(missing_ok=True)

        self.services['host1'] = self.start_again(self.services['host1'])
        self.wait_until(lambda: self.get_host('host1').entries)

    def test_a_ledger_that_is_lost(self) -> None:
        self.lose_ledger()

        self.assert_all()

    def test_a_ledger_that_is_lost_and_units_that_another_has(self) -> None:
        before = self.list_applied('host1')
        self.allocate(self.server['id'], {self.caches[0]: 4})
        self.allocate(uuidsentinel.other, {self.caches[1]: self.most})

        self.lose_ledger()

        self.assertEqual(before, self.list_applied('host1'))
        (problem,) = self.list_differences('host1')
        # Placement may still have what was applied as used by others.
        self.assertRegex(problem.text, 'L3_1: 4 requested, [02] available')
        self._delete_server_allocations(uuidsentinel.other)
        self.assertEqual((), self.list_differences('host1'))
        self.assert_all()

    def test_an_option_that_was_changed_takes_nothing_away(self) -> None:
        path = self.folder / 'ext.conf'
        path.write_text(path.read_text().replace('= each', '= refuse'))

        self.restart('host1')

        self.assert_all()
        self._reboot_server(self.server, hard=True)
        self.assert_all()


class RefusedMovesTest(SpreadTestCase):
    """One of the other host's caches has too little left."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.boot(
            self.make_pinned_flavor(self.most), host='host2'
        )
        self.server = self.boot(self.make_own_flavor(4), host='host1')
        self.before = self._get_allocations_by_server_uuid(self.server['id'])
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.scheduler.filters.'
                'ExtendedResourcesFilter.filter_all',
                lambda _self, hosts, _spec: list(hosts),
            )
        )

    def assert_unchanged(self) -> None:
        after = self._get_allocations_by_server_uuid(self.server['id'])
        self.assertEqual(
            {u: one['resources'] for u, one in self.before.items()},
            {u: one['resources'] for u, one in after.items()},
        )
        for host, uuid in (('host1', self.server), ('host2', self.other)):
            held = self.get_host(host).entries
            self.assertEqual([uuid['id']], [*held])
            self._assert_placement(host, held)
            self.assert_no_difference(host)

    def test_a_boot_tries_the_next_host(self) -> None:
        for _ in range(2):
            server = self.boot(self.make_own_flavor(3))
            self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
            self._delete_server(server)
        self.assert_unchanged()

    def test_cold_migration(self) -> None:
        self.act(self.server, 'migrate')
        self._wait_for_migration_status(self.server, ['error'])
        self._wait_for_server_parameter(
            self.server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )

        self.assert_unchanged()

    def test_live_migration(self) -> None:
        self.act(
            self.server, 'os-migrateLive', host=None, block_migration='auto'
        )
        self._wait_for_migration_status(self.server, ['error', 'failed'])
        self._wait_for_server_parameter(
            self.server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )

        self.assert_unchanged()

    def test_evacuation(self) -> None:
        self.stop_compute(self.services['host1'])
        ref = self.services['host1'].service_ref.uuid
        self.admin_api.put_service_force_down(ref, True)

        self._evacuate_server(
            self.server,
            expected_host='host1',
            expected_state='ERROR',
            expected_migration_status='failed',
        )

        self.services['host1'] = self.start_again(self.services['host1'])
        self.admin_api.put_service_force_down(ref, False)
        self.assert_unchanged()
