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

"""Reading RMD's JSON."""

import json
from typing import Any

import hypothesis
from hypothesis import strategies

from nova_ext_resources.rmd import answers
from nova_ext_resources.rmd import decode
from nova_ext_resources.rmd import errors
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
                    'score',
                    'l3',
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


def make_answer(data: Any) -> answers.Answer:
    return answers.Answer(
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
        'available_policy': None,
        **fields,
    }


class RangesTest(base.TestCase):
    def test_ranges_are_read(self) -> None:
        self.assertEqual({0, 3, 4, 5}, decode.ranges('0,3-5'))
        self.assertEqual(frozenset(), decode.ranges(''))
        self.assertEqual(0b1111110, decode.mask('1-6'))

    def test_what_is_no_range_is_refused(self) -> None:
        for text in ('x', '5-3', '1-', '-1', '0-99999999', '1;2'):
            with self.subTest(text=text):
                self.assertRaises(ValueError, decode.ranges, text)


class MalformedTest(base.TestCase):
    def test_impossible_caches_are_refused(self) -> None:
        for fields in (
            {'share_cpu_list': ''},
            {'NumWays': 0},
            {'NumWays': True},
            {'cache_id': -1},
            {'cache_id': '0'},
            {'available_ways_pool': {'guaranteed': 'all'}},
        ):
            with self.subTest(fields=fields):
                answer = make_answer({'Caches': {'0': make_cache(**fields)}})

                self.assertRaises(
                    errors.MalformedAnswer, decode.caches, answer
                )

    def test_no_caches_at_all_are_refused(self) -> None:
        self.assertRaises(
            errors.MalformedAnswer,
            decode.caches,
            make_answer({'Caches': {}}),
        )

    def test_unknown_fields_do_not_matter(self) -> None:
        data = {'Caches': {'0': make_cache(Novelty=[1])}, 'more': {}}

        self.assertEqual({0}, set(decode.caches(make_answer(data))))

    @hypothesis.given(data=_JSON)
    @hypothesis.settings(max_examples=100, deadline=None)
    def test_any_json_is_read_or_refused(self, data: Any) -> None:
        for read in (
            decode.caches,
            decode.policies,
            decode.mba,
            decode.scores,
            decode.workload,
            decode.workloads,
        ):
            try:
                read(make_answer(data))
            except errors.MalformedAnswer:
                continue

    def test_ranges_of_others_do_not_hide_their_record(self) -> None:
        workload = decode.workload(
            make_answer(
                {
                    'id': '1',
                    'core_ids': ['4-6'],
                    'status': 'Successful',
                    'cos_name': 'COS2',
                    'rdt': {'cache': {}, 'mba': {}},
                    'origin': 'REST',
                }
            )
        )

        self.assertEqual(frozenset(), workload.core_ids)
        self.assertEqual('', workload.uuid)
