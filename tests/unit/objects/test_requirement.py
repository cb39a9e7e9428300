# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Tests of what a flavor asks for."""

from nova_ext_resources.objects import requirement
from tests import base
from tests.unit import builders


class TestRequirement(base.TestCase):
    def test_amounts_of_all_groups_are_summed(self) -> None:
        made = builders.make_requirement(
            _={builders.WAYS: 2, builders.CLOS: 1}, _A={builders.WAYS: 3}
        )

        self.assertEqual({builders.WAYS: 5, builders.CLOS: 1}, made.resources)

    def test_nothing_asked_is_false(self) -> None:
        self.assertFalse(requirement.Requirement())

    def test_anything_asked_is_true(self) -> None:
        for made in (
            builders.make_requirement(_={builders.WAYS: 2}),
            requirement.Requirement(attributes={'CUSTOM_A': {'pool': 'x'}}),
            requirement.Requirement(enforcers={'rmd': {'policy': 'gold'}}),
        ):
            with self.subTest(made=made):
                self.assertTrue(made)
