# SPDX-License-Identifier: Apache-2.0

"""Tests of the grammar of extra specs."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import requirements
from tests import base
from tests.unit import builders
from tests.unit import strategies  # noqa: F401

GRAMMAR = extra_specs.Grammar(
    attributes={'pool': 'guaranteed|burst', 'max': '[1-9][0-9]*'},
    enforcers={'rmd': {'policy': '[a-z]{1,16}', 'max': '[1-9][0-9]*'}},
)

AMOUNT = 'resources:CUSTOM_LLC_WAYS'

#: Nothing that a person could type by mistake may pass.
BAD_AMOUNTS = (
    '',
    ' ',
    '0',
    '00',
    '-1',
    '+1',
    '1.0',
    '1e3',
    '0x4',
    '1_000',
    '1,000',
    'four',
    'None',
    'inf',
    ' 4',
    '4 ',
    '4\n',
    '\t4',
    '4 ways',
    '\u0664',
    '\uff14',
    '\u00b2',
    '2147483648',
    '99999999999',
    '9' * 5000,
)

BAD_KEYS = (
    'resources:',
    'resources::',
    'resources:CUSTOM_',
    'resources:custom_llc_ways',
    'resources:CUSTOM_llc_ways',
    'resources:CUSTOM_LLC-WAYS',
    'resources:CUSTOM_LLC WAYS',
    'resources: CUSTOM_LLC_WAYS',
    'resources:CUSTOM_LLC_WAYS ',
    'resources:CUSTOM_LLC_WAYS\n',
    'resources:CUSTOM_LLC_WAYS:',
    'resources:CUSTOM_LLC_WAYS:pool',
    'resources:CUSTOM_\u0664',
    'resources:LLC_WAYS',
    'resources:vcpu',
    'resources:CUSTOM_' + 'A' * 249,
    'resources A:CUSTOM_LLC_WAYS',
    'resources.A:CUSTOM_LLC_WAYS',
    'resources' + 'A' * 65 + ':CUSTOM_LLC_WAYS',
    'resource_A:CUSTOM_LLC_WAYS',
    'resource:CUSTOM_LLC_WAYS',
    'resource:',
    'resource::',
    'resource:::',
    'resource:CUSTOM_LLC_WAYS:',
    'resource::pool',
)


def parse(**specs: str) -> requirements.Requirement:
    return extra_specs.parse(specs, GRAMMAR)


class Refusals(base.TestCase):
    def assert_refused(self, key: str, value: str, word: str = '') -> None:
        """Assert that parse refuses it, naming key and value."""
        with self.subTest(key=key, value=value):
            error = self.assertRaises(
                exception.InvalidExtraSpec,
                extra_specs.parse,
                {AMOUNT: '4', key: value},
                GRAMMAR,
            )
            self.assertIn(f'{key}={value}', str(error))
            self.assertIn(word, str(error))

    def assert_refused_alone(self, key: str, value: str) -> None:
        """Assert the same of what the API asks about one key."""
        with self.subTest(key=key, value=value):
            self.assertRaises(
                exception.InvalidExtraSpec,
                extra_specs.check,
                key,
                value,
                GRAMMAR,
            )


class TestAmounts(Refusals):
    def test_an_amount_is_read(self) -> None:
        made = parse(**{AMOUNT: '4', 'hw:cpu_thread_policy': 'isolate'})

        wanted = builders.make_requirement(_={builders.WAYS: 4})
        self.assertEqual(
            dataclasses.replace(wanted, thread_policy='isolate'), made
        )

    def test_the_bounds_are_placements(self) -> None:
        for text in ('1', str(class_inventory.MAX_INT)):
            with self.subTest(text=text):
                made = parse(**{AMOUNT: text})
                self.assertEqual({builders.WAYS: int(text)}, made.resources)

    def test_every_malformed_amount_is_refused(self) -> None:
        for value in BAD_AMOUNTS:
            self.assert_refused(AMOUNT, value, 'whole number from 1 to')
            self.assert_refused_alone(AMOUNT, value)

    def test_a_malformed_amount_of_a_group_is_refused(self) -> None:
        for value in BAD_AMOUNTS:
            self.assert_refused('resources_A:CUSTOM_LLC_WAYS', value)

    def test_every_malformed_key_is_refused(self) -> None:
        for key in BAD_KEYS:
            self.assert_refused(key, '4')
            self.assert_refused_alone(key, '4')

    def test_zero_takes_a_standard_class_out_of_the_request(self) -> None:
        made = parse(**{'resources:VCPU': '0', AMOUNT: '4'})

        self.assertEqual({builders.WAYS: 4}, made.resources)

    def test_only_zeros_ask_for_nothing(self) -> None:
        self.assertFalse(parse(**{'resources:VCPU': '0'}))

    def test_a_malformed_amount_of_a_standard_class_is_refused(self) -> None:
        for value in ('', '-1', 'x', '2147483648'):
            self.assert_refused('resources:VCPU', value, 'from 0 to')

    def test_groups_are_kept_apart_and_sorted(self) -> None:
        made = parse(
            **{
                'resources_B:CUSTOM_LLC_WAYS': '2',
                'resources1:CUSTOM_LLC_WAYS': '3',
                'resources:CUSTOM_LLC_WAYS': '4',
                'resources_B:CUSTOM_RDT_CLOS': '1',
            }
        )

        self.assertEqual(
            (
                requirements.RequestGroup(
                    suffix='', resources={builders.WAYS: 4}
                ),
                requirements.RequestGroup(
                    suffix='1', resources={builders.WAYS: 3}
                ),
                requirements.RequestGroup(
                    suffix='_B',
                    resources={builders.WAYS: 2, builders.CLOS: 1},
                ),
            ),
            made.groups,
        )

    def test_keys_of_others_are_passed_over(self) -> None:
        made = parse(
            **{
                'hw:cpu_policy': 'dedicated',
                'trait:CUSTOM_RDT_L3_CAT': 'required',
                'group_policy': 'none',
                'resources': 'x',
                'my:resources:CUSTOM_A': 'x',
                '': '',
            }
        )

        self.assertEqual(requirements.Requirement(thread_policy=''), made)
        extra_specs.check('hw:cpu_policy', 'x', GRAMMAR)


class TestAttributes(Refusals):
    def test_an_attribute_is_read(self) -> None:
        made = parse(**{AMOUNT: '4', 'resource:CUSTOM_LLC_WAYS:pool': 'burst'})

        self.assertEqual({builders.WAYS: {'pool': 'burst'}}, made.attributes)

    def test_an_attribute_of_a_group_is_read(self) -> None:
        made = parse(
            **{
                'resources_A:CUSTOM_LLC_WAYS': '4',
                'resource:CUSTOM_LLC_WAYS:pool': 'burst',
            }
        )

        self.assertEqual({builders.WAYS: {'pool': 'burst'}}, made.attributes)

    def test_an_unknown_attribute_is_refused_and_the_known_are_named(
        self,
    ) -> None:
        key = 'resource:CUSTOM_LLC_WAYS:colour'

        self.assert_refused(key, 'red', 'known: max, pool')
        self.assert_refused_alone(key, 'red')

    def test_an_unknown_value_is_refused_and_the_known_are_named(
        self,
    ) -> None:
        for value in ('', 'Burst', 'burst ', 'burst\n', 'gold'):
            key = 'resource:CUSTOM_LLC_WAYS:pool'
            self.assert_refused(key, value, 'must match guaranteed|burst')
            self.assert_refused_alone(key, value)

    def test_an_attribute_of_what_is_not_asked_for_is_refused(self) -> None:
        self.assert_refused(
            'resource:CUSTOM_RDT_CLOS:pool',
            'burst',
            'add resources:CUSTOM_RDT_CLOS',
        )

    def test_an_attribute_of_zero_units_is_refused(self) -> None:
        error = self.assertRaises(
            exception.InvalidExtraSpec,
            parse,
            **{'resources:VCPU': '0', 'resource:VCPU:pool': 'burst'},
        )

        self.assertIn('resource:VCPU:pool=burst', str(error))

    def test_without_any_plugin_nothing_is_known(self) -> None:
        error = self.assertRaises(
            exception.InvalidExtraSpec,
            extra_specs.parse,
            {AMOUNT: '4', 'resource:CUSTOM_LLC_WAYS:pool': 'burst'},
            extra_specs.Grammar(),
        )

        self.assertIn('known: none', str(error))


class TestWishes(Refusals):
    def test_a_wish_for_an_enforcer_is_read(self) -> None:
        made = parse(**{AMOUNT: '4', 'resource:rmd:policy': 'gold'})

        self.assertEqual({'rmd': {'policy': 'gold'}}, made.enforcers)
        self.assertEqual({}, made.attributes)

    def test_an_unknown_key_is_refused_and_the_known_are_named(self) -> None:
        self.assert_refused('resource:rmd:colour', 'red', 'known: max, policy')

    def test_a_value_must_match_as_a_whole(self) -> None:
        for value in ('', 'Gold', 'gold/..', '../gold', 'gold\n', 'a' * 17):
            self.assert_refused('resource:rmd:policy', value, '[a-z]{1,16}')
            self.assert_refused_alone('resource:rmd:policy', value)

    def test_an_enforcer_that_is_not_enabled_is_refused(self) -> None:
        self.assert_refused(
            'resource:resctrl:policy',
            'gold',
            'resctrl is not a resource class',
        )
        self.assert_refused(
            'resource:resctrl:policy', 'gold', 'one of lease, rmd'
        )

    def test_a_wish_without_any_amount_is_refused(self) -> None:
        for others in ({}, {'resources:VCPU': '2'}):
            with self.subTest(others=others):
                error = self.assertRaises(
                    exception.InvalidExtraSpec,
                    parse,
                    **others,
                    **{'resource:rmd:policy': 'gold'},
                )
                self.assertIn('add resources:CUSTOM_', str(error))


class TestNothingIsDropped(base.TestCase):
    @hypothesis.given(
        specs=st.dictionaries(
            st.one_of(
                st.from_regex(r'resources?[^:]{0,3}:[A-Z_]*'),
                st.from_regex(r'\Aresource:(CUSTOM_A|rmd):[a-z]{0,6}\Z'),
                st.sampled_from(
                    [
                        AMOUNT,
                        'resources_A:CUSTOM_LLC_WAYS',
                        'resources1:CUSTOM_A',
                        'resource:CUSTOM_A:pool',
                        'resource:CUSTOM_LLC_WAYS:pool',
                        'resource:rmd:policy',
                        'resource:rmd:max',
                    ]
                ),
            ),
            st.one_of(
                st.sampled_from(['1', '4', 'guaranteed', 'gold', '0', '-1']),
                st.text(max_size=3),
            ),
            max_size=5,
        )
    )
    def test_each_of_ours_is_in_the_requirement_or_refused(
        self, specs: dict[str, str]
    ) -> None:
        try:
            made = extra_specs.parse(specs, GRAMMAR)
        except exception.InvalidExtraSpec:
            return

        read = {
            f'resources{group.suffix}:{resource_class}': str(amount)
            for group in made.groups
            for resource_class, amount in group.resources.items()
        }
        for part in (made.attributes, made.enforcers):
            for subject, values in part.items():
                for name, value in values.items():
                    read[f'resource:{subject}:{name}'] = value
        for key, value in specs.items():
            # A zero has been checked: only a standard class may have one.
            if extra_specs.is_ours(key) and value.strip('0'):
                self.assertEqual(value.lstrip('0'), read.get(key))

    @hypothesis.given(
        key=st.text(),
        value=st.text(),
        prefix=st.sampled_from(['', 'resource']),
    )
    def test_one_key_is_judged_alone_as_it_is_among_others(
        self, key: str, value: str, prefix: str
    ) -> None:
        specs = {AMOUNT: '4', f'{prefix}{key}': value}

        def is_refused_alone() -> bool:
            try:
                extra_specs.check(f'{prefix}{key}', value, GRAMMAR)
            except exception.InvalidExtraSpec:
                return True
            return False

        if is_refused_alone():
            self.assertRaises(
                exception.InvalidExtraSpec, extra_specs.parse, specs, GRAMMAR
            )
