# SPDX-License-Identifier: Apache-2.0

"""Reading RMD's JSON."""

import json
from typing import Any

import hypothesis
from hypothesis import strategies

from nova_ext_resources.drivers.rmd.api import decode
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import response
from tests import base

_JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.text(max_size=5),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(
            strategies.sampled_from(
                (
                    'Caches',
                    '0',
                    'cache_id',
                    'mba',
                    'mba_enable',
                    'rdt',
                    'cache',
                    'id',
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def make_response(data: Any) -> response.RmdResponse:
    return response.RmdResponse(
        url='http://rmd',
        action='GET /',
        status=200,
        text=json.dumps(data),
    )


def make_cache(**fields: Any) -> dict[str, Any]:
    return {
        'cache_id': 0,
        'NumWays': 11,
        'share_cpu_list': '0-3',
        'available_ways_pool': {'guaranteed': '1-6', 'shared': ''},
        **fields,
    }


class PoolsTest(base.TestCase):
    def test_ranges_of_ways_become_masks(self) -> None:
        pools = {'guaranteed': '1-6', 'besteffort': '0,3-5', 'shared': ''}

        (cache,) = decode.caches(
            {'Caches': {'0': make_cache(available_ways_pool=pools)}}
        ).values()

        self.assertEqual(
            {'guaranteed': 0b1111110, 'besteffort': 0b111001, 'shared': 0},
            cache.free,
        )


class MalformedTest(base.TestCase):
    def test_impossible_caches_are_refused(self) -> None:
        impossible: tuple[dict[str, Any], ...] = (
            {'share_cpu_list': ''},
            {'NumWays': 0},
            {'NumWays': True},
            {'cache_id': -1},
            {'cache_id': '0'},
            *(
                {'available_ways_pool': {'guaranteed': text}}
                for text in ('all', '5-3', '1-', '-1', '0-99999999', '1;2', 7)
            ),
        )
        for fields in impossible:
            with self.subTest(fields=fields):
                found = make_response({'Caches': {'0': make_cache(**fields)}})

                self.assertRaises(
                    errors.MalformedResponse, found.read, decode.caches
                )

    def test_no_caches_at_all_are_refused(self) -> None:
        self.assertRaises(
            errors.MalformedResponse,
            make_response({'Caches': {}}).read,
            decode.caches,
        )

    def test_unknown_fields_do_not_matter(self) -> None:
        data = {'Caches': {'0': make_cache(Novelty=[1])}, 'more': {}}

        self.assertEqual({0}, set(make_response(data).read(decode.caches)))

    @hypothesis.given(data=_JSON)
    @hypothesis.settings(max_examples=100, deadline=None)
    def test_any_json_is_read_or_refused(self, data: Any) -> None:
        for read in (
            decode.caches,
            decode.policies,
            decode.mba,
            decode.workload,
            decode.workloads,
        ):
            try:
                make_response(data).read(read)
            except errors.MalformedResponse:
                continue

    def test_ranges_of_others_do_not_hide_their_record(self) -> None:
        workload = decode.workload(
            {
                'id': '1',
                'core_ids': ['4-6'],
                'status': 'Successful',
                'cos_name': 'COS2',
                'rdt': {'cache': {}, 'mba': {}},
                'origin': 'REST',
            }
        )

        self.assertEqual(frozenset(), workload.core_ids)
        self.assertEqual('', workload.uuid)


class EscapedTest(base.TestCase):
    """Names go to logs, and a terminal obeys some of them."""

    def test_no_name_has_what_a_terminal_obeys(self) -> None:
        (found,) = decode.workloads(
            [
                {
                    'id': '\x1b[1m',
                    'uuid': '\x1b[2m',
                    'cos_name': '\x1b[3m',
                    'rdt': {'cache': {}},
                }
            ]
        )
        (policy,) = decode.policies({'\x1b': {'cache': {'max': 1, 'min': 1}}})

        self.assertEqual(
            (r'\x1b[1m', r'\x1b[2m', r'\x1b[3m', r'\x1b'),
            (found.workload_id, found.uuid, found.cos_name, policy),
        )
