# SPDX-License-Identifier: Apache-2.0

"""RMD has its records, and the kernel has nothing of them."""

from collections.abc import Callable
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import sqlite3

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd.api import odds
from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.host import manager
from nova_ext_resources.host.service import health
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import requirements
from nova_ext_resources.testing.rmd_simulator import classes as sim_classes
from nova_ext_resources.testing.rmd_simulator import faults
from tests import rmd_groups
from tests.unit.host import backend
from tests.unit.host import with_host

DOMAINS = with_host.DOMAINS

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
SHARED = uuidsentinel.shared
BURST = uuidsentinel.burst


class LostTestCase(with_host.RmdHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_rmd_host(burst_ways=3, shared_servers=2)

    def lose(self) -> None:
        """Boot the host; RMD's database was on a disk."""
        self.simulator.restart(keep_groups=False)

    def start_in_pool(self, uuid: str, resource_class: str, cpu: int) -> None:
        self.start(
            self.host,
            uuid,
            cpus=frozenset({cpu}),
            allocations={DOMAINS[0]: {resource_class: 1}},
            requirement=requirements.Requirement(),
        )

    def start_rmd_again(self) -> None:
        """Restart RMD, whose first start fails where its groups are gone."""
        with contextlib.suppress(sim_classes.StartFailed):
            self.simulator.restart()
        self.simulator.restart()

    def start_compute_again(self) -> None:
        """Go on with a process that knows what is in files."""
        self.host.close()
        losses.forget_all()
        self.host = self.make_rmd_host(burst_ways=3, shared_servers=2)
        self.host.reconcile(self.host.entries)

    def count_posts(self) -> int:
        return sum(one == 'POST' for one, _path in self.simulator.requests)

    def list_problems(self) -> list[tuple[str, str]]:
        return [(one.alarm, one.subject) for one in self.host.problems]


class LostTest(LostTestCase):
    def check_restored(self, lose: Callable[[], object]) -> None:
        for uuid, cpu in ((SERVER, 1), (OTHER, 2)):
            self.start(self.host, uuid, 2, cpus=frozenset({cpu}))
        before = self.host.entries
        lose()

        self.host.refresh()
        self.host.heal()

        self.assertEqual(before, self.host.entries)
        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)
        self.assertIn('the kernel lacks its ways 0x', self.log.output)
        self.assertEqual(
            {(alarm.APPLIED_AGAIN, SERVER), (alarm.APPLIED_AGAIN, OTHER)},
            {(one.name, one.subject) for one in self.observe()},
        )

    def observe(self) -> tuple[alarm.Alarm, ...]:
        """Return what ``/health`` and metrics show."""
        seen = health.Health('host1', enforcers=['rmd'])
        seen.observe_host(self.host)
        return seen.snapshot().alarms

    def test_a_boot_with_a_kept_database_is_noticed(self) -> None:
        self.check_restored(self.lose)

    def test_a_boot_without_its_database_is_no_alarm(self) -> None:
        self.start(self.host, SERVER)
        self.simulator.restart(keep_database=False)

        self.host.heal()

        self.assert_agreement(self.host)
        self.assertEqual((), self.observe())

    def test_a_mount_while_rmd_runs_is_mended_by_its_restart(self) -> None:
        self.check_restored(self.mount_and_restart)

    def mount_and_restart(self) -> None:
        self.simulator.remount()
        self.start_rmd_again()

    def test_ways_that_other_software_took_meanwhile_are_noticed(
        self,
    ) -> None:
        for uuid, resource_class in (
            (SERVER, classes.WAYS),
            (SHARED, classes.SHARED),
        ):
            with self.subTest(resource_class=resource_class):
                self.start_in_pool(uuid, resource_class, 4)
                masks = self.list_masks()
                self.lose()
                self.simulator.add_foreign_group('db', masks)

                self.host.heal()

                is_restored = resource_class == classes.WAYS
                self.assertEqual(is_restored, bool(self.list_masks()))
                self.assertEqual(is_restored, not self.host.problems)
                self.simulator.remove_foreign_group('db')
                self.host.heal()
                self.assertEqual((), self.host.problems)
                self.assertTrue(self.list_masks())
                self.host.release(uuid)

    def list_masks(self) -> dict[int, int]:
        """Return the ways of the server, without caches where it has all."""
        return {
            cache_id: mask
            for record in self.simulator.daemon.list_records()
            for cache_id, mask in self.simulator.groups[
                record.cos_name
            ].ways.items()
            if mask != 0x7FF
        }

    def test_what_cannot_be_applied_again_is_an_alarm(self) -> None:
        self.start(self.host, SERVER)
        self.lose()
        self.simulator.lie()

        self.host.heal()

        self.assertEqual(
            [
                (alarm.NOT_APPLIED, SERVER),
                (alarm.RESTART_NEEDED, 'rmd classes'),
            ],
            self.list_problems(),
        )
        self.simulator.lie(False)
        self.host.heal()
        self.assertEqual(
            [(alarm.RESTART_NEEDED, 'rmd classes')], self.list_problems()
        )
        self.assert_agreement(self.host)

    def test_a_server_that_starts_again_gets_its_ways(self) -> None:
        self.start(self.host, SERVER)
        self.lose()

        self.host.apply(SERVER)

        self.assert_agreement(self.host)

    def test_no_other_server_gets_the_ways_meanwhile(self) -> None:
        entry = self.start(self.host, SERVER, 2)
        self.lose()

        err = self.assertRaises(
            exception.EnforcementFailed,
            self.start,
            self.host,
            OTHER,
            2,
            cpus=frozenset({3}),
        )

        for words in ('L3_0', SERVER, 'next audit'):
            self.assertIn(words, str(err))
        self.assertEqual({SERVER}, set(self.list_in_force()))
        self.assertEqual({SERVER: entry}, self.host.entries)
        self.host.heal()
        self.start(self.host, OTHER, 2, cpus=frozenset({3}))
        self.assert_agreement(self.host)

    def test_one_that_was_applied_again_gets_its_own_ways(self) -> None:
        entry = self.start(self.host, SERVER, 2)
        self.start(self.host, OTHER, 2, cpus=frozenset({3}))
        self.lose()
        self.host.apply(OTHER)
        self.assert_consistent_in_the_end(entry.consumer_uuid)

    def assert_consistent_in_the_end(self, uuid: str) -> None:
        self.host.heal()

        self.assertIn(uuid, self.list_in_force())
        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)

    def test_burst_ways_are_noticed_too(self) -> None:
        self.start_in_pool(BURST, classes.BURST, 4)
        before = self.host.entries
        self.lose()

        self.host.heal()

        self.assertEqual(before, self.host.entries)
        self.assertEqual(0x380, self.simulator.ways_of(BURST)[0])

    def test_the_shared_pool_is_noticed_too(self) -> None:
        self.start_in_pool(SHARED, classes.SHARED, 4)
        self.start_in_pool(OTHER, classes.SHARED, 5)
        before = self.simulator.list_groups()
        self.lose()
        self.assertNotEqual(before, self.simulator.list_groups())
        changes = self.count_posts()

        self.host.heal()

        (group,) = (
            one for one in self.simulator.list_groups() if one['workloads']
        )
        self.assertEqual('4-5', group['cpus'])
        self.assertEqual({'0': '400', '1': '200'}, group['schemata']['L3'])
        self.assertEqual(changes + 1, self.count_posts())
        self.host.heal()
        self.assertEqual(changes + 1, self.count_posts())


class ClassesTest(LostTestCase):
    """RMD loses classes of service, and does not say so."""

    SETTINGS = {'plugins': ('pstate',)}  # noqa: RUF012

    def count_free(self) -> int:
        self.host.refresh()
        free: int = self.host.view.tracked[
            with_host.RDT, with_host.CLOS
        ].state.free
        return free

    def assert_lost(self, count: int) -> None:
        self.host.heal()

        (problem,) = (
            one
            for one in self.host.problems
            if one.alarm == alarm.RESTART_NEEDED
        )
        for words in (
            f'has lost {count} of its 8 classes',
            self.fixture.url,
            'stop RMD, remove its control groups (rmdir /sys/fs/resctrl/COS*)',
            'restart nova-compute',
        ):
            self.assertIn(words, str(problem))
        free = self.simulator.daemon.enforcement.classes.free
        self.assertEqual(len(free), self.count_free())

    def test_a_delete_without_effect_frees_nothing(self) -> None:
        before = self.find_ways()
        self.start(self.host, SERVER, 2)
        self.simulator.lie()

        self.host.release(SERVER)

        self.assertEqual({}, self.read_rows())
        self.assert_lost(1)
        after = self.find_ways()
        self.assertEqual(before.reserved + 2, after.reserved)
        self.simulator.lie(False)
        self.start(self.host, OTHER, 2)
        self.assert_agreement(self.host)
        self.assertEqual({1, 2}, self.simulator.group_of(OTHER).cpus)

    def find_ways(self) -> class_inventory.Inventory:
        return backend.find_inventory(self.host, DOMAINS[0], with_host.WAYS)

    def test_a_plugin_that_fails_is_tried_once(self) -> None:
        self.simulator.break_plugins()
        for number in range(3):
            err = self.assertRaises(
                exception.EnforcementFailed, self.start_with_plugin, number
            )

        self.assertIn('the RMD plugins (pstate) are not used again', str(err))
        self.assert_lost(1)
        self.start(self.host, OTHER, 2, cpus=frozenset({3}))
        self.assert_agreement(self.host)

    def start_with_plugin(self, number: int) -> None:
        self.start(
            self.host,
            SERVER,
            cpus=frozenset({4 + number}),
            requirement=requirements.Requirement(
                enforcers={'rmd': {'pstate_ratio': '1.5'}}
            ),
        )

    def test_when_libpqos_fails_few_classes_are_lost(self) -> None:
        self.simulator.lie()
        for _ in range(5):
            err = self.assertRaises(
                exception.EnforcementFailed, self.start, self.host, SERVER
            )

        self.assertIn('nothing is applied for some minutes', str(err))
        self.assertEqual({}, self.read_rows())
        self.assert_lost(2)
        self.assertEqual(4, self.count_free())

    def lose_two(self) -> None:
        """Lose one class by a POST, and one by a DELETE."""
        self.start(self.host, OTHER, cpus=frozenset({3}))
        self.simulator.lie()
        self.assertRaises(
            exception.EnforcementFailed, self.start, self.host, SERVER
        )
        self.host.release(OTHER)
        self.simulator.lie(False)

    def test_a_new_process_of_nova_compute_knows_them(self) -> None:
        self.lose_two()

        self.start_compute_again()

        self.assert_lost(2)
        self.start_compute_again()
        self.assert_lost(2)

    def test_what_could_not_be_written_is_written_later(self) -> None:
        write, fail = ledger_mod.Ledger.write_note, [True]

        def write_or_fail(
            ledger: ledger_mod.Ledger, name: str, text: str
        ) -> None:
            if fail:
                raise exception.LedgerError(path='/ledger', reason='full')
            write(ledger, name, text)

        with fixtures.MonkeyPatch(
            'nova_ext_resources.host.ledger.ledger.Ledger.write_note',
            write_or_fail,
        ):
            self.start_compute_again()
            self.lose_two()
            self.assert_lost(2)
            fail.clear()
            self.host.heal()
        self.start_compute_again()

        self.assert_lost(2)

    def test_a_note_that_is_none_is_left_out(self) -> None:
        for note in ('', '{', '[]', '[1, [{"x": 2}]]', '["x", [7]]', '[{}]'):
            self.host._ledger.write_note('rmd', note)

            self.start_compute_again()

            self.assertEqual((), self.host.problems)

    def test_after_a_restart_of_rmd_all_is_well(self) -> None:
        """Whichever way it is noticed, and in whichever order."""
        pid_file = self.useFixture(fixtures.TempDir()).join('rmd.pid')
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.rmd.api.losses.PID_FILE', pid_file
            )
        )
        # The last two are in another namespace of processes.
        pids = itertools.cycle([os.getpid(), 99999991, 99999992])

        def become_another_process() -> None:
            pathlib.Path(pid_file).write_text(f'{next(pids)}\n')

        become_another_process()
        for end in (become_another_process, self.notice_its_end):
            for is_compute_first in (False, True):
                self.start_compute_again()
                self.lose_two()
                self.host.heal()
                self.assert_lost(2)
                if is_compute_first:
                    self.start_compute_again()
                    self.assert_lost(2)
                end()
                self.simulator.restart(keep_groups=False)
                if not is_compute_first:
                    self.start_compute_again()
                self.host.heal()

                self.assertEqual((), self.host.problems)
                self.assertEqual(6, self.count_free())

    def notice_its_end(self) -> None:
        self.simulator.refuse_connections()
        self.host.refresh()

    def test_idle_cpus_are_no_proof_of_a_release(self) -> None:
        for number in range(5):
            uuid = f'{number}1111111-1111-4111-8111-111111111111'
            self.start(self.host, uuid, 1, cpus=frozenset({number + 1}))
        self.simulator.remount()

        for uuid in list(self.host.entries):
            self.host.release(uuid)

        self.assertEqual({}, self.read_rows())
        self.assert_lost(5)
        self.assertEqual(1, self.count_free())
        # No server has shown that libpqos works.
        self.start_compute_again()
        self.assert_lost(5)
        self.notice_its_end()
        self.start_rmd_again()
        self.start(self.host, SERVER)
        self.host.heal()
        self.assertEqual((), self.host.problems)

    def test_what_rmd_refuses_for_want_of_classes_is_lost(self) -> None:
        """Here something else has lost them, or nobody has seen it."""
        taken = self.simulator.daemon.enforcement.classes
        while taken.free:
            taken.take()

        self.assertRaises(
            exception.CapacityExceeded, self.start, self.host, SERVER
        )

        self.assert_lost(6)
        self.assertIn('num_closids', str(self.host.problems))


class KernelTest(LostTestCase):
    """The control groups of RMD can be read, as on a real host."""

    def setUp(self) -> None:
        super().setUp()
        self.shown = self.useFixture(rmd_groups.ShownGroups(self.simulator))

    def hide(self) -> contextlib.AbstractContextManager[object]:
        return fixtures.MonkeyPatch(
            'nova_ext_resources.drivers.rmd.api.client.RESCTRL', '/nowhere'
        )

    def find_group_problem(self) -> str:
        self.host.heal()
        (text,) = (
            one.text
            for one in self.host.problems
            if one.subject == 'rmd groups'
        )
        return text

    def leave_a_group(self) -> None:
        """Have RMD forget a group that the kernel keeps."""
        self.start(self.host, OTHER)
        self.simulator.lie()
        self.host.release(OTHER)
        self.simulator.lie(False)
        self.simulator.restart()
        self.start_compute_again()

    def test_a_group_that_rmd_has_forgotten_is_an_alarm(self) -> None:
        self.leave_a_group()

        text = self.find_group_problem()

        for words in (
            'COS2 (CPUs 1-2)',
            'rmdir /sys/fs/resctrl/COS*',
            self.fixture.url,
        ):
            self.assertIn(words, text)

    def test_no_server_shares_its_ways_with_one(self) -> None:
        self.leave_a_group()

        self.start(self.host, SERVER, cpus=frozenset({3}))

        self.assertEqual({3}, self.simulator.group_of(SERVER).cpus)
        self.assertEqual({1, 2}, self.simulator.groups['COS2'].cpus)
        self.assert_agreement(self.host)

    def test_where_it_cannot_be_avoided_it_is_an_alarm(self) -> None:
        """Here the groups cannot be read while the server starts."""
        self.leave_a_group()

        with self.hide():
            self.start_in_pool(SERVER, classes.BURST, 3)

        self.assertEqual({1, 2, 3}, self.simulator.group_of(SERVER).cpus)
        self.assertIn('COS2 (CPUs 1-2)', self.find_group_problem())

    def test_the_remedy_of_the_alarm_mends_it(self) -> None:
        self.leave_a_group()
        entry = self.start(self.host, SERVER, cpus=frozenset({3}))
        self.find_group_problem()

        self.simulator.refuse_connections()
        self.simulator.remove_groups()
        self.start_rmd_again()
        self.start_compute_again()
        self.host.heal()

        self.assertEqual((), self.host.problems)
        self.assertEqual({3}, self.simulator.group_of(SERVER).cpus)
        self.assertEqual({SERVER: entry.cpus}, self.list_cpus())
        self.assert_agreement(self.host)
        self.host.refresh()
        for number in range(5):
            uuid = f'{number}1111111-1111-4111-8111-111111111111'
            self.start(
                self.host,
                uuid,
                1,
                domain=1,
                cpus=frozenset({number + 13}),
            )
        self.assert_agreement(self.host)
        self.host.heal()
        self.assertEqual((), self.host.problems)

    def list_cpus(self) -> dict[str, frozenset[int] | None]:
        return {uuid: one.cpus for uuid, one in self.host.entries.items()}

    def test_groups_of_workloads_are_no_alarm(self) -> None:
        self.start(self.host, SERVER)
        self.start_in_pool(SHARED, classes.SHARED, 4)
        self.simulator.add_workload(
            {'core_ids': ['20'], 'rdt': {'cache': {'max': 1, 'min': 1}}}
        )

        self.host.heal()

        self.assertEqual((), self.host.problems)

    def test_a_mask_that_was_not_freed_is_seen_beside_a_full_cache(
        self,
    ) -> None:
        self.start(self.host, SERVER)
        self.start_in_pool(SHARED, classes.SHARED, 4)
        self.simulator.lie(calls={'free_mask'})

        self.host.release(SHARED)
        self.host.heal()

        self.assertIn('COS3 (CPUs none)', self.find_group_problem())
        self.assertIn(
            (alarm.RESTART_NEEDED, 'rmd classes'), self.list_problems()
        )

    def start_with_limit(self) -> None:
        self.start(
            self.host,
            SERVER,
            allocations={DOMAINS[0]: {classes.WAYS: 2, classes.PERCENT: 30}},
            requirement=requirements.Requirement(),
        )

    def test_bandwidth_that_was_not_applied_is_noticed(self) -> None:
        self.simulator.lie(calls={'bandwidth'})

        err = self.assertRaises(
            exception.EnforcementFailed, self.start_with_limit
        )

        self.assertIn('memory bandwidth by cache is {0: 100}', str(err))
        self.assertEqual({}, self.list_in_force())
        self.simulator.lie(False)
        self.start_with_limit()
        self.assertEqual(30, self.simulator.group_of(SERVER).bandwidth[0])

    def test_bandwidth_that_is_lost_is_applied_again(self) -> None:
        self.start_with_limit()
        group = self.simulator.group_of(SERVER)
        self.assertEqual({0: 30, 1: 100}, group.bandwidth)
        group.bandwidth[0] = 100
        self.shown.show()

        self.host.heal()

        group = self.simulator.group_of(SERVER)
        self.assertEqual({0: 30, 1: 100}, group.bandwidth)
        self.assertEqual((), self.host.problems)

    def test_where_groups_cannot_be_read_bandwidth_is_not_verified(
        self,
    ) -> None:
        said = 'no limit of memory bandwidth is verified'
        self.start_compute_again()
        before = self.log.output.count(said)

        with self.hide():
            self.start_compute_again()

        self.assertEqual(before + 1, self.log.output.count(said))


class WantTest(LostTestCase):
    """RMD has lost its database, and the kernel kept its groups."""

    SETTINGS = {'has_cache_mixup': True, 'mixup_odds': 1.0}  # noqa: RUF012

    def test_ways_that_are_wanting_are_no_misses(self) -> None:
        add = self.useFixture(fixtures.MockPatchObject(odds.Odds, 'add')).mock
        self.start(self.host, SERVER, 2)
        for uuid, cpu in ((SHARED, 4), (OTHER, 5)):
            self.start_in_pool(uuid, classes.SHARED, cpu)
        add.reset_mock()
        self.simulator.restart(keep_database=False, keep_groups=True)

        self.host.heal()

        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)
        self.assertEqual(
            [], [one for one in add.mock_calls if one.kwargs['is_miss']]
        )

    def assert_agreement(self, host: manager.HostManager) -> None:
        self.assertEqual({1, 2}, self.simulator.group_of(SERVER).cpus)
        (pool,) = (
            one
            for one in self.simulator.list_groups()
            if one['schemata']['L3'] == {'0': '400', '1': '200'}
            and one['workloads']
        )
        self.assertEqual('4-5', pool['cpus'])


class ReadOnlyTest(LostTestCase):
    """These credentials may read, and not create."""

    def test_nothing_is_offered_that_cannot_be_created(self) -> None:
        self.host.close()
        self.simulator.faults.add(
            faults.Fault(
                kind='status',
                status=403,
                body='User "nova" is not authorized to access this resource\n',
                methods=('POST', 'DELETE'),
            )
        )

        self.host = self.make_rmd_host()

        self.assertEqual({}, dict(self.host.view.tracked))
        self.assertIn('policy.csv', self.log.output)
        self.simulator.faults.clear()
        self.host.refresh()
        self.assertNotEqual({}, dict(self.host.view.tracked))
        self.start(self.host, SERVER)


class RecordFailsTest(LostTestCase):
    """RMD has granted other ways, and the ledger has the old ones."""

    def setUp(self) -> None:
        super().setUp()
        self.start(self.host, OTHER, 3, cpus=frozenset({5}))
        self.start(self.host, SERVER, 2)
        self.host.release(OTHER)
        self.simulator.restart(keep_database=False)

    def heal_without_ledger(self, error: BaseException) -> None:
        def put(_ledger: object, _entry: assignment.Entry) -> None:
            raise error

        with fixtures.MonkeyPatch(
            'nova_ext_resources.host.ledger.ledger.Ledger.put', put
        ):
            self.host.heal()

    def assert_differs(self) -> None:
        ways = self.host.entries[SERVER].assignments[0]
        self.assertNotEqual(
            f'{self.simulator.ways_of(SERVER)[0]:x}', ways.units['mask']
        )

    def test_the_next_audit_records_what_rmd_has_granted(self) -> None:
        self.heal_without_ledger(
            exception.LedgerError(path='/ledger', reason='full')
        )
        self.assertEqual([(alarm.LEDGER_FAILED, SERVER)], self.list_problems())
        self.assert_differs()
        posts = self.count_posts()

        self.host.heal()

        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)
        self.assertEqual(posts, self.count_posts())

    def test_a_crash_is_noticed_at_the_next_start(self) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            self.heal_without_ledger(KeyboardInterrupt())
        self.assert_differs()

        self.host.close()
        self.host = self.make_rmd_host()
        self.host.reconcile([SERVER])

        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)

    def test_so_is_one_after_which_another_got_the_old_ways(self) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            self.heal_without_ledger(KeyboardInterrupt())
        # All of it, with the old ways in the ledger of the former process.
        (ways,) = classes.pick(
            self.host.entries[SERVER].assignments, classes.WAYS
        )
        old = bitmask.parse_mask(ways.units['mask'])
        self.simulator.add_foreign_group('db', {0: 0x7E & ~old & ~0x60})
        self.host.enforcement.apply(
            with_other_uuid(self.host.entries[SERVER], OTHER)
        )
        self.simulator.remove_foreign_group('db')
        self.host._ledger.put(
            dataclasses.replace(
                with_other_uuid(self.host.entries[SERVER], OTHER),
                state=assignment.State.APPLIED,
            )
        )
        self.assertEqual(old, self.simulator.ways_of(OTHER)[0])

        self.host.close()
        self.host = self.make_rmd_host()
        self.host.reconcile([SERVER, OTHER])

        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)


class DamagedTest(LostTestCase):
    """The ledger has one way for a server to which four were allocated."""

    def start_with_mask(self, mask: str) -> None:
        self.start(self.host, SERVER, 4)
        self.assertEqual(0x78, self.simulator.ways_of(SERVER)[0])
        self.host.close()
        with contextlib.closing(sqlite3.connect(self.ledger_path)) as db, db:
            db.execute(
                'UPDATE assignment SET units = ? WHERE resource_class = ?',
                [json.dumps({'mask': mask}), classes.WAYS],
            )
        self.host = self.make_rmd_host()
        self.host.reconcile([SERVER])

    def test_one_of_those_that_it_has(self) -> None:
        self.start_with_mask('8')

        self.assertEqual(0x78, self.simulator.ways_of(SERVER)[0])
        self.assertEqual(
            [(alarm.OVERALLOCATED, f'L3_0 {classes.WAYS}')],
            self.list_problems(),
        )

    def test_another_one(self) -> None:
        self.start_with_mask('2')

        self.assertEqual(0x78, self.simulator.ways_of(SERVER)[0])
        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)


def with_other_uuid(entry: assignment.Entry, uuid: str) -> assignment.Entry:
    return dataclasses.replace(
        entry,
        consumer_uuid=uuid,
        server_uuid=uuid,
        state=assignment.State.RELEASING,
        cpus=frozenset({5}),
    )
