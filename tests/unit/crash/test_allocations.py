# SPDX-License-Identifier: Apache-2.0

"""What the crash harness takes for left by Nova in placement."""

import dataclasses
from typing import Any

from nova_ext_resources.objects import alarm
from tests import base
from tests.crash import allocations
from tests.unit.crash import left

Move = left.Move

_TOLD = (alarm.STALE_ALLOCATION, 'move', 'text')


class LeftTestCase(base.TestCase):
    """A server on host1 that has two ways."""

    def setUp(self) -> None:
        super().setUp()
        self.left = self.useFixture(left.Left())
        self.server = self.left.server

    def compare(self, *entries: Any, **given: Any) -> list[str | None]:
        """Return whom Nova has left each difference."""
        seen = self.left.see(*entries, **given)
        return [uuid for _place, uuid, _text in allocations.compare(seen)]


class AbandonedTest(LeftTestCase):
    """A resize on host1 from two ways to three was killed."""

    def setUp(self) -> None:
        super().setUp()
        self.entry = left.make_entry(2)
        self.resize = Move(dest_compute='host1', status='migrating', ways=3)
        self.left.moves = [self.resize]
        self.left.allocations = {
            'server': {'cache1': 3, 'node1': 2},
            'move': {'cache1': 2, 'node1': 2},
        }
        self.told = [
            (alarm.NOT_RECORDED, 'server', 'text'),
            (alarm.STALE_ALLOCATION, 'move', 'text'),
        ]

    def find(self, **given: Any) -> list[str | None]:
        return self.compare(self.entry, problems=self.told, **given)

    def test_it_is_accepted(self) -> None:
        self.assertEqual(['move', 'move'], self.find())

    def test_not_unless_the_host_reports_it(self) -> None:
        self.told = []

        self.assertIn(None, self.find())

    def test_nor_by_an_alarm_of_another_server_or_of_something_else(
        self,
    ) -> None:
        for told in (
            (alarm.NOT_RECORDED, 'other', 'text'),
            (alarm.NOT_IN_PLACEMENT, 'server', 'text'),
        ):
            self.told = [told]

            self.assertIn(None, self.find(), told[0])

    def test_an_alarm_of_a_move_that_names_the_server_will_do(self) -> None:
        text = 'the consumer is a live-migration of server server on this host'
        self.told = [(alarm.STALE_ALLOCATION, 'former', text)]

        self.assertNotIn(None, self.find())

    def test_not_another_amount_than_the_resize_has(self) -> None:
        self.resize.ways = 4

        self.assertIn(None, self.find())

    def test_not_while_the_server_is_resized(self) -> None:
        self.server.task_state = 'resize_migrating'

        self.assertIn(None, self.find())

    def test_any_other_task_may_have_come_since(self) -> None:
        self.server.task_state = 'rebooting'

        self.assertNotIn(None, self.find())

    def test_not_of_a_move_to_another_host_or_one_that_has_ended(self) -> None:
        for status, target in (('migrating', 'host2'), ('reverted', 'host1')):
            self.resize.status, self.resize.dest_compute = status, target

            self.assertIn(None, self.find(), status)

    def test_not_of_a_server_on_another_host(self) -> None:
        self.server.host = 'host2'
        # Not what Nova has left with its own resources.
        self.left.allocations = {'server': {'cache1': 3}}

        self.assertIn(None, self.find())

    def test_one_that_failed_if_nova_could_not_give_anything_back(
        self,
    ) -> None:
        self.resize.status = 'error'

        self.assertNotIn(None, self.find())

        del self.left.allocations['move']
        self.assertIn(None, self.find())

    def take(self, status: str) -> Any:
        """Let the next move take it; return what host1 keeps for that."""
        self.server.host = 'host2'
        self.left.moves.append(Move(uuid='taker', id=2, status=status))
        self.left.allocations = {
            'taker': {'cache1': 3, 'node1': 2},
            'move': {'cache1': 2, 'node1': 2},
        }
        return left.make_entry(
            2, 'taker', purpose=left.Purpose.MIGRATION_SOURCE
        )

    def test_the_next_move_to_elsewhere_has_it_under_its_own_uuid(
        self,
    ) -> None:
        kept = self.take('finished')
        for told, expected in ((alarm.NOT_RECORDED, True), ('', False)):
            found = self.compare(kept, problems=[(told, 'taker', ''), _TOLD])
            self.assertIs(expected, None not in found, told)

    def test_while_nova_may_go_on_with_that_nothing_is_reported(self) -> None:
        kept = self.take('post-migrating')
        self.server.task_state = 'resize_finish'
        self.assertNotIn(None, self.compare(kept))

        # That is the task of the last one.
        self.left.moves.append(Move(uuid='last', id=3))
        self.assertIn(None, self.compare(kept))

    def test_not_what_a_move_before_it_has(self) -> None:
        self.server.host = 'host2'
        self.left.moves.insert(0, Move(uuid='former', id=0, status='finished'))
        self.left.allocations = {'former': {'cache1': 3, 'node1': 2}}
        kept = left.make_entry(
            2, 'former', purpose=left.Purpose.MIGRATION_SOURCE
        )

        found = self.compare(
            kept, problems=[(alarm.NOT_RECORDED, 'former', '')]
        )

        self.assertEqual([None], found)


class ConfirmationTest(LeftTestCase):
    """host1 was killed when it had released what the move had kept."""

    def setUp(self) -> None:
        super().setUp()
        self.server.host, self.server.vm_state = 'host2', 'resized'
        self.move = Move(status='confirming')
        self.left.moves = [self.move]
        self.left.allocations = {'move': {'cache1': 2, 'node1': 2}}

    def test_it_is_accepted_if_the_host_reports_it(self) -> None:
        for status in ('confirming', 'confirmed'):
            self.move.status = status

            self.assertEqual(['move'], self.compare(problems=[_TOLD]))
            self.assertEqual([None], self.compare(), status)

    def test_so_it_is_in_a_deletion(self) -> None:
        self.move.status, self.server.task_state = 'finished', 'deleting'

        self.assertEqual(['move'], self.compare(problems=[_TOLD]))
        self.assertEqual([None], self.compare())

    def test_a_host_that_was_not_killed_has_to_keep_it(self) -> None:
        for status, task in (('confirming', None), ('finished', 'deleting')):
            self.move.status, self.server.task_state = status, task

            self.assertEqual([None], self.compare(problems=[_TOLD], killed=()))

    def test_before_a_confirmation_as_well(self) -> None:
        self.move.status = 'finished'

        self.assertEqual([None], self.compare(problems=[_TOLD]))


class ElsewhereTest(LeftTestCase):
    """Placement has the server on host2, and Nova has it on host1."""

    def setUp(self) -> None:
        super().setUp()
        self.left.allocations = {'server': {'cache2': 2, 'node2': 2}}
        self.entry = left.make_entry(2)

    def test_it_is_accepted(self) -> None:
        self.assertEqual(['server'], self.compare(self.entry))

    def test_not_unless_nova_has_its_own_resources_there_and_only_there(
        self,
    ) -> None:
        for given in (
            {'cache2': 2},
            {'cache2': 2, 'node2': 2, 'node1': 2},
            {},
        ):
            with self.subTest(given=given):
                self.left.allocations = {'server': given}

                self.assertEqual([None], self.compare(self.entry))

    def test_not_on_another_host_than_that_of_nova(self) -> None:
        self.server.host = 'host2'
        self.server.task_state = None

        self.assertEqual([None], self.compare(self.entry))

    def test_a_migration_that_has_it_is_named_instead(self) -> None:
        self.left.moves = [Move(migration_type='live-migration')]
        self.left.allocations['move'] = {'cache1': 2, 'node1': 2}

        self.assertEqual({'move'}, {*self.compare(self.entry)})


class TakenBackTest(LeftTestCase):
    """Two moves from host1 to host2: one was killed, and one has failed."""

    def setUp(self) -> None:
        super().setUp()
        self.failed = Move(uuid='failed', id=2, status='error')
        self.left.moves = [Move(), self.failed]
        # What the first was to get, on another cache.
        self.left.allocations = {
            'server': {'other_cache2': 2, 'node2': 2},
            'move': {'cache1': 2, 'node1': 2},
        }
        self.entry = left.make_entry(
            3, host='host2', purpose=left.Purpose.MIGRATION_DEST
        )

    def find(self, *entries: Any) -> list[str | None]:
        providers = {'cache2': 'L3_0', 'other_cache2': 'L3_1'}
        seen = self.left.see(*entries, host='host2')
        seen = dataclasses.replace(
            seen, said={**seen.said, 'providers': providers}
        )
        return [uuid for _place, uuid, _text in allocations.compare(seen)]

    def test_it_is_accepted(self) -> None:
        self.assertEqual(['server', 'server'], self.find(self.entry))

    def test_not_if_the_last_one_goes_on(self) -> None:
        self.failed.status = 'migrating'

        self.assertIn(None, self.find(self.entry))

    def test_not_if_there_was_no_other_one(self) -> None:
        self.left.moves = [self.failed]

        self.assertIn(None, self.find(self.entry))

    def test_not_of_what_the_server_has_here_itself(self) -> None:
        self.server.host = 'host2'
        own = dataclasses.replace(self.entry, purpose=left.Purpose.OWN)

        self.assertIn(None, self.find(own))

    def test_not_if_placement_has_nothing_of_it_here(self) -> None:
        del self.left.allocations['server']

        self.assertEqual([None], self.find(self.entry))


class ComingLiveTest(LeftTestCase):
    """Nova has it on its way to host2, live, since a kill.

    It was resized to there after that, and the resize has failed.
    """

    def setUp(self) -> None:
        super().setUp()
        self.live = Move(
            uuid='live', migration_type='live-migration', status='running'
        )
        self.left.moves = [self.live, Move(id=2, status='error')]
        self.left.allocations = {'server': {'cache1': 2, 'node1': 2}}

    def find(self) -> list[str | None]:
        entry = left.make_entry(
            3, host='host2', purpose=left.Purpose.MIGRATION_DEST
        )
        return self.compare(entry, host='host2')

    def test_it_is_accepted_with_and_without_a_task(self) -> None:
        self.assertEqual(['server'], self.find())
        self.server.task_state = 'resize_migrating'
        self.assertEqual(['server'], self.find())

    def test_not_when_that_is_over_or_goes_elsewhere(self) -> None:
        self.server.task_state = 'resize_migrating'
        for move in (
            dataclasses.replace(self.live, status='error'),
            dataclasses.replace(self.live, dest_compute='host1'),
            dataclasses.replace(self.live, migration_type='migration'),
        ):
            self.left.moves[0] = move

            self.assertEqual([None], self.find(), str(move))


class TransferredTest(LeftTestCase):
    """A guest went to host2; Nova has the server on host1, and all there."""

    def setUp(self) -> None:
        super().setUp()
        self.move = Move(migration_type='live-migration', status='error')
        self.left.moves = [self.move]
        self.left.allocations = {'server': {'cache1': 2, 'node1': 2}}
        self.entry = left.make_entry(
            2, host='host2', purpose=left.Purpose.MIGRATION_DEST
        )
        self.told = [(alarm.NOT_IN_PLACEMENT, 'server', 'text')]

    def find(self) -> list[str | None]:
        return [
            *self.compare(guests={}),
            *self.compare(
                self.entry,
                host='host2',
                guests={'server': 1},
                problems=self.told,
            ),
        ]

    def test_it_is_accepted(self) -> None:
        self.assertEqual(['server', 'server'], self.find())

    def test_not_unless_the_host_of_the_guest_reports_it(self) -> None:
        self.told = []

        self.assertEqual(['server', None], self.find())

    def test_not_if_that_has_ended_well(self) -> None:
        self.move.status = 'completed'

        self.assertEqual([None, None], self.find())

    def test_it_may_be_resized_and_shelved_on_the_former_host(self) -> None:
        self.left.moves.append(
            Move(uuid='later', id=2, dest_compute='host1', status='reverted')
        )
        self.assertEqual(['server', 'server'], self.find())

        self.server.host = None
        self.left.allocations = {}
        self.assertEqual(['server'], self.find())

    def test_not_while_the_guest_is_where_nova_has_it(self) -> None:
        self.assertEqual([None], self.compare(guests={'server': 1}))
