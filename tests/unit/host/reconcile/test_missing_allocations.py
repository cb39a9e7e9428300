# SPDX-License-Identifier: Apache-2.0

"""The ledger has something else than placement, for longer than a moment."""

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
import types
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.host.reconcile import missing_allocations
from nova_ext_resources.host.reconcile.rules import allocations
from nova_ext_resources.objects import alarm
from nova_ext_resources.testing import fake_clock
from tests.unit.host import with_host

WAYS = with_host.WAYS
FIRST, SECOND = with_host.DOMAINS
RDT = with_host.RDT

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
THIRD = uuidsentinel.third

Place = tuple[str, str]

AWAY = exception.PlacementUnavailable(action='ask', detail='away')


class AllocatedTestCase(with_host.HostTestCase):
    """One server with four ways of the first domain."""

    SPREADS = False

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_noop_host(spreads_pins=self.SPREADS)
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.apply(SERVER)
        self.holders: dict[str, dict[str, dict[str, int]]] = {
            rp_uuid: {} for rp_uuid in self.host.view.keys
        }
        # What placement has elsewhere.
        self.elsewhere: set[str] = set()
        self.failure: Exception | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        self.moved: list[allocations.Move] = []
        self.extended: dict[Place, int] = {}
        self.refusal: exception.PlacementError | None = None
        self.asked: list[str] = []
        self.followed: list[str] = []
        self.on_follow: Callable[[str], object] = lambda _: None
        # Server -> its migrations, and whether Nova may still go on.
        self.migrations: dict[str, dict[str, bool]] | None = {}
        self.asked_of: list[set[str]] = []
        self.broken: set[str] = set()
        self.changes = 0
        self.now = 1000.0
        placement: Any = with_host.Placement(
            self.read_allocations, self.list_holders
        )
        writer: Any = types.SimpleNamespace(
            move=self.follow, extend=self.extend
        )
        loops: Any = types.SimpleNamespace(wake_soon=self.count_change)
        self.made = missing_allocations.MissingAllocations(
            self.host,
            dataclasses.replace(
                with_host.COMPUTE, find_migrations=self.find_migrations
            ),
            placement,
            writer,
            loops=loops,
            interval=60.0,
            clock=fake_clock.FakeClock(lambda: self.now),
        )

    def list_holders(self, rp_uuid: str) -> Mapping[str, Mapping[str, int]]:
        self.meanwhile()
        self.asked.append(rp_uuid)
        if self.failure is not None:
            raise self.failure
        if rp_uuid not in self.holders:
            raise exception.NotFound(action='ask', detail='none')
        return self.holders[rp_uuid]

    def read_allocations(
        self, consumer_uuid: str
    ) -> dict[str, dict[str, int]]:
        found = {rp_uuid: {'VCPU': 1} for rp_uuid in self.elsewhere}
        for rp_uuid, classes in self.holders.items():
            for name, amounts in classes.items():
                if consumer_uuid in amounts:
                    found.setdefault(rp_uuid, {})[name] = 1
        return found

    def follow(
        self,
        consumer_uuid: str,
        moves: Iterable[allocations.Move],
        settled: frozenset[str],
    ) -> None:
        self.assertIn(consumer_uuid, settled)
        self.followed.append(consumer_uuid)
        self.on_follow(consumer_uuid)
        if self.refusal is not None:
            raise self.refusal
        self.moved.extend(moves)

    def extend(self, consumer_uuid: str, wanted: Mapping[Place, int]) -> None:
        self.followed.append(consumer_uuid)
        if self.refusal is not None:
            raise self.refusal
        self.extended.update(wanted)

    def find_migrations(
        self, server_uuid: str, uuids: Collection[str]
    ) -> dict[str, bool]:
        self.asked_of.append({*uuids})
        if self.migrations is None:
            raise OSError('no message bus')
        if server_uuid in self.broken:
            raise KeyError(server_uuid)
        migrations = self.migrations.get(server_uuid, {})
        return {uuid: migrations[uuid] for uuid in migrations.keys() & uuids}

    def count_change(self) -> None:
        self.changes += 1

    def allocate(self, rp_uuid: str, ways: int) -> None:
        self.holders[rp_uuid] = {WAYS: {SERVER: ways}}

    def run_rounds(self, count: int = 2) -> list[tuple[str, str]]:
        """Return the alarms after rounds that are far enough apart."""
        for _ in range(count):
            self.made.run_round()
            self.now += missing_allocations.LASTING
        return self.list_alarms()

    def list_alarms(self) -> list[tuple[str, str]]:
        return [(one.alarm, one.subject) for one in self.made.problems]

    def count_reserved(self, rp_uuid: str = FIRST) -> int:
        """Return how many ways are published as reserved."""
        (found,) = (
            one for one in self.host.providers() if one.rp_uuid == rp_uuid
        )
        return found.inventories[WAYS].reserved


class MissingTest(AllocatedTestCase):
    """Nova has deleted the allocations of a server that stays."""

    def test_what_placement_has_too_is_no_problem(self) -> None:
        self.allocate(FIRST, 4)

        self.assertEqual([], self.run_rounds())
        self.assertEqual((0, 0), (self.count_reserved(), self.changes))

    def test_it_is_reported_and_offered_to_no_other(self) -> None:
        found = self.run_rounds()

        self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], found)
        (problem,) = self.made.problems
        self.assertIn(f'4 {WAYS} of L3_0 of host host1', problem.text)
        self.assertEqual(
            (4, 0), (self.count_reserved(), self.count_reserved(SECOND))
        )
        self.assertIn('for example after a failed rebuild', problem.text)
        self.run_rounds()
        self.assertEqual(1, self.changes)
        self.assertEqual(1, self.log.output.count(problem.text))

    def test_a_server_that_placement_has_elsewhere_is_told_apart(self) -> None:
        for elsewhere, expected in (
            ({uuidsentinel.node}, True),
            ({uuidsentinel.node, self.host.node.uuid}, False),
            ({uuidsentinel.node, RDT}, False),
        ):
            with self.subTest(elsewhere=elsewhere):
                self.elsewhere = elsewhere

                self.run_rounds()

                (problem,) = self.made.problems
                self.assertEqual(
                    (expected, 4),
                    (
                        'only on other hosts' in problem.text,
                        self.count_reserved(),
                    ),
                )

    def test_only_what_is_missing_is_withheld(self) -> None:
        self.allocate(FIRST, 3)

        self.run_rounds()

        self.assertEqual(1, self.count_reserved())

    def test_a_moment_is_not_enough(self) -> None:
        self.assertEqual([], self.run_rounds(1))
        self.now -= 1.0
        self.made.run_round()

        self.assertEqual(([], 0), (self.list_alarms(), self.count_reserved()))

    def test_a_difference_that_was_another_one_begins_anew(self) -> None:
        self.run_rounds(1)
        self.allocate(FIRST, 3)

        self.assertEqual([], self.run_rounds(1))

    def test_it_ends_when_placement_has_it_again(self) -> None:
        self.run_rounds()
        self.allocate(FIRST, 4)

        self.assertEqual([], self.run_rounds(1))
        self.assertEqual((0, 2), (self.count_reserved(), self.changes))

    def test_it_ends_with_the_claim(self) -> None:
        self.run_rounds()

        self.host.release(SERVER)

        self.assertEqual(([], 0), (self.list_alarms(), self.count_reserved()))
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.assertEqual(([], 0), (self.list_alarms(), self.count_reserved()))

    def test_a_claim_anew_while_placement_answers_is_not_judged(self) -> None:
        self.run_rounds(1)
        self.meanwhile = lambda: self.host.claim(
            with_host.make_claim(SERVER, 4)
        )

        self.assertEqual([], self.run_rounds(1))
        self.assertEqual(0, self.count_reserved())

    def test_a_server_that_is_being_started_is_not_judged(self) -> None:
        with self.host.starting(SERVER):
            self.assertEqual([], self.run_rounds())

    def test_what_is_being_released_is_not_judged(self) -> None:
        self.host.state.mark_releasing([SERVER])

        self.assertEqual([], self.run_rounds())

    def test_nothing_is_withheld_of_a_claim_anew(self) -> None:
        former = self.host.entries[SERVER]
        self.host.claim(with_host.make_claim(SERVER, 4))

        self.host.state.withhold([(former, former.assignments)])

        self.assertEqual({}, self.host.state.unallocated)

    def test_more_than_the_ledger_has_is_not_recorded(self) -> None:
        self.allocate(FIRST, 6)

        self.assertEqual([(alarm.NOT_RECORDED, SERVER)], self.run_rounds())
        self.assertIn(f'2 {WAYS} of L3_0', self.made.problems[0].text)


class DoubtTest(AllocatedTestCase):
    """What placement does not answer is neither a problem nor its end."""

    def test_a_placement_that_is_away_raises_nothing(self) -> None:
        self.failure = AWAY

        self.assertEqual([], self.run_rounds())
        self.assertEqual((0, ''), (self.count_reserved(), self.log.output))

    def test_what_was_seen_once_before_is_seen_anew(self) -> None:
        self.run_rounds(1)
        self.failure = AWAY
        self.run_rounds(1)
        self.failure = None

        self.assertEqual([], self.run_rounds(1))

    def test_what_was_found_stays(self) -> None:
        found = self.run_rounds()
        self.failure = AWAY

        self.assertEqual(found, self.run_rounds())
        self.assertEqual(4, self.count_reserved())
        self.failure = None
        self.assertEqual(found, self.run_rounds(1))
        self.assertEqual(1, self.changes)

    def test_a_provider_that_is_not_published_yet_is_passed_over(
        self,
    ) -> None:
        for rp_uuid in (SECOND, FIRST):
            found = self.run_rounds()
            self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], found)
            del self.holders[rp_uuid]

        self.assertEqual([], self.run_rounds())

    def test_a_bug_is_logged_once_and_what_was_found_stays(self) -> None:
        found = self.run_rounds()
        self.failure = ZeroDivisionError('oops')

        self.assertEqual(found, self.run_rounds())

        self.assertEqual(1, self.log.output.count('report this bug'))


class LoadTest(AllocatedTestCase):
    """Each host of a cloud asks placement every minute."""

    def test_a_host_without_servers_asks_nothing(self) -> None:
        self.host.release(SERVER)

        self.run_rounds(1)

        self.assertEqual([], self.asked)

    def test_only_providers_of_what_servers_hold_are_read(self) -> None:
        """On both: placement may have it on the other one."""
        self.run_rounds(1)

        self.assertEqual(sorted([FIRST, SECOND]), self.asked)

    def test_what_was_found_ends_with_the_last_server(self) -> None:
        self.run_rounds()
        self.host.release(SERVER)

        self.run_rounds(1)

        self.assertEqual({}, self.host.state.unallocated)


class MigrationTest(AllocatedTestCase):
    """Nova gives the allocations to the migration before a host knows."""

    def setUp(self) -> None:
        super().setUp()
        self.migrations = {SERVER: {OTHER: True}}

    def allocate_to_other(self, ways: int) -> None:
        self.holders[FIRST] = {WAYS: {OTHER: ways}}

    def give_up(self) -> None:
        self.migrations = {SERVER: {OTHER: False}}

    def test_what_the_migration_has_is_not_missing(self) -> None:
        self.allocate_to_other(4)

        self.assertEqual([], self.run_rounds(4))
        self.assertEqual(0, self.count_reserved())

    def test_two_minutes_begin_when_no_other_has_it(self) -> None:
        self.allocate_to_other(4)
        self.run_rounds(3)
        self.holders[FIRST] = {}

        self.assertEqual([], self.run_rounds(1))
        self.assertEqual(
            [(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds(1)
        )

    def test_one_that_nova_has_given_up_is_named(self) -> None:
        """A service was killed in the move, and the server is here again."""
        self.allocate_to_other(4)
        self.assertEqual([], self.run_rounds())
        self.give_up()

        self.assertEqual([], self.run_rounds(1))
        self.assertEqual(
            [(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds(1)
        )
        (problem,) = self.made.problems
        self.assertIn(f'its migration {OTHER}', problem.text)
        # What the migration has is counted already.
        self.assertEqual(0, self.count_reserved())
        self.migrations = None
        self.run_rounds(1)
        self.assertEqual((problem,), self.made.problems)

    def test_it_stays_named_while_the_server_does_something_else(self) -> None:
        self.allocate_to_other(4)
        self.give_up()
        self.run_rounds()
        problems = self.made.problems

        self.migrations = {SERVER: {OTHER: True}}
        self.run_rounds()

        self.assertEqual(problems, self.made.problems)
        self.assertEqual(0, self.count_reserved())

    def test_nothing_is_moved_beside_what_it_still_has(self) -> None:
        self.holders[FIRST] = {WAYS: {OTHER: 4}}
        self.holders[SECOND] = {WAYS: {SERVER: 4}}
        self.give_up()

        self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds())

        self.assertEqual([], self.followed)
        (problem,) = self.made.problems
        self.assertIn(f'its migration {OTHER}', problem.text)

    def test_so_is_one_whose_server_stays_on_its_host(self) -> None:
        self.holders[FIRST] = {WAYS: {OTHER: 4, SERVER: 6}}
        self.assertEqual([], self.run_rounds(3))
        self.give_up()

        self.assertEqual([(alarm.NOT_RECORDED, SERVER)], self.run_rounds())

        (problem,) = self.made.problems
        self.assertIn(f'2 {WAYS} of L3_0', problem.text)
        self.assertIn(f'its migration {OTHER}', problem.text)

    def test_while_nova_is_away_it_may_be_any(self) -> None:
        for migrations in ({}, {SERVER: {OTHER: False}}):
            self.allocate_to_other(4)
            self.migrations = None
            self.assertEqual([], self.run_rounds(3))
            self.migrations = migrations
            self.assertEqual([], self.run_rounds(1))
            self.allocate(FIRST, 4)
            self.run_rounds(1)

    def test_nova_is_not_waited_for_twice_in_a_round(self) -> None:
        """Each question may last as long as Nova's timeout."""
        self.host.claim(with_host.make_claim(uuidsentinel.next, 4))
        self.holders[FIRST] = {WAYS: {OTHER: 4}}
        self.migrations = None

        for _ in range(3):
            self.asked_of.clear()
            self.assertEqual([], self.run_rounds(1))
            self.assertEqual([{OTHER}], self.asked_of)

        self.migrations = {}
        self.asked_of.clear()
        self.run_rounds(1)
        self.assertEqual([{OTHER}, {OTHER}], self.asked_of)

    def test_one_that_always_fails_silences_no_other(self) -> None:
        self.host.claim(with_host.make_claim(uuidsentinel.next, 4))
        self.holders[FIRST] = {WAYS: {OTHER: 4}}
        self.migrations = {}
        self.broken = {SERVER}

        self.assertEqual(
            [(alarm.NOT_IN_PLACEMENT, uuidsentinel.next)], self.run_rounds(3)
        )

        self.assertEqual(1, self.log.output.count(f'of server {SERVER}'))

    def test_a_question_that_fails_is_logged_once(self) -> None:
        """With its cause, which may be a bug."""
        self.allocate_to_other(4)
        for _ in range(2):
            self.migrations = None
            self.run_rounds(3)
            self.migrations = {SERVER: {OTHER: True}}
            self.run_rounds(1)

        self.assertEqual(2, self.log.output.count('Traceback'))

    def test_one_that_goes_on_beside_one_given_up(self) -> None:
        """The latter may have nothing of what the server has here now."""
        self.holders[FIRST] = {WAYS: {OTHER: 4, THIRD: 4}}
        self.migrations = {SERVER: {OTHER: False, THIRD: True}}

        self.assertEqual([], self.run_rounds(3))

    def test_one_that_has_less_is_another_server(self) -> None:
        self.allocate_to_other(3)

        self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds())

    def test_what_was_found_before_stays(self) -> None:
        """Another move may begin."""
        found = self.run_rounds()
        self.allocate_to_other(4)

        self.assertEqual(found, self.run_rounds())
        self.assertEqual((4, 1), (self.count_reserved(), self.changes))

    def test_another_server_of_the_host_has_its_own(self) -> None:
        self.host.claim(with_host.make_claim(OTHER, 4))
        self.allocate_to_other(4)

        self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds())

    def test_a_server_that_moves_to_its_own_host_is_not_judged(self) -> None:
        """Until its guest is off, the ledger has the two in exchange."""
        self.host.claim(
            with_host.make_claim(OTHER, 6, server_uuid=SERVER), is_move=True
        )
        self.holders[FIRST] = {WAYS: {OTHER: 4, SERVER: 6}}

        self.assertEqual([], self.run_rounds(3))

    def test_so_is_one_that_had_nothing_before(self) -> None:
        """Placement has what comes by the server's uuid."""
        self.host.release(SERVER)
        self.host.claim(
            with_host.make_claim(OTHER, 6, server_uuid=SERVER), is_move=True
        )
        self.allocate(FIRST, 6)

        self.assertEqual([], self.run_rounds(3))
        self.assertEqual(0, self.count_reserved())

    def test_what_a_move_keeps_here_is_compared(self) -> None:
        self.host.park(SERVER, OTHER)
        self.allocate_to_other(4)
        self.assertEqual([], self.run_rounds())

        self.holders[FIRST] = {}
        self.assertEqual([(alarm.NOT_IN_PLACEMENT, OTHER)], self.run_rounds())

    def test_what_a_revert_has_given_back_is_not_missing(self) -> None:
        """Nova does so before the host starts the guest."""
        self.host.park(SERVER, OTHER)
        self.allocate(FIRST, 4)
        self.migrations = {}
        self.assertEqual([], self.run_rounds(3))
        self.migrations = None
        self.assertEqual([], self.run_rounds(3))


class OthersTest(AllocatedTestCase):
    """Other consumers than migrations of the server have the same."""

    def setUp(self) -> None:
        super().setUp()
        self.migrations = {THIRD: {OTHER: True}}

    def test_what_they_have_is_missing_all_the_same(self) -> None:
        self.holders[FIRST] = {WAYS: {OTHER: 4, uuidsentinel.built: 4}}

        self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds())

        (problem,) = self.made.problems
        self.assertNotIn('migration', problem.text)
        self.assertEqual(4, self.count_reserved())

    def test_placement_follows(self) -> None:
        self.holders[FIRST] = {WAYS: {OTHER: 4}}
        self.allocate(SECOND, 4)

        self.assertEqual([], self.run_rounds())

        self.assertEqual([(WAYS, SECOND, FIRST)], self.moved)

    def test_what_a_killed_move_has_left_crosswise(self) -> None:
        """Placement has another amount of the server, on another domain."""
        self.holders[FIRST] = {WAYS: {OTHER: 4}}
        self.allocate(SECOND, 5)

        found = self.run_rounds()

        self.assertEqual(
            {(alarm.NOT_IN_PLACEMENT, SERVER), (alarm.NOT_RECORDED, SERVER)},
            {*found},
        )

    def test_nova_is_asked_only_where_another_has_as_much(self) -> None:
        for ways, expected in ((3, []), (4, [{OTHER}])):
            self.holders[FIRST] = {WAYS: {OTHER: ways}}
            self.run_rounds(1)
            self.assertEqual(expected, self.asked_of)


class WrongProviderTest(AllocatedTestCase):
    """The host chose another domain, and died before it could say so."""

    def setUp(self) -> None:
        super().setUp()
        self.allocate(SECOND, 4)

    def test_placement_follows(self) -> None:
        self.assertEqual([], self.run_rounds(1))
        self.assertEqual([], self.moved)

        self.assertEqual([], self.run_rounds(1))

        self.assertEqual([(WAYS, SECOND, FIRST)], self.moved)

    def test_a_placement_that_refuses_is_reported_and_asked_again(
        self,
    ) -> None:
        self.refusal = exception.AllocationRejected(
            action='move', detail='no room'
        )

        found = self.run_rounds()

        self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], found)
        self.assertIn('no room', self.made.problems[0].text)
        self.assertIn(f'4 {WAYS} of L3_0', self.made.problems[0].text)
        # It would be in the way of the next try.
        self.assertEqual(0, self.count_reserved())
        self.refusal = None
        self.assertEqual([], self.run_rounds(1))
        self.assertEqual([(WAYS, SECOND, FIRST)], self.moved)

    def test_a_claim_anew_before_its_turn_is_left_alone(self) -> None:
        """Placement may take long to answer for the servers before."""
        self.host.claim(with_host.make_claim(OTHER, 2))
        self.holders[SECOND] = {WAYS: {SERVER: 4, OTHER: 2}}
        self.refusal = exception.AllocationRejected(
            action='move', detail='no room'
        )
        claims = [
            with_host.make_claim(SERVER, 4),
            with_host.make_claim(OTHER, 2),
        ]
        self.on_follow = lambda uuid: self.host.claim(
            *(o for o in claims if o.consumer_uuid != uuid)
        )

        self.run_rounds()

        self.assertEqual(1, len(self.followed))
        self.assertEqual(
            [(alarm.NOT_IN_PLACEMENT, self.followed[0])], self.list_alarms()
        )

    def test_a_placement_that_goes_away_meanwhile_raises_nothing(self) -> None:
        self.refusal = AWAY

        self.assertEqual([], self.run_rounds())

        self.refusal = None
        self.assertEqual([], self.run_rounds(2))
        self.assertEqual([(WAYS, SECOND, FIRST)], self.moved)


class FurtherTestCase(AllocatedTestCase):
    """The server has it in two domains, and placement in one of them."""

    def setUp(self) -> None:
        super().setUp()
        entry = self.host.find_entry(SERVER)
        assert entry is not None
        (own,) = (o for o in entry.assignments if o.rp_uuid == FIRST)
        other = dataclasses.replace(own, rp_uuid=SECOND, rp_key='L3_1')
        self.host.state.put(
            dataclasses.replace(entry, assignments=(*entry.assignments, other))
        )
        self.allocate(SECOND, 4)


class GroupsTest(FurtherTestCase):
    """Two request groups on a host that spreads nothing, or does no more.

    Nova had both allocated when it chose the host: what is gone was deleted.
    """

    def test_it_is_reported_and_offered_to_no_other(self) -> None:
        self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds())

        (problem,) = self.made.problems
        self.assertIn(f'holds 4 {WAYS} of L3_0 of host host1', problem.text)
        self.assertIn('without an allocation in placement', problem.text)
        self.assertEqual(
            (4, 0), (self.count_reserved(), self.count_reserved(SECOND))
        )

    def test_nothing_is_written(self) -> None:
        self.run_rounds(4)

        self.assertEqual(([], {}), (self.followed, self.extended))


class FurtherTest(FurtherTestCase):
    """A host that spreads pinned servers."""

    SPREADS = True

    def test_the_rest_is_allocated(self) -> None:
        self.assertEqual([], self.run_rounds(1))
        self.assertEqual({}, self.extended)

        self.assertEqual([], self.run_rounds(1))

        self.assertEqual({(FIRST, WAYS): 4, (SECOND, WAYS): 4}, self.extended)
        self.assertEqual([], self.moved)

    def test_what_is_elsewhere_goes_with_the_rest(self) -> None:
        """In one request: a move before it may be refused, or be half."""
        entry = self.host.find_entry(SERVER)
        assert entry is not None
        (own,) = (o for o in entry.assignments if o.rp_uuid == SECOND)
        self.host.state.put(
            dataclasses.replace(
                entry,
                assignments=(
                    own,
                    dataclasses.replace(own, rp_uuid=RDT, rp_key='RDT'),
                ),
            )
        )
        self.holders[SECOND] = {}
        self.allocate(FIRST, 4)

        self.assertEqual([], self.run_rounds())

        self.assertEqual({(SECOND, WAYS): 4, (RDT, WAYS): 4}, self.extended)
        self.assertEqual([], self.moved)

    def test_what_placement_refuses_is_reported_and_asked_again(self) -> None:
        self.refusal = exception.AllocationRejected(
            action='set', detail='no room'
        )

        self.assertEqual([(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds())

        (problem,) = self.made.problems
        self.assertIn('no room', problem.text)
        self.assertIn('on some of these providers only', problem.text)
        # It would be in the way of the next try.
        self.assertEqual(0, self.count_reserved())
        self.refusal = None
        self.assertEqual([], self.run_rounds(1))
        self.assertEqual(2, len(self.extended))

    def test_nothing_is_added_beside_what_a_migration_still_has(self) -> None:
        self.holders[FIRST] = {WAYS: {OTHER: 4}}
        self.holders[SECOND] = {WAYS: {SERVER: 4, OTHER: 4}}
        self.migrations = {SERVER: {OTHER: True}}

        self.assertEqual([], self.run_rounds(3))
        self.assertEqual({}, self.extended)

        self.migrations = {SERVER: {OTHER: False}}
        self.assertEqual(
            [(alarm.NOT_IN_PLACEMENT, SERVER)], self.run_rounds(3)
        )
        self.assertEqual({}, self.extended)
        self.assertIn(OTHER, self.made.problems[0].text)
