# SPDX-License-Identifier: Apache-2.0

from typing import Any

from nova_ext_resources.claims.schedule import unchecked
from nova_ext_resources.objects import requirements
from tests import base


def find(**given: Any) -> list[str]:
    group = requirements.RequestGroup(
        suffix='', resources={'CUSTOM_VF': 2, 'CUSTOM_SEAT': 1}
    )
    made = requirements.Requirement(groups=(group,), **given)
    return [str(one) for one in unchecked.find_unchecked(made)]


class UncheckedTest(base.TestCase):
    def test_amounts_are_for_placement_to_count(self) -> None:
        self.assertEqual([], find())

    def test_what_is_preferred_is_no_promise(self) -> None:
        self.assertEqual(
            [], find(attributes={'CUSTOM_VF': {'numa_affinity': 'preferred'}})
        )

    def test_attributes_and_wishes_are_named(self) -> None:
        found = find(
            attributes={'CUSTOM_VF': {'numa_affinity': 'required'}},
            enforcers={'rmd': {'policy': 'gold'}},
        )

        self.assertEqual(
            [
                'CUSTOM_VF: 2 requested: resource:CUSTOM_VF:numa_affinity is '
                'not checked on this host: its nova-compute has no driver of '
                'nova-ext-resources',
                'rmd: 1 requested: resource:rmd:policy is not checked on this '
                'host: its nova-compute has no driver of nova-ext-resources',
            ],
            found,
        )
