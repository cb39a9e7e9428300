# SPDX-License-Identifier: Apache-2.0

"""Entries whose servers have been missing for long."""

from collections.abc import Mapping
import dataclasses
import itertools
import types
from typing import Any
from unittest import mock

import fixtures
from oslo_utils.fixture import uuidsentinel
from oslo_utils import timeutils

from nova_ext_resources.drivers import base
from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.facts import deletion_evidence
from nova_ext_resources.host.reconcile import orphaned_entries
from nova_ext_resources.host.reconcile.rules import absence as missing
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource
from nova_ext_resources import plugins
from nova_ext_resources.testing import fake_clock
from nova_ext_resources import worker
from tests.unit import builders
from tests.unit.host import test_manager_meanwhile
from tests.unit.host import with_host

Role = consumer_role.Role

SERVER = test_manager_meanwhile.SERVER
OTHER = test_manager_meanwhile.OTHER
WAYS = with_host.WAYS
SEATS = builders.SEATS

AGE = 7200.0
PAUSE = 600.0

GONE = deletion_evidence.Evidence(words='Nova has deleted it', is_proof=True)
HERE = deletion_evidence.Evidence(words='it is here after all', is_proof=False)


class OrphansTestCase(test_manager_meanwhile.ActingHostTestCase):
    """A host with one server that is missing, and one that is not."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.roles: dict[str, Role] = {}
        self.answers: dict[str, deletion_evidence.Evidence] = {}
        self.examined: list[str] = []
        # Of those that are there: what Nova lacks; None if it is away.
        self.unknown: set[str] | None = set()
        self.failure: Exception | None = None
        self.allocated: dict[str, dict[str, int]] = {}
        self.released: list[str] = []
        self.loops = mock.Mock(spec=worker.WorkerGroup)
        self.is_stopping = False
        self.made = self.make_orphans()
        self.start(SERVER)
        self.start(OTHER, cpu=2)
        self.roles[OTHER] = Role.SERVER

    def make_orphans(
        self, is_repairing: bool = True
    ) -> orphaned_entries.OrphanedEntries:
        self.placement = with_host.Placement(self.read_allocations)
        placement: Any = self.placement
        writer: Any = types.SimpleNamespace(forget=self.released.append)
        return orphaned_entries.OrphanedEntries(
            self.host,
            dataclasses.replace(
                with_host.COMPUTE,
                examine=self.examine,
                list_known=self.list_known,
            ),
            placement,
            writer,
            loops=self.loops,
            age=AGE,
            max_gap=2 * PAUSE,
            is_repairing=is_repairing,
            clock=fake_clock.FakeClock(lambda: self.now),
        )

    def examine(self, entry: assignment.Entry) -> deletion_evidence.Evidence:
        self.examined.append(entry.consumer_uuid)
        if self.failure is not None:
            raise self.failure
        return self.answers.get(entry.consumer_uuid, GONE)

    def list_known(self) -> set[str]:
        if self.unknown is None:
            raise OSError('no conductor')
        return {*self.roles} - self.unknown

    def read_allocations(self, _uuid: str) -> Mapping[str, Mapping[str, int]]:
        return self.allocated

    def compare(self, count: int = 1) -> None:
        for _ in range(count):
            self.made.begin()
            self.made.end()
            self.made.compare(
                self.host.entries, self.roles, lambda: self.is_stopping
            )
            self.now += PAUSE

    def age(self) -> None:
        """Have it compared until the next comparison is the decisive one."""
        self.compare(int(AGE / PAUSE) + 1)
        self.assertEqual([], self.examined)
        self.assertEqual((), self.made.problems)

    def read_text(self) -> str:
        (problem,) = self.made.problems
        self.assertEqual(alarm.ORPHANED_ENTRY, problem.alarm)
        self.assertEqual(SERVER, problem.subject)
        return problem.text

    def assert_kept(self, words: str) -> None:
        self.assertIn(words, self.read_text())
        self.assertEqual({SERVER, OTHER}, {*self.host.entries})
        self.assertEqual({SERVER, OTHER}, self.enforcer.in_force)


class AlarmTest(OrphansTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.made = self.make_orphans(is_repairing=False)

    def test_it_is_reported_and_not_released(self) -> None:
        since = timeutils.utcnow()
        self.useFixture(
            fixtures.MockPatchObject(
                timeutils,
                'utcnow',
                side_effect=itertools.chain([since], itertools.repeat(None)),
            )
        )
        self.age()

        self.compare()

        self.assert_kept('release_orphaned_entries = True')
        for words in (
            f'server {SERVER} holds 2 {WAYS} of ',
            f'host {self.host.host} (consumer {SERVER})',
            since.strftime('Since %Y-%m-%d %H:%M:%S UTC'),
            'restart nova-compute',
        ):
            self.assertIn(words, self.read_text())
        self.assertEqual([], self.examined)

    def test_it_is_logged_once(self) -> None:
        self.age()

        self.compare(5)

        self.assertEqual(1, self.log.output.count(self.read_text()))

    def test_it_goes_with_its_entry(self) -> None:
        self.age()
        self.compare()

        self.host.release(SERVER)

        self.assertEqual((), self.made.problems)

    def test_it_goes_when_the_server_is_there_once(self) -> None:
        self.age()
        self.compare()
        self.roles[SERVER] = Role.SERVER
        self.compare()
        del self.roles[SERVER]

        self.compare()

        self.assertEqual((), self.made.problems)

    def test_it_goes_when_nova_cannot_be_asked(self) -> None:
        self.age()
        self.compare()

        self.made.forget()

        self.assertEqual((), self.made.problems)

    def test_a_doubt_about_all_is_reported_before_any_restart(self) -> None:
        self.roles.clear()
        for number in range(2):
            self.start(f'more-{number}', cpu=3 + number)
        self.age()

        self.compare()

        texts = [one.text for one in self.made.problems]
        self.assertEqual(4, len(texts))
        for text in texts:
            self.assertIn('no server for most of the entries', text)
            self.assertNotIn('release_orphaned_entries', text)


class AgeTest(OrphansTestCase):
    """What begins anew is not released."""

    def assert_young(self) -> None:
        self.compare()
        self.assertEqual([], self.examined)
        self.assertEqual((), self.made.problems)
        self.assertIn(SERVER, self.host.entries)

    def test_nova_could_not_be_asked(self) -> None:
        self.age()

        self.made.forget()

        self.assert_young()

    def test_each_role_but_one_that_has_left(self) -> None:
        for one in Role:
            if one is Role.LEFT:
                continue
            with self.subTest(one):
                self.made = self.make_orphans()
                self.age()
                self.roles[SERVER] = one
                self.compare()
                del self.roles[SERVER]
                self.assert_young()

    def test_a_move_that_has_left_it_is_no_other_role(self) -> None:
        self.age()
        self.roles[SERVER] = Role.LEFT

        self.compare()

        self.loops.wake_soon.assert_called_once_with()
        self.assertEqual([SERVER], self.released)

    def test_it_is_being_started(self) -> None:
        self.age()
        with self.host.starting(SERVER):
            self.compare()

        self.assert_young()

    def test_it_has_claimed_anew(self) -> None:
        self.age()

        self.start(SERVER)

        self.assert_young()

    def test_nova_has_not_answered_for_long(self) -> None:
        self.age()

        self.now += PAUSE + 1

        self.assert_young()

    def test_what_is_being_released_is_no_orphan(self) -> None:
        self.enforcer.is_failing = True
        self.assertRaises(
            exception.EnforcementFailed, self.host.release, SERVER
        )
        self.enforcer.is_failing = False
        self.age()

        self.assert_young()


class RepairTest(OrphansTestCase):
    def test_what_is_certainly_gone_is_released(self) -> None:
        self.age()

        self.compare()

        self.assertEqual([SERVER], self.examined)
        self.assertEqual({OTHER}, {*self.host.entries})
        self.assertEqual({OTHER}, self.enforcer.in_force)
        self.assertEqual({OTHER: 'applied'}, self.read_rows())
        self.assertEqual([SERVER], self.released)
        self.assertEqual((), self.made.problems)
        for words in ('host1', SERVER, f'2 {WAYS} of ', GONE.words):
            self.assertIn(words, self.log.output)
        self.assertNotIn('left in placement', self.log.output)

    def test_what_is_not_certain_is_kept(self) -> None:
        self.answers[SERVER] = HERE
        self.age()

        self.compare(3)

        self.assert_kept(HERE.words)
        self.assertEqual([SERVER] * 3, self.examined)
        self.assertEqual(1, self.log.output.count(HERE.words))

    def test_nova_cannot_be_asked_again(self) -> None:
        self.failure = OSError('no conductor')
        self.age()

        self.compare()

        self.assert_kept(
            'did not answer the second request about the server (OSError'
        )
        self.assertIn('no conductor', self.log.output)
        self.failure = None
        self.compare()
        self.assertEqual([SERVER], self.released)

    def test_what_nova_releases_meanwhile_is_no_error(self) -> None:
        self.age()

        def release(_entry: assignment.Entry) -> deletion_evidence.Evidence:
            self.host.release(SERVER)
            return HERE

        with_host.answer(self.made, examine=release)
        self.compare()

        self.assertEqual((), self.made.problems)
        self.assertNotIn(alarm.ORPHANED_ENTRY, self.log.output)
        self.assertNotIn(HERE.words, self.log.output)

    def test_what_nova_has_released_is_not_asked_about(self) -> None:
        self.age()
        list_known = self.list_known

        def release() -> set[str]:
            self.host.release(SERVER)
            return list_known()

        with_host.answer(self.made, list_known=release)
        self.compare()

        self.assertEqual([], self.examined)
        self.assertEqual((), self.made.problems)

    def test_no_restart_is_advised_where_it_would_release_others(self) -> None:
        self.answers[SERVER] = dataclasses.replace(HERE, is_restart_safe=False)
        self.age()

        self.compare()

        self.assert_kept(HERE.words)
        self.assertNotIn('restart', self.read_text())

    def test_an_entry_of_a_migration_is_not_called_a_server(self) -> None:
        kept = dataclasses.replace(
            self.host.entries[SERVER], server_uuid=OTHER
        )
        one = missing.AbsentServer(
            entry=kept, first=self.made._asked, last=self.made._asked
        )

        text = self.made._make_problem(
            one, orphaned_entries._refuse(kept, HERE)
        ).text

        self.assertIn('the hypervisor has had this consumer', text)
        self.assertIn('If its migration has ended, restart', text)

    def test_a_server_that_is_started_keeps_what_its_move_has(self) -> None:
        kept = dataclasses.replace(
            self.host.entries[SERVER], server_uuid=OTHER
        )
        self.assertTrue(self.made._is_missing(kept, {}))

        with self.host.starting(OTHER):
            self.assertFalse(self.made._is_missing(kept, {}))

    def test_it_has_claimed_while_nova_was_asked(self) -> None:
        self.answers[SERVER] = GONE
        self.age()
        examine = self.made._compute.examine

        def claim(entry: assignment.Entry) -> deletion_evidence.Evidence:
            self.start(SERVER)
            return examine(entry)

        with_host.answer(self.made, examine=claim)
        self.compare()

        self.assertEqual({SERVER, OTHER}, {*self.host.entries})
        self.assertEqual([], self.released)
        # The new entry is another one.
        self.assertEqual((), self.made.problems)

    def test_it_is_being_started_while_nova_was_asked(self) -> None:
        self.age()
        examine = self.made._compute.examine

        def start(entry: assignment.Entry) -> deletion_evidence.Evidence:
            self.enterContext(self.host.starting(SERVER))
            return examine(entry)

        with_host.answer(self.made, examine=start)
        self.compare()

        self.assert_kept('is being started')
        self.assertEqual([], self.released)

    def test_no_lock_is_held_while_nova_is_asked(self) -> None:
        held: list[bool] = []

        def look(_entry: assignment.Entry) -> deletion_evidence.Evidence:
            held.append(self.host._servers.is_any_locked)
            return GONE

        self.age()
        with_host.answer(self.made, examine=look)
        self.compare()

        self.assertEqual([False], held)
        self.assertEqual([SERVER], self.released)

    def test_settings_that_cannot_be_removed_are_left_to_repair(self) -> None:
        self.age()
        self.enforcer.is_failing = True

        self.compare()

        self.assertEqual({SERVER, OTHER}, {*self.host.entries})
        self.assertEqual((), self.made.problems)
        self.assertIn('has failed, and will be retried', self.log.output)
        self.assertEqual([], self.released)
        self.enforcer.is_failing = False
        self.host.heal()
        self.assertEqual({OTHER}, {*self.host.entries})

    def test_what_placement_still_has_is_named_and_stays(self) -> None:
        first, _second = with_host.DOMAINS
        self.allocated = {first: {WAYS: 2}, uuidsentinel.elsewhere: {'X': 7}}
        self.age()

        self.compare()

        (line,) = [
            one
            for one in self.log.output.splitlines()
            if 'left in placement' in one
        ]
        self.assertIn(f'2 {WAYS} of resource provider {first}', line)
        self.assertNotIn(uuidsentinel.elsewhere, line)
        self.assertIn('stale_allocation', line)

    def test_a_placement_that_is_away_delays_nothing(self) -> None:
        self.age()
        self.placement.read = mock.Mock(
            side_effect=exception.PlacementUnavailable(
                action='ask', detail='away'
            )
        )

        self.compare()

        self.assertEqual([SERVER], self.released)
        self.assertIn('placement does not answer', self.log.output)

    def test_a_bug_after_a_release_costs_the_others_nothing(self) -> None:
        self.start('late', cpu=4)
        self.answers['late'] = HERE
        self.age()
        self.placement.read = mock.Mock(side_effect=ZeroDivisionError('oops'))

        self.compare()

        self.assertEqual([SERVER], self.released)
        self.assertIn('ZeroDivisionError: oops', self.log.output)
        self.assertEqual(['late'], [one.subject for one in self.made.problems])

    def test_nothing_is_asked_or_released_while_it_stops(self) -> None:
        self.age()
        self.is_stopping = True

        self.compare()

        self.assertEqual([], self.examined)
        self.assertEqual([], self.released)

    def test_a_bug_is_logged_and_begins_anew(self) -> None:
        self.age()
        self.made._writer.forget = mock.Mock(  # type: ignore[method-assign]
            side_effect=ZeroDivisionError('oops')
        )

        self.compare()

        self.assertIn('ZeroDivisionError: oops', self.log.output)
        self.assertEqual({}, self.made._missing)


class Seats(base.InventoryProvider):
    """Twenty seats, for many servers."""

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (builders.make_definition(),)

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        return (
            builders.make_host_provider(
                inventories={SEATS: builders.make_inventory(20)}
            ),
        )


class ManyTest(OrphansTestCase):
    def load_inventory(self) -> dict[str, Any]:
        options = plugins.register_opts(self.conf, 'seats', ())
        return {'seats': Seats(options, 'host1')}

    def start(self, uuid: str = SERVER, cpu: int = 0) -> None:
        self.host.claim(
            with_host.make_claim(
                uuid,
                allocations={test_manager_meanwhile.LICENCES: {SEATS: 1}},
                cpus=None,
            )
        )
        self.host.apply(uuid)

    def start_more(self, count: int, *, missing: bool) -> list[str]:
        first = len(self.host.entries)
        uuids = [f'server-{first + number}' for number in range(count)]
        for one in uuids:
            self.start(one)
        if not missing:
            self.roles.update(dict.fromkeys(uuids, Role.SERVER))
        return uuids

    def test_few_are_released_after_one_answer(self) -> None:
        missing = self.start_more(6, missing=True)
        self.start_more(6, missing=False)
        self.age()

        self.compare()
        self.assertEqual(orphaned_entries.MAX_REPAIRED, len(self.released))
        left = {*missing, SERVER} - {*self.released}
        self.assertEqual(left, {one.subject for one in self.made.problems})
        for one in self.made.problems:
            self.assertIn('One of the next comparisons', one.text)

        self.compare()
        self.assertEqual({*missing, SERVER}, {*self.released})
        self.assertEqual((), self.made.problems)

    def test_a_release_that_fails_counts(self) -> None:
        self.start_more(6, missing=True)
        self.start_more(6, missing=False)
        self.enforcer.is_failing = True
        self.age()

        self.compare()

        self.assertEqual(orphaned_entries.MAX_REPAIRED, len(self.examined))

    def test_a_nova_that_does_not_answer_is_asked_once(self) -> None:
        missing = self.start_more(6, missing=True)
        self.start_more(6, missing=False)
        self.failure = OSError('no conductor')
        self.age()

        self.compare(3)

        self.assertEqual(3, len(self.examined))
        self.assertEqual(1, self.log.output.count('no conductor'))
        found = self.made.problems
        self.assertEqual({SERVER, *missing}, {one.subject for one in found})
        for one in found:
            self.assertIn('did not answer the second request', one.text)
        self.assertEqual(
            7, self.log.output.count('did not answer the second request')
        )

    def test_nova_is_asked_about_few_after_one_answer(self) -> None:
        """About each in turn."""
        self.useFixture(
            fixtures.MockPatchObject(orphaned_entries, 'MAX_EXAMINED', 3)
        )
        missing = self.start_more(4, missing=True)
        self.start_more(6, missing=False)
        self.answers.update(dict.fromkeys([SERVER, *missing], HERE))
        self.age()

        self.compare()
        self.assertEqual(3, len(self.examined))
        texts = [one.text for one in self.made.problems]
        self.assertEqual(5, len(texts))
        self.assertEqual(
            2, len([one for one in texts if 'examines the entry' in one])
        )

        self.compare()
        self.assertEqual({SERVER, *missing}, {*self.examined})
        for one in self.made.problems:
            self.assertIn(HERE.words, one.text)
        self.assertEqual(5, self.log.output.count(HERE.words))

    def test_those_in_doubt_do_not_keep_others_waiting(self) -> None:
        missing = self.start_more(6, missing=True)
        self.start_more(6, missing=False)
        self.answers.update(dict.fromkeys(missing, HERE))
        self.age()

        self.compare()

        self.assertEqual([SERVER], self.released)

    def test_nothing_is_released_if_too_many_are_missing(self) -> None:
        """Also those that have been missing for longer than the others."""
        self.age()
        self.start_more(3, missing=True)

        self.compare()

        self.assertEqual([], self.examined)
        self.assertEqual(5, len(self.host.entries))
        self.assertIn('no server for most of the entries', self.read_text())
        self.assertIn('another cell', self.read_text())

    def test_how_many_are_missing_is_no_news(self) -> None:
        self.start_more(3, missing=True)
        self.age()
        self.compare()
        self.start_more(1, missing=True)
        first = self.log.output.count('most of the entries')

        self.compare()

        self.assertEqual(4, first)
        self.assertEqual(4, self.log.output.count('most of the entries'))

    def test_a_guest_of_a_server_that_nova_lacks_proves_nothing(self) -> None:
        """As where Nova answers from the database of another cell."""
        self.start_more(3, missing=False)
        self.unknown = {*self.roles}
        self.age()

        self.compare()

        self.assertEqual([], self.examined)
        self.assertEqual([], self.released)
        self.assertIn('no server for most of the entries', self.read_text())

    def test_nova_cannot_be_asked_for_all(self) -> None:
        self.unknown = None
        self.age()

        self.compare()

        self.assertEqual([], self.examined)
        self.assertEqual([], self.released)
        self.assertIn('did not answer the second request', self.read_text())
        self.assertIn('no conductor', self.log.output)
        self.unknown = set()
        self.compare()
        self.assertEqual([SERVER], self.released)

    def test_it_goes_on_when_they_are_there_again(self) -> None:
        self.age()
        uuids = self.start_more(3, missing=True)
        self.compare()
        self.roles.update(dict.fromkeys(uuids, Role.SERVER))

        self.compare()

        self.assertEqual([SERVER], self.released)


class FindAgeTest(OrphansTestCase):
    def find_age(self, age: float, timeout: float = 1800) -> float:
        return orphaned_entries.find_age(
            'host1', age, pause=PAUSE, long_call_timeout=timeout
        )

    def test_it_is_what_the_option_says(self) -> None:
        for age in (1800, 7200):
            self.assertEqual(age, self.find_age(age))

        self.assertEqual('', self.log.output)

    def test_what_is_too_short_is_not_used_and_warned_of(self) -> None:
        self.assertEqual(9000, self.find_age(7200, timeout=9000))

        for words in (
            'host1',
            'orphaned_entry_age = 7200',
            '9000 is used',
            'long_rpc_timeout = 9000',
        ):
            self.assertIn(words, self.log.output)
