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

"""The error tree and what answers become."""

import inspect
import re

import ddt

from nova_ext_resources import exception
from nova_ext_resources.rmd import answers
from nova_ext_resources.rmd import errors
from tests import base

IN_DATABASE = 'Workload validation in database failed. Details: '


def make_answer(status: int, text: str) -> answers.Answer:
    return answers.Answer(
        url='http://rmd:8081',
        action='POST /v1/workloads',
        status=status,
        text=text,
    )


def refusal(text: str) -> answers.Answer:
    return make_answer(400, f'Failed to validate workload. Reason: {text}')


class TreeTest(base.TestCase):
    def test_the_tree_in_the_docstring_is_the_tree(self) -> None:
        drawn = set(re.findall(r'[+-] (\w+)', errors.__doc__ or ''))
        classes = {
            name
            for name, item in inspect.getmembers(errors, inspect.isclass)
            if issubclass(item, errors.RmdError)
        }

        self.assertEqual(classes - {'RmdError'}, drawn)

    def test_only_what_gives_no_answer_may_be_retried(self) -> None:
        retriable = {
            name
            for name, item in inspect.getmembers(errors, inspect.isclass)
            if issubclass(item, exception.Retriable)
        }

        self.assertEqual(
            {'RmdUnavailable', 'RmdTimeout', 'ConnectionDropped'}, retriable
        )


@ddt.ddt
class AnswerTest(base.TestCase):
    """Texts as RMD v0.3.1 sends them, with their line ends."""

    @ddt.unpack
    @ddt.data(
        (
            'uuid',
            refusal(f'{IN_DATABASE}UUID u-1 already exists in workload 7\n'),
            errors.WorkloadExists,
            {'workload_id': '7'},
        ),
        (
            'id',
            refusal(f'{IN_DATABASE}Workload with id abc already exists\n'),
            errors.WorkloadExists,
            {'workload_id': 'abc'},
        ),
        (
            'task',
            refusal(f'{IN_DATABASE}TaskID 42 already exists in workload 3\n'),
            errors.TasksInUse,
            {'workload_id': '3'},
        ),
        (
            'cpus',
            refusal(f'{IN_DATABASE}CPU list [1 2] has been assigned\n'),
            errors.CpusInUse,
            {'cpus': frozenset({1, 2})},
        ),
        (
            'cpus above 31',
            refusal(f'{IN_DATABASE}CPU list [] has been assigned\n'),
            errors.CpusInUse,
            {'cpus': frozenset()},
        ),
        (
            'other refusal',
            refusal('Need to provide both cache.* or none of them'),
            errors.RmdRejected,
            {'status': 400},
        ),
        (
            'plugin',
            refusal('Trying to use module that is not loaded'),
            errors.PluginNotLoaded,
            {},
        ),
        (
            'bandwidth',
            refusal('Please provide MBA in Mbps'),
            errors.MbaRefused,
            {},
        ),
        (
            'ways',
            make_answer(500, 'Not enough cache left on cache_id 1'),
            errors.NotEnoughCache,
            {'cache_id': 1},
        ),
        (
            'classes',
            make_answer(500, 'No free CLOS available'),
            errors.NoFreeClos,
            {},
        ),
        (
            'shared class',
            make_answer(500, 'No free CLOS left to create shared group'),
            errors.NoFreeClos,
            {},
        ),
        (
            'missing',
            make_answer(404, '404: Could not found workload'),
            errors.WorkloadNotFound,
            {},
        ),
        (
            'not ours',
            make_answer(
                200,
                '200: You only have permission to delete REST origin '
                'workloads',
            ),
            errors.ForeignWorkload,
            {'status': 200},
        ),
        (
            'no credentials',
            make_answer(400, 'Malformed credentials\n'),
            errors.AuthFailed,
            {},
        ),
        (
            'wrong password',
            make_answer(401, 'Authentication failure\n'),
            errors.AuthFailed,
            {},
        ),
        (
            'role',
            make_answer(401, 'OU: User is not authorized'),
            errors.NotPermitted,
            {},
        ),
        (
            'user',
            make_answer(
                403,
                'User "x" is not authorized to access this resource\n',
            ),
            errors.NotPermitted,
            {},
        ),
        ('user cert', make_answer(403, ''), errors.NotPermitted, {}),
        ('level', make_answer(400, ''), errors.CachesUnreadable, {}),
        ('cache', make_answer(500, ''), errors.CachesUnreadable, {}),
        (
            'proxy',
            make_answer(503, 'no server available'),
            errors.RmdUnavailable,
            {'was_sent': True},
        ),
        (
            'unknown failure',
            make_answer(500, 'error, not enough CLOS on host, 8 used'),
            errors.RmdFailed,
            {},
        ),
        (
            'media type',
            make_answer(415, '415: Unsupported Media Type'),
            errors.RmdRejected,
            {},
        ),
        (
            'something else',
            make_answer(404, '404 page not found\n'),
            errors.MalformedAnswer,
            {},
        ),
    )
    def test_it_becomes_the_right_error(
        self,
        _name: str,
        answer: answers.Answer,
        error: type[errors.RmdError],
        facts: dict[str, object],
    ) -> None:
        err = self.assertRaises(
            errors.RmdError, answers.raise_for_answer, answer
        )

        self.assertIs(error, type(err))
        for name, value in facts.items():
            self.assertEqual(value, getattr(err, name))
        self.assertIn('http://rmd:8081', str(err))
        self.assertNotIn('\n', str(err))


class GoodAnswerTest(base.TestCase):
    def test_json_and_nothing_are_no_errors(self) -> None:
        for text in ('', '[]', '{"uuid": "MBA is not authorized"}'):
            with self.subTest(text=text):
                answers.raise_for_answer(make_answer(200, text))

    def test_a_long_text_is_cut(self) -> None:
        self.assertEqual(300, len(make_answer(500, 'x' * 9999).reason))

    def test_json_without_a_bottom_makes_no_sense(self) -> None:
        self.assertRaises(
            errors.MalformedAnswer, make_answer(200, '[' * 200_000).json
        )
