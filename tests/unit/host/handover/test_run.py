# SPDX-License-Identifier: Apache-2.0

import dataclasses
import itertools
import os
from typing import Any

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources import exception
from nova_ext_resources.host.handover import errors
from nova_ext_resources.host.handover import journal
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from tests.unit.host.handover import with_both

FIRST = with_both.FIRST
SECOND = with_both.SECOND
THIRD = with_both.THIRD

#: Of other software.
STRANGER = '99999999-9999-4999-8999-999999999990'

#: Far more than there are; a run that is longer does not end.
MAX_STEPS = 100

BOTH_WAYS = (('rmd', 'resctrl'), ('resctrl', 'rmd'))


class HandOverTest(with_both.HandOverTestCase):
    def test_everything_goes_from_rmd_to_resctrl(self) -> None:
        before = self.fill('rmd')

        self.hand_over('rmd', 'resctrl')

        self.assert_all_at('resctrl', before)
        for uuid in before:
            self.assertIn(f'released {uuid}', self.said)
            self.assertIn(f'applied {uuid}: ', '\n'.join(self.said))

    def test_everything_goes_from_resctrl_to_rmd(self) -> None:
        before = self.fill('resctrl')

        self.hand_over('resctrl', 'rmd')

        self.assert_all_at('rmd', before)

    def test_bandwidth_and_cpus_come_along(self) -> None:
        self.fill('rmd')

        self.hand_over('rmd', 'resctrl')

        group = self.list_ours()[THIRD]
        self.assertEqual({13, 14}, set(group['cpus']))
        self.assertEqual(
            {0: 100, 1: 30}, self.get_masks(f'nova-{THIRD}', 'MB')
        )

    def test_it_may_go_to_and_fro(self) -> None:
        before = self.fill('rmd')

        for source, target in (*BOTH_WAYS, *BOTH_WAYS):
            self.hand_over(source, target)

            self.assert_all_at(target, before)

    def test_a_host_without_servers_is_done_at_once(self) -> None:
        self.make_host('rmd').close()

        self.hand_over('rmd', 'resctrl')

        self.assert_all_at('resctrl', {})

    def test_placement_sees_the_same_tree(self) -> None:
        self.fill('rmd')
        trees = []
        for name, other in BOTH_WAYS:
            host = self.make_host(name)
            trees.append({one.rp_uuid: one for one in host.providers()})
            host.close()
            self.hand_over(name, other)

        old, new = trees
        self.assertEqual(set(old), set(new))
        for rp_uuid, one in old.items():
            self.assertEqual(one.name, new[rp_uuid].name)
            self.assertEqual(one.parent_uuid, new[rp_uuid].parent_uuid)
            self.assertEqual(
                list_totals(one), list_totals(new[rp_uuid]), one.name
            )

    def test_the_ledger_in_use_is_not_touched(self) -> None:
        self.fill('rmd')
        running = self.make_host('rmd')

        err = self.assertRaises(
            exception.LedgerError, self.hand_over, 'rmd', 'resctrl'
        )

        self.assertIn(self.ledger_path, str(err))
        running.close()

    def test_a_claim_that_was_not_in_force_yet_is_afterwards(self) -> None:
        before = self.fill('rmd')
        ledger = self.open_ledger()
        ledger.set_state([FIRST], assignment.State.CLAIMED)
        ledger.close()

        self.hand_over('rmd', 'resctrl')

        self.assert_all_at('resctrl', before)

    def test_units_of_another_enforcer_stay_as_they_are(self) -> None:
        first = self.fill('rmd')[FIRST]
        device = assignment.Assignment(
            rp_uuid='some',
            rp_key='DEVICES',
            resource_class='CUSTOM_DEVICE',
            amount=1,
            units={'id': 3},
        )
        ledger = self.open_ledger()
        ledger.put(
            dataclasses.replace(
                first, assignments=(*first.assignments, device)
            )
        )
        ledger.close()

        self.hand_over('rmd', 'resctrl')

        self.assertNotIn(FIRST, self.list_at_rmd())
        self.assertIn(FIRST, self.list_at_resctrl())
        self.assertIn(device, self.read_entries()[FIRST].assignments)

    def test_a_release_that_is_not_finished_is_finished_by_the_host(
        self,
    ) -> None:
        before = self.fill('rmd')
        ledger = self.open_ledger()
        ledger.set_state([FIRST], assignment.State.RELEASING)
        ledger.close()

        self.hand_over('rmd', 'resctrl')

        self.assertEqual({}, self.list_at_rmd())
        self.assertEqual({SECOND, THIRD}, set(self.list_at_resctrl()))
        host = self.make_host('resctrl')
        host.reconcile(before)
        self.assertEqual({SECOND, THIRD}, set(host.entries))
        self.assertEqual((), host.problems)

    def test_a_server_that_moves_stops_it_before_anything_is_changed(
        self,
    ) -> None:
        before = self.fill('rmd')
        ledger = self.open_ledger()
        held = ledger.list_entries()[FIRST]
        ledger.put(
            dataclasses.replace(
                held, purpose=assignment.Purpose.MIGRATION_DEST
            )
        )
        ledger.close()

        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'rmd', 'resctrl'
        )

        self.assertIn(FIRST, str(err))
        self.assertIn('Nothing was changed', str(err))
        self.assertEqual(set(before), set(self.list_at_rmd()))

    def test_workloads_of_others_are_left_alone(self) -> None:
        self.simulator.add_workload(
            {'core_ids': ['20'], 'policy': 'silver', 'uuid': 'database'}
        )
        before = self.fill('rmd')

        self.hand_over('rmd', 'resctrl')

        self.assertEqual({'database'}, set(self.list_at_rmd()))
        self.assertEqual(set(before), set(self.list_at_resctrl()))

    def test_servers_that_the_ledger_does_not_know_are_left_and_told(
        self,
    ) -> None:
        self.fill('rmd')
        self.make_backend('rmd').enforcer.apply(
            assignment.Entry(
                consumer_uuid=STRANGER,
                assignments=(
                    assignment.Assignment(
                        rp_uuid='',
                        rp_key='L3_0',
                        resource_class=classes.WAYS,
                        amount=1,
                    ),
                ),
                cpus=frozenset({9}),
            )
        )

        self.hand_over('rmd', 'resctrl')

        self.assertEqual({STRANGER}, set(self.list_at_rmd()))
        self.assertIn(f'left alone {STRANGER}', '\n'.join(self.said))


def list_totals(one: host_provider.Provider) -> dict[str, tuple[int, int]]:
    """Give class -> total and what can be had of it."""
    return {
        name: (inventory.total, inventory.capacity)
        for name, inventory in one.inventories.items()
        # RMD keeps a class of service more for itself.
        if name != classes.CLOS
    }


class WishesTest(with_both.HandOverTestCase):
    def test_what_only_the_source_knows_is_told(self) -> None:
        before = self.fill('rmd')
        ledger = self.open_ledger()
        wishes = {'rmd': {'pstate_ratio': '1.5'}}
        ledger.put(dataclasses.replace(before[FIRST], enforcers=wishes))
        ledger.close()

        self.hand_over('rmd', 'resctrl')

        (told,) = {one for one in self.said if 'pstate_ratio=1.5' in one}
        self.assertIn(f'left behind {FIRST}', told)


class CheckTest(with_both.HandOverTestCase):
    """It asks first whether the other one can."""

    def refuse(self, source: str, target: str) -> str:
        before = self.fill(source)
        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, source, target
        )
        self.assert_untouched(before)
        self.assert_all_at(source, before)
        self.assertIn('Nothing was changed', str(err))
        return str(err)

    def test_too_few_ways_are_told(self) -> None:
        self.RESERVED_WAYS = 7

        reason = self.refuse('rmd', 'resctrl')

        self.assertIn(
            'CUSTOM_LLC_WAYS of L3_0: servers hold 5, but resctrl can '
            'allocate at most 4',
            reason,
        )
        # On the other one four of four are held.
        self.assertNotIn('L3_1', reason)

    def test_what_the_other_one_does_not_offer_is_told(self) -> None:
        before = self.fill('rmd')
        made = self.make('rmd', 'resctrl')
        made.entries = {
            FIRST: dataclasses.replace(
                before[FIRST],
                assignments=tuple(
                    dataclasses.replace(one, rp_key='L3_7')
                    for one in before[FIRST].assignments
                    if one.resource_class == classes.WAYS
                ),
            )
        }

        err = self.assertRaises(errors.HandOverFailed, made.check)

        self.assertIn(
            'resctrl does not offer CUSTOM_LLC_WAYS of L3_7', str(err)
        )

    def test_a_server_whose_cpus_float_does_not_go_to_rmd(self) -> None:
        before = self.fill('resctrl')
        ledger = self.open_ledger()
        ledger.put(dataclasses.replace(before[FIRST], cpus=None))
        ledger.close()

        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'resctrl', 'rmd'
        )

        self.assertIn(FIRST, str(err))
        self.assertIn('the CPUs of the server float', str(err))
        self.assertEqual(set(before), set(self.list_at_resctrl()))

    def test_what_only_the_enforcer_knows_is_asked_of_it(self) -> None:
        before = self.fill('resctrl')
        ledger = self.open_ledger()
        third = before[THIRD]
        ledger.put(
            dataclasses.replace(
                third,
                assignments=classes.pick(
                    third.assignments, classes.PERCENT, classes.CLOS
                ),
            )
        )
        ledger.close()

        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'resctrl', 'rmd'
        )

        self.assertIn(
            'only to servers that also request CUSTOM_LLC_WAYS', str(err)
        )

    def test_a_backend_that_is_not_there_is_told(self) -> None:
        self.simulator.refuse_connections()
        before = self.fill('resctrl')

        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'resctrl', 'rmd'
        )

        self.assertIn('--unchecked', str(err))
        self.assert_untouched(before)

    def test_a_backend_that_may_not_apply_anything_is_told(self) -> None:
        before = self.fill('rmd')
        self.kernel.fail(operation='mkdir', error='EACCES', count=None)

        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'rmd', 'resctrl'
        )

        self.assertIn('CAP_DAC_OVERRIDE', str(err))
        self.assertIn('Nothing was changed', str(err))
        self.assert_untouched(before)

    def test_a_dry_run_says_who_would_get_what(self) -> None:
        before = self.fill('rmd')
        made = self.make('rmd', 'resctrl')

        made.check()

        made.ledger.close()
        self.assertNotIn('mkdir', dict(self.kernel.list_operations()))
        self.assert_untouched(before)
        self.assertFalse(os.path.exists(f'{self.ledger_path}.hand-over'))
        self.assertEqual(3, len(self.said))
        for line in self.said:
            self.assertRegex(line, 'would apply .* CUSTOM_LLC_WAYS of L3_')

    def test_what_the_source_still_holds_counts_as_free(self) -> None:
        before = self.fill('rmd')
        # As the kernel shows the groups of a real RMD.
        for number, (uuid, masks) in enumerate(self.list_at_rmd().items()):
            text = ';'.join(f'{n}={mask:x}' for n, mask in masks.items())
            self.kernel.add_group(f'COS{number}', f'L3:{text}\n')
            self.assertIn(uuid, before)
        made = self.make('rmd', 'resctrl')

        made.check()

        made.ledger.close()


class StoppedTest(with_both.HandOverTestCase):
    """It stops half-way, and goes on or back."""

    def stop(self, *words: str) -> None:
        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'rmd', 'resctrl'
        )
        for word in (
            'All servers keep running',
            '--from resctrl --to rmd',
            *words,
        ):
            self.assertIn(word, str(err))

    def test_a_source_that_does_not_release_all_stops_it(self) -> None:
        before = self.fill('rmd')

        self.stop_at_release()

        self.assertEqual({FIRST}, set(self.list_at_rmd()))
        self.hand_over('rmd', 'resctrl')
        self.assert_all_at('resctrl', before)

    def test_a_ledger_that_cannot_be_written_stops_it_at_once(self) -> None:
        before = self.fill('rmd')
        made = self.make('rmd', 'resctrl')

        def fail(entry: assignment.Entry) -> None:
            raise exception.LedgerError(path='ledger', reason='disk full')

        self.patch(made.ledger, 'put', fail)

        self.assertRaises(exception.LedgerError, made.run)

        made.ledger.close()
        self.assertEqual(2, len(self.list_at_rmd()))
        self.hand_over('rmd', 'resctrl')
        self.assert_all_at('resctrl', before)

    def stop_at_release(self) -> None:
        """Begin one that releases all but the first server."""
        made = self.make('rmd', 'resctrl')
        release = made.source.enforcer.release

        def fail_once(entry: assignment.Entry) -> None:
            if entry.consumer_uuid == FIRST:
                raise exception.EnforcementFailed(
                    host='host1',
                    enforcer='rmd',
                    consumer_uuid=FIRST,
                    reason='not now',
                )
            release(entry)

        made.source.enforcer.release = fail_once  # type: ignore[method-assign]
        err = self.assertRaises(errors.HandOverFailed, made.run)
        made.ledger.close()
        for words in ('1 of 3 servers', 'still applied at rmd'):
            self.assertIn(words, str(err))

    def test_who_is_not_released_yet_stays_when_it_goes_back(self) -> None:
        before = self.fill('rmd')
        self.stop_at_release()
        made = self.make('resctrl', 'rmd')
        # Nothing can be there: it need not answer.
        self.kernel.fail(operation='read', error='EIO', count=None)

        made.run()

        self.kernel.stop_failing()
        made.ledger.close()
        self.assertNotIn(f'released {FIRST}', self.said)
        self.assertNotIn(f'applied {FIRST}', '\n'.join(self.said))
        self.assert_all_at('rmd', before)

    def test_to_and_fro_without_an_end_leaves_nobody_at_both(self) -> None:
        """It goes back, is killed at every line, and goes on after all."""
        for step in itertools.count(1):
            self.assertLess(step, MAX_STEPS)
            self.ledger_path += f'-{step}'
            before = self.fill('rmd')
            self.stop_at_release()
            try:
                self.hand_over('resctrl', 'rmd', killer=with_both.Killer(step))
            except with_both.Killed:
                self.hand_over('rmd', 'resctrl')
                self.assert_all_at('resctrl', before)
                self.hand_over('resctrl', 'rmd')
            else:
                break
            host = self.make_host('rmd')
            for uuid in host.entries:
                host.release(uuid)
            host.close()
        self.assertGreater(step, 10)

    def test_a_target_that_fails_stops_it_and_it_goes_on(self) -> None:
        before = self.fill('rmd')
        self.kernel.fail(operation='mkdir', error='ENOSPC', count=None)

        self.stop('3 of 3 servers', 'stop rmd and remove its groups')
        self.assertEqual({}, self.list_at_rmd())

        self.kernel.stop_failing()
        # The source is not needed any more.
        self.simulator.refuse_connections()
        self.hand_over('rmd', 'resctrl')
        self.simulator.accept_connections()
        self.assert_all_at('resctrl', before)

    def test_a_target_that_fails_for_one_has_the_others_and_it_goes_back(
        self,
    ) -> None:
        before = self.fill('rmd')
        self.kernel.fail(
            operation='mkdir', path=f'nova-{FIRST}', error='ENOSPC'
        )

        self.stop('1 of 3 servers')
        self.assertEqual(2, len(self.list_at_resctrl()))

        self.hand_over('resctrl', 'rmd')

        self.assertIn('going back from resctrl to rmd', self.said)
        self.assert_all_at('rmd', before)

    def test_what_was_changed_meanwhile_is_put_right(self) -> None:
        before = self.fill('rmd')
        # The smallest comes last.
        self.kernel.fail(
            operation='mkdir', path=f'nova-{FIRST}', error='ENOSPC', count=1
        )
        self.stop('1 of 3 servers')
        self.kernel.write(f'nova-{SECOND}/schemata', 'L3:0=400\n')

        self.hand_over('rmd', 'resctrl')

        self.assert_all_at('resctrl', before)

    def test_ways_that_others_have_taken_meanwhile_stop_it(self) -> None:
        before = self.fill('rmd')
        self.make('rmd', 'resctrl').ledger.close()
        self.kernel.add_group('db', 'L3:0=3f;1=3f\n')

        err = self.assertRaises(
            errors.HandOverFailed,
            self.hand_over,
            'rmd',
            'resctrl',
            is_checked=False,
        )

        self.assertIn('has too few resources', str(err))
        self.kernel.remove_group('db')
        self.hand_over('rmd', 'resctrl')
        self.assert_all_at('resctrl', before)

    def test_another_one_does_not_begin_meanwhile(self) -> None:
        self.fill('rmd')
        journal.HandoverJournal(self.ledger_path).write(
            journal.Progress(
                source='rmd', target='other', phase=journal.Phase.RELEASING
            )
        )

        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'rmd', 'resctrl'
        )

        self.assertIn('from rmd to other is not complete', str(err))


class GoneTest(with_both.HandOverTestCase):
    """A backend is gone for good."""

    def refuse(self, source: str, target: str, **how: Any) -> str:
        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, source, target, **how
        )
        self.assertIn('--source-is-gone', str(err))
        return str(err)

    def test_a_source_that_is_gone_stops_it_before_anything(self) -> None:
        before = self.fill('rmd')
        self.simulator.refuse_connections()

        for is_checked in (True, False):
            reason = self.refuse('rmd', 'resctrl', is_checked=is_checked)

            self.assertIn('Nothing was changed', reason)
            self.assert_untouched(before)
            journal.check_none(self.ledger_path)

    def test_it_is_left_where_the_operator_says_so(self) -> None:
        before = self.fill('rmd')
        self.simulator.refuse_connections()

        self.hand_over('rmd', 'resctrl', is_source_gone=True)

        self.simulator.accept_connections()
        self.assertEqual(set(before), set(self.list_at_resctrl()))
        # A real one that has ended has nothing in force.
        rmd = self.make_backend('rmd').enforcer
        for entry in before.values():
            rmd.release(entry)
        self.assert_all_at('resctrl', before)

    def test_what_it_still_holds_in_the_kernel_is_not_counted_as_free(
        self,
    ) -> None:
        before = self.fill('rmd')
        self.simulator.refuse_connections()
        self.kernel.add_group('COS1', 'L3:0=7ff;1=7ff\n')

        err = self.assertRaises(
            errors.HandOverFailed,
            self.hand_over,
            'rmd',
            'resctrl',
            is_source_gone=True,
        )

        self.assertIn('Nothing was changed', str(err))
        self.assert_untouched(before)

    def test_one_that_has_nothing_of_it_is_the_wrong_one(self) -> None:
        before = self.fill('resctrl')

        for is_checked in (True, False):
            reason = self.refuse('rmd', 'resctrl', is_checked=is_checked)

            self.assertIn('exchange --from and --to', reason)
            self.assertIn('Nothing was changed', reason)
            self.assert_all_at('resctrl', before)
            journal.check_none(self.ledger_path)

    def test_nothing_more_is_released_for_one_that_does_not_answer(
        self,
    ) -> None:
        self.fill('rmd')
        self.kernel.fail(
            operation='mkdir', path=f'nova-{FIRST}', error='ENOSPC'
        )
        self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'rmd', 'resctrl'
        )
        there = self.list_at_resctrl()
        self.simulator.refuse_connections()

        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'resctrl', 'rmd'
        )

        self.assertIn('Nothing more was released', str(err))
        self.assertNotEqual({}, there)
        self.assertEqual(there, self.list_at_resctrl())

    def test_one_that_answers_is_not_gone(self) -> None:
        before = self.fill('rmd')

        reason = self.refuse('rmd', 'resctrl', is_source_gone=True)

        self.assertIn('has settings for 3 servers', reason)
        self.assert_untouched(before)
        self.assert_all_at('rmd', before)

    def test_a_target_that_never_comes_up_is_not_needed_to_go_back(
        self,
    ) -> None:
        before = self.fill('resctrl')
        self.simulator.refuse_connections()
        err = self.assertRaises(
            errors.HandOverFailed,
            self.hand_over,
            'resctrl',
            'rmd',
            is_checked=False,
        )
        self.assertIn('--from rmd --to resctrl', str(err))
        self.assertEqual({}, self.list_at_resctrl())

        self.hand_over('rmd', 'resctrl')

        self.simulator.accept_connections()
        self.assert_all_at('resctrl', before)

    def test_one_that_dies_half_way_is_left_to_go_back(self) -> None:
        before = self.fill('rmd')
        self.kernel.fail(
            operation='mkdir', path=f'nova-{FIRST}', error='ENOSPC'
        )
        self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'rmd', 'resctrl'
        )
        self.assertNotEqual({}, self.list_at_resctrl())
        # The kernel has forgotten, as after a new start of the machine.
        for name in self.kernel.list_groups():
            if name:
                self.kernel.remove_group(name)
        self.kernel.fail(operation='read', error='EIO', count=None)

        self.refuse('resctrl', 'rmd')
        self.hand_over('resctrl', 'rmd', is_source_gone=True)

        self.kernel.stop_failing()
        self.assert_all_at('rmd', before)


class DoneTest(with_both.HandOverTestCase):
    """nova-compute has not been started since."""

    def test_it_does_not_start_as_it_was_before(self) -> None:
        self.fill('rmd')

        self.hand_over('rmd', 'resctrl')

        for enabled in (['rmd'], ['resctrl', 'rmd']):
            err = self.assertRaises(
                exception.InvalidConfiguration,
                journal.check_none,
                self.ledger_path,
                enabled,
            )
            self.assertIn('by resctrl in inventory_providers', str(err))
        # Without either it waits, and then it is forgotten.
        for enabled in ([], ['resctrl'], ['rmd']):
            journal.check_none(self.ledger_path, enabled)
            journal.forget(self.ledger_path, enabled)

    def test_the_same_again_changes_nothing(self) -> None:
        before = self.fill('rmd')
        self.hand_over('rmd', 'resctrl')
        entries = self.read_entries()

        self.hand_over('rmd', 'resctrl')

        self.assertEqual(entries, self.read_entries())
        self.assert_all_at('resctrl', before)

    def test_the_same_again_puts_right_what_was_changed(self) -> None:
        before = self.fill('rmd')
        self.hand_over('rmd', 'resctrl')
        self.kernel.write(f'nova-{SECOND}/schemata', 'L3:0=400\n')

        self.hand_over('rmd', 'resctrl')

        self.assert_all_at('resctrl', before)

    def test_back_is_a_new_one_that_asks_first(self) -> None:
        before = self.fill('rmd')
        self.hand_over('rmd', 'resctrl')
        self.simulator.refuse_connections()

        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, 'resctrl', 'rmd'
        )

        self.assertIn('--unchecked', str(err))
        self.simulator.accept_connections()
        self.assert_all_at('resctrl', before)


class KilledTestCase(with_both.HandOverTestCase):
    """It is killed at every line, and run again."""

    def check_all(
        self, source: str, target: str, *, then: tuple[str, str]
    ) -> None:
        self.ledger_path += f'-{source}-{then[0]}'
        before = self.fill(source)
        for step in itertools.count(1):
            self.assertLess(step, MAX_STEPS)
            with self.subTest(step=step, source=source, then=then):
                try:
                    self.hand_over(
                        source, target, killer=with_both.Killer(step)
                    )
                except with_both.Killed:
                    was_killed = True
                else:
                    was_killed = False

                if then[0] == source or self.has_begun():
                    self.hand_over(*then, is_checked=False)

                self.assert_all_at(then[1], before)
            if not was_killed:
                break
            if then[1] != source:
                self.hand_over(target, source)
        self.assertGreater(step, 20)
        self.empty(then[1])

    def has_begun(self) -> bool:
        return journal.HandoverJournal(self.ledger_path).read() is not None

    def empty(self, name: str) -> None:
        host = self.make_host(name)
        for uuid in host.entries:
            host.release(uuid)
        host.close()


class KilledTest(KilledTestCase):
    def test_going_on_ends_where_it_should(self) -> None:
        for source, target in BOTH_WAYS:
            self.check_all(source, target, then=(source, target))

    def test_going_back_ends_where_it_began(self) -> None:
        for source, target in BOTH_WAYS:
            self.check_all(source, target, then=(target, source))
