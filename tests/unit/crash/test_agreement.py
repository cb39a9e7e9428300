# SPDX-License-Identifier: Apache-2.0

"""Which alarms the crash harness takes for right."""

import dataclasses
from typing import Any

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests import base
from tests.crash import agreement
from tests.unit.crash import left

_ELSEWHERE = 'but has allocations only on other hosts'


class AlarmsTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.left = self.useFixture(left.Left())

    def judge(
        self, name: str, *entries: Any, text: str = '', **given: Any
    ) -> bool:
        """Return whether a rule explains an alarm about the server."""
        seen = self.left.see(
            *entries, problems=[(name, 'server', text)], **given
        )
        made = agreement.Differences()
        agreement._judge_alarms(seen, made)
        unexplained = made.ours + made.kept
        self.assertEqual(1, len(unexplained) + len(made.novas))
        return not unexplained


class AmountTest(base.TestCase):
    """A server of two ways has three, since a cold migration.

    It was to get them by a resize that was killed before that.
    """

    def setUp(self) -> None:
        super().setUp()
        self.left = self.useFixture(left.Left())
        self.resize = left.Move(ways=3, status='pre-migrating')
        self.left.moves = [
            self.resize,
            left.Move(uuid='last', id=2, status='finished'),
        ]
        self.left.server.host = 'host2'
        self.left.server.vm_state = 'resized'

    def find(self) -> str | None:
        entry = left.make_entry(3, host='host2')
        seen = self.left.see(entry, host='host2')
        return agreement._find_allocated(seen, self.left.server, entry)

    def test_nova_has_given_it_that(self) -> None:
        self.assertEqual('server', self.find())

    def test_not_by_a_move_that_has_ended_or_was_to_give_less(self) -> None:
        self.resize.status = 'reverted'
        self.assertIsNone(self.find())

        self.resize.status, self.resize.ways = 'migrating', 1
        self.assertIsNone(self.find())


class ServerElsewhereTest(AlarmsTestCase):
    """A guest went from host1 to host2, and Nova has it on host1."""

    def setUp(self) -> None:
        super().setUp()
        self.move = left.Move(migration_type='live-migration', status='error')
        self.left.moves = [self.move]

    def is_right(self, **given: Any) -> bool:
        given = {'guests': {'server': 1}, **given}
        return self.judge(
            alarm.GUEST_HERE_SERVER_ELSEWHERE, host='host2', **given
        )

    def add(self, status: str, **given: Any) -> None:
        """Add a move that came later."""
        self.left.moves.append(
            left.Move(uuid='later', id=2, status=status, **given)
        )

    def test_the_last_move_explains_it(self) -> None:
        self.assertTrue(self.is_right())

    def test_not_without_a_guest_or_a_kill(self) -> None:
        self.assertFalse(self.is_right(guests={}))
        self.assertFalse(self.is_right(killed=()))

    def test_not_if_that_has_ended_well(self) -> None:
        self.move.status = 'completed'

        self.assertFalse(self.is_right())

    def test_a_later_live_one_for_which_there_was_no_host_does_not_matter(
        self,
    ) -> None:
        self.add('error', migration_type='live-migration', dest_compute=None)

        self.assertTrue(self.is_right())

    def test_one_that_may_still_find_a_host_does(self) -> None:
        self.add(
            'accepted', migration_type='live-migration', dest_compute=None
        )

        self.assertFalse(self.is_right())

    def test_a_later_cold_one_matters_if_it_has_ended_well(self) -> None:
        self.add('error')
        self.assertTrue(self.is_right())

        self.add('confirmed')
        self.assertFalse(self.is_right())

    def test_placement_may_have_it_on_the_former_host_again(self) -> None:
        entry = left.make_entry(
            2, host='host2', purpose=assignment.Purpose.MIGRATION_DEST
        )
        given = {'host': 'host2', 'text': _ELSEWHERE}
        for guests, expected in (({'server': 1}, True), ({}, False)):
            self.assertIs(
                expected,
                self.judge(
                    alarm.NOT_IN_PLACEMENT, entry, guests=guests, **given
                ),
            )


class NotInPlacementTest(AlarmsTestCase):
    """Placement has the server on host2, and Nova has it on host1."""

    def setUp(self) -> None:
        super().setUp()
        self.left.allocations = {'server': {'cache2': 2, 'node2': 2}}

    def is_right(self, text: str) -> bool:
        entry = left.make_entry(2)
        return self.judge(alarm.NOT_IN_PLACEMENT, entry, text=text)

    def test_it_is_right_if_it_says_so(self) -> None:
        self.assertTrue(self.is_right(_ELSEWHERE))
        self.assertFalse(self.is_right('for example after a failed rebuild'))

    def test_not_if_placement_has_it_nowhere(self) -> None:
        self.left.allocations = {}

        self.assertFalse(self.is_right(_ELSEWHERE))

    def test_not_if_a_migration_has_what_the_server_holds(self) -> None:
        self.left.moves = [left.Move(migration_type='live-migration')]
        self.left.allocations['move'] = {'cache1': 2, 'node1': 2}

        self.assertFalse(self.is_right(_ELSEWHERE))
        self.assertTrue(self.is_right('its migration move has it'))


class NotHeldTest(AlarmsTestCase):
    """Nova has left allocations of host2 to a server of host1."""

    def setUp(self) -> None:
        super().setUp()
        self.left.allocations = {'server': {'cache2': 2, 'node2': 2}}

    def test_it_is_right(self) -> None:
        self.assertTrue(self.judge(alarm.STALE_ALLOCATION, host='host2'))

    def test_not_if_nova_has_the_server_there(self) -> None:
        self.left.server.host = 'host2'

        self.assertFalse(self.judge(alarm.STALE_ALLOCATION, host='host2'))

    def test_not_if_the_host_holds_it(self) -> None:
        entry = left.make_entry(2, host='host2')

        self.assertFalse(
            self.judge(alarm.STALE_ALLOCATION, entry, host='host2')
        )


class NotInForceTest(AlarmsTestCase):
    """Nova has given the CPUs of another server to one that it builds."""

    def setUp(self) -> None:
        super().setUp()
        self.left.server.cpus = frozenset({1, 25})
        self.left.server.vm_state = 'error'
        self.other = left.Server(uuid='other', cpus=frozenset({25, 26}))
        self.left.others = [self.other]
        self.claimed = dataclasses.replace(
            left.make_entry(2), state=assignment.State.CLAIMED
        )
        self.applied = left.make_entry(2, 'other', cpus=frozenset({25, 26}))

    def is_right(self, *entries: Any) -> bool:
        return self.judge(alarm.NOT_APPLIED, *entries)

    def test_it_is_right(self) -> None:
        self.assertTrue(self.is_right(self.claimed, self.applied))

    def test_not_if_nova_has_pinned_them_apart(self) -> None:
        self.other.cpus = frozenset({26, 27})

        self.assertFalse(self.is_right(self.claimed, self.applied))

    def test_not_if_nova_has_the_other_one_elsewhere(self) -> None:
        self.other.host = 'host2'

        self.assertFalse(self.is_right(self.claimed, self.applied))

    def test_not_if_nothing_is_applied_on_these_cpus(self) -> None:
        moved = dataclasses.replace(self.applied, cpus=frozenset({26}))

        self.assertFalse(self.is_right(self.claimed, moved))
        self.assertFalse(self.is_right(self.claimed))

    def test_not_without_a_kill_or_of_a_server_that_was_built(self) -> None:
        entries = self.claimed, self.applied
        self.assertFalse(self.judge(alarm.NOT_APPLIED, *entries, killed=()))

        self.left.server.vm_state = 'active'
        self.assertFalse(self.is_right(*entries))

    def test_not_of_a_server_that_had_all(self) -> None:
        entry = left.make_entry(2)

        self.assertFalse(self.is_right(entry, self.applied))
