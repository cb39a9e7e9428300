# SPDX-License-Identifier: Apache-2.0

"""Tests of charts, in letters and as pictures."""

from xml.etree import ElementTree

from nova_ext_resources.cmd.osc.render import chart_svg
from nova_ext_resources.cmd.osc.render import chart_text
from nova_ext_resources.reservation import chart
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state
from tests import base

State = state.State
HOUR = 3600


def make_bar(
    key: str, start: int, end: int, state: State = State.PENDING
) -> chart.Bar:
    return chart.Bar(
        key=key,
        during=interval.Interval(start * HOUR, end * HOUR),
        servers=1,
        state=state,
    )


def make_chart(*bars: chart.Bar, name: str = 'host') -> chart.Chart:
    return chart.Chart(
        during=interval.Interval(10 * HOUR, 20 * HOUR),
        rows=(chart.make_row(name, bars),) if bars else (),
    )


def draw(*bars: chart.Bar, name: str = 'host', width: int = 45) -> list[str]:
    lines = [*chart_text.draw(make_chart(*bars, name=name), width)]
    return lines[2:-1]


class TextTest(base.TestCase):
    def test_bars_that_touch_share_a_lane(self) -> None:
        self.assertEqual(
            ['host [a 1---][b 1---]'],
            draw(make_bar('a', 10, 12), make_bar('b', 12, 14)),
        )

    def test_bars_that_overlap_do_not(self) -> None:
        self.assertEqual(
            ['host [a 1-------]', '     ' + 8 * ' ' + '[b 1---]'],
            draw(make_bar('a', 10, 13), make_bar('b', 12, 14)),
        )

    def test_what_goes_on_beyond_the_chart(self) -> None:
        (line,) = draw(make_bar('a', 0, 30))

        self.assertEqual(f'host <a 1{35 * "-"}>', line)

    def test_each_state_has_its_letter(self) -> None:
        for one, letter in (
            (State.ACTIVE, '='),
            (State.DEGRADED, '!'),
            (State.ENDED, '.'),
        ):
            (line,) = draw(make_bar('a', 10, 12, one))

            self.assertEqual(f'host [a 1{3 * letter}]', line)

    def test_a_short_one_is_seen(self) -> None:
        short = chart.Bar(
            key='short',
            during=interval.Interval(10 * HOUR, 10 * HOUR + 1),
            servers=1,
            state=State.PENDING,
        )

        self.assertEqual(['host -'], draw(short))

    def test_long_names_are_cut(self) -> None:
        (line,) = draw(make_bar('a' * 99, 10, 12), name='h' * 30)

        self.assertTrue(line.startswith('h' * 23 + '~ ['), line)
        self.assertTrue(line.endswith('a]'), line)

    def test_without_reservations(self) -> None:
        lines = [*chart_text.draw(make_chart(), 45)]

        self.assertEqual('No reservations in this time.', lines[-1])

    def test_the_axis_has_room_for_its_marks(self) -> None:
        for hours in (1, 5, 24, 24 * 40, 24 * 365 * 30, 24 * 365 * 8000):
            during = interval.Interval(0, hours * HOUR)
            lines = [*chart_text.draw(chart.Chart(during=during, rows=()), 80)]

            self.assertLessEqual(len(lines[1]), 80)
            self.assertRegex(lines[1], r'^ \|\S+')
            self.assertLess(lines[1].count('|'), 10)

    def test_an_axis_beyond_the_last_date(self) -> None:
        last = 253402300799
        during = interval.Interval(last, last + 24 * HOUR)
        drawn = chart.Chart(during=during, rows=())

        self.assertIn(
            'second 253402387199', ''.join(chart_text.draw(drawn, 80))
        )
        ElementTree.fromstring(chart_svg.draw(drawn))


class PictureTest(base.TestCase):
    def test_it_is_xml_whatever_the_names_are(self) -> None:
        for name in ('<&>"', 'Grüße', 'a\x00b', '\ud800'):
            drawn = chart_svg.draw(
                make_chart(make_bar(name, 0, 30), name=name)
            )

            ElementTree.fromstring(drawn)

    def test_bars_stay_within(self) -> None:
        drawn = chart_svg.draw(
            make_chart(make_bar('a', 0, 12), make_bar('b', 19, 99))
        )

        root = ElementTree.fromstring(drawn)
        for one in root.iter('{http://www.w3.org/2000/svg}rect'):
            left = float(one.get('x', '0'))
            right = left + float(one.get('width', '0'))
            self.assertTrue(0 <= left < right <= chart_svg.WIDTH, one.attrib)
