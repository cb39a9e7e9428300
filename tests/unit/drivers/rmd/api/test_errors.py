# SPDX-License-Identifier: Apache-2.0

"""The error tree and what responses become."""

import inspect
import re

import ddt

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import response
from nova_ext_resources import exception
from tests import base

IN_DATABASE = 'Workload validation in database failed. Details: '


def make_response(status: int, text: str) -> response.RmdResponse:
    return response.RmdResponse(
        url='http://rmd:8081',
        action='POST /v1/workloads',
        status=status,
        text=text,
    )


def refusal(text: str) -> response.RmdResponse:
    return make_response(400, f'Failed to validate workload. Reason: {text}')


class TreeTest(base.TestCase):
    def test_the_tree_in_the_docstring_is_the_tree(self) -> None:
        drawn = set(re.findall(r'[+-] (\w+)', errors.__doc__ or ''))
        classes = {
            name
            for name, item in inspect.getmembers(errors, inspect.isclass)
            if issubclass(item, errors.RmdError)
        }

        self.assertEqual(classes - {'RmdError'}, drawn)

    def test_only_a_missing_response_may_be_retried(self) -> None:
        retriable = {
            name
            for name, item in inspect.getmembers(errors, inspect.isclass)
            if issubclass(item, exception.Retriable)
        }

        self.assertEqual(
            {'RmdUnavailable', 'RmdTimeout', 'ConnectionDropped'}, retriable
        )


@ddt.ddt
class ResponseTest(base.TestCase):
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
            errors.WorkloadExists,
            {'workload_id': '3'},
        ),
        (
            'cpus',
            refusal(f'{IN_DATABASE}CPU list [1 2] has been assigned\n'),
            errors.CpusInUse,
            {},
        ),
        (
            'cpus above 31',
            refusal(f'{IN_DATABASE}CPU list [] has been assigned\n'),
            errors.CpusInUse,
            {},
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
            'policy plugin',
            make_response(500, "Plugin 'x' is not loaded"),
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
            make_response(500, 'Not enough cache left on cache_id 1'),
            errors.NotEnoughCache,
            {'status': 500},
        ),
        (
            'classes',
            make_response(500, 'No free CLOS available'),
            errors.NoFreeClos,
            {},
        ),
        (
            'shared class',
            make_response(500, 'No free CLOS left to create shared group'),
            errors.NoFreeClos,
            {},
        ),
        (
            'missing',
            make_response(404, '404: Could not found workload'),
            errors.WorkloadNotFound,
            {},
        ),
        (
            'not ours',
            make_response(
                200,
                '200: You only have permission to delete REST origin '
                'workloads',
            ),
            errors.ForeignWorkload,
            {'status': 200},
        ),
        (
            'no credentials',
            make_response(400, 'Malformed credentials\n'),
            errors.AuthFailed,
            {},
        ),
        (
            'wrong password',
            make_response(401, 'Authentication failure\n'),
            errors.AuthFailed,
            {},
        ),
        (
            'role',
            make_response(401, 'OU: User is not authorized'),
            errors.NotPermitted,
            {},
        ),
        (
            'user',
            make_response(
                403,
                'User "x" is not authorized to access this resource\n',
            ),
            errors.NotPermitted,
            {},
        ),
        ('user cert', make_response(403, ''), errors.NotPermitted, {}),
        ('level', make_response(400, ''), errors.CachesUnreadable, {}),
        ('cache', make_response(500, ''), errors.CachesUnreadable, {}),
        *(
            (
                f'proxy {status}',
                make_response(status, 'no server available'),
                errors.RmdUnavailable,
                {'was_sent': True},
            )
            for status in (502, 503, 504)
        ),
        (
            'unknown failure',
            make_response(500, 'error, not enough CLOS on host, 8 used'),
            errors.RmdFailed,
            {},
        ),
        (
            'media type',
            make_response(415, '415: Unsupported Media Type'),
            errors.RmdRejected,
            {},
        ),
        (
            'something else',
            make_response(404, '404 page not found\n'),
            errors.MalformedResponse,
            {},
        ),
    )
    def test_it_becomes_the_right_error(
        self,
        _name: str,
        found: response.RmdResponse,
        error: type[errors.RmdError],
        facts: dict[str, object],
    ) -> None:
        err = self.assertRaises(errors.RmdError, found.raise_for_error)

        self.assertIs(error, type(err))
        for name, value in facts.items():
            self.assertEqual(value, getattr(err, name))
        self.assertIn('http://rmd:8081', str(err))
        self.assertIn(found.reason[:20], str(err))
        self.assertNotIn('\n', str(err))


class GoodResponseTest(base.TestCase):
    def test_json_and_nothing_are_no_errors(self) -> None:
        for text in ('', '[]', '{"uuid": "MBA is not authorized"}'):
            with self.subTest(text=text):
                make_response(200, text).raise_for_error()

    def test_a_long_text_is_cut(self) -> None:
        self.assertEqual(300, len(make_response(500, 'x' * 9999).reason))

    def test_json_without_a_bottom_makes_no_sense(self) -> None:
        self.assertRaises(
            errors.MalformedResponse,
            make_response(200, '[' * 200_000).read,
            list,
        )
