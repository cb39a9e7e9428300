# SPDX-License-Identifier: Apache-2.0

"""Servers that are gone without a word to their host."""

from collections.abc import Sequence
import dataclasses
import itertools
from typing import Any

import fixtures
from nova.compute import task_states
from nova.compute import vm_states
from nova import context as nova_context
from nova.db.main import api as nova_db
from nova import objects

from nova_ext_resources.facts import deletion_evidence
from nova_ext_resources.host.reconcile.rules import absence as missing
from nova_ext_resources.host.service import periodic
from nova_ext_resources.objects import alarm
from nova_ext_resources.testing import fake_clock
from nova_ext_resources.virt.facts import deletion_proof
from tests.functional.virt import backends
from tests.functional.virt import breaking
from tests.functional.virt import moving
from tests.functional.virt import test_wrong_cell

_REPAIR = '[ext_resources]\nrelease_orphaned_entries = True\n'

#: Seconds between two comparisons of hosts that refresh once in an hour.
_PAUSE = periodic.find_pause(3600)

#: Comparisons that make an entry an orphan.
_COUNT = int(missing.find_least_age(_PAUSE, 1800) / _PAUSE) + 2


def remove(uuid: str) -> None:
    """Delete a server of which nova-compute does not hear."""
    moving.find_instance(uuid).destroy()


def leave(uuid: str) -> None:
    """Have Nova's database say that a server is on host2."""
    instance = moving.find_instance(uuid)
    instance.host = 'host2'
    instance.save()


class Missing:
    """What tests do of servers that are gone from host1; a mixin."""

    services: dict[str, Any]
    get_ext: Any
    get_host: Any
    compare: Any
    now = 0.0

    @property
    def orphans(self) -> Any:
        return self.get_ext('host1').orphaned_entries

    def lose_guest(self, uuid: str) -> None:
        del self.services['host1'].driver.instances[uuid]

    def compare_for(self, count: int = _COUNT) -> None:
        for _ in range(count):
            self.now += _PAUSE
            with fixtures.MockPatchObject(
                self.orphans,
                '_clock',
                fake_clock.FakeClock(lambda: self.now),
            ):
                self.compare('host1')

    def list_alarms(self) -> list[tuple[str, str]]:
        self.get_ext('host1').periodic.run_round()
        found = self.get_ext('host1').metrics.read_health().alarms
        return [(one.name, one.subject) for one in found]

    def read_alarm(self) -> str:
        """Return the text of the only one, an orphaned entry."""
        (problem,) = self.orphans.problems
        return str(problem.text)


class ReleasedTest(Missing, backends.Rmd):
    """Its settings are removed, too."""

    host_options = _REPAIR

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']

    def test_what_it_had_is_released(self) -> None:
        leave(self.uuid)
        self.lose_guest(self.uuid)
        self.compare_for(_COUNT - 1)
        self.assertEqual([(alarm.NOT_IN_NOVA, self.uuid)], self.list_alarms())
        self.assertEqual([self.uuid], list(self.list_applied('host1') or ()))

        self.compare_for(1)

        self.assertEqual({}, self.get_host('host1').entries)
        self.assertEqual({}, self.list_applied('host1'))
        self._assert_ledger('host1', {})
        self._assert_view('host1', {})
        self.assertEqual([], self.list_alarms())
        self.assertEqual(
            self.get_host('host1').stats(), self.read_view('host1')
        )

    def test_what_placement_has_of_it_is_left_to_the_operator(self) -> None:
        leave(self.uuid)
        self.lose_guest(self.uuid)
        before = self._get_allocations_by_server_uuid(self.uuid)

        self.compare_for()

        self.assertEqual(
            before, self._get_allocations_by_server_uuid(self.uuid)
        )
        self.assertIn('left in placement', self.stdlog.logger.output)
        (told,) = self.list_unheld('host1')
        self.assertEqual(
            (alarm.STALE_ALLOCATION, self.uuid), (told.alarm, told.subject)
        )


class ReportedTest(Missing, breaking.BreakingTestCase):
    """Without the option, nothing is released while nova-compute runs."""

    def test_until_a_restart(self) -> None:
        leave(self.uuid)
        self.lose_guest(self.uuid)

        self.compare_for(2 * _COUNT)

        self.assertEqual(
            [(alarm.ORPHANED_ENTRY, self.uuid)], self.list_alarms()
        )
        self.assertIn('release_orphaned_entries = True', self.read_alarm())
        self.assertEqual({self.uuid}, {*self.get_host('host1').entries})
        self.restart('host1')
        self.assertEqual({}, self.get_host('host1').entries)
        self.assertEqual([], self.list_alarms())


class DoubtTest(Missing, breaking.BreakingTestCase):
    """A server on host1 whose guest is gone."""

    host_options = _REPAIR

    def setUp(self) -> None:
        super().setUp()
        self.lose_guest(self.uuid)
        self.before = dict(self.get_host('host1').entries)

    def put(self, host: str, task_state: str | None = None) -> None:
        instance = moving.find_instance(self.uuid)
        instance.host = host
        instance.task_state = task_state
        instance.save()

    def make_migration(self, **fields: Any) -> Any:
        made = objects.Migration(
            context=nova_context.get_admin_context(),
            **{
                'instance_uuid': self.uuid,
                'migration_type': 'evacuation',
                'status': 'accepted',
                'source_compute': 'host1',
                'source_node': 'host1',
                'dest_compute': 'host2',
                **fields,
            },
        )
        made.create()
        return made

    def fail_once(self, subject: Any, method: str, after: int = 0) -> None:
        """Have a method fail, once, after so many calls."""
        call = getattr(subject, method)
        numbers = itertools.count()

        def fail(*args: Any, **kwargs: Any) -> Any:
            if next(numbers) == after:
                raise OSError(f'{method} is away')
            return call(*args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(subject, method, fail))

    def assert_kept(self, *words: str) -> None:
        self.assertEqual(self.before, self.get_host('host1').entries)
        self.assertEqual(
            [(alarm.ORPHANED_ENTRY, self.uuid)], self.list_alarms()
        )
        for one in ('host1', self.uuid, *words):
            self.assertIn(one, self.read_alarm())

    def assert_young(self) -> None:
        self.assertEqual(self.before, self.get_host('host1').entries)
        self.assertEqual([(alarm.NOT_IN_NOVA, self.uuid)], self.list_alarms())

    def assert_released(self) -> None:
        self.assertEqual({}, self.get_host('host1').entries)
        self.assertEqual([], self.list_alarms())

    def test_a_server_that_nova_has_elsewhere(self) -> None:
        self.put('host2')

        self.compare_for()

        self.assert_released()
        self.assertIn(
            'Nova has the server on host host2', self.stdlog.logger.output
        )

    def test_one_that_comes_back_in_time(self) -> None:
        self.put('host2')
        self.compare_for(_COUNT - 1)
        self.put('host1')
        self.compare_for(1)
        self.assertEqual([], self.list_alarms())
        self.put('host2')

        self.compare_for(_COUNT - 1)

        self.assert_young()

    def test_one_that_comes_back_at_the_last_moment(self) -> None:
        """After it was compared, before it was asked about again."""
        self.put('host2')
        self.compare_for(_COUNT - 1)
        repair = self.orphans._repair_one

        def come(one: Any) -> Any:
            self.put('host1')
            return repair(one)

        with fixtures.MockPatchObject(self.orphans, '_repair_one', come):
            self.compare_for(1)

        self.assert_kept('Nova has the server on this host')
        self.compare_for(1)
        self.assertEqual([], self.list_alarms())

    def test_one_that_migrates(self) -> None:
        self.put('host2', task_states.MIGRATING)
        self.make_migration(
            migration_type='live-migration',
            status='running',
            source_compute='host2',
            dest_compute='host1',
        )

        self.compare_for(2 * _COUNT)

        self.assertEqual(self.before, self.get_host('host1').entries)
        self.assertNotIn((alarm.ORPHANED_ENTRY, self.uuid), self.list_alarms())

    def test_an_evacuation_that_has_not_ended(self) -> None:
        self.put('host2')
        made = self.make_migration()
        for status in ('accepted', 'pre-migrating'):
            made.status = status
            made.save()
            self.compare_for()
            self.assert_kept('evacuation', made.uuid, f'"{status}"')
        made.status = 'done'
        made.save()

        self.compare_for(1)

        self.assert_released()

    def test_nova_is_away_once(self) -> None:
        self.put('host2')
        self.compare_for(_COUNT - 1)
        self.fail_once(objects.InstanceList, 'get_by_host')

        self.compare_for(1)

        self.assert_young()
        self.compare_for(_COUNT - 1)
        self.assert_released()

    def test_the_hypervisor_is_away_once(self) -> None:
        self.put('host2')
        self.compare_for(_COUNT - 1)
        self.fail_once(self.services['host1'].driver, 'list_instance_uuids')

        self.compare_for(1)

        self.assert_young()

    def test_the_hypervisor_is_away_when_it_is_asked_again(self) -> None:
        self.put('host2')
        self.compare_for(_COUNT - 1)
        # After the comparison, and what the servers here request.
        self.fail_once(
            self.services['host1'].driver, 'list_instance_uuids', after=2
        )

        self.compare_for(1)

        self.assert_kept('OSError')
        self.assertIn('list_instance_uuids is away', self.stdlog.logger.output)
        self.compare_for(1)
        self.assert_released()

    def test_one_of_which_the_cell_has_no_record(self) -> None:
        remove(self.uuid)
        nova_db.archive_deleted_rows(max_rows=1000)
        self.compare_for()
        self.assert_kept("Nova's API has the server in cell cell1")
        context = nova_context.get_admin_context()
        objects.InstanceMapping.get_by_instance_uuid(
            context, self.uuid
        ).destroy()

        self.compare_for(1)

        self.assert_kept('neither the database of this cell nor the API')
        self.restart('host1')
        self.assert_released()

    def test_the_api_cannot_be_asked(self) -> None:
        """The conductor of a cell may have no access to its database."""
        remove(self.uuid)
        nova_db.archive_deleted_rows(max_rows=1000)
        self.compare_for(_COUNT - 1)
        self.fail_once(objects.InstanceMapping, 'get_by_instance_uuid')

        self.compare_for(1)

        self.assert_kept('did not answer the second request')


class WrongCellTest(Missing, breaking.BreakingTestCase):
    """Another cell's database answers a nova-compute that runs."""

    NUMBER_OF_CELLS = 2
    host_options = _REPAIR

    def test_a_server_that_the_api_knows_is_kept(self) -> None:
        self.lose_guest(self.uuid)
        self.useFixture(test_wrong_cell.InCell(self.cell_mappings['cell2']))

        self.compare_for()

        self.assertEqual({self.uuid}, {*self.get_host('host1').entries})
        self.assertIn('in cell cell1', self.read_alarm())
        self.assertNotIn('restart', self.read_alarm())

    def boot_more(self) -> None:
        for _ in range(3):
            self.boot(self.make_own_flavor(1), host='host1')
        self.before = dict(self.get_host('host1').entries)

    def assert_not_examined(self, *missing: str) -> None:
        self.useFixture(test_wrong_cell.InCell(self.cell_mappings['cell2']))

        self.compare_for()

        self.assertEqual(self.before, self.get_host('host1').entries)
        found = self.orphans.problems
        self.assertEqual({*missing}, {one.subject for one in found})
        for one in found:
            self.assertIn('most of the entries', one.text)

    def test_nothing_is_examined_if_all_are_missing(self) -> None:
        self.boot_more()
        self.services['host1'].driver.instances.clear()

        self.assert_not_examined(*self.before)

    def test_nothing_is_examined_if_only_guests_are_left(self) -> None:
        self.boot_more()
        self.lose_guest(self.uuid)

        self.assert_not_examined(self.uuid)

    def test_what_both_databases_lack_is_kept(self) -> None:
        """As where both were restored from a backup."""
        self.lose_guest(self.uuid)
        objects.InstanceMapping.get_by_instance_uuid(
            nova_context.get_admin_context(), self.uuid
        ).destroy()
        self.useFixture(test_wrong_cell.InCell(self.cell_mappings['cell2']))

        self.compare_for()

        self.assertEqual({self.uuid}, {*self.get_host('host1').entries})
        self.assertIn('neither the database', self.read_alarm())


class EvidenceTest(breaking.BreakingTestCase):
    """What Nova has of a server, and what that proves on host1."""

    def setUp(self) -> None:
        super().setUp()
        self.entry = self.get_host('host1').entries[self.uuid]

    def find(
        self, guests: Sequence[str] = (), **fields: Any
    ) -> deletion_evidence.Evidence:
        entry = dataclasses.replace(self.entry, **fields)
        return deletion_proof.find('host1', entry, guests)

    def set_state(
        self,
        host: str | None,
        vm_state: str = vm_states.ACTIVE,
        task_state: str | None = None,
    ) -> None:
        instance = moving.find_instance(self.uuid)
        instance.host = host
        instance.vm_state = vm_state
        instance.task_state = task_state
        instance.save()

    def test_what_nova_has_of_the_server(self) -> None:
        for is_proof, host, vm_state, task_state in (
            (False, 'host1', vm_states.ACTIVE, None),
            # It can be restored.
            (False, 'host1', vm_states.SOFT_DELETED, None),
            (True, 'host2', vm_states.ACTIVE, None),
            (False, 'host2', vm_states.ACTIVE, task_states.MIGRATING),
            (False, 'host2', vm_states.BUILDING, None),
            (False, None, vm_states.BUILDING, None),
            (False, None, vm_states.ACTIVE, None),
            (True, None, vm_states.SHELVED_OFFLOADED, None),
            (
                False,
                None,
                vm_states.SHELVED_OFFLOADED,
                task_states.SPAWNING,
            ),
            (True, None, vm_states.ERROR, None),
        ):
            with self.subTest(host=host, state=vm_state, task=task_state):
                self.set_state(host, vm_state, task_state)
                found = self.find()
                self.assertIs(is_proof, found.is_proof)
                self.assertTrue(found.words)

    def test_a_guest_of_the_server_or_of_the_consumer(self) -> None:
        self.set_state('host2')
        kept = {'consumer_uuid': 'migration'}

        for guests, expected in (
            ([], True),
            (['another'], True),
            ([self.uuid], False),
            (['migration'], False),
        ):
            found = self.find(guests, **kept)
            self.assertIs(expected, found.is_proof)

    def test_a_deleted_server(self) -> None:
        remove(self.uuid)

        self.assertEqual(
            deletion_evidence.Evidence(
                words='Nova has deleted the server', is_proof=True
            ),
            self.find(),
        )

    def test_moves_that_may_bring_it_here(self) -> None:
        self.set_state('host2')
        made = objects.Migration(
            context=nova_context.get_admin_context(),
            instance_uuid=self.uuid,
            migration_type='migration',
            status='finished',
            source_compute='host1',
            dest_compute='host2',
        )
        made.create()
        for is_proof, kind, status, source, target in (
            # It waits for a confirmation.
            (False, 'migration', 'finished', 'host1', 'host2'),
            (False, 'resize', 'finished', 'host2', 'host1'),
            (True, 'resize', 'finished', 'host2', 'host3'),
            (True, 'resize', 'confirmed', 'host1', 'host2'),
            # Nova has given it up, without an end.
            (True, 'migration', 'migrating', 'host1', 'host2'),
            (False, 'evacuation', 'accepted', 'host1', 'host2'),
            (True, 'evacuation', 'done', 'host1', 'host2'),
            (True, 'live-migration', 'completed', 'host1', 'host2'),
            (True, 'live-migration', 'preparing', 'host1', 'host2'),
            # The guest may be on its way without Nova, and Nova does not
            # record each host that it has asked.
            (False, 'live-migration', 'running', 'host2', 'host3'),
        ):
            with self.subTest(kind=kind, status=status, source=source):
                made.migration_type = kind
                made.status = status
                made.source_compute = source
                made.dest_compute = target
                made.save()
                self.assertIs(is_proof, self.find().is_proof)
