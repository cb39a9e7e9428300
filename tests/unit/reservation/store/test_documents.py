# SPDX-License-Identifier: Apache-2.0

"""Tests of requests as JSON."""

from nova_ext_resources.reservation import demand
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import request as request_mod
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
                        '_1': demand.Traits(
                            required=frozenset({'CUSTOM_B', 'CUSTOM_A'}),
                            forbidden=frozenset({'CUSTOM_C'}),
                        )
                    },
                ),
                delay=interval.FOREVER,
                least=2,
                most=5,
                zone='north',
                affinity=request_mod.Affinity.SAME_HOST,
                priority=-3,
            ),
        ):
            with self.subTest(key=one.key):
                text = documents.write_request(one)

                self.assertEqual(one, documents.read_request(text))

    def test_a_text_that_is_no_request(self) -> None:
        for text in ('{}', '{"demand": {}}', '{'):
            with self.subTest(text=text):
                self.assertRaises(ValueError, documents.read_request, text)
