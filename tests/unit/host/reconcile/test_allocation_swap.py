# SPDX-License-Identifier: Apache-2.0

"""Servers that exchange their allocations when they start."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import contextlib
import dataclasses
import functools
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel
from oslo_utils import uuidutils

from nova_ext_resources import exception
from nova_ext_resources.host.reconcile import missing_allocations as allocated
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources.placement.api import retry
from nova_ext_resources.testing import fake_clock
from tests.unit.host.service import test_wiring
from tests.unit.host import with_host

WAYS = with_host.WAYS
BANDWIDTH = 'CUSTOM_BANDWIDTH'

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
THIRD = uuidsentinel.third
MIGRATION = uuidsentinel.migration

DOMAINS = tuple(
    host_provider.make_rp_uuid(with_host.NODE.uuid, f'L3_{cache_id}')
    for cache_id in range(3)
)

#: One CPU of each domain.
CPUS = (0, 2, 4)

HOST = f"""{test_wiring.HOST}
[ext_resources_fake]
sockets = 3
cpus = 12
"""


class FakePlacement(placement_client.Client):
    """Has room for so much of each class in each domain.

    :ivar before: name of a method -> what happens before its next call
    :ivar after: the same afterwards, before it returns
    """

    def __init__(self, **domains: int) -> None:
        self.capacity = {WAYS: 2, BANDWIDTH: 10}
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[], object]] = {}
        self.calls: list[str] = []
        self.held: dict[str, responses.Allocations] = {}
        for uuid, domain in domains.items():
            self.give(uuid, domain)

    def give(self, uuid: str, domain: int, **amounts: int) -> None:
        self.held[uuid] = responses.Allocations(
            consumer_uuid=uuid,
            resources={DOMAINS[domain]: {WAYS: 2, **amounts}},
            generation=0,
        )

    def find_domain(self, uuid: str) -> int:
        (rp_uuid,) = self.held[uuid].resources
        return DOMAINS.index(rp_uuid)

    def list_holders(self, rp_uuid: str) -> dict[str, dict[str, int]]:
        self._call('list_holders')
        found: dict[str, dict[str, int]] = {}
        for uuid, one in self.held.items():
            for name, amount in one.resources.get(rp_uuid, {}).items():
                found.setdefault(name, {})[uuid] = amount
        return found

    def get_allocations(self, consumer_uuid: str) -> responses.Allocations:
        self._call('get_allocations')
        held = self.held[consumer_uuid]
        self.after.pop('get_allocations', int)()
        return held

    def put_allocations(self, allocations: responses.Allocations) -> None:
        self._call('put_allocations')
        self._write([allocations])

    def post_allocations(
        self, allocations: Sequence[responses.Allocations]
    ) -> None:
        self._call('post_allocations')
        self._write(allocations)
        self.after.pop('post_allocations', int)()

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.before.pop(name, int)()

    def _write(self, new: Iterable[responses.Allocations]) -> None:
        held = dict(self.held)
        for one in new:
            generation = self.held[one.consumer_uuid].generation
            if one.generation != generation:
                raise exception.ConcurrentUpdate(action='x', detail='y')
            assert generation is not None
            held[one.consumer_uuid] = dataclasses.replace(
                one, generation=generation + 1
            )
        used: dict[tuple[str, str], int] = {}
        for one in held.values():
            for rp_uuid, amounts in one.resources.items():
                for name, n in amounts.items():
                    used[rp_uuid, name] = used.get((rp_uuid, name), 0) + n
        if any(n > self.capacity[name] for (_, name), n in used.items()):
            raise exception.AllocationRejected(action='x', detail='full')
        self.held = held


class PartnersTestCase(test_wiring.HostServiceTestCase):
    """Servers allocated in a domain each, which is full then."""

    CONF = HOST
    DOMAINS: Mapping[str, int] = {SERVER: 0, OTHER: 1}

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.placement = FakePlacement(**self.DOMAINS)
        self._patch(
            'nova_ext_resources.placement.api.placement_client.from_conf',
            lambda _conf: self.placement,
        )
        self._patch(
            'nova_ext_resources.placement.api.retry.call',
            retry.make_strategy(fake_clock.FakeClock()),
        )
        self.now = 0.0
        self.building = set(self.DOMAINS)
        self.asked: list[frozenset[str]] = []
        self.start()

    def start(self) -> None:
        self.made = self.make(
            self.CONF,
            find_building=self.find_building,
            find_migrations=lambda _server, uuids: dict.fromkeys(
                {MIGRATION} & {*uuids}, True
            ),
        )
        self.made.host.refresh()
        self.made.missing_allocations._debounce._clock = fake_clock.FakeClock(
            lambda: self.now
        )

    def _patch(self, name: str, value: object) -> None:
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def find_building(self, uuids: frozenset[str]) -> Collection[str]:
        self.asked.append(uuids)
        return uuids & self.building

    def claim(
        self, uuid: str, allocated: int, target: int | None, **fields: Any
    ) -> None:
        """Start with what was allocated in a domain, for CPUs of another."""
        cpus = None if target is None else frozenset({CPUS[target]})
        with self.made.host.starting(uuid):
            self.made.claim(
                with_host.make_claim(
                    uuid,
                    cpus=cpus,
                    allocations={DOMAINS[allocated]: {WAYS: 2}},
                    **fields,
                )
            )

    def assert_refused(self, *args: Any, **fields: Any) -> None:
        before = self.placement.held
        self.assertRaises(
            exception.AllocationRejected, self.claim, *args, **fields
        )
        self.assertEqual(before, self.placement.held)
        self.assertIsNone(self.made.host.find_entry(args[0]))

    def list_problems(self) -> list[str]:
        """Compare with placement, and again when all that is over that may."""
        for _ in range(2):
            self.made.missing_allocations.run_round()
            self.now += allocated.LASTING
        return [one.subject for one in self.made.missing_allocations.problems]

    def assert_agreement(self, **domains: int) -> None:
        """Compare where servers are in placement, and in the ledger."""
        self.assertEqual(
            domains, {u: self.placement.find_domain(u) for u in domains}
        )
        for uuid, entry in self.made.host.entries.items():
            held = [one for one in entry.assignments if one.is_allocated]
            self.assertEqual(
                [DOMAINS[self.placement.find_domain(uuid)]],
                [one.rp_uuid for one in held],
            )


class ExchangeTest(PartnersTestCase):
    """Two servers, each allocated in the domain of the other one's CPUs."""

    def setUp(self) -> None:
        super().setUp()
        self.starts = contextlib.ExitStack()
        self.addCleanup(self.starts.close)

    def test_one_that_is_being_built_gets_the_other_domain(self) -> None:
        self.claim(SERVER, 0, 1)
        self.assert_agreement(**{SERVER: 1, OTHER: 0})

        # Nova has read its allocations before.
        self.claim(OTHER, 1, 0)

        self.assert_agreement(**{SERVER: 1, OTHER: 0})
        self.assertIn(f'in exchange with server {OTHER}', self.log.output)

    def test_one_that_was_built_keeps_its_own(self) -> None:
        self.building.clear()

        self.assert_refused(SERVER, 0, 1)

    def test_one_whose_build_has_failed_here_keeps_its_own(self) -> None:
        """Nova deletes its allocations, whoever has changed them."""
        self.made.release(OTHER)

        self.assert_refused(SERVER, 0, 1)

    def test_one_whose_build_fails_meanwhile_keeps_its_own(self) -> None:
        def read_next() -> None:
            self.placement.before['get_allocations'] = functools.partial(
                self.made.release, OTHER
            )

        # The first reads those of the server that moves.
        self.placement.before['list_holders'] = read_next

        self.assert_refused(SERVER, 0, 1)

    def test_one_that_has_claimed_there_keeps_its_own(self) -> None:
        self.claim(OTHER, 1, 1)

        self.assert_refused(SERVER, 0, 1)

        # Of its own.
        self.assertEqual(1, self.placement.calls.count('get_allocations'))

    def test_one_that_has_claimed_elsewhere_comes_first(self) -> None:
        building, crossed = sorted([OTHER, THIRD])
        self.placement.capacity[WAYS] = 4
        self.placement.give(uuidsentinel.fourth, 0)
        self.placement.give(THIRD, 1)
        self.building.add(THIRD)
        self.start_crossed(crossed)

        self.claim(SERVER, 0, 1)

        self.assert_agreement(**{SERVER: 1, crossed: 0, building: 1})

    def test_one_that_has_started_keeps_its_own(self) -> None:
        """Nova may begin to move it, and count on its generation."""
        self.made.host.claim(self.make_crossed())

        self.assert_refused(SERVER, 0, 1)

    def test_one_that_is_being_released_keeps_its_own(self) -> None:
        self.start_crossed()
        self.made.host.state.mark_releasing([OTHER])

        self.assert_refused(SERVER, 0, 1)

    def test_one_that_comes_from_another_host_keeps_its_own(self) -> None:
        self.start_crossed()
        entry = self.made.host.entries[OTHER]
        self.made.host.state.put(
            dataclasses.replace(
                entry,
                state=assignment.State.APPLIED,
                purpose=assignment.Purpose.MIGRATION_DEST,
            )
        )

        self.assert_refused(SERVER, 0, 1)

    def test_one_that_leaves_meanwhile_makes_room(self) -> None:
        def read_next() -> None:
            self.placement.before['get_allocations'] = functools.partial(
                self.placement.give, OTHER, 2
            )

        # The first reads those of the server that moves.
        self.placement.before['list_holders'] = read_next

        self.claim(SERVER, 0, 1)

        self.assert_agreement(**{SERVER: 1, OTHER: 2})

    def test_another_one_that_comes_meanwhile(self) -> None:
        """The one that was seen there has exchanged its own with it."""

        def exchange() -> None:
            self.placement.give(OTHER, 2)
            self.placement.give(THIRD, 1)

        def read_next() -> None:
            self.placement.before['get_allocations'] = exchange

        self.placement.give(THIRD, 2)
        self.building.add(THIRD)
        self.placement.before['list_holders'] = read_next

        self.claim(SERVER, 0, 1)

        self.assert_agreement(**{SERVER: 1, OTHER: 2, THIRD: 0})

    def test_one_that_finds_its_partner_first(self) -> None:
        def exchange() -> None:
            self.claim(OTHER, 1, 0)

        self.placement.before['list_holders'] = exchange

        self.claim(SERVER, 0, 1)

        self.assert_agreement(**{SERVER: 1, OTHER: 0})

    def test_one_with_units_of_both_domains_keeps_its_own(self) -> None:
        self.placement.held[OTHER] = dataclasses.replace(
            self.placement.held[OTHER],
            resources={one: {WAYS: 2} for one in DOMAINS[:2]},
        )
        self.placement.capacity[WAYS] = 4
        self.placement.give(THIRD, 1)
        self.building.discard(THIRD)

        self.assert_refused(SERVER, 0, 1)

    def fill_with_others(self) -> None:
        """Have each domain full with one more, the second with no partner."""
        self.placement.capacity[WAYS] = 4
        for domain in range(2):
            self.placement.give(uuidutils.generate_uuid(), domain)
        self.placement.give(THIRD, 2)
        self.building.add(THIRD)
        self.start_crossed(OTHER, 2)

    def leave(self) -> None:
        """Exchange the other one with the third; its start ends."""
        self.placement.give(OTHER, 2)
        self.placement.give(THIRD, 1)
        self.starts.close()

    def test_one_that_ends_its_start_after_it_was_seen(self) -> None:
        def ask(uuids: frozenset[str]) -> Collection[str]:
            if self.placement.find_domain(OTHER) == 1:
                self.leave()
            return uuids & self.building

        self.fill_with_others()
        with_host.answer(self.made.allocation_writer._swap, find_building=ask)

        self.claim(SERVER, 0, 1)

        self.assert_agreement(**{SERVER: 1, OTHER: 2, THIRD: 0})

    def test_one_that_ends_its_start_after_it_was_read(self) -> None:
        def read_next() -> None:
            self.placement.after['get_allocations'] = self.leave

        self.fill_with_others()
        # The first reads those of the server that moves.
        self.placement.before['list_holders'] = read_next

        self.claim(SERVER, 0, 1)

        self.assert_agreement(**{SERVER: 1, OTHER: 2, THIRD: 0})

    def make_crossed(
        self, uuid: str = OTHER, target: int = 0
    ) -> assignment.ClaimRequest:
        """Make a claim of the second domain for CPUs of another one."""
        return with_host.make_claim(
            uuid,
            cpus=frozenset({CPUS[target]}),
            allocations={DOMAINS[1]: {WAYS: 2}},
        )

    def start_crossed(self, uuid: str = OTHER, target: int = 0) -> None:
        """Start with such a claim, which goes as far as the ledger."""
        self.starts.enter_context(self.made.host.starting(uuid))
        self.made.host.claim(self.make_crossed(uuid, target))

    def test_two_that_have_both_claimed_are_exchanged(self) -> None:
        self.start_crossed()

        self.claim(SERVER, 0, 1)

        self.assert_agreement(**{SERVER: 1, OTHER: 0})
        self.assertEqual([], self.asked)

    def test_what_was_exchanged_is_read_again_when_it_is_claimed(self) -> None:
        self.claim(SERVER, 0, 1)
        self.made.release(SERVER)
        del self.placement.held[SERVER]

        self.claim(OTHER, 1, 1)

        self.assert_agreement(**{OTHER: 1})

    def test_without_an_exchange_placement_is_not_asked(self) -> None:
        self.claim(SERVER, 0, 0)

        self.assertEqual([], self.placement.calls)

    def test_after_a_release_placement_is_not_asked_either(self) -> None:
        self.claim(SERVER, 0, 1)
        self.made.release(OTHER)
        self.placement.calls.clear()

        self.claim(OTHER, 0, 0)

        self.assertEqual([], self.placement.calls)

    def test_nova_that_does_not_answer_is_asked_once(self) -> None:
        self.placement.give(THIRD, 1)
        self.placement.capacity[WAYS] = 4
        self.placement.give(uuidsentinel.fourth, 0)
        asked = []

        def fail(uuids: frozenset[str]) -> Collection[str]:
            asked.append(uuids)
            raise TimeoutError('no reply on the message bus')

        with_host.answer(self.made.allocation_writer._swap, find_building=fail)

        self.assert_refused(SERVER, 0, 1)

        self.assertEqual([{OTHER, THIRD}], asked)
        self.assertEqual(
            1, self.log.output.count('no reply on the message bus')
        )

    def test_those_that_look_at_the_same_time_find_different_ones(
        self,
    ) -> None:
        self.placement.give(THIRD, 1)
        self.building.add(THIRD)
        find = functools.partial(
            self.made.allocation_writer._swap.find,
            DOMAINS[0],
            DOMAINS[1],
            frozenset(),
            {WAYS: 2},
        )

        found = [find(), find()]

        self.assertEqual(
            {OTHER, THIRD}, {one.consumer_uuid for one in found if one}
        )


class FloatingTest(PartnersTestCase):
    """The other one may have units of any domain."""

    CONF = HOST.replace(
        'enforcers = noop', 'enforcers = noop\nclaim_tests = capacity'
    )

    def setUp(self) -> None:
        super().setUp()
        self.made.allocation_writer.move(
            SERVER, [(WAYS, DOMAINS[0], DOMAINS[1])]
        )
        self.assert_agreement(**{SERVER: 1, OTHER: 0})

    def test_it_claims_in_the_domain_that_it_got(self) -> None:
        # Nova has read its allocations before.
        self.claim(OTHER, 1, None)

        self.assert_agreement(**{SERVER: 1, OTHER: 0})

    def test_without_an_answer_of_placement_it_is_refused(self) -> None:
        def fail() -> None:
            self.placement.before['get_allocations'] = fail
            raise exception.PlacementUnavailable(action='x', detail='away')

        self.placement.before['get_allocations'] = fail

        self.assertRaises(
            exception.PlacementUnavailable, self.claim, OTHER, 1, None
        )

        self.assertEqual({}, self.made.host.entries)


class RaceTest(PartnersTestCase):
    """The other one claims while an exchange with it is under way.

    The ledger has room for both in one domain, placement has not.
    """

    def claim_other(self) -> None:
        """Claim for CPUs of the domain that was allocated."""
        self.claim(OTHER, 1, 1)

    def assert_exchange_fails(self) -> None:
        self.assertRaises(
            exception.AllocationRejected, self.claim, SERVER, 0, 1
        )
        self.assertEqual({OTHER}, set(self.made.host.entries))
        self.assert_agreement(**{SERVER: 0, OTHER: 1})

    def test_while_nova_is_asked(self) -> None:
        def ask(uuids: frozenset[str]) -> Collection[str]:
            if OTHER not in self.made.host.entries:
                self.claim_other()
            return uuids

        with_host.answer(self.made.allocation_writer._swap, find_building=ask)

        self.assert_exchange_fails()

    def test_while_holders_are_read(self) -> None:
        self.placement.before['list_holders'] = self.claim_other

        self.assert_exchange_fails()

    def test_while_its_allocations_are_read(self) -> None:
        def read_next() -> None:
            self.placement.before['get_allocations'] = self.claim_other

        # The first reads those of the server that moves.
        self.placement.before['list_holders'] = read_next

        self.assert_exchange_fails()

    def test_before_it_is_written(self) -> None:
        self.placement.before['post_allocations'] = self.claim_other

        self.assert_exchange_fails()

    def test_again_after_it_could_not_confirm(self) -> None:
        def fail() -> None:
            self.placement.before['put_allocations'] = fail
            raise exception.PlacementUnavailable(action='x', detail='away')

        def claim_twice() -> None:
            self.placement.before['put_allocations'] = fail
            self.assertRaises(exception.PlacementUnavailable, self.claim_other)
            del self.placement.before['put_allocations']
            self.claim_other()

        self.placement.before['post_allocations'] = claim_twice

        self.assert_exchange_fails()

    def test_after_it_was_written(self) -> None:
        self.placement.after['post_allocations'] = functools.partial(
            self.assertRaises, exception.AllocationRejected, self.claim_other
        )

        self.claim(SERVER, 0, 1)

        self.assertEqual({SERVER}, set(self.made.host.entries))
        self.assert_agreement(**{SERVER: 1, OTHER: 0})

    def test_after_it_was_written_for_cpus_of_the_other_domain(self) -> None:
        self.placement.after['post_allocations'] = functools.partial(
            self.claim, OTHER, 1, 0
        )

        self.claim(SERVER, 0, 1)

        self.assertEqual({SERVER, OTHER}, set(self.made.host.entries))
        self.assert_agreement(**{SERVER: 1, OTHER: 0})


class ThreeTest(PartnersTestCase):
    """Each of three servers is allocated in the domain of the next one."""

    DOMAINS: Mapping[str, int] = {SERVER: 0, OTHER: 1, THIRD: 2}

    def test_all_get_the_domain_of_their_cpus(self) -> None:
        self.claim(SERVER, 0, 1)
        self.claim(OTHER, 1, 2)
        self.claim(THIRD, 2, 0)

        self.assert_agreement(**{SERVER: 1, OTHER: 2, THIRD: 0})

    def test_one_that_is_exchanged_while_it_moves(self) -> None:
        self.placement.before['get_allocations'] = functools.partial(
            self.claim, SERVER, 0, 1
        )

        self.claim(OTHER, 1, 2)

        self.assert_agreement(**{SERVER: 1, OTHER: 2, THIRD: 0})

    def exchange(self, count: int) -> None:
        """Exchange the first one with the third before each reading of it."""
        if count:
            third, first = (self.placement.held[u] for u in (THIRD, SERVER))
            for uuid, one in ((SERVER, third), (THIRD, first)):
                self.placement.held[uuid] = dataclasses.replace(
                    one, consumer_uuid=uuid
                )
            self.placement.before['get_allocations'] = functools.partial(
                self.exchange, count - 1
            )

    def test_one_that_is_exchanged_and_back_while_it_moves(self) -> None:
        self.placement.before['get_allocations'] = functools.partial(
            self.exchange, 2
        )

        self.claim(SERVER, 0, 1)

        self.assert_agreement(**{SERVER: 1, OTHER: 0, THIRD: 2})

    def test_one_that_is_exchanged_again_and_again_is_refused(self) -> None:
        self.placement.before['get_allocations'] = functools.partial(
            self.exchange, 99
        )

        self.assertRaises(exception.ConcurrentUpdate, self.claim, SERVER, 0, 1)

        self.assertEqual(2 * retry.MAX_ATTEMPTS, len(self.placement.calls))
        self.assertEqual({}, self.made.host.entries)

    def delete(self) -> None:
        self.placement.held[SERVER] = dataclasses.replace(
            self.placement.held[SERVER], resources={}
        )

    def test_one_whose_allocations_are_gone_is_refused(self) -> None:
        self.placement.before['get_allocations'] = self.delete

        self.assertRaises(exception.NotFound, self.claim, SERVER, 0, 1)

        self.assertEqual({}, self.made.host.entries)


class MoveTest(PartnersTestCase):
    """Another server moves on its own host.

    Until its guest is off, placement has what it holds under the migration's
    uuid, and what it has claimed under its own.
    """

    def setUp(self) -> None:
        super().setUp()
        # It was built in the third domain.
        self.placement.give(OTHER, 2)
        self.claim(OTHER, 2, 2)
        self.made.host.apply(OTHER)
        self.building.clear()
        self.placement.held[MIGRATION] = dataclasses.replace(
            self.placement.held[OTHER], consumer_uuid=MIGRATION
        )
        self.placement.give(OTHER, 1)

    def claim_move(self) -> None:
        self.made.claim(
            with_host.make_claim(
                MIGRATION,
                server_uuid=OTHER,
                cpus=frozenset({CPUS[1]}),
                allocations={DOMAINS[1]: {WAYS: 2}},
            ),
            is_move=True,
        )

    def test_what_it_has_claimed_stays(self) -> None:
        self.claim_move()

        self.assert_refused(SERVER, 0, 1)

    def test_what_it_had_stays(self) -> None:
        self.claim_move()

        self.assert_refused(SERVER, 0, 2)

    def test_what_it_had_stays_before_it_claims(self) -> None:
        self.assert_refused(SERVER, 0, 2)

    def test_what_it_keeps_stays(self) -> None:
        self.claim_move()
        self.made.park(OTHER, MIGRATION)

        self.assert_refused(SERVER, 0, 1)
        self.assert_refused(SERVER, 0, 2)

    def test_what_it_is_to_claim_stays(self) -> None:
        """Nova counts on its generation while it looks for a host."""
        self.assert_refused(SERVER, 0, 1)

    def test_what_it_is_to_claim_stays_in_the_comparison(self) -> None:
        self.made.host.claim(
            with_host.make_claim(SERVER, cpus=frozenset({CPUS[1]}))
        )

        self.assertEqual([SERVER], self.list_problems())

        self.assertEqual(1, self.placement.find_domain(OTHER))


class ClassesTest(PartnersTestCase):
    """Servers have units of two classes in their domain."""

    def move(self) -> None:
        self.made.allocation_writer.move(
            SERVER,
            [
                (BANDWIDTH, DOMAINS[0], DOMAINS[1]),
                (WAYS, DOMAINS[0], DOMAINS[1]),
            ],
        )

    def give(self, server: int, other: int) -> None:
        self.placement.give(SERVER, 0, **{BANDWIDTH: server})
        self.placement.give(OTHER, 1, **{BANDWIDTH: other})

    def test_all_are_exchanged_at_once(self) -> None:
        self.give(6, 6)

        self.move()

        self.assert_agreement(**{SERVER: 1, OTHER: 0})
        self.assertEqual(1, self.placement.calls.count('post_allocations'))

    def test_to_move_once_more_is_not_logged(self) -> None:
        self.give(6, 6)
        self.move()

        self.move()

        self.assertEqual(1, self.log.output.count('Moved'))

    def test_one_with_less_of_a_class_keeps_all(self) -> None:
        self.give(6, 5)

        self.assertRaises(exception.AllocationRejected, self.move)

        self.assert_agreement(**{SERVER: 0, OTHER: 1})

    def test_one_with_another_class_keeps_all(self) -> None:
        self.give(6, 6)
        self.placement.give(SERVER, 0)

        self.assertRaises(
            exception.AllocationRejected,
            self.made.allocation_writer.move,
            SERVER,
            [(WAYS, DOMAINS[0], DOMAINS[1])],
        )

        self.assert_agreement(**{SERVER: 0, OTHER: 1})
        self.assertEqual(1, self.placement.calls.count('get_allocations'))


class _Killed(BaseException):
    """The process ends here: nothing goes on, nothing is undone."""


class KillTest(PartnersTestCase):
    """nova-compute is killed during an exchange, and starts again.

    Nova then takes both servers for failed.
    """

    def kill(self) -> None:
        raise _Killed

    def claim_and_start_again(self) -> None:
        self.assertRaises(_Killed, self.claim, SERVER, 0, 1)
        self.building.clear()
        self.start_again()
        self.assertEqual({SERVER}, set(self.made.host.entries))

    def start_again(self) -> None:
        self.made.host.close()
        self.start()

    def test_before_it_is_written(self) -> None:
        self.placement.before['post_allocations'] = self.kill
        self.claim_and_start_again()
        self.assertEqual([SERVER], self.list_problems())
        self.assertEqual(0, self.placement.find_domain(SERVER))

        # It is deleted.
        del self.placement.held[OTHER]

        self.assertEqual([], self.list_problems())
        self.assert_agreement(**{SERVER: 1})

    def test_both_before_they_are_written(self) -> None:
        for claim in ((SERVER, 0, 1), (OTHER, 1, 0)):
            self.placement.before['put_allocations'] = self.kill
            self.assertRaises(_Killed, self.claim, *claim)
        self.start_again()

        self.assertEqual([], self.list_problems())
        self.assert_agreement(**{SERVER: 1, OTHER: 0})

    def test_after_it_was_written(self) -> None:
        self.placement.after['post_allocations'] = self.kill
        self.claim_and_start_again()

        self.assertEqual([], self.list_problems())
        self.assert_agreement(**{SERVER: 1, OTHER: 0})

    def test_the_other_one_before_it_confirms(self) -> None:
        """It knows nothing of the exchange when it starts again."""
        self.claim(SERVER, 0, 1)
        self.placement.before['put_allocations'] = self.kill
        self.assertRaises(_Killed, self.claim, OTHER, 1, 0)
        self.start_again()

        self.assertEqual([], self.list_problems())
        self.assert_agreement(**{SERVER: 1, OTHER: 0})
