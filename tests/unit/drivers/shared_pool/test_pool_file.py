# SPDX-License-Identifier: Apache-2.0

"""Files of pools."""

import os

from nova_ext_resources.drivers.shared_pool import pool_file
from nova_ext_resources.objects import pool
from tests import base

GOOD = {
    'name': 'rack1',
    'resource_class': 'CUSTOM_RACK1_GB',
    'source': 'file',
    'location': '/rack1.json',
}
SAMPLE = os.path.join(
    os.path.dirname(pool_file.__file__),
    '../../../etc/nova_ext_resources/pools.yaml',
)


def make_text(*entries: object) -> str:
    return f'pools: {[*entries]!r}'


class PoolFileTest(base.TestCase):
    def test_a_pool_with_all_that_can_be_set(self) -> None:
        entry = {
            **GOOD,
            'source': 'http',
            'location': 'https://licences.example/pool',
            'unit_size': 10,
            'max_age': 60,
            'traits': ['CUSTOM_FAST', 'STORAGE_DISK_SSD'],
            'others_use': 'reserved',
            'min_free_percent': 5,
            'inventory': {'reserved': 3, 'allocation_ratio': 1.5},
        }

        found, bad = pool_file.parse(make_text(entry))

        self.assertEqual([], bad)
        self.assertEqual(
            [
                pool_file.Definition(
                    pool=pool.SharedPool(
                        name='rack1',
                        resource_class='CUSTOM_RACK1_GB',
                        rules={'reserved': 3, 'allocation_ratio': 1.5},
                        others_use=pool.RESERVED,
                        min_free_percent=5,
                        traits=frozenset({'CUSTOM_FAST', 'STORAGE_DISK_SSD'}),
                    ),
                    source='http',
                    location='https://licences.example/pool',
                    unit_size=10,
                    max_age=60,
                )
            ],
            found,
        )

    def test_sources_of_bytes_count_gib(self) -> None:
        for source, unit_size in (('statvfs', 1024**3), ('file', 1)):
            [found], _bad = pool_file.parse(
                make_text({**GOOD, 'source': source})
            )

            self.assertEqual(unit_size, found.unit_size)

    def test_one_bad_entry_leaves_the_others(self) -> None:
        for change, reason in (
            ({'name': 'a/b'}, 'name'),
            ({'name': 'x' * 59}, 'name'),
            ({'resource_class': 'VCPU'}, 'resource_class'),
            ({'resource_class': 'DISK_GB'}, '1784020'),
            ({'source': 'ftp'}, 'source'),
            ({'location': 'rack1.json'}, 'not an absolute path'),
            ({'location': ''}, 'location'),
            ({'source': 'http', 'location': 'ftp://x/y'}, 'http or https URL'),
            (
                {'source': 'http', 'location': 'http://[x/y'},
                'http or https URL',
            ),
            ({'source': 'http', 'location': 'http://a:b@x/y'}, 'password'),
            ({'source': 'http', 'location': 'ftp://a:b@x/y'}, 'password'),
            ({'source': 'http', 'location': 'http://a:b@[x/y'}, 'password'),
            ({'unit_size': 0}, 'unit_size'),
            ({'unit_size': 10**400}, 'unit_size'),
            ({'max_age': 0}, 'max_age'),
            ({'max_age': 9, 'source': 'statvfs'}, 'max_age: source statvfs'),
            ({'max_age': 9, 'source': 'ceph'}, 'max_age: source ceph'),
            ({'others_use': 'free'}, 'others_use'),
            ({'min_free_percent': 101}, 'min_free_percent'),
            ({'traits': ['HW_NONE']}, 'HW_NONE'),
            ({'inventory': {'total': 3}}, 'total'),
            ({'inventory': {'allocation_ratio': 0}}, 'allocation_ratio'),
            (
                {'inventory': {'allocation_ratio': 1.5e-320}},
                'allocation_ratio',
            ),
            ({'inventory': {'min_unit': 3, 'max_unit': 2}}, 'max_unit'),
            ({'colour': 'red'}, 'colour'),
        ):
            with self.subTest(change=change):
                other = {**GOOD, 'name': 'two', 'resource_class': 'CUSTOM_2'}

                found, [bad] = pool_file.parse(
                    make_text({**GOOD, **change}, other)
                )

                self.assertEqual(['two'], [one.pool.name for one in found])
                self.assertIn(reason, bad.reason)

    def test_one_that_others_read(self) -> None:
        entry = {**GOOD, 'source': 'none'}
        del entry['location']

        [found], bad = pool_file.parse(make_text(entry))

        self.assertEqual([], bad)
        self.assertFalse(found.pool.is_read)
        for key in ('location', 'inventory', 'others_use'):
            other = {'inventory': {}, 'others_use': 'not_free', **GOOD}
            found_, [wrong] = pool_file.parse(
                make_text({**entry, key: other[key]})
            )
            self.assertEqual([], found_)
            self.assertIn(f'{key}: with source none', wrong.reason)
        _found, [wrong] = pool_file.parse(
            make_text({**entry, 'source': 'file'})
        )
        self.assertIn('location', wrong.reason)

    def test_two_pools_with_one_name_or_class_clash(self) -> None:
        for change in ({'name': 'two'}, {'resource_class': 'CUSTOM_2'}):
            found, [bad] = pool_file.parse(make_text(GOOD, {**GOOD, **change}))

            self.assertEqual(1, len(found))
            self.assertNotEqual('', bad.reason)

    def test_what_is_no_such_file_is_refused(self) -> None:
        for text in (
            '',
            'pools: [',
            'pools:',
            'pools: 3',
            '- a',
            'pools: []\nx: 1',
        ):
            with self.subTest(text=text):
                self.assertRaises(ValueError, pool_file.parse, text)

    def test_where_it_is_not_such_a_file_is_told(self) -> None:
        for text in (
            'pools:\n- name: !!bool foo',
            'pools: []\npools: []',
            'pools:\n- unit_size: 010',
            'pools:\n- &a [*a]',
        ):
            error = self.assertRaises(ValueError, pool_file.parse, text)
            self.assertIn('line 2: ', str(error))

    def test_entries_that_are_no_mappings(self) -> None:
        found, bad = pool_file.parse('pools: [1, null, {name: [x]}]')

        self.assertEqual([], found)
        self.assertEqual(
            ['number 1', 'number 2', 'number 3'], [one.name for one in bad]
        )

    def test_an_empty_file_has_no_pools(self) -> None:
        self.assertEqual(([], []), pool_file.parse('pools: []\n'))

    def test_the_sample_is_good(self) -> None:
        with open(SAMPLE, encoding='utf-8') as file:
            text = file.read()

        self.assertEqual(([], []), pool_file.parse(text))
        # And with its examples.
        found, bad = pool_file.parse(
            text.replace('pools: []', 'pools:').replace('\n#   ', '\n  ')
        )
        self.assertEqual([], bad)
        self.assertEqual(
            {*pool_file.UNIT_SIZES}, {one.source for one in found}
        )
