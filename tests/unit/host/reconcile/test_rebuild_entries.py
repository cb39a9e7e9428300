# SPDX-License-Identifier: Apache-2.0

"""Servers run on, and their ledger is lost."""

from collections.abc import Callable, Collection, Mapping
import contextlib
import dataclasses
import json
import pathlib
import shutil
import sqlite3
import types
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.host.reconcile import rebuild_entries
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.unit import builders
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
LATE = uuidsentinel.late

PERCENT = classes.PERCENT

CPUS = {SERVER: frozenset({1, 2}), OTHER: frozenset({3})}

Held = Mapping[tuple[str, str], assignment.Assignment]


def make_request(uuid: str, ways: int = 2) -> assignment.ClaimRequest:
    return with_host.make_claim(uuid, ways, cpus=CPUS[uuid], allocations={})


def read_allocations(_uuid: str) -> dict[str, dict[str, int]]:
    """Answer for placement: three ways of the first domain."""
    return {with_host.DOMAINS[0]: {with_host.WAYS: 3}}


def make_placement(
    read: Callable[[str], Mapping[str, Mapping[str, int]]],
) -> Any:
    return with_host.Placement(read)


def set_doubled(made: Any, classes: Collection[str] | None) -> None:
    """Have the compute node itself offer these; None: nobody knows."""
    made._publisher.doubled = classes


def make_restore(
    host: manager.HostManager,
    read_allocations: Callable[
        [str], dict[str, dict[str, int]]
    ] = read_allocations,
    requests: rebuild_entries.Requests | None = None,
) -> rebuild_entries.RebuildEntries:
    """Make what restores entries.

    :param requests: of the servers that have none; without, that of SERVER
    """
    writer: Any = host
    publisher: Any = types.SimpleNamespace(doubled=())
    made = rebuild_entries.RebuildEntries(
        host, make_placement(read_allocations), writer, publisher
    )
    made.expect(requests or {SERVER: make_request(SERVER)})
    return made


def list_held(entry: assignment.Entry) -> Held:
    return {
        (one.rp_uuid, one.resource_class): one for one in entry.assignments
    }


class RestoreTestCase(with_resctrl.ResctrlHostTestCase):
    """Two servers with ways of a cache of eleven, and no ledger."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_resctrl_host()
        self.start(self.host, SERVER, 3, cpus=CPUS[SERVER])
        self.start(self.host, OTHER, 2, cpus=CPUS[OTHER])
        self.before = dict(self.host.entries)
        self.groups = self.list_ours()
        self.allocated: dict[str, dict[str, dict[str, int]]] = {
            uuid: {with_host.DOMAINS[0]: {with_host.WAYS: ways}}
            for uuid, ways in ((SERVER, 3), (OTHER, 2))
        }
        self.asked: list[str] = []
        self.host.close()
        self.ledger_path += '.new'

    def come_back(self) -> None:
        """Start as after a loss, up to where Nova has named its servers."""
        self.host = self.make_resctrl_host()
        self.host.reconcile([SERVER, OTHER])
        self.restore = make_restore(
            self.host,
            self.read_allocations,
            {uuid: make_request(uuid) for uuid in (SERVER, OTHER)},
        )

    def read_allocations(self, uuid: str) -> dict[str, dict[str, int]]:
        self.asked.append(uuid)
        return self.allocated[uuid]

    def list_problems(self) -> list[tuple[str, str]]:
        return [(one.alarm, one.subject) for one in self.restore.problems]

    def count_free(self) -> int:
        place = with_host.DOMAINS[0], with_host.WAYS
        free: int = self.host.view.tracked[place].state.free
        return free


class AppliedTest(RestoreTestCase):
    """What is applied shows the units."""

    def test_servers_have_their_entries_again_and_notice_nothing(
        self,
    ) -> None:
        self.come_back()

        self.restore.run()

        for uuid, entry in self.host.entries.items():
            before = self.before[uuid]
            self.assertEqual(list_held(before), list_held(entry))
            self.assertEqual(assignment.State.APPLIED, entry.state)
            self.assertEqual(before.cpus, entry.cpus)
        self.assertEqual(self.groups, self.list_ours())
        self.assertEqual([], self.list_problems())
        self.assertEqual({SERVER, OTHER}, {*self.read_rows()})
        self.host.refresh()
        self.host.heal()
        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)

    def test_nothing_of_it_is_free_before_or_after(self) -> None:
        self.come_back()
        before = self.count_free()

        self.restore.run()
        self.host.refresh()

        self.assertEqual((4, 4), (before, self.count_free()))

    def test_it_is_given_back_like_any_other(self) -> None:
        self.come_back()
        self.restore.run()
        self.host.refresh()

        self.host.release(SERVER)

        self.assertEqual({OTHER}, {*self.list_ours()})
        self.assertEqual(7, self.count_free())

    def test_in_doubt_nothing_is_recorded_and_nothing_given_away(
        self,
    ) -> None:
        self.allocated[SERVER][with_host.DOMAINS[0]][with_host.WAYS] = 4
        self.come_back()

        self.restore.run()
        self.restore.run()
        self.host.refresh()

        self.assertEqual({OTHER}, {*self.host.entries})
        self.assertEqual([(alarm.NOT_RECORDED, SERVER)], self.list_problems())
        self.assertEqual(1, self.log.output.count('it is not certain which'))
        self.assertIn(
            'The server keeps its applied units', str(self.restore.problems[0])
        )
        self.host.heal(self.restore.waiting)
        self.assertEqual((), self.host.problems)
        self.assertEqual(self.groups, self.list_ours())
        self.assertEqual(4, self.count_free())

    def test_a_group_that_others_fill_too_is_in_doubt(self) -> None:
        mask = self.get_masks(f'nova-{SERVER}')[0]
        self.kernel.add_group('dba', f'L3:0={mask:x};1=1\n')
        self.come_back()

        self.restore.run()

        self.assertEqual([(alarm.NOT_RECORDED, SERVER)], self.list_problems())

    def test_a_group_on_other_cpus_is_in_doubt(self) -> None:
        self.kernel.write(f'nova-{SERVER}/cpus_list', '5\n')
        self.come_back()

        self.restore.run()

        self.assertEqual([(alarm.NOT_RECORDED, SERVER)], self.list_problems())

    def test_leftovers_are_cleared_for_a_claim_anew(self) -> None:
        self.come_back()

        self.host.clear(SERVER)

        self.assertEqual({OTHER}, {*self.list_ours()})
        self.assertEqual(7, self.count_free())
        self.host.clear(SERVER)
        self.start(self.host, SERVER, 3, cpus=CPUS[SERVER])

    def test_a_claim_next_to_its_leftovers_replaces_them(self) -> None:
        self.come_back()
        free = self.count_free()

        self.start(self.host, SERVER, 4, cpus=CPUS[SERVER])

        self.host.refresh()
        self.assertEqual(free - 1, self.count_free())
        self.assertEqual({SERVER, OTHER}, {*self.list_ours()})

    def test_a_claim_that_is_refused_leaves_them(self) -> None:
        self.come_back()

        self.assertRaises(
            exception.ClaimError,
            self.host.claim,
            with_host.make_claim(SERVER, 5, cpus=CPUS[SERVER]),
        )

        self.assertEqual(self.groups, self.list_ours())

    def test_what_is_recorded_is_not_cleared(self) -> None:
        self.come_back()
        self.restore.run()

        self.host.clear(SERVER)

        self.assertEqual(self.groups, self.list_ours())


class OlderCopyTest(with_resctrl.ResctrlHostTestCase):
    """An operator has put back a ledger from before the last changes."""

    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_resctrl_host()
        self.start(self.host, SERVER, 3, cpus=CPUS[SERVER])
        self.start(self.host, OTHER, 2, cpus=CPUS[OTHER])
        self.host.close()
        copy = shutil.copy(self.ledger_path, f'{self.ledger_path}.copy')
        former = self.get_masks(f'nova-{OTHER}')
        self.host = self.make_resctrl_host()
        self.host.release(OTHER)
        self.start(self.host, LATE, 2, cpus=frozenset({5}))
        self.assertEqual(former, self.get_masks(f'nova-{LATE}'))
        self.groups = self.list_ours()
        self.host.close()
        self.ledger_path = copy
        self.host = self.make_resctrl_host()

    def test_a_server_keeps_what_one_that_is_gone_had_before(self) -> None:
        self.host.heal()

        self.assertEqual(self.groups[LATE], self.list_ours()[LATE])
        self.host.reconcile([SERVER, LATE])
        self.assertEqual(self.groups, self.list_ours())

    def test_it_has_its_entry_again(self) -> None:
        self.host.reconcile([SERVER, LATE])
        allocated = {with_host.DOMAINS[0]: {with_host.WAYS: 2}}
        restored = make_restore(
            self.host,
            {LATE: allocated}.__getitem__,
            {LATE: with_host.make_claim(LATE, 2, cpus=frozenset({5}))},
        )
        restored.run()

        self.assertEqual((), restored.problems)
        self.assertEqual({SERVER, LATE}, {*self.host.entries})
        self.assertEqual(self.groups, self.list_ours())
        self.host.heal()
        self.assertEqual((), self.host.problems)


class DamagedTest(with_resctrl.ResctrlHostTestCase):
    """The ledger has less for a server than was allocated to it."""

    def start_and_damage(
        self, resources: dict[str, int], **units: str | int
    ) -> None:
        self.host = self.make_resctrl_host()
        self.start_with(
            SERVER,
            {'L3_0': resources},
            cpus=CPUS[SERVER],
            thread_policy='isolate',
        )
        self.host.close()
        with contextlib.closing(sqlite3.connect(self.ledger_path)) as db, db:
            db.execute(
                'UPDATE assignment SET units = ? WHERE resource_class = ?',
                [json.dumps(units), *resources],
            )

    def test_it_has_as_much_bandwidth_as_was_allocated(self) -> None:
        self.start_and_damage({PERCENT: 40}, limit=10)
        self.host = self.make_resctrl_host()

        self.host.reconcile([SERVER])

        self.assertEqual(40, self.get_masks(f'nova-{SERVER}', 'MB')[0])
        self.assertEqual((), self.host.problems)

    def test_it_has_as_many_ways_as_were_allocated(self) -> None:
        self.start_and_damage({with_host.WAYS: 4}, mask='1')
        self.host = self.make_resctrl_host()

        self.host.reconcile([SERVER])

        self.assertEqual(4, self.get_masks(f'nova-{SERVER}')[0].bit_count())
        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)

    def test_without_room_it_keeps_its_ways_and_is_reported(self) -> None:
        self.start_and_damage({with_host.WAYS: 4}, mask='1')
        before = self.list_ours()
        self.kernel.add_group('dba', 'L3:0=7fc;1=1\n')
        self.host = self.make_resctrl_host()

        self.host.reconcile([SERVER])

        self.assertIn(
            (alarm.NOT_APPLIED, SERVER),
            [(one.alarm, one.subject) for one in self.host.problems],
        )
        self.assertEqual(before, self.list_ours())


class SeveralResourcesTest(with_resctrl.ResctrlHostTestCase):
    def test_limits_of_bandwidth_are_recognized_too(self) -> None:
        amounts = {with_host.WAYS: 2, PERCENT: 40}
        self.host = self.make_resctrl_host()
        before = self.start_with(
            SERVER, {'L3_0': amounts}, thread_policy='isolate'
        )
        self.host.close()
        self.ledger_path += '.new'
        self.host = self.make_resctrl_host()
        for bandwidth, expected in ((50, []), (40, [SERVER])):
            held = {**amounts, PERCENT: bandwidth}
            allocated = {with_host.DOMAINS[0]: held}
            made = make_restore(
                self.host,
                {SERVER: allocated}.__getitem__,
                {SERVER: with_host.make_claim(SERVER, cpus=frozenset({1}))},
            )
            self.host.heal()

            made.run()

            self.assertEqual(expected, [*self.host.entries])
        entry = self.host.entries[SERVER]
        self.assertEqual(list_held(before), list_held(entry))


class NotAppliedTest(RestoreTestCase):
    """The host was booted, and the ledger was lost."""

    def setUp(self) -> None:
        super().setUp()
        self.kernel.remove_group(f'nova-{SERVER}')

    def test_a_server_claims_anew_and_repair_applies_it(self) -> None:
        self.come_back()

        self.restore.run()

        self.assertEqual({SERVER, OTHER}, {*self.host.entries})
        self.host.refresh()
        self.host.heal()
        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)

    def test_it_claims_what_a_migration_given_up_has_of_it(self) -> None:
        """Placement has what it was to get, on another host."""
        self.come_back()
        here = self.allocated[SERVER]
        left = dataclasses.replace(make_request(SERVER), allocations=here)
        for own, expected in (
            ({uuidsentinel.elsewhere: {with_host.WAYS: 4}}, 3),
            ({with_host.DOMAINS[0]: {with_host.WAYS: 2}}, 2),
        ):
            with self.subTest(own=own):
                self.allocated[SERVER] = own
                self.restore.expect({SERVER: left})

                self.restore.run()

                held = list_held(self.host.entries[SERVER])
                place = with_host.DOMAINS[0], with_host.WAYS
                self.assertEqual(expected, held[place].amount)
                self.host.release(SERVER)
                self.host.gone.discard(SERVER)

    def test_what_does_not_fit_is_an_alarm_until_it_does(self) -> None:
        held = self.allocated[SERVER][with_host.DOMAINS[0]]
        held[with_host.WAYS] = 8
        self.come_back()

        self.restore.run()

        self.assertEqual([(alarm.NOT_RECORDED, SERVER)], self.list_problems())
        (problem,) = self.restore.problems
        for words in (
            '8 requested',
            'Nothing is applied for the server',
            'hard',
            'shelve and unshelve',
        ):
            self.assertIn(words, str(problem))
        held[with_host.WAYS] = 3
        self.restore.run()
        self.assertEqual([], self.list_problems())
        self.assertEqual({SERVER, OTHER}, {*self.host.entries})


class LeftAloneTest(RestoreTestCase):
    def test_who_has_gone_in_the_meantime(self) -> None:
        self.come_back()
        self.host.release(SERVER)

        self.restore.run()

        self.assertEqual({OTHER}, {*self.host.entries})
        self.assertEqual([], self.list_problems())
        self.assertIsNone(
            self.host.restore(make_request(SERVER), is_applied=False)
        )

    def test_who_has_come_in_the_meantime(self) -> None:
        self.come_back()
        self.restore.run()
        entry = self.host.entries[SERVER]

        self.assertIsNone(
            self.host.restore(make_request(SERVER), is_applied=False)
        )

        self.assertIs(entry, self.host.entries[SERVER])

    def test_who_came_by_a_move_and_does_not_run(self) -> None:
        self.come_back()
        self.host.clear(SERVER)
        request = dataclasses.replace(
            make_request(SERVER), allocations=self.read_allocations(SERVER)
        )
        self.host.claim(request, is_move=True)

        self.restore.run()

        self.assertNotIn(SERVER, self.restore.waiting or ())

    def test_who_is_being_started(self) -> None:
        self.come_back()
        with self.host.starting(SERVER):
            self.restore.run()

            self.assertEqual({OTHER}, {*self.host.entries})
        self.restore.run()

        self.assertEqual({SERVER, OTHER}, {*self.host.entries})

    def test_who_requests_nothing_of_ours(self) -> None:
        self.come_back()
        plain = dataclasses.replace(
            make_request(SERVER), requirement=builders.make_requirement()
        )
        self.restore.expect({SERVER: plain})

        self.restore.run()

        self.assertEqual(({}, []), (self.host.entries, self.asked))

    def test_who_has_no_allocations_of_ours(self) -> None:
        """It was built before there were any."""
        self.allocated[SERVER] = {uuidsentinel.node: {with_host.WAYS: 3}}
        self.come_back()

        self.restore.run()
        self.restore.run()

        self.assertEqual([], self.list_problems())
        self.assertEqual(1, self.asked.count(SERVER))

    def test_who_has_them_on_the_compute_node_itself(self) -> None:
        """From there, they may still be moved."""
        own = {'VCPU': 2, with_host.WAYS: 3}
        self.allocated[SERVER] = {with_host.NODE.uuid: own}
        self.come_back()

        self.restore.run()

        self.assertEqual([(alarm.NOT_RECORDED, SERVER)], self.list_problems())
        text = self.restore.problems[0].text
        words = f'the server holds {with_host.WAYS} on the compute node itself'
        self.assertIn(words, text)
        self.assertIn('restart nova-compute, which moves the', text)
        self.allocated[SERVER] = read_allocations(SERVER)
        self.restore.run()
        self.assertEqual([], self.list_problems())
        self.assertIn(SERVER, self.host.entries)

    def test_who_has_what_is_still_to_be_moved(self) -> None:
        """There is an alarm on the class."""
        self.come_back()
        set_doubled(self.restore, [with_host.WAYS])

        self.restore.run()

        self.assertEqual(({}, []), (self.host.entries, self.list_problems()))
        self.assertEqual({SERVER, OTHER}, self.restore.waiting)
        set_doubled(self.restore, [])
        self.restore.run()
        self.assertEqual({SERVER, OTHER}, {*self.host.entries})

    def test_all_before_anything_was_published(self) -> None:
        self.come_back()
        set_doubled(self.restore, None)

        self.restore.run()

        self.assertEqual(({}, []), (self.host.entries, self.asked))
        self.assertEqual(
            {(alarm.NOT_RECORDED, one) for one in (SERVER, OTHER)},
            {*self.list_problems()},
        )

    def test_all_while_placement_does_not_answer(self) -> None:
        def fail(uuid: str) -> dict[str, dict[str, int]]:
            self.asked.append(uuid)
            raise exception.PlacementUnavailable(action='', detail='it is off')

        self.come_back()
        self.restore._client = make_placement(fail)

        self.restore.run()

        self.assertEqual({}, self.host.entries)
        self.assertEqual(
            {(alarm.NOT_RECORDED, one) for one in (SERVER, OTHER)},
            {*self.list_problems()},
        )
        # It may take long to fail: the others are not asked for.
        self.assertEqual(1, len(self.asked))
        for one in self.restore.problems:
            self.assertIn('it is off', one.text)
            self.assertNotIn('hard', one.text)

    def test_one_of_which_a_plugin_raises_anything(self) -> None:
        del self.allocated[SERVER]
        self.come_back()

        self.restore.run()

        self.assertEqual({OTHER}, {*self.host.entries})
        self.assertEqual([(alarm.NOT_RECORDED, SERVER)], self.list_problems())
        self.assertIn('KeyError', self.restore.problems[0].text)


class CountedTest(with_host.HostTestCase):
    """Nothing on the host shows what is only counted."""

    def test_a_ledger_is_not_empty_while_placement_knows_better(self) -> None:
        host = self.make_noop_host()
        made = make_restore(host)
        host.heal()

        made.run()

        self.assert_consistent(host)
        self.assertEqual([SERVER], [*host.entries])

    def test_nothing_is_decided_before_the_host_was_read(self) -> None:
        failure = self.useFixture(fixtures.TempDir()).join('failure')
        pathlib.Path(failure).write_text('not yet')
        host = self.make_noop_host(failure_file=failure)
        made = make_restore(host)
        host.heal()
        made.run()
        self.assertEqual(({}, ()), (host.entries, made.problems))
        pathlib.Path(failure).unlink()
        host.refresh()

        made.run()

        self.assertEqual([SERVER], [*host.entries])
