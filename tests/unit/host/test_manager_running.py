# SPDX-License-Identifier: Apache-2.0

"""A server whose guest runs claims anew: with what it has, or with more."""

from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.unit import builders
from tests.unit.host import test_manager_meanwhile
from tests.unit.host import with_host

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other


def claim_elsewhere(ways: int = 4) -> assignment.ClaimRequest:
    """Its CPUs are in another domain now, as after a restart on others."""
    return with_host.make_claim(SERVER, ways, cpus=frozenset({13}))


def claim_nothing() -> assignment.ClaimRequest:
    return with_host.make_claim(
        SERVER,
        allocations={with_host.NODE.uuid: {'VCPU': 4}},
        requirement=builders.make_requirement(),
    )


class RunningTestCase(test_manager_meanwhile.ActingHostTestCase):
    """It has four of eleven ways of the first domain."""

    def setUp(self) -> None:
        super().setUp()
        self.host.reconcile([SERVER, OTHER])
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.apply(SERVER)
        self.former = self.host.entries[SERVER]

    def claim(
        self, request: assignment.ClaimRequest | None = None
    ) -> assignment.Entry:
        return self.host.claim(request or claim_elsewhere(), is_running=True)

    def assert_kept(self) -> None:
        """It has what it had, and that is applied."""
        self.assertEqual(self.former, self.host.entries.get(SERVER))
        self.assertIn(SERVER, self.enforcer.in_force)
        self.assertEqual('applied', self.read_rows()[SERVER])
        self.assert_consistent(self.host)


class MeanwhileTest(RunningTestCase):
    """Another server claims when what it had is removed."""

    def setUp(self) -> None:
        super().setUp()
        self.refused: list[exception.ClaimError] = []

    def claim_other(self, ways: int, domain: int) -> None:
        """Let it claim after that, before ours is taken."""
        request = with_host.make_claim(
            OTHER, ways, domain=domain, cpus=frozenset({14 if domain else 3})
        )
        claim, left = self.host._transitions.claim, [request]

        def claim_later(*args: Any, **options: Any) -> assignment.Entry:
            if left:
                try:
                    self.host.claim(left.pop())
                except exception.ClaimError as err:
                    self.refused.append(err)
            return claim(*args, **options)

        self.patch(self.host._transitions, 'claim', claim_later)

    def test_what_it_wants_is_gone_and_it_keeps_what_it_had(self) -> None:
        self.claim_other(8, domain=1)

        self.assertRaises(exception.ClaimError, self.claim)

        self.assertEqual([], self.refused)
        self.assert_kept()

    def test_what_it_had_is_free_at_no_moment_when_placement_refuses(
        self,
    ) -> None:
        entry = self.claim(with_host.make_claim(SERVER, 4))
        request = with_host.make_claim(OTHER, 8, cpus=frozenset({3}))
        self.before('release_all', self.host.enforcement, request)
        self.before('reinstate', self.host._transitions, request)
        self.before('replace', self.host.state, request)
        self.before('settle', self.host.state, request)
        self.before('apply', self.host.enforcement, request)

        self.host.undo(entry)

        # Once more as the units of the claim become free.
        self.assertEqual(6, len(self.refused))
        self.assert_kept()

    def test_nor_when_the_ledger_refuses(self) -> None:
        self.write_protect()
        request = with_host.make_claim(OTHER, 8, cpus=frozenset({3}))
        self.before('reinstate', self.host._transitions, request)
        self.before('replace', self.host.state, request)

        self.assertRaises(
            exception.LedgerError, self.claim, with_host.make_claim(SERVER, 4)
        )
        self.write_protect(is_on=False)

        # Once more as the units of the claim become free.
        self.assertEqual(3, len(self.refused))
        self.host.heal()
        self.assert_kept()

    def before(
        self, name: str, owner: Any, request: assignment.ClaimRequest
    ) -> None:
        """Have another claim when a step begins."""
        call = getattr(owner, name)

        def claim_first(*args: Any) -> Any:
            try:
                self.host.claim(request)
            except exception.ClaimError as err:
                self.refused.append(err)
            return call(*args)

        self.patch(owner, name, claim_first)

    def test_what_it_had_is_given_to_no_other(self) -> None:
        self.claim_other(8, domain=0)

        self.host.settle(self.claim())

        self.assertEqual(1, len(self.refused))
        [ways, _clos] = self.host.entries[SERVER].assignments
        self.assertEqual('L3_1', ways.rp_key)
        self.assert_consistent(self.host)


class FailedTest(RunningTestCase):
    """Its claim fits, and something else fails."""

    def test_the_ledger(self) -> None:
        self.write_protect()
        self.assertRaises(exception.LedgerError, self.claim)
        self.write_protect(is_on=False)

        self.assertTrue(self.host.holds(SERVER))
        self.host.heal()
        self.assert_kept()

    def test_the_ledger_until_it_can_be_written(self) -> None:
        """The new claim is in it, and what the guest has is not."""

        def fail() -> None:
            self.write_protect()
            raise OSError('no such device')

        self.enforcer.acts['apply'] = fail
        self.assertRaises(exception.EnforcementFailed, self.claim)
        self.assertEqual(self.former, self.host.entries[SERVER])

        self.host.heal()
        self.assertEqual(
            [(alarm.LEDGER_FAILED, SERVER)],
            [(one.alarm, one.subject) for one in self.host.problems],
        )
        self.write_protect(is_on=False)
        self.host.heal()

        self.assertEqual((), self.host.problems)
        self.assert_kept()

    def test_the_ledger_while_another_wants_what_it_has_yet(self) -> None:
        """A process that is killed now applies the new claim again."""

        def fail() -> None:
            self.write_protect()
            raise OSError('no such device')

        other = with_host.make_claim(OTHER, 8, domain=1, cpus=frozenset({14}))
        self.enforcer.acts['apply'] = fail
        self.assertRaises(exception.EnforcementFailed, self.claim)
        self.write_protect(is_on=False)

        self.assertRaises(exception.CapacityExceeded, self.host.claim, other)
        self.host.apply(SERVER)
        self.assertRaises(exception.CapacityExceeded, self.host.claim, other)
        self.host.heal()

        self.assert_kept()
        self.host.claim(other)

    def test_the_ledger_has_it_when_it_claims_once_more(self) -> None:
        def fail() -> None:
            self.write_protect()
            raise OSError('no such device')

        self.enforcer.acts['apply'] = fail
        self.assertRaises(exception.EnforcementFailed, self.claim)
        self.assertRaises(exception.LedgerError, self.claim)
        self.assertEqual(self.former, self.host.entries[SERVER])
        self.write_protect(is_on=False)

        entry = self.claim(with_host.make_claim(SERVER, 2))

        self.host.undo(entry)
        self.assert_kept()

    def test_the_ledger_when_all_is_replaced_by_nothing(self) -> None:
        self.write_protect()
        self.assertRaises(exception.LedgerError, self.claim, claim_nothing())
        self.write_protect(is_on=False)

        self.host.heal()

        self.assert_kept()

    def test_an_enforcer(self) -> None:
        """Also one that does not choose the units itself."""

        def fail() -> None:
            raise OSError('no such device')

        for self.enforcer.CHOOSES_UNITS in (False, True):  # type: ignore[misc]
            with self.subTest(chooses_units=self.enforcer.CHOOSES_UNITS):
                self.enforcer.acts['apply'] = fail

                self.assertRaises(exception.EnforcementFailed, self.claim)

                self.assert_kept()

    def test_a_plugin_with_a_bug(self) -> None:
        def fail(*_args: Any, **_options: Any) -> Any:
            raise RuntimeError('a bug')

        self.patch(self.host._transitions, 'claim', fail)

        self.assertRaises(RuntimeError, self.claim)

        self.assert_kept()

    def test_the_removal_of_what_it_had(self) -> None:
        self.enforcer.is_failing = True
        self.assertRaises(exception.EnforcementFailed, self.claim)
        self.assertEqual(self.former, self.host.entries[SERVER])
        self.enforcer.is_failing = False

        self.host.heal()

        self.assert_kept()

    def test_placement(self) -> None:
        self.host.undo(self.claim())

        self.assert_kept()

    def test_placement_while_another_wants_what_it_had(self) -> None:
        """Whatever it has claimed, no other gets it before that is final."""
        other = with_host.make_claim(OTHER, 8)
        for request in (
            claim_elsewhere(),
            claim_nothing(),
            with_host.make_claim(SERVER, 2),
            with_host.make_claim(SERVER, 6),
        ):
            entry = self.claim(request)
            self.host.refresh()
            self.assertRaises(
                exception.CapacityExceeded, self.host.claim, other
            )

            self.host.undo(entry)

            self.assert_kept()
            self.host.claim(with_host.make_claim(OTHER, 7))
            self.host.release(OTHER)

    def test_what_it_had_is_free_when_the_claim_is_final(self) -> None:
        for use in (self.host.settle, lambda one: self.host.apply(SERVER)):
            use(self.claim(claim_elsewhere()))
            self.host.claim(with_host.make_claim(OTHER, 8))
            self.host.release(OTHER)
            use(self.claim(with_host.make_claim(SERVER, 4)))

    def test_placement_when_an_earlier_claim_becomes_final_late(self) -> None:
        earlier = self.claim(claim_elsewhere())
        entry = self.claim(with_host.make_claim(SERVER, 6))
        self.host.settle(earlier)

        self.host.undo(entry)

        self.assertEqual(earlier, self.host.entries[SERVER])
        self.assert_consistent(self.host)

    def test_no_more_is_kept_than_it_had_and_has(self) -> None:
        entry = self.claim(with_host.make_claim(SERVER, 4))
        self.host.claim(with_host.make_claim(OTHER, 7))

        self.host.undo(entry)

        self.assert_kept()

    def test_one_of_a_guest_that_is_off_leaves_nothing(self) -> None:
        self.host.undo(self.host.claim(claim_elsewhere()))

        self.assertEqual({}, self.host.entries)

    def test_one_that_replaces_all_by_nothing(self) -> None:
        self.host.settle(self.claim(claim_nothing()))

        self.assertEqual({}, self.read_rows())
        self.assertEqual({}, self.host.entries)
        self.assertNotIn(SERVER, self.enforcer.in_force)
        self.assert_consistent(self.host)
