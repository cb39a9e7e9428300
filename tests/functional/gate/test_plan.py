# SPDX-License-Identifier: Apache-2.0

"""The plan of the gate, without a cloud."""

import re

from dev.gate import gate
from dev.gate import package
from dev.gate import plan
from tests import base

MANUAL = package.ROOT / 'doc' / 'source' / 'contributor' / 'gate.rst'


class PlanTest(base.TestCase):
    def test_every_scenario_has_a_title_of_one_line(self) -> None:
        for play in [*plan.SCENARIOS.values(), *plan.SHORT.values()]:
            self.assertRegex(play.__doc__ or '', r'^[^\n]+\.(\n|$)')

    def test_the_manual_lists_every_scenario(self) -> None:
        listed = re.findall(r'^   \* - ``(\w+)``$', MANUAL.read_text(), re.M)

        self.assertEqual({*plan.SCENARIOS}, {*listed})

    def test_the_short_form_is_a_part(self) -> None:
        self.assertLess({*plan.SHORT}, {*plan.SCENARIOS})


class ChooseTest(base.TestCase):
    def choose(self, *words: str) -> list[str]:
        return list(gate.choose(gate.read_arguments(words)))

    def test_without_arguments_all_are_played_in_their_order(self) -> None:
        self.assertEqual(list(plan.SCENARIOS), self.choose())

    def test_the_short_form(self) -> None:
        self.assertEqual(list(plan.SHORT), self.choose('--short'))

    def test_those_that_are_named_are_played_in_the_order_of_the_plan(
        self,
    ) -> None:
        self.assertEqual(['life', 'lease'], self.choose('lease', 'life'))

    def test_an_unknown_scenario_is_refused(self) -> None:
        self.assertRaises(SystemExit, self.choose, 'no-such')

    def test_an_unknown_backend_is_refused(self) -> None:
        self.assertRaises(SystemExit, self.choose, '--backends', 'rmd,no')
