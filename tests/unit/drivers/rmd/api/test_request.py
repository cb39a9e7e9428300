# SPDX-License-Identifier: Apache-2.0

"""Whether a workload on record is the requested one. Pure."""

import dataclasses
from typing import Any

from nova_ext_resources.drivers.rmd.api import decode
from nova_ext_resources.drivers.rmd.api import values
from tests import base
from tests.unit.drivers.rmd.api import with_simulator

HALF = values.MbaLimit(unit='percentage', value=50)


class MatchesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.request = with_simulator.make_request(
            with_simulator.make_uuid(),
            1,
            2,
            max_ways=3,
            min_ways=1,
            mba=HALF,
            plugins={'pstate': {'ratio': 3.0}},
            label='a=1 b=2',
        )
        self.found = decode.workload(
            {**self.request.to_body(), 'cos_name': 'COS2'}
        )

    def test_what_was_sent_is_recognized(self) -> None:
        self.assertTrue(self.request.matches(self.found))

    def test_rmd_drops_decimal_points(self) -> None:
        found = dataclasses.replace(
            self.found, plugins={'pstate': {'ratio': 3}}
        )

        self.assertTrue(self.request.matches(found))

    def test_any_difference_counts(self) -> None:
        different: dict[str, Any] = {
            'uuid': 'a=1',
            'core_ids': frozenset({1}),
            'max_ways': 4,
            'min_ways': 2,
            'mba': None,
            'plugins': {},
        }
        for name, value in different.items():
            with self.subTest(name=name):
                found = dataclasses.replace(self.found, **{name: value})

                self.assertFalse(self.request.matches(found))
