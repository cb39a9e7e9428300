# SPDX-License-Identifier: Apache-2.0

"""Tests of what a flavor asks for."""

from nova_ext_resources.objects import requirements
from tests import base
from tests.unit import builders


class TestRequirement(base.TestCase):
    def test_amounts_of_all_groups_are_summed(self) -> None:
        made = builders.make_requirement(
            _={builders.WAYS: 2, builders.CLOS: 1}, _A={builders.WAYS: 3}
        )

        self.assertEqual({builders.WAYS: 5, builders.CLOS: 1}, made.resources)

    def test_nothing_asked_is_false(self) -> None:
        self.assertFalse(requirements.Requirement())

    def test_anything_asked_is_true(self) -> None:
        for made in (
            builders.make_requirement(_={builders.WAYS: 2}),
            requirements.Requirement(attributes={'CUSTOM_A': {'pool': 'x'}}),
            requirements.Requirement(enforcers={'rmd': {'policy': 'gold'}}),
        ):
            with self.subTest(made=made):
                self.assertTrue(made)
