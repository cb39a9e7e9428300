# SPDX-License-Identifier: Apache-2.0

"""Tests of the command that counts what fits; the rest is functional."""

import argparse
from collections.abc import Mapping
import contextlib
import io

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc.resource import request_arguments
from nova_ext_resources.cmd.osc.resource import simulate
from nova_ext_resources.inspection import fit
from nova_ext_resources.inspection import flavor_request
from tests import base
from tests.unit import builders
from tests.unit.inspection import test_fit
from tests.unit.inspection import trees
from tests.unit.placement.api import test_placement_client

WAYS = builders.WAYS


class SimulateTest(test_placement_client.MockTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock = self.make_mock()
        self.command = simulate.Simulate(None, None)  # type: ignore[arg-type]
        self.command.placement = test_placement_client.make_client()
        self.demand = test_fit.ask_for(4)
        self.tree = trees.make_tree({})

    def offer(self, *requests: dict[str, dict[str, int]]) -> None:
        self.mock.get(
            f'{test_placement_client.URL}/allocation_candidates',
            json={
                'allocation_requests': [
                    {
                        'allocations': {
                            rp_uuid: {'resources': resources}
                            for rp_uuid, resources in one.items()
                        }
                    }
                    for one in requests
                ],
                'provider_summaries': {},
            },
        )

    def find_refused(self) -> Mapping[str, fit.Fit]:
        offered = self.command._ask([self.tree], self.demand, None)
        return self.command._find_refused([self.tree], self.demand, offered)

    def set_max_unit(self, number: int) -> None:
        self.mock.get(
            f'{test_placement_client.URL}/resource_providers/{trees.ROOT}/inventories',
            json=self.describe('VCPU', 8, 8),
        )
        self.mock.get(
            f'{test_placement_client.URL}/resource_providers/{trees.RDT}/inventories',
            json=self.describe(trees.CLOS, 8, 8),
        )
        self.mock.get(
            f'{test_placement_client.URL}/resource_providers/{trees.L3_0}/inventories',
            json=self.describe(WAYS, 12, number),
        )

    def describe(self, name: str, total: int, most: int) -> object:
        return {
            'resource_provider_generation': 1,
            'inventories': {
                name: {
                    'total': total,
                    'reserved': 0,
                    'min_unit': 1,
                    'max_unit': most,
                    'step_size': 1,
                    'allocation_ratio': 1.0,
                }
            },
        }

    def test_a_host_that_does_not_allow_so_much_at_once(self) -> None:
        self.offer()
        self.set_max_unit(2)

        found = self.find_refused()

        [short] = found['compute-1'].shortfalls
        self.assertIn('2', short.reason)
        self.assertEqual(WAYS, short.resource_class)

    def test_a_host_that_is_offered(self) -> None:
        self.offer(
            {uuids.other: {'VCPU': 1, WAYS: 4}},
            {trees.L3_0: {WAYS: 4}, trees.ROOT: {'VCPU': 1}},
        )

        found = self.find_refused()

        self.assertEqual({}, found)


class NotesTest(base.TestCase):
    def test_units_and_reservations_without_a_database(self) -> None:
        request = flavor_request.FlavorRequest(notes=('One.',))
        for files, named in (
            (None, ('Only amounts', 'Reservations are not counted')),
            (['nova.conf'], ()),
        ):
            arguments = argparse.Namespace(config_file=files, config_dir=None)

            notes = request_arguments.list_notes(arguments, request)

            wanted_words = ('One.', *named, 'Not considered: server groups')
            for words, note in zip(wanted_words, notes, strict=True):
                self.assertIn(words, note)


class MixTest(base.TestCase):
    def parse(self, *words: str) -> argparse.Namespace:
        command = simulate.Simulate(None, None)  # type: ignore[arg-type]
        parser = command.get_parser('simulate')
        return parser.parse_args(words)

    def test_flavors_and_numbers(self) -> None:
        parts = self.parse('--mix', 'gold=2', '--mix', 'a=b=3').mix

        self.assertEqual({'gold': 2, 'a=b': 3}, simulate._unite(parts))
        self.assertEqual(
            {'gold': 3}, simulate._unite([('gold', 2), ('gold', 1)])
        )

    def test_what_is_no_mix(self) -> None:
        for words in (
            ('--mix', 'gold'),
            ('--mix', 'gold=0'),
            ('--mix', '=2'),
            ('--mix', 'gold=2', '--flavor', 'gold'),
            (),
        ):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertRaises(SystemExit, self.parse, *words)
