# SPDX-License-Identifier: Apache-2.0

"""What every tracker of minimums and maximums must do."""

from nova_ext_resources.claims import base as plugin_base
from nova_ext_resources.objects import class_inventory
from tests import base
from tests.unit import builders


class RangeContract(base.TestCase):
    """Inherit beside ``TrackerContract``."""

    tracker: plugin_base.Tracker

    def test_a_maximum_goes_into_the_ledger_as_a_number(self) -> None:
        for most in (3, 4, 20):
            with self.subTest(most=most):
                self.assertEqual(
                    {'max': most},
                    self.tracker.read_attributes(3, {'max': str(most)}),
                )

    def test_a_maximum_below_the_amount_is_refused(self) -> None:
        error = self.assertRaises(
            ValueError, self.tracker.read_attributes, 3, {'max': '2'}
        )

        self.assertIn('max is 2, less than the 3', str(error))

    def test_a_maximum_that_is_no_number_is_refused(self) -> None:
        for text in ('', '0', '-4', '4.0', ' 4', 'all', '0x4', '\u0664'):
            with self.subTest(text=text):
                error = self.assertRaises(
                    ValueError, self.tracker.read_attributes, 3, {'max': text}
                )
                self.assertIn('must be a whole number', str(error))

    def test_a_maximum_that_a_server_holds_is_booked_as_it_is(self) -> None:
        state = self.tracker.initial(self.make_room(), {})

        after, units = self.tracker.allocate(state, 3, {'max': 6})

        self.assertEqual({'max': 6}, units)
        self.assertEqual(3, after.used)

    def test_what_others_may_have_turns_nobody_away(self) -> None:
        state = self.tracker.initial(self.make_room(), {})

        after, _units = self.tracker.allocate(state, 3, {'max': 10})

        self.assertTrue(self.tracker.fits(after, 7))
        self.assertFalse(self.tracker.fits(after, 8))

    def test_it_is_worth_nothing_without_an_enforcer(self) -> None:
        self.assertTrue(self.tracker.NEEDS_ENFORCER)
        self.assertTrue(self.tracker.IS_CPU_LOCAL)

    def make_room(self) -> class_inventory.Inventory:
        return builders.make_inventory(10)
