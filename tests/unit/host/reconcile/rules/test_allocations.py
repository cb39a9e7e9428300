# SPDX-License-Identifier: Apache-2.0

"""The ledger has something else than placement."""

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.host.reconcile.rules import allocations
from nova_ext_resources.objects import assignment
from tests import base
from tests.unit import builders
from tests.unit.host import with_host

WAYS = with_host.WAYS
DOMAINS = with_host.DOMAINS

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

#: Of providers; the last one is not in placement.
KEYS = {name: f'L3_{name}' for name in ('a', 'b', 'c', 'rdt', 'gone')}


def make_entry(*held: tuple[str, int], uuid: str = SERVER) -> assignment.Entry:
    """Make an entry of ways, by provider, with a class of service."""
    return assignment.Entry(
        consumer_uuid=uuid,
        assignments=(
            *(
                builders.make_assignment(
                    rp_uuid=rp_uuid, rp_key=f'L3_{rp_uuid}', amount=amount
                )
                for rp_uuid, amount in held
            ),
            builders.make_assignment(
                rp_uuid='rdt',
                resource_class=builders.CLOS,
                amount=1,
                is_allocated=False,
            ),
        ),
    )


def make_holders(**amounts: int) -> allocations.Holders:
    """Return what placement has for the server on providers a, b, c, rdt."""
    return {
        rp_uuid: {WAYS: {SERVER: amounts[rp_uuid]}}
        if rp_uuid in amounts
        else {}
        for rp_uuid in ('a', 'b', 'c', 'rdt')
    }


class CompareTest(base.TestCase):
    def compare(
        self, entry: assignment.Entry, *, spreads: bool = True, **amounts: int
    ) -> allocations.Difference | None:
        found = allocations.compare(
            [entry],
            make_holders(**amounts),
            KEYS,
            recorded={SERVER},
            spreads=spreads,
        )
        return found.get(SERVER)

    def assert_differs(
        self,
        found: allocations.Difference | None,
        *,
        moves: tuple[allocations.Move, ...] = (),
        missing: tuple[tuple[str, int], ...] = (),
        surplus: tuple[tuple[str, int], ...] = (),
    ) -> None:
        assert found is not None
        self.assertEqual(moves, found.moves)
        for expected, real, is_allocated in (
            (missing, found.missing, False),
            (surplus, found.surplus, True),
        ):
            self.assertEqual(
                [
                    assignment.Assignment(
                        rp_uuid=rp_uuid,
                        rp_key=KEYS[rp_uuid],
                        resource_class=WAYS,
                        amount=amount,
                        is_allocated=is_allocated,
                    )
                    for rp_uuid, amount in expected
                ],
                list(real),
            )

    def test_what_placement_has_of_some_domains_only(self) -> None:
        entry = make_entry(('a', 4), ('b', 4), ('c', 4))

        found = self.compare(entry, b=4)

        self.assert_differs(found)
        assert found is not None
        self.assertEqual(
            {(name, WAYS): 4 for name in ('a', 'b', 'c')}, found.further
        )
        moved = self.compare(make_entry(('a', 4), ('b', 4)), c=4)
        self.assert_differs(moved, moves=((WAYS, 'c', 'a'),))
        assert moved is not None
        self.assertEqual({('a', WAYS): 4, ('b', WAYS): 4}, moved.further)

    def test_a_host_that_does_not_spread_misses_them(self) -> None:
        entry = make_entry(('a', 4), ('b', 4))
        for amounts, moves, missing in (
            ({'b': 4}, (), (('a', 4),)),
            ({'c': 4}, ((WAYS, 'c', 'a'),), (('b', 4),)),
        ):
            found = self.compare(entry, spreads=False, **amounts)
            self.assert_differs(found, moves=moves, missing=missing)
            assert found is not None
            self.assertEqual({}, found.further)

    def test_other_amounts_are_not_of_further_domains(self) -> None:
        self.assert_differs(
            self.compare(make_entry(('a', 4), ('b', 2)), a=4),
            missing=(('b', 2),),
        )

    def test_what_placement_has_of_a_domain_too_many_is_not_taken(
        self,
    ) -> None:
        found = self.compare(make_entry(('a', 4)), a=4, b=4)

        self.assert_differs(found, surplus=(('b', 4),))
        assert found is not None
        self.assertEqual({}, found.further)

    def test_what_is_alike_is_no_difference(self) -> None:
        self.assertIsNone(self.compare(make_entry(('a', 4)), a=4))

    def test_what_placement_has_not(self) -> None:
        self.assert_differs(
            self.compare(make_entry(('a', 4))), missing=(('a', 4),)
        )

    def test_what_placement_has_less_of(self) -> None:
        self.assert_differs(
            self.compare(make_entry(('a', 4)), a=3), missing=(('a', 1),)
        )

    def test_what_placement_has_more_of(self) -> None:
        self.assert_differs(
            self.compare(make_entry(('a', 4)), a=6, b=1),
            surplus=(('a', 2), ('b', 1)),
        )

    def test_what_is_on_another_provider_is_neither_missing_nor_too_much(
        self,
    ) -> None:
        self.assert_differs(
            self.compare(make_entry(('b', 4)), a=4), moves=((WAYS, 'a', 'b'),)
        )

    def test_another_amount_on_another_provider_is_not_moved(self) -> None:
        self.assert_differs(
            self.compare(make_entry(('b', 4)), a=3),
            missing=(('b', 4),),
            surplus=(('a', 3),),
        )

    def test_nothing_is_moved_to_or_from_what_both_have(self) -> None:
        """All units of a provider move, and these are not all wrong."""
        self.assert_differs(
            self.compare(make_entry(('a', 3), ('b', 1)), a=1, b=3),
            missing=(('a', 2),),
            surplus=(('b', 2),),
        )

    def test_nothing_is_moved_from_where_the_server_holds_something(
        self,
    ) -> None:
        self.assert_differs(
            self.compare(make_entry(('a', 3), ('c', 2)), a=2),
            missing=(('a', 1), ('c', 2)),
        )

    def test_nothing_is_moved_to_where_something_is_allocated(self) -> None:
        self.assert_differs(
            self.compare(make_entry(('c', 4)), b=4, c=5),
            surplus=(('b', 4), ('c', 1)),
        )

    def test_units_of_one_place_are_added_up(self) -> None:
        entry = make_entry(('a', 3), ('a', 1))

        self.assertIsNone(self.compare(entry, a=4))
        self.assert_differs(self.compare(entry, a=3), missing=(('a', 1),))

    def test_a_provider_that_was_not_read_is_not_compared(self) -> None:
        self.assertIsNone(self.compare(make_entry(('gone', 4))))

    def test_others_that_hold_something_are_passed_over(self) -> None:
        holders = {'a': {WAYS: {SERVER: 4, OTHER: 2}}}
        entry = make_entry(('a', 4))

        found = allocations.compare([entry], holders, KEYS, recorded={SERVER})
        self.assertEqual({}, found)
        entry = make_entry(('a', 4), uuid=OTHER)
        found = allocations.compare([entry], holders, KEYS, recorded={OTHER})
        self.assertEqual([OTHER], [*found])


class ProvidersTest(base.TestCase):
    """Which providers can show a difference."""

    def list_providers(self, *entries: assignment.Entry) -> set[str]:
        places = {('a', WAYS), ('b', WAYS), ('rdt', builders.CLOS)}
        return allocations.list_providers(entries, places)

    def test_without_entries_none(self) -> None:
        self.assertEqual(set(), self.list_providers())

    def test_all_that_have_a_class_that_is_held(self) -> None:
        """Placement may have it on another one than the ledger."""
        found = self.list_providers(make_entry(('a', 4)))

        self.assertEqual({'a', 'b'}, found)

    def test_what_the_host_does_not_offer_now(self) -> None:
        found = self.list_providers(make_entry(('gone', 4)))

        self.assertEqual({'a', 'b', 'gone'}, found)


class DoubtTest(base.TestCase):
    """Another consumer may be a migration of the server that lacks it."""

    def is_in_doubt(
        self,
        entry: assignment.Entry,
        other: dict[str, int],
        *,
        recorded: tuple[str, ...] = (SERVER,),
        **amounts: int,
    ) -> bool:
        holders = {
            rp_uuid: {WAYS: {**given.get(WAYS, {}), OTHER: other[rp_uuid]}}
            if rp_uuid in other
            else given
            for rp_uuid, given in make_holders(**amounts).items()
        }
        found = allocations.compare([entry], holders, KEYS, recorded=recorded)
        return found[SERVER].is_in_doubt

    def test_another_has_what_is_missing(self) -> None:
        entry = make_entry(('a', 4), ('b', 2))

        self.assertTrue(self.is_in_doubt(entry, {'a': 4, 'b': 2}))
        self.assertTrue(self.is_in_doubt(entry, {'a': 5, 'b': 2, 'c': 1}))
        self.assertTrue(self.is_in_doubt(entry, {'a': 4, 'b': 2}, a=4))

    def test_another_has_what_is_on_another_provider(self) -> None:
        """A server that moves may get something of its own host."""
        self.assertTrue(self.is_in_doubt(make_entry(('a', 4)), {'a': 4}, b=4))

    def test_another_has_less(self) -> None:
        """Nova gives a migration all that the server has."""
        entry = make_entry(('a', 4), ('b', 2))

        self.assertFalse(self.is_in_doubt(entry, {'a': 3, 'b': 2}))
        self.assertFalse(self.is_in_doubt(entry, {'a': 4}))
        self.assertFalse(self.is_in_doubt(entry, {'c': 4}))
        self.assertFalse(self.is_in_doubt(entry, {'b': 2}, a=4))

    def test_another_that_is_recorded_holds_its_own(self) -> None:
        entry = make_entry(('a', 4))

        self.assertFalse(
            self.is_in_doubt(entry, {'a': 4}, recorded=(SERVER, OTHER))
        )

    def test_another_has_what_is_held_and_the_server_more(self) -> None:
        """A server that moves on its host has both."""
        entry = make_entry(('a', 4))

        self.assertTrue(self.is_in_doubt(entry, {'a': 4}, a=5))
        self.assertFalse(self.is_in_doubt(entry, {'b': 1}, a=5))


class MovedTest(base.TestCase):
    def make_entry(self, *held: tuple[str, str, bool]) -> assignment.Entry:
        return assignment.Entry(
            consumer_uuid=SERVER,
            assignments=tuple(
                builders.make_assignment(
                    rp_uuid=rp_uuid,
                    resource_class=name,
                    amount=2 if name == WAYS else 1,
                    is_allocated=known,
                )
                for rp_uuid, name, known in held
            ),
        )

    def test_what_is_where_it_was_asked_for_is_not_moved(self) -> None:
        entry = self.make_entry(
            (DOMAINS[0], WAYS, True), ('rdt', builders.CLOS, False)
        )

        self.assertEqual(
            [],
            allocations.list_moved(
                with_host.make_claim(SERVER).allocations, entry, DOMAINS
            ),
        )

    def test_what_the_host_put_elsewhere_is_moved(self) -> None:
        entry = self.make_entry(
            (DOMAINS[1], WAYS, True), ('rdt', builders.CLOS, False)
        )

        self.assertEqual(
            [(WAYS, DOMAINS[0], DOMAINS[1])],
            allocations.list_moved(
                with_host.make_claim(SERVER).allocations, entry, DOMAINS
            ),
        )

    def test_only_the_part_that_moved_is_moved(self) -> None:
        request = with_host.make_claim(
            SERVER,
            allocations={
                'a': {WAYS: 2},
                'b': {WAYS: 2},
                'node': {'VCPU': 2, builders.SEATS: 1},
            },
        )
        entry = self.make_entry(
            ('b', WAYS, True),
            ('c', WAYS, True),
            ('node', builders.SEATS, True),
        )

        self.assertEqual(
            [(WAYS, 'a', 'c')],
            allocations.list_moved(
                request.allocations, entry, {'a', 'b', 'node'}
            ),
        )

    def test_each_amount_goes_where_it_is_held(self) -> None:
        entry = assignment.Entry(
            consumer_uuid=SERVER,
            assignments=tuple(
                builders.make_assignment(rp_uuid=rp_uuid, amount=amount)
                for rp_uuid, amount in (('c', 3), ('d', 2))
            ),
        )
        request = with_host.make_claim(
            SERVER, allocations={'a': {WAYS: 2}, 'b': {WAYS: 3}}
        )

        self.assertEqual(
            [(WAYS, 'a', 'd'), (WAYS, 'b', 'c')],
            allocations.list_moved(request.allocations, entry, {'a', 'b'}),
        )

    def test_what_an_evacuated_server_has_at_its_source_stays(self) -> None:
        for source in ('0', 'z'):
            request = with_host.make_claim(
                SERVER, allocations={source: {WAYS: 2}, 'a': {WAYS: 2}}
            )
            entry = self.make_entry(('b', WAYS, True))

            self.assertEqual(
                [(WAYS, 'a', 'b')],
                allocations.list_moved(request.allocations, entry, {'a', 'b'}),
            )

    def test_a_server_that_holds_nothing_moves_nothing(self) -> None:
        self.assertEqual(
            [],
            allocations.list_moved(
                with_host.make_claim(SERVER).allocations,
                self.make_entry(),
                DOMAINS,
            ),
        )


class AllocatedTest(base.TestCase):
    def test_what_placement_does_not_know_of_is_not_moved_there(
        self,
    ) -> None:
        request = with_host.make_claim(
            SERVER, allocations={'elsewhere': {builders.CLOS: 1}}
        )
        entry = assignment.Entry(
            consumer_uuid=SERVER,
            assignments=(
                builders.make_assignment(
                    rp_uuid=with_host.RDT,
                    resource_class=builders.CLOS,
                    is_allocated=False,
                ),
            ),
        )

        self.assertEqual(
            [],
            allocations.list_moved(request.allocations, entry, {'elsewhere'}),
        )
