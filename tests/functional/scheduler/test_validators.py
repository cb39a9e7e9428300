# SPDX-License-Identifier: Apache-2.0

"""Our extra specs in the function that Nova's API calls."""

from collections.abc import Callable
from typing import Any

from nova.api.validation.extra_specs import base as nova_base
from nova.api.validation.extra_specs import resources
from nova.api.validation.extra_specs import validators as nova_validators
from nova import exception as nova_exception

from nova_ext_resources.scheduler import validators
from tests.functional.scheduler import scheduling


class ValidatorsTestCase(scheduling.TestCase):
    def assert_refused(self, key: str, value: str) -> str:
        err = self.assertRaises(
            nova_exception.ValidationError,
            nova_validators.validate,
            key,
            value,
        )
        return str(err)

    def test_good_ones_pass(self) -> None:
        for key, value in (
            ('resources:CUSTOM_LLC_WAYS', '4'),
            ('resources_L3A:CUSTOM_LLC_WAYS', '4'),
            ('resources1:VCPU', '0'),
            ('resource:CUSTOM_LLC_WAYS:pool', 'guaranteed'),
            ('resource:rmd:policy', 'gold'),
        ):
            with self.subTest(key=key):
                nova_validators.validate(key, value)

    def test_malformed_amounts_are_refused_in_every_group(self) -> None:
        for key in (
            'resources:CUSTOM_LLC_WAYS',
            'resources1:CUSTOM_LLC_WAYS',
            'resources_L3A:CUSTOM_ANYTHING',
        ):
            for value in ('-1', '0', 'abc', '', ' 4', '4.5', '1_0', '9' * 12):
                with self.subTest(key=key, value=value):
                    text = self.assert_refused(key, value)
                    self.assertIn(f'{key}={value}', text)
                    self.assertIn('whole number from 1', text)

    def test_a_number_that_is_not_text_is_understood(self) -> None:
        nova_validators.validate('resources:CUSTOM_X', 4)
        self.assert_refused('resources:CUSTOM_X', -1)  # type: ignore[arg-type]

    def test_malformed_keys_are_refused(self) -> None:
        for key in (
            'resources:CUSTOM_lower',
            'resources:NO_SUCH_CLASS',
            'resources.1:CUSTOM_X',
            'resources:CUSTOM_X:pool',
            'resource:CUSTOM_X',
            'resource:CUSTOM_X:colour',
            'resource:CUSTOM_LLC_WAYS:max_unit',
            'resource:no_such_enforcer:key',
            'resource:rmd:no_such_key',
        ):
            with self.subTest(key=key):
                self.assertIn(key, self.assert_refused(key, '1'))

    def test_a_wrong_value_says_which_are_right(self) -> None:
        text = self.assert_refused('resource:CUSTOM_X:pool', 'burst-mode')

        self.assertIn('guaranteed', text)

    def test_the_specs_of_others_are_as_before(self) -> None:
        nova_validators.validate('somebody:else', 'anything')
        nova_validators.validate('no_namespace', 'anything')
        nova_validators.validate('hw:cpu_policy', 'dedicated')
        nova_validators.validate('trait:CUSTOM_X', 'required')
        self.assert_refused('hw:cpu_policy', 'bogus')
        self.assert_refused('hw:no_such_key', '1')

    def test_it_does_not_matter_who_is_loaded_first(self) -> None:
        ours, theirs = validators.register, resources.register
        for order in ((ours, theirs), (theirs, ours)):
            with self.subTest(first=order[0].__module__):
                self._load(*order)

                self.test_malformed_amounts_are_refused_in_every_group()
                self.test_malformed_keys_are_refused()

    def test_those_of_nova_stay_as_they_are(self) -> None:
        validators.register()

        for one in resources.EXTRA_SPEC_VALIDATORS:
            self.assertIs(nova_base.ExtraSpecValidator, type(one))

    def _load(self, *order: Callable[[], Any]) -> None:
        """Load validators in this order, as Nova does."""
        registry: dict[str, nova_base.ExtraSpecValidator] = {}
        for register in order:
            registry.update({one.name: one for one in register()})
        self.patch(nova_validators, 'VALIDATORS', registry)
