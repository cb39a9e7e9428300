# SPDX-License-Identifier: Apache-2.0

"""Tests of which slot a server gets."""

import dataclasses
from typing import Any

from nova_ext_resources.reservation import choice
from nova_ext_resources.reservation import planned_server
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation import test_promise_ledger


def make_slot(
    key: str, consumer: str | None = None, **amounts: int
) -> planned_server.PlannedServer:
    """Make a slot with VCPU of each provider."""
    return test_promise_ledger.make_slot(
        key,
        hosts.span(0, 9),
        {(rp_uuid, 'VCPU'): amount for rp_uuid, amount in amounts.items()},
        consumer=consumer,
    )


def make_candidate(**amounts: int) -> dict[str, Any]:
    return {
        'allocations': {
            rp_uuid: {'resources': {'VCPU': amount}}
            for rp_uuid, amount in amounts.items()
        }
    }


class ChooseTest(base.TestCase):
    def choose(
        self,
        *held: planned_server.PlannedServer,
        harmless: bool = False,
        **candidates: list[dict[str, Any]],
    ) -> tuple[str, list[Any]] | None:
        found = choice.choose(
            held, 'me', candidates, lambda _slot, _candidate: harmless
        )
        if found is None:
            return None
        return found.slot.key, [*found.candidates]

    def test_a_free_slot_with_its_places(self) -> None:
        mine, other = make_candidate(a=2), make_candidate(c=2)

        self.assertEqual(
            ('free', [mine]),
            self.choose(
                make_slot('taken', 'another', a=2),
                make_slot('free', a=2),
                harmless=True,
                a=[other, mine],
            ),
        )

    def test_the_slot_that_it_has_comes_first(self) -> None:
        one = make_candidate(a=2)

        self.assertEqual(
            ('mine', [one]),
            self.choose(
                make_slot('free', a=2), make_slot('mine', 'me', a=2), a=[one]
            ),
        )
        other = make_candidate(c=2)
        self.assertEqual(
            ('mine', [other]),
            self.choose(
                make_slot('free', b=2),
                make_slot('mine', 'me', a=2),
                harmless=True,
                a=[other],
                b=[make_candidate(b=2)],
            ),
        )

    def test_exact_places_come_before_others(self) -> None:
        exact = make_candidate(b=2)

        found = self.choose(
            make_slot('first', a=2),
            make_slot('second', b=2),
            harmless=True,
            a=[make_candidate(c=2)],
            b=[exact],
        )

        self.assertEqual(('second', [exact]), found)

    def test_what_would_break_a_promise_is_not_chosen(self) -> None:
        self.assertIsNone(
            self.choose(make_slot('x', a=2), a=[make_candidate(c=2)])
        )

    def test_hosts_that_are_not_offered(self) -> None:
        self.assertIsNone(self.choose(make_slot('x', a=2)))
        self.assertIsNone(self.choose(make_slot('x', a=2), a=[]))

    def test_more_than_the_slot_has(self) -> None:
        for amounts in ({'a': 3}, {'a': 2, 'c': 1}):
            found = self.choose(
                make_slot('x', a=2),
                harmless=True,
                a=[make_candidate(**amounts)],
            )

            self.assertIsNone(found)
        self.assertEqual(
            [('VCPU', 3, 2)],
            choice.list_excess(make_slot('x', a=2), make_candidate(a=1, c=2)),
        )

    def test_less_than_the_slot_has(self) -> None:
        one = make_candidate(a=1)

        self.assertEqual(
            ('x', [one]), self.choose(make_slot('x', a=2), a=[one])
        )

    def test_a_class_that_the_slot_does_not_have(self) -> None:
        one = make_candidate(a=1)
        one['allocations']['a']['resources']['SEATS'] = 1

        self.assertEqual(
            ('x', [one]),
            self.choose(make_slot('x', a=2), harmless=True, a=[one]),
        )
        self.assertIsNone(self.choose(make_slot('x', a=2), a=[one]))
        slot = dataclasses.replace(make_slot('x', a=2))
        self.assertEqual([], choice.list_exact(slot, [one]))
