# SPDX-License-Identifier: Apache-2.0

"""Tests of files of resource definitions."""

from typing import Any

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.drivers.static import definitions
from tests import base
from tests.unit import builders
from tests.unit import strategies  # noqa: F401

TYPES = frozenset({'count'})

GOOD = """
resources:
  - name: CUSTOM_LICENCE_SEAT
    units: seats
    description: Seats of a licence that floats on the host.
    inventory: {total: 10}
"""


def make_entry(**changes: Any) -> dict[str, Any]:
    """Make one as YAML gives it; None takes a key out."""
    entry = {
        'name': builders.SEATS,
        'units': 'seats',
        'description': 'Seats of a licence that floats on the host.',
        'inventory': {'total': 10},
        **changes,
    }
    return {k: v for k, v in entry.items() if v is not None}


def parse(
    *entries: Any,
) -> tuple[list[definitions.StaticResource], list[definitions.BadDefinition]]:
    # JSON is YAML.
    text = repr({'resources': list(entries)})
    return definitions.parse(text, 'd.yaml', TYPES)


class TestParse(base.TestCase):
    def test_an_entry_becomes_definition_and_inventory(self) -> None:
        entries, problems = definitions.parse(GOOD, 'd.yaml', TYPES)

        self.assertEqual([], problems)
        self.assertEqual(
            [
                definitions.StaticResource(
                    origin='d.yaml, entry 1',
                    rp_key='STATIC',
                    definition=builders.make_definition(),
                    inventory=builders.make_inventory(),
                    traits=frozenset(),
                )
            ],
            entries,
        )
        [entry] = entries
        self.assertEqual('seats', entry.definition.units)
        self.assertEqual((('', 'STATIC', builders.SEATS),), entry.places)

    def test_every_field_is_read(self) -> None:
        fields = {
            'total': 100,
            'reserved': 4,
            'min_unit': 2,
            'max_unit': 50,
            'step_size': 2,
            'allocation_ratio': 1.5,
        }

        [entry], _problems = parse(
            make_entry(
                type='count',
                inventory=fields,
                provider='POOL_1',
                traits=['CUSTOM_FAST', 'HW_CPU_X86_AVX2'],
            )
        )

        self.assertEqual(fields, entry.inventory.to_dict())
        self.assertEqual('POOL_1', entry.rp_key)
        self.assertEqual({'CUSTOM_FAST', 'HW_CPU_X86_AVX2'}, entry.traits)

    def test_bare_metal_nodes_have_it_each(self) -> None:
        upper = uuids.other.upper()

        [entry], _problems = parse(
            make_entry(nodes=[uuids.node, upper, uuids.node])
        )

        self.assertEqual((uuids.node, uuids.other), entry.nodes)
        self.assertEqual(
            tuple(
                (node, 'STATIC', builders.SEATS)
                for node in (uuids.node, uuids.other)
            ),
            entry.places,
        )

    def test_a_standard_class_that_nobody_else_reports_is_taken(self) -> None:
        [entry], _problems = parse(make_entry(name='FPGA'))

        self.assertEqual('FPGA', entry.definition.name)

    def test_no_resources_are_none(self) -> None:
        for text in ('resources:', 'resources: []'):
            with self.subTest(text=text):
                self.assertEqual(
                    ([], []), definitions.parse(text, 'd.yaml', TYPES)
                )


class TestProblems(base.TestCase):
    def assert_bad(self, word: str, entry: Any) -> None:
        """Assert that it is left out, and that another one is not."""
        with self.subTest(entry=entry):
            entries, problems = parse(entry, make_entry(name='CUSTOM_OTHER'))
            self.assertEqual(
                ['CUSTOM_OTHER'], [e.definition.name for e in entries]
            )
            [problem] = problems
            self.assertIn('d.yaml, entry 1', problem.list_lines()[0])
            self.assertIn(word, problem.list_lines()[0])

    def test_what_is_missing_is_named(self) -> None:
        for field in ('name', 'units', 'description', 'inventory'):
            self.assert_bad(
                f"'{field}' is a required", make_entry(**{field: None})
            )
        self.assert_bad("'total' is a required", make_entry(inventory={}))

    def test_what_is_unknown_is_named(self) -> None:
        self.assert_bad("'colour' was unexpected", make_entry(colour='red'))
        self.assert_bad(
            "'totl' was unexpected",
            make_entry(inventory={'total': 1, 'totl': 1}),
        )

    def test_what_is_no_entry_is_told(self) -> None:
        for entry in ('text', 7, [], ['name']):
            self.assert_bad("is not of type 'object'", entry)

    def test_the_entry_is_told_by_its_name(self) -> None:
        self.assert_bad(f'({builders.SEATS})', make_entry(units=None))
        self.assert_bad('(without a name)', make_entry(name=None))
        self.assert_bad('(without a name)', make_entry(name=['x']))

    def test_a_number_out_of_bounds_is_named(self) -> None:
        for field, value in (
            ('total', 0),
            ('total', -1),
            ('total', 2147483648),
            ('total', '10'),
            ('total', True),
            ('total', 1.5),
            ('total', 4.0),
            ('reserved', -1),
            ('min_unit', 0),
            ('max_unit', 0),
            ('step_size', 0),
            ('allocation_ratio', 0),
            ('allocation_ratio', '2'),
        ):
            self.assert_bad(
                field, make_entry(inventory={'total': 10, field: value})
            )

    def test_numbers_that_do_not_agree_are_told(self) -> None:
        self.assert_bad(
            'more than the total',
            make_entry(inventory={'total': 4, 'reserved': 5}),
        )

    def test_a_class_of_nova_is_refused(self) -> None:
        for name in (
            'VCPU',
            'MEMORY_MB',
            'VGPU',
            'NET_BW_EGR_KILOBIT_PER_SEC',
        ):
            self.assert_bad(
                'is reported by other services', make_entry(name=name)
            )

    def test_a_name_without_custom_is_not_taken_for_one_of_nova(self) -> None:
        self.assert_bad(
            'LICENCE_SEAT is not standard; use a name that begins with ',
            make_entry(name='LICENCE_SEAT'),
        )

    def test_a_name_that_is_no_class_is_refused(self) -> None:
        for name in ('CUSTOM_', 'CUSTOM_a', 'CUSTOM_A-B'):
            with self.subTest(name=name):
                self.assert_bad(
                    'not a valid resource class', make_entry(name=name)
                )
        self.assert_bad('begins with CUSTOM_', make_entry(name='seats'))

    def test_a_type_that_needs_facts_is_refused(self) -> None:
        for kind in ('cache_ways', 'unknown', ''):
            self.assert_bad(
                'needs facts about the host',
                make_entry(type=kind),
            )

    def test_a_trait_that_placement_does_not_know_is_refused(self) -> None:
        for trait in ('CUSTOM_', 'CUSTOM_a', 'FAST', 'CUSTOM_A\n', ''):
            self.assert_bad('is not a trait', make_entry(traits=[trait]))
        self.assert_bad('traits', make_entry(traits='CUSTOM_A'))
        self.assert_bad('traits', make_entry(traits=['CUSTOM_A', 'CUSTOM_A']))

    def test_a_provider_that_is_no_name_is_refused(self) -> None:
        for key in ('', 'a b', '../x', 'A\n', '_A', 'A' * 65, 7):
            self.assert_bad('provider', make_entry(provider=key))

    def test_nodes_that_are_none_are_refused(self) -> None:
        for nodes in ('node-1', [], [7], None):
            entry = {**make_entry(), 'nodes': nodes}
            self.assert_bad('nodes', entry)
        self.assert_bad(
            'node-1 is not the uuid of a bare-metal node',
            make_entry(nodes=[uuids.node, 'node-1']),
        )

    def test_a_node_has_no_more_than_there_is(self) -> None:
        inventory = {'total': 4, 'allocation_ratio': 1.5}

        self.assert_bad(
            'remove allocation_ratio',
            make_entry(nodes=[uuids.node], inventory=inventory),
        )

    def test_of_nodes_amounts_alone_are_counted(self) -> None:
        entry = make_entry(nodes=[uuids.node], type='bandwidth')

        _entries, [problem] = definitions.parse(
            repr({'resources': [entry]}), 'd.yaml', {'count', 'bandwidth'}
        )

        self.assertIn('use count', problem.reason)

    def test_all_that_is_wrong_with_an_entry_is_told(self) -> None:
        _entries, [problem] = parse(
            make_entry(units=7, inventory={'total': 0, 'reserved': -1})
        )

        for word in ('units', 'inventory.total', 'inventory.reserved'):
            self.assertIn(word, problem.reason)


class TestFiles(base.TestCase):
    def assert_unreadable(self, word: str, text: str) -> None:
        with self.subTest(text=text[:40]):
            error = self.assertRaises(
                ValueError, definitions.parse, text, 'd.yaml', TYPES
            )
            self.assertIn(word, str(error))

    def test_an_error_of_syntax_is_told_with_its_line(self) -> None:
        self.assert_unreadable('line 3:', 'resources:\n  - name: A\n bad')
        self.assert_unreadable('line 2:', 'resources:\n\t- name: A')
        self.assert_unreadable('line 1:', 'resources: [')

    def test_a_key_that_is_there_twice_is_told_with_its_line(self) -> None:
        self.assert_unreadable(
            'line 8: total occurs twice',
            GOOD.replace('{total: 10}', '\n      total: 1\n      total: 2'),
        )

    def test_another_form_is_told(self) -> None:
        for text in ('', '[]', 'text', '7', 'resource: []', '? [a]\n: b'):
            self.assert_unreadable('', text)
        self.assert_unreadable(
            'the key "resources"', 'resources: []\nversion: 1'
        )
        self.assert_unreadable('must be a list', 'resources: {}')

    def test_objects_of_python_are_not_made(self) -> None:
        self.assert_unreadable(
            'line 1:', 'resources: !!python/object/apply:os.getcwd []'
        )

    def test_a_value_that_cannot_be_built_is_told_with_its_line(self) -> None:
        for value in ('!!bool foo', "!!int ''", '!!timestamp x', '2026-99-99'):
            self.assert_unreadable('line 2:', f'resources:\n- name: {value}')

    def test_a_control_character_is_told(self) -> None:
        self.assert_unreadable('not valid YAML', 'resources: \x00')

    def test_nesting_without_end_is_told(self) -> None:
        self.assert_unreadable('not valid YAML', '[' * 2000)

    @hypothesis.given(text=st.text())
    def test_no_text_raises_anything_else(self, text: str) -> None:
        for whole in (text, f'resources:\n- {text}', f'resources: [{text}]'):
            try:
                entries, _problems = definitions.parse(whole, 'd', TYPES)
            except ValueError:
                continue
            self.assertEqual([], entries)
