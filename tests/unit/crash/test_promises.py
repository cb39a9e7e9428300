# SPDX-License-Identifier: Apache-2.0

"""What the crash harness lets pass without a rule."""

import dataclasses
from typing import Any

from nova_ext_resources.objects import alarm
from tests import base
from tests.crash import agreement
from tests.crash import promises
from tests.unit.crash import left

PLACE = ('server', 'cache1', left.WAYS)


class KeptTest(base.TestCase):
    """A host holds other than placement has for a server or its moves."""

    def setUp(self) -> None:
        super().setUp()
        self.left = self.useFixture(left.Left())
        self.left.moves = [left.Move()]

    def is_kept(self, ways: int, name: str | None = None) -> bool:
        problems = [(name, 'server', '')] if name else []
        seen = self.left.see(left.make_entry(ways), problems=problems)
        return promises.is_kept(seen, PLACE)

    def test_what_a_move_has_is_not_sold_twice(self) -> None:
        self.left.allocations = {'move': {'cache1': 2}}

        self.assertTrue(self.is_kept(2))
        self.assertFalse(self.is_kept(3))
        self.assertFalse(self.is_kept(1))

    def test_an_alarm_has_to_tell_the_difference(self) -> None:
        self.assertFalse(self.is_kept(2))
        self.assertFalse(self.is_kept(2, alarm.NOT_RECORDED))
        self.assertTrue(self.is_kept(2, alarm.NOT_IN_PLACEMENT))

        self.left.allocations = {'server': {'cache1': 3}}
        self.assertFalse(self.is_kept(2, alarm.NOT_IN_PLACEMENT))
        self.assertTrue(self.is_kept(2, alarm.NOT_RECORDED))
        self.assertTrue(self.is_kept(2, alarm.STALE_ALLOCATION))

    def test_an_alarm_of_another_server_tells_nothing(self) -> None:
        seen = self.left.see(
            left.make_entry(2),
            problems=[(alarm.NOT_IN_PLACEMENT, 'other', '')],
        )
        self.assertFalse(promises.is_kept(seen, PLACE))


class AlarmTest(base.TestCase):
    """No rule explains an alarm."""

    def setUp(self) -> None:
        super().setUp()
        self.left = self.useFixture(left.Left())

    def judge(self, name: str) -> agreement.Differences:
        seen = self.left.see(
            left.make_entry(2), problems=[(name, 'server', '')]
        )
        made = agreement.Differences()
        agreement._judge_alarms(seen, made)
        return made

    def test_one_that_says_what_placement_says_passes(self) -> None:
        self.assertTrue(self.judge(alarm.NOT_IN_PLACEMENT).kept)

    def test_a_false_one_does_not(self) -> None:
        self.left.allocations = {'server': {'cache1': 2}}
        self.assertTrue(self.judge(alarm.NOT_IN_PLACEMENT).ours)

    def test_nor_does_one_of_a_server_that_has_less(self) -> None:
        for name in (alarm.NOT_APPLIED, alarm.UNITS_HELD_TWICE):
            self.assertTrue(self.judge(name).ours)


class SharedTest(base.TestCase):
    def test_two_consumers_with_one_way_are_named(self) -> None:
        fixture = self.useFixture(left.Left())

        def share(*masks: str) -> list[str]:
            entries = [
                _give(left.make_entry(2, uuid=f'server{number}'), mask)
                for number, mask in enumerate(masks)
            ]
            return [*promises.list_shared(fixture.see(*entries))]

        self.assertEqual([], share('3', 'c'))
        (text,) = share('3', 'c', '6')[1:]
        self.assertEqual('server2 and server1 have ways of L3_0', text)


def _give(entry: Any, mask: str) -> Any:
    (one,) = entry.assignments
    given = dataclasses.replace(one, units={'mask': mask})
    return dataclasses.replace(entry, assignments=(given,))
