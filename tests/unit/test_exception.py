# SPDX-License-Identifier: Apache-2.0

"""Tests of the error tree and of what errors say."""

import dataclasses
import inspect
import re

from nova_ext_resources import exception
from tests import base
from tests.unit import builders


def list_documented() -> dict[str, str]:
    """Read class -> parent from the tree in the module's docstring."""
    parents = {}
    stack: list[tuple[int, str]] = []
    for line in inspect.getsource(exception).split('"""')[1].splitlines():
        match = re.match(r'(    ( *)(?:[+-] )?)([A-Z]\w+)(?: {2,}\(|$)', line)
        if not match:
            continue
        depth = len(match[1])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        parents[match[3]] = stack[-1][1] if stack else 'Exception'
        stack.append((depth, match[3]))
    return parents


def list_classes() -> dict[str, type[BaseException]]:
    return {
        name: cls
        for name, cls in inspect.getmembers(exception, inspect.isclass)
        if issubclass(cls, BaseException)
        and cls.__module__ == exception.__name__
    }


def make_shortfall(
    resource_class: str = builders.WAYS, rp_uuid: str = builders.L3_0
) -> exception.Shortfall:
    return exception.Shortfall(
        rp_uuid=rp_uuid,
        resource_class=resource_class,
        requested=4,
        available=1,
        reason='the rest is in use',
    )


class TestTree(base.TestCase):
    def test_the_documented_tree_is_the_real_one(self) -> None:
        real = {
            name: cls.__bases__[0].__name__
            for name, cls in list_classes().items()
        }

        self.assertEqual(real, list_documented())

    def test_the_documented_retriable_ones_are_the_real_ones(self) -> None:
        doc = exception.__doc__ or ''
        documented = set(re.findall(r'(\w+) +\(Retriable\)', doc))

        real = {
            name
            for name, cls in list_classes().items()
            if issubclass(cls, exception.Retriable)
        }

        self.assertEqual(real - {'Retriable'}, documented)


class TestMessage(base.TestCase):
    def test_the_arguments_are_in_the_message_and_attributes(self) -> None:
        error = exception.InvalidConfiguration(
            option='[a] b', value='50%', reason='too much'
        )

        self.assertEqual('[a] b = 50% cannot be used: too much', str(error))
        self.assertEqual('[a] b', error.option)  # type: ignore[attr-defined]

    def test_a_value_that_is_not_there_is_called_empty(self) -> None:
        for value in (None, ''):
            error = exception.InvalidConfiguration(
                option='[a] b', value=value, reason='set it'
            )

            self.assertEqual(
                '[a] b = (empty) cannot be used: set it', str(error)
            )
            self.assertIs(value, error.value)  # type: ignore[attr-defined]

    def test_a_failure_of_no_server_names_none(self) -> None:
        def say(uuid: str) -> str:
            return str(
                exception.EnforcementFailed(
                    host='h', enforcer='rmd', consumer_uuid=uuid, reason='why'
                )
            )

        self.assertEqual('Enforcer rmd on host h failed: why', say(''))
        self.assertEqual(
            'Enforcer rmd on host h failed: why (server s)', say('s')
        )

    def test_a_reason_that_is_a_sentence_has_one_full_stop(self) -> None:
        error = exception.DiscoveryFailed(plugin='rmd', reason='Start it.')

        self.assertIn('host: Start it. An earlier', str(error))
        self.assertEqual('Start it.', error.reason)  # type: ignore[attr-defined]

    def test_an_argument_that_is_missing_is_a_bug(self) -> None:
        self.assertRaises(
            KeyError, exception.InvalidConfiguration, option='[a] b'
        )

    def test_every_template_is_filled_by_its_documented_attributes(
        self,
    ) -> None:
        for name, cls in list_classes().items():
            if {'__init__', '_fill'} & set(cls.__dict__) or issubclass(
                cls, exception.ClaimError
            ):
                # It fills its own template.
                continue
            message = cls.__dict__.get('message', '')
            wanted = set(re.findall(r'%\((\w+)\)', message))
            lineage = ' '.join(c.__doc__ or '' for c in cls.__mro__)
            documented = set(re.findall(r':ivar (\w+):', lineage))
            with self.subTest(name=name):
                self.assertLessEqual(wanted, documented)


class TestHost(base.TestCase):
    def name(self, err: exception.ExtResourcesError) -> str:
        def fail() -> None:
            with exception.naming_host('compute-1'):
                raise err

        return str(self.assertRaises(type(err), fail))

    def test_an_error_of_an_option_names_the_host_once(self) -> None:
        error = exception.InvalidConfiguration(
            option='[a] b', value='c', reason='set it'
        )
        for _time in range(2):
            self.assertEqual(
                'Host compute-1: [a] b = c cannot be used: set it',
                self.name(error),
            )

    def test_one_that_names_its_host_stays_as_it_is(self) -> None:
        error = exception.EnforcementFailed(
            host='h', enforcer='rmd', consumer_uuid='', reason='why'
        )

        self.assertEqual(
            'Enforcer rmd on host h failed: why', self.name(error)
        )


class TestShortfall(base.TestCase):
    def test_it_names_provider_class_and_amounts(self) -> None:
        self.assertEqual(
            f'CUSTOM_LLC_WAYS of provider {builders.L3_0}: 4 requested, '
            '1 available: the rest is in use',
            str(make_shortfall()),
        )

    def test_the_key_of_a_provider_is_better_than_its_uuid(self) -> None:
        named = dataclasses.replace(make_shortfall(), rp_key='L3_0')

        self.assertEqual(make_shortfall(), named)
        self.assertIn('CUSTOM_LLC_WAYS of L3_0: 4 requested', str(named))

    def test_what_can_never_be_had_says_nothing_of_what_is_free(self) -> None:
        never = dataclasses.replace(make_shortfall(), is_permanent=True)

        self.assertNotIn('available', str(never))

    def test_one_of_the_whole_host_names_no_provider(self) -> None:
        self.assertNotIn('provider', str(make_shortfall(rp_uuid='')))


class TestClaimError(base.TestCase):
    def test_every_shortfall_is_there_once_and_sorted(self) -> None:
        one = make_shortfall(builders.CLOS, 'b')
        other = make_shortfall(builders.WAYS, 'a')

        error = exception.CapacityExceeded(
            host='host-1', consumer_uuid='server', shortfalls=[one, other, one]
        )

        self.assertEqual((other, one), error.shortfalls)
        self.assertEqual(
            f'Host host-1 cannot now serve {other}; {one} (server server)',
            str(error),
        )

    def test_what_can_never_be_had_comes_first(self) -> None:
        busy = make_shortfall(builders.CLOS, 'a')
        never = dataclasses.replace(
            make_shortfall(builders.WAYS, 'b'), is_permanent=True
        )

        error = exception.ConstraintsViolated(
            host='host-1', consumer_uuid='server', shortfalls=[busy, never]
        )

        self.assertEqual((never, busy), error.shortfalls)
        self.assertIn(
            'Host host-1 can never serve CUSTOM_LLC_WAYS', str(error)
        )
