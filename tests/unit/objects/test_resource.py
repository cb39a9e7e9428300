# SPDX-License-Identifier: Apache-2.0

"""Tests of resource definitions."""

from nova_ext_resources import exception
from nova_ext_resources.objects import resource
from tests import base
from tests.unit import builders


class TestResourceDefinition(base.TestCase):
    def test_it_is_counted_unless_told(self) -> None:
        self.assertEqual('count', builders.make_definition().type)

    def test_equal_names_make_the_same_resource(self) -> None:
        one = builders.make_definition(description='One.', units='seats')
        other = builders.make_definition(description='Other.', units='x')

        self.assertEqual(one, other)
        self.assertEqual(1, len({one, other}))

    def test_other_names_make_other_resources(self) -> None:
        self.assertNotEqual(
            builders.make_definition(name='CUSTOM_A'),
            builders.make_definition(name='CUSTOM_B'),
        )

    def test_a_standard_class_is_a_name(self) -> None:
        self.assertEqual('VGPU', builders.make_definition(name='VGPU').name)

    def test_every_name_that_placement_takes_is_taken(self) -> None:
        for name in ('CUSTOM_A', 'CUSTOM_A__B', 'CUSTOM_CUSTOM_4', 'CUSTOM__'):
            with self.subTest(name=name):
                made = builders.make_definition(name=name)
                self.assertEqual(name, made.name)

    def test_a_name_that_is_no_resource_class_is_refused(self) -> None:
        for name in (
            '',
            'CUSTOM_',
            'custom_a',
            'CUSTOM_a',
            'CUSTOM_A-B',
            'CUSTOM_A\n',
            'CUSTOM_\u0664',
            'LLC_WAYS',
            'CUSTOM_' + 'A' * 249,
        ):
            with self.subTest(name=name):
                self.assertRaises(
                    exception.InvalidResource,
                    builders.make_definition,
                    name=name,
                )

    def test_the_refusal_proposes_a_name_where_there_is_one(self) -> None:
        error = self.assertRaises(
            exception.InvalidResource,
            builders.make_definition,
            name='CUSTOM_llc ways',
        )

        self.assertIn('CUSTOM_LLC_WAYS', str(error))

    def test_the_longest_name_is_taken(self) -> None:
        name = 'CUSTOM_' + 'A' * 248

        self.assertEqual(
            resource.ResourceDefinition(
                name=name, units='u', description='d'
            ).name,
            name,
        )
