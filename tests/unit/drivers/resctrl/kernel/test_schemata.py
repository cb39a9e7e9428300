# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.drivers.resctrl.kernel import schemata
from tests import base
from tests.unit import strategies  # noqa: F401 - sets the profile

_SCHEMATA = st.dictionaries(
    st.tuples(
        st.sampled_from(['L3', 'L3CODE', 'L3DATA', 'L2', 'MB']),
        st.integers(min_value=0, max_value=31),
    ),
    st.integers(min_value=0, max_value=(1 << 20) - 1),
)

SKYLAKE = '    MB:0=100;1= 20\n    L3:0=7ff;1=00f\n'


class ParseTest(base.TestCase):
    def test_a_padded_file_is_read(self) -> None:
        self.assertEqual(
            {
                ('MB', 0): 100,
                ('MB', 1): 20,
                ('L3', 0): 0x7FF,
                ('L3', 1): 0xF,
            },
            schemata.parse(SKYLAKE),
        )

    def test_code_and_data_are_controls_of_their_own(self) -> None:
        found = schemata.parse('L3DATA:0=ff\nL3CODE:0=f0\n')

        self.assertEqual({('L3DATA', 0): 0xFF, ('L3CODE', 0): 0xF0}, found)

    def test_a_control_without_values_is_left_out(self) -> None:
        found = schemata.parse('L3:uninitialized\nMB:0=100\n')

        self.assertEqual({('MB', 0): 100}, found)

    def test_controls_of_later_kernels_are_left_out(self) -> None:
        found = schemata.parse(
            'MB:0=100\nMB_MIN:0=12.5\nPRIO:0=high;1=low\nX:\nSMBA:0=2048\n'
        )

        self.assertEqual({('MB', 0): 100}, found)

    def test_ids_may_be_as_long_as_those_of_arm(self) -> None:
        number = 2**64 - 1

        found = schemata.parse(f'L3:4026531840=f;{number}=7\n')

        self.assertEqual({('L3', 4026531840): 0xF, ('L3', number): 0x7}, found)

    def test_half_a_file_and_other_things_are_refused(self) -> None:
        for text in (
            'L3:0=7ff;1=',
            'L3:0=7ff;1=7',
            'L3\n',
            ':0=1\n',
            'L3:=1\n',
            'L3:a=1\n',
            'L3:0\n',
            'L3:0=xyz\n',
            'MB:0=ff\n',
            'MB:0=\n',
            'L3:0=1\nL3:0=2\n',
            '<html>\n',
        ):
            with self.subTest(text=text):
                self.assertRaises(ValueError, schemata.parse, text)

    def test_an_empty_file_has_no_controls(self) -> None:
        self.assertEqual({}, schemata.parse(''))

    @hypothesis.given(given=_SCHEMATA)
    def test_what_is_written_can_be_read(
        self, given: dict[tuple[str, int], int]
    ) -> None:
        self.assertEqual(given, schemata.parse(schemata.format_lines(given)))

    @hypothesis.given(text=st.text())
    def test_nothing_but_value_error_comes_of_any_text(
        self, text: str
    ) -> None:
        try:
            schemata.parse(text)
        except ValueError:
            return


class FormatTest(base.TestCase):
    def test_masks_are_hex_and_bandwidth_is_decimal(self) -> None:
        text = schemata.format_lines(
            {('L3', 1): 10, ('MB', 0): 30, ('L3', 0): 31}
        )

        self.assertEqual('L3:0=1f;1=a\nMB:0=30\n', text)

    def test_what_is_longer_than_a_page_is_written_in_parts(self) -> None:
        given = {
            (name, number): 0xFFFF
            for name in ('L2CODE', 'L2DATA')
            for number in range(500)
        }

        texts = schemata.list_texts(given)

        self.assertGreater(len(texts), 1)
        self.assertLessEqual(max(map(len, texts)), 4096)
        found: dict[tuple[str, int], int] = {}
        for text in texts:
            found.update(schemata.parse(text))
        self.assertEqual(given, found)

    def test_a_page_is_one_write(self) -> None:
        given = dict.fromkeys([('L2', n) for n in range(400)], 0xFFFF)

        self.assertEqual(
            [schemata.format_lines(given)], schemata.list_texts(given)
        )

    def test_without_values_nothing_is_written(self) -> None:
        self.assertEqual('', schemata.format_lines({}))


class DifferenceTest(base.TestCase):
    @hypothesis.given(before=_SCHEMATA, wanted=_SCHEMATA)
    def test_what_was_written_does_not_deviate(
        self,
        before: dict[tuple[str, int], int],
        wanted: dict[tuple[str, int], int],
    ) -> None:
        after = {**before, **wanted}

        self.assertEqual('', schemata.find_deviation(wanted, after))
        self.assertEqual(
            before == after, not schemata.find_deviation(after, before)
        )

    def test_a_deviation_says_what_is_wanted_and_what_is_there(self) -> None:
        found = schemata.find_deviation({('L3', 1): 0xF}, {('L3', 1): 0x7FF})

        self.assertEqual(
            'L3:1=f is expected, but the kernel shows 1=7ff', found
        )

    def test_what_is_not_shown_at_all_deviates(self) -> None:
        found = schemata.find_deviation({('MB', 1): 50}, {('L3', 1): 1})

        self.assertEqual(
            'MB:1=50 is expected, but the kernel shows nothing', found
        )

    def test_a_limit_that_was_lifted_deviates(self) -> None:
        self.assertNotEqual(
            '', schemata.find_deviation({('MB', 0): 20}, {('MB', 0): 100})
        )


class WaysTest(base.TestCase):
    def test_code_and_data_together_are_the_ways(self) -> None:
        given = {('L3CODE', 0): 0b0011, ('L3DATA', 0): 0b0110}

        self.assertEqual(
            0b0111, schemata.get_masks(given)[schemata.Cache(3, 0)]
        )
        self.assertNotIn(schemata.Cache(3, 1), schemata.get_masks(given))

    def test_the_lowest_ways_are_for_code_and_the_others_for_data(
        self,
    ) -> None:
        ways = schemata.Ways(0b111100, code=1)

        self.assertEqual(0b000100, ways.get_part('L3CODE'))
        self.assertEqual(0b111000, ways.get_part('L2DATA'))
        self.assertEqual(0b111100, ways.get_part('L3'))

    def test_ways_that_are_not_split_are_for_both(self) -> None:
        ways = schemata.Ways(0b111100)

        self.assertEqual(0b111100, ways.get_part('L3CODE'))
        self.assertEqual(0b111100, ways.get_part('L3DATA'))

    def test_caches_of_both_levels_are_listed(self) -> None:
        given = {
            ('L3', 0): 1,
            ('L3', 1): 1,
            ('L2CODE', 4): 1,
            ('MB', 7): 100,
        }

        self.assertEqual(
            ['L2_4', 'L3_0', 'L3_1'],
            [one.key for one in sorted(schemata.get_masks(given))],
        )
        self.assertEqual({7: 100}, schemata.get_limits(given))

    def test_a_provider_is_found_by_its_key(self) -> None:
        for cache in (schemata.Cache(2, 14), schemata.Cache(3, 0)):
            self.assertEqual(cache, schemata.parse_key(cache.key))
        for key in ('RDT', 'L3', 'L3_', 'L3_x', ''):
            self.assertRaises(ValueError, schemata.parse_key, key)
