# SPDX-License-Identifier: Apache-2.0

"""Tests of what is lent, and who gives it back."""

import dataclasses
import itertools
import random
from typing import Any, ClassVar

from nova_ext_resources.claims import lease as lease_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planned_server
from tests import base
from tests.unit.reservation import hosts

CPU, RAM = ('a', 'VCPU'), ('a', 'MEMORY_MB')

LEAVE = lending.LEAVE_SECONDS


def make_specs(**specs: str) -> dict[str, str]:
    return {f'resource:lease:{key}': value for key, value in specs.items()}


def make_slot(key: str, **amounts: int) -> planned_server.PlannedServer:
    return planned_server.PlannedServer(
        key=key,
        host='a',
        during=hosts.span(1000),
        assignments=tuple(
            assignment.Assignment(
                rp_uuid='a', rp_key='a', resource_class=name, amount=amount
            )
            for name, amount in amounts.items()
        ),
    )


def make_borrower(
    uuid: str, told_at: int | None = None, created_at: int = 0, **fields: Any
) -> lending.Borrower:
    lease = lease_mod.FlavorLease(**{'is_preemptible': True, **fields})
    return lending.Borrower(
        uuid=uuid, lease=lease, created_at=created_at, told_at=told_at
    )


def make_kept(uuid: str, until: int) -> lending.Borrower:
    return dataclasses.replace(make_borrower(uuid), until=until, is_kept=True)


class EndTest(base.TestCase):
    def test_until_when_a_server_counts_as_being_there(self) -> None:
        for specs, wanted in (
            ({}, interval.FOREVER),
            ({'max_seconds': '7200'}, 8200),
            ({'preemptible': 'true'}, 1000 + 300 + LEAVE),
            (
                {'preemptible': 'true', 'drain_seconds': '0'},
                1000 + LEAVE,
            ),
            (
                {
                    'preemptible': 'true',
                    'drain_seconds': '60',
                    'max_seconds': '100',
                },
                1100,
            ),
            ({'preemptible': 'false'}, interval.FOREVER),
            ({'max_seconds': 'soon'}, interval.FOREVER),
            ({'max_seconds': '60', 'colour': 'red'}, interval.FOREVER),
            ({'drain_seconds': '60'}, interval.FOREVER),
        ):
            with self.subTest(**specs):
                found = lending.find_end(make_specs(**specs), 1000)

                self.assertEqual(wanted, found)


def make_hints(seconds: str) -> lease_mod.Hints:
    return {lease_mod.HINT: [seconds]}


class HintTest(base.TestCase):
    """What a server says itself of its end."""

    #: Specs of a flavor, the hint, and the end of what is created at 1000.
    CASES: ClassVar[Any] = (
        ({}, '60', 1060),
        ({'max_seconds': '100'}, '60', 1060),
        ({'max_seconds': '100'}, '100', 1100),
        # No server makes its end later than its flavor says.
        ({'max_seconds': '100'}, '101', 1100),
        ({'preemptible': 'true'}, '60', 1060),
        ({'preemptible': 'true'}, '9000', 1000 + 300 + LEAVE),
        ({}, 'soon', interval.FOREVER),
        ({}, '0', interval.FOREVER),
        ({'max_seconds': '100'}, 'soon', 1100),
        # What is malformed lends nothing.
        ({'max_seconds': 'soon'}, '60', interval.FOREVER),
        ({'drain_seconds': '60'}, '60', interval.FOREVER),
    )

    def test_until_when_it_counts_as_being_there(self) -> None:
        for specs, hint, wanted in self.CASES:
            with self.subTest(hint=hint, **specs):
                found = lending.find_end(
                    make_specs(**specs), 1000, make_hints(hint)
                )

                self.assertEqual(wanted, found)

    def test_the_manager_reads_it_as_the_scheduler_does(self) -> None:
        for specs, hint, end in self.CASES:
            with self.subTest(hint=hint, **specs):
                borrower = lending.make_borrower(
                    nova_server.NovaServer(
                        uuid='x',
                        created_at=1000,
                        extra_specs=make_specs(**specs),
                        hints=make_hints(hint),
                    ),
                    None,
                    1000,
                )

                if end == interval.FOREVER:
                    self.assertIsNone(borrower)
                    continue
                assert borrower is not None
                # It is told in time for what begins when it has gone.
                due = lending.find_due(borrower, end)
                self.assertEqual(end - borrower.lead, due)

    def test_what_it_may_not_ask_for(self) -> None:
        for specs, hint, wanted in (
            ({}, '60', ''),
            ({'max_seconds': '60'}, '60', ''),
            (
                {'max_seconds': '60'},
                '61',
                'the scheduler hint nova_ext:lease_seconds is 61, but servers '
                'of this flavor end after 60 seconds; ask for 60 at most',
            ),
            (
                {'max_seconds': '60'},
                '1h',
                'the scheduler hint nova_ext:lease_seconds is 1h; write one '
                'whole number of seconds, from 1 to 999999999',
            ),
        ):
            with self.subTest(hint=hint, **specs):
                found = lending.find_fault(
                    make_specs(**specs), make_hints(hint)
                )

                self.assertEqual(wanted, found)
        self.assertEqual('', lending.find_fault({}, {}))


class DueTest(base.TestCase):
    def test_who_is_to_be_told(self) -> None:
        start, lead = 10_000, 300 + LEAVE
        ends = {'is_preemptible': False, 'max_seconds': 5000}
        for borrower, now, wanted in (
            (make_borrower('x'), start - lead - 1, False),
            (make_borrower('x'), start - lead, True),
            (make_borrower('x', told_at=5), start - lead - 1, False),
            (make_borrower('x', told_at=5), start - lead, True),
            (make_borrower('x', is_preemptible=False), start, False),
            (make_borrower('x', created_at=4999, **ends), start - 1, True),
            (
                make_borrower('x', created_at=start - 5000, **ends),
                start - lead,
                True,
            ),
            (
                make_borrower('x', created_at=start - 4999, **ends),
                start - lead,
                False,
            ),
            (
                make_borrower('x', created_at=start - 4999, **ends),
                start - lead + 1,
                True,
            ),
            (make_borrower('x', drain_seconds=0), start - LEAVE - 1, False),
            (make_borrower('x', drain_seconds=0), start - LEAVE, True),
        ):
            with self.subTest(borrower=borrower, now=now):
                found = lending.is_due(borrower, start, now)

                self.assertIs(wanted, found)

    def test_a_server_that_was_let_in_has_gone_by_the_start(self) -> None:
        """What the scheduler counts on is what the manager does."""
        for specs in (
            {'preemptible': 'true', 'drain_seconds': '100'},
            {'max_seconds': '5000'},
            {'max_seconds': '5000', 'preemptible': 'true'},
        ):
            with self.subTest(**specs):
                found = lending.find_lease(make_specs(**specs))
                borrower = lending.Borrower(
                    uuid='x', lease=found, created_at=1000
                )
                start = lending.find_end(make_specs(**specs), 1000)

                last = start - LEAVE - found.drain_seconds

                self.assertTrue(lending.is_due(borrower, start, last))

    def test_the_notice_is_kept(self) -> None:
        for told_at, now, wanted in (
            (None, 9999, False),
            (1000, 1299, False),
            (1000, 1300, True),
        ):
            with self.subTest(told_at=told_at, now=now):
                one = make_borrower('x', told_at=told_at)

                self.assertIs(wanted, lending.has_drained(one, now))


class KeptTest(base.TestCase):
    """A server that stays after its reservation, up to 5000."""

    def make(self, told_at: int | None = None, **specs: Any) -> Any:
        return lending.make_borrower(
            nova_server.NovaServer(
                uuid='x', created_at=1000, extra_specs=make_specs(**specs)
            ),
            told_at,
            told_at or 0,
            until=5000,
        )

    def test_it_is_told_in_time_and_not_before_it_may_stay(self) -> None:
        cases: list[tuple[dict[str, Any], int]] = [
            ({}, 300),
            ({'colour': 'red'}, 300),
            ({'preemptible': 'true', 'drain_seconds': '60'}, 60),
            ({'max_seconds': '10', 'drain_seconds': '60'}, 60),
            ({'max_seconds': '999999', 'drain_seconds': '0'}, 0),
        ]
        for specs, drain in cases:
            for start, wanted in (
                (2000, 5000 - drain),
                (5000, 5000 - drain),
                (5000 + LEAVE, 5000 - drain),
                (9000, 9000 - drain - LEAVE),
            ):
                with self.subTest(start=start, **specs):
                    found = lending.find_due(self.make(**specs), start)

                    self.assertEqual(wanted, found)

    def test_it_goes_no_earlier_than_its_reservation_ends(self) -> None:
        end = 5000 + due.MAX_SKEW
        for told_at, wanted in ((None, None), (4000, end), (4900, 5200)):
            with self.subTest(told_at=told_at):
                self.assertEqual(wanted, self.make(told_at).leaves_at)

    def test_it_is_no_borrower_if_its_flavor_is_that_of_one(self) -> None:
        self.assertTrue(self.make().is_kept)
        self.assertFalse(self.make(preemptible='true').is_kept)

    def test_it_is_another_one_if_its_flavor_has_changed(self) -> None:
        one = self.make()
        uses = {CPU: lending.Use(capacity=8, holders={'x': 1})}
        for created_at, wanted in ((1000, ''), (1001, 'flavor has changed')):
            with self.subTest(created_at=created_at):
                server = nova_server.NovaServer(
                    uuid='x', created_at=created_at
                )

                found = lending.find_objection(one, server, {CPU: 1}, uses)

                self.assertIn(wanted, found)


class ShortageTest(base.TestCase):
    def test_what_is_short(self) -> None:
        uses = {
            CPU: lending.Use(capacity=8, holders={'x': 4, 'y': 2}),
            RAM: lending.Use(capacity=100, holders={'x': 10}),
        }
        slots = [make_slot('1', VCPU=3, MEMORY_MB=20), make_slot('2', VCPU=1)]
        for leaving, wanted in (
            (set(), {CPU: 2}),
            ({'y'}, {}),
            ({'x', 'z'}, {}),
        ):
            with self.subTest(leaving=leaving):
                found = lending.find_shortage(uses, slots, leaving)

                self.assertEqual(wanted, found)

    def test_a_place_that_is_gone_has_nothing(self) -> None:
        found = lending.find_shortage({}, [make_slot('1', VCPU=3)])

        self.assertEqual({CPU: 3}, found)

    def test_the_sentence_names_what_is_missing(self) -> None:
        self.assertEqual(
            'room is missing on host h: 5 MEMORY_MB of provider a, 2 VCPU of '
            'provider a',
            lending.describe('h', {CPU: 2, RAM: 5}),
        )
        self.assertEqual(
            'room is missing on host h: 2 VCPU of provider h NUMA',
            lending.describe('h', {CPU: 2}, {CPU[0]: 'h NUMA', 'b': 'no'}),
        )


class ChooseTest(base.TestCase):
    def choose(
        self, short: int, *borrowers: tuple[lending.Borrower, int]
    ) -> tuple[str, dict[Any, int]]:
        uses = {
            CPU: lending.Use(
                capacity=8,
                holders={one.uuid: amount for one, amount in borrowers},
            )
        }
        chosen, left = lending.choose(
            [one for one, _amount in borrowers], {CPU: short}, uses
        )
        return ''.join(sorted(one.uuid for one in chosen)), left

    def test_the_lowest_priority_goes_first(self) -> None:
        found = self.choose(
            2,
            (make_borrower('a', priority=1), 2),
            (make_borrower('b', priority=-1), 2),
            (make_borrower('c'), 2),
        )

        self.assertEqual(('b', {}), found)

    def test_no_more_go_than_are_needed(self) -> None:
        found = self.choose(
            4,
            (make_borrower('a', priority=-2), 1),
            (make_borrower('b', priority=-1), 4),
            (make_borrower('c'), 2),
        )

        self.assertEqual(('b', {}), found)

    def test_those_that_know_it_go(self) -> None:
        found = self.choose(
            2,
            (make_borrower('a', priority=-2), 2),
            (make_borrower('b', told_at=5, priority=3), 2),
        )

        self.assertEqual(('b', {}), found)

    def test_the_youngest_of_one_priority_goes(self) -> None:
        found = self.choose(
            2,
            (make_borrower('a', created_at=10), 2),
            (make_borrower('b', created_at=20), 2),
        )

        self.assertEqual(('b', {}), found)

    def test_those_that_have_stayed_go_after_all_others(self) -> None:
        for number, wanted in ((2, 'c'), (4, 'bc'), (6, 'abc')):
            with self.subTest(number=number):
                found = self.choose(
                    number,
                    (make_kept('a', 20), 2),
                    (make_kept('b', 10), 2),
                    (make_borrower('c', priority=9), 2),
                )

                self.assertEqual((wanted, {}), found)

    def test_what_all_of_them_do_not_free_is_left(self) -> None:
        found = self.choose(
            5, (make_borrower('a'), 2), (make_borrower('b'), 1)
        )

        self.assertEqual(('ab', {CPU: 2}), found)

    def test_those_that_hold_nothing_of_it_stay(self) -> None:
        uses = {
            CPU: lending.Use(capacity=8, holders={'a': 2}),
            RAM: lending.Use(capacity=8, holders={'b': 2}),
        }

        chosen, left = lending.choose(
            [make_borrower('a'), make_borrower('b')], {RAM: 1}, uses
        )

        self.assertEqual((['b'], {}), ([one.uuid for one in chosen], left))

    def test_a_provider_that_is_gone_is_freed_by_nobody(self) -> None:
        gone = ('gone', 'VCPU')
        uses = {CPU: lending.Use(capacity=8, holders={'a': 1})}

        chosen, left = lending.choose(
            [make_borrower('a')], {gone: 1, CPU: 1}, uses
        )

        self.assertEqual(["a"], [one.uuid for one in chosen])
        self.assertEqual({gone: 1}, left)

    def test_random_hosts(self) -> None:
        """Enough go if that is possible, and each of them is needed."""
        dice = random.Random(7)
        for number in range(300):
            with self.subTest(number=number):
                borrowers = [
                    make_borrower(str(one), priority=dice.randint(-2, 2))
                    for one in range(dice.randint(0, 6))
                ]
                uses = {
                    place: lending.Use(
                        capacity=8,
                        holders={
                            one.uuid: dice.randint(1, 4)
                            for one in borrowers
                            if dice.random() < 0.7
                        },
                    )
                    for place in (CPU, RAM)
                }
                shortage = {
                    place: dice.randint(1, 8)
                    for place in (CPU, RAM)
                    if dice.random() < 0.8
                }

                chosen, left = lending.choose(borrowers, shortage, uses)

                everybody = lending._subtract(shortage, borrowers, uses)
                self.assertEqual(everybody, left)
                self.assertEqual(
                    left, lending._subtract(shortage, chosen, uses)
                )
                for fewer in itertools.combinations(
                    chosen, max(len(chosen) - 1, 0)
                ):
                    if chosen:
                        self.assertNotEqual(
                            left, lending._subtract(shortage, fewer, uses)
                        )
