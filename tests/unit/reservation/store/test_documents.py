# SPDX-License-Identifier: Apache-2.0

"""Tests of requests as JSON."""

import json

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import server_demand
from nova_ext_resources.reservation.store import documents
from tests import base
from tests.unit.reservation import hosts


class DocumentsTest(base.TestCase):
    def test_a_request_comes_back_as_it_was(self) -> None:
        for one in (
            hosts.make_request('lease', hosts.span(3)),
            hosts.make_request(
                'Grüße',
                hosts.span(3, 9),
                hosts.make_demand(
                    {hosts.WAYS: {'priority': 'high'}},
                    _={'PCPU': 4},
                    _1={hosts.WAYS: 2},
                    cells=(2, 2),
                    is_isolated=True,
                    traits={
                        '_1': server_demand.Traits(
                            required=frozenset({'CUSTOM_B', 'CUSTOM_A'}),
                            forbidden=frozenset({'CUSTOM_C'}),
                        )
                    },
                ),
                delay=interval.FOREVER,
                least=2,
                most=5,
                zone='north',
                affinity=plan_request.Affinity.SAME_HOST,
                priority=-3,
                expires_after=600,
                at_end=plan_request.AtEnd.DELETE,
            ),
        ):
            with self.subTest(key=one.key):
                text = documents.write_request(one)

                self.assertEqual(one, documents.read_request(text))

    def test_requests_of_one_flavor_share_their_demand(self) -> None:
        one, two, other = (
            documents.read_request(
                documents.write_request(
                    hosts.make_request(
                        key,
                        hosts.span(3),
                        hosts.make_demand(_={'VCPU': vcpus}),
                    )
                )
            )
            for key, vcpus in (('one', 4), ('two', 4), ('other', 5))
        )

        self.assertIs(one.demand, two.demand)
        self.assertNotEqual(one.demand, other.demand)

    def test_a_request_of_an_older_release(self) -> None:
        request = hosts.make_request('lease', hosts.span(3))
        document = json.loads(documents.write_request(request))
        for name in ('at_end', 'expires_after'):
            del document[name]

        found = documents.read_request(json.dumps(document))

        self.assertEqual(request, found)

    def test_a_text_that_is_no_request(self) -> None:
        for text in ('{}', '{"demand": {}}', '{'):
            with self.subTest(text=text):
                self.assertRaises(ValueError, documents.read_request, text)
