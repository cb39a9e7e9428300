# SPDX-License-Identifier: Apache-2.0

"""Tests of how long a server uses what it has, as its flavor says."""

from nova_ext_resources.claims import extra_specs
from nova_ext_resources.claims import lease
from nova_ext_resources import exception
from tests import base


def make_specs(**specs: str) -> dict[str, str]:
    return {f'resource:lease:{key}': value for key, value in specs.items()}


class LeaseTest(base.TestCase):
    def test_a_flavor_that_says_nothing(self) -> None:
        found = lease.parse({'hw:cpu_policy': 'shared'})

        self.assertEqual(lease.FlavorLease(), found)
        self.assertFalse(found.is_lent)

    def test_all_keys(self) -> None:
        specs = make_specs(
            max_seconds='7200',
            preemptible='true',
            drain_seconds='60',
            on_drain='delete',
            priority='-5',
        )

        self.assertEqual(
            lease.FlavorLease(
                max_seconds=7200,
                is_preemptible=True,
                drain_seconds=60,
                is_deleted=True,
                priority=-5,
            ),
            lease.parse(specs),
        )

    def test_keys_that_have_no_effect(self) -> None:
        for specs in (
            {'drain_seconds': '60'},
            {'on_drain': 'delete', 'preemptible': 'false'},
            {'priority': '1'},
        ):
            with self.subTest(**specs):
                err = self.assertRaises(
                    exception.InvalidExtraSpec,
                    extra_specs.parse,
                    make_specs(**specs),
                    extra_specs.Grammar(),
                )

                self.assertIn('has no effect without', str(err))

    def test_what_is_lent(self) -> None:
        for specs, wanted in (
            ({'preemptible': 'true'}, True),
            ({'preemptible': 'false'}, False),
            ({'max_seconds': '1'}, True),
        ):
            with self.subTest(**specs):
                found = lease.parse(make_specs(**specs))

                self.assertIs(wanted, found.is_lent)

    def test_values(self) -> None:
        grammar = extra_specs.Grammar()
        for key, good, bad in (
            ('max_seconds', ('1', '999999999'), ('0', '-1', '1.5', 'x', '')),
            ('preemptible', ('true', 'false'), ('True', 'yes', '1')),
            (
                'drain_seconds',
                ('0', '999', '1000', '3599', '3600'),
                ('3601', '4000', '-1', '10000'),
            ),
            ('on_drain', ('shelve', 'delete'), ('suspend',)),
            ('priority', ('-999', '0', '999'), ('1000', 'high')),
            ('colour', (), ('red',)),
        ):
            for value in good:
                with self.subTest(key=key, value=value):
                    extra_specs.check(f'resource:lease:{key}', value, grammar)
            for value in bad:
                with self.subTest(key=key, value=value):
                    self.assertRaises(
                        exception.InvalidExtraSpec,
                        extra_specs.check,
                        f'resource:lease:{key}',
                        value,
                        grammar,
                    )

    def test_a_host_has_nothing_to_do_for_it(self) -> None:
        specs = {'resources:CUSTOM_X': '1', **make_specs(preemptible='true')}

        found = extra_specs.parse(specs, extra_specs.Grammar())

        self.assertEqual({'CUSTOM_X': 1}, dict(found.resources))
        self.assertEqual({}, dict(found.attributes))
        self.assertEqual({}, dict(found.enforcers))


class HintTest(base.TestCase):
    def test_a_server_that_says_when_it_ends(self) -> None:
        for value, wanted in (('1', 1), ('999999999', 999999999)):
            self.assertEqual(wanted, lease.read_hint({lease.HINT: [value]}))

    def test_a_server_that_does_not(self) -> None:
        for hints in ({}, {'same_host': ['x']}, {'lease_seconds': ['5']}):
            self.assertIsNone(lease.read_hint(hints))

    def test_what_cannot_be_read(self) -> None:
        for values in (
            [],
            [''],
            ['0'],
            ['-5'],
            ['1.5'],
            ['1h'],
            [' 5'],
            ['5\n'],
            ['\u0665'],
            ['1000000000'],
            ['60', '120'],
        ):
            with self.subTest(values=values):
                err = self.assertRaises(
                    ValueError, lease.read_hint, {lease.HINT: values}
                )

                self.assertIn('write one whole number', str(err))
