# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
import dataclasses

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.host.handover import plan
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from tests import base
from tests.unit.host import with_host


def make_target(free: int, *, reserved: int = 0) -> plan.HandoverTarget:
    """Make one with a cache of which these ways are free."""
    found = (
        host_provider.HostProvider(
            key=classes.RDT,
            inventories={classes.CLOS: class_inventory.Inventory(total=16)},
        ),
        host_provider.HostProvider(
            key='L3_0',
            parent_key=classes.RDT,
            inventories={
                classes.WAYS: class_inventory.Inventory(
                    total=20, reserved=reserved
                )
            },
            trackers={classes.WAYS: 'cache_ways'},
            units={classes.WAYS: {'free': f'{free:x}'}},
            implied={classes.WAYS: classes.CLOS},
            cpus='0-15',
        ),
    )
    trackers, tests = with_host.load_pure()
    return plan.HandoverTarget(
        name='other',
        found=found,
        constraints=host_constraints.Constraints(),
        serves=lambda resource_class: True,
        trackers=trackers,
        tests=tests,
    )


def make_entries(*masks: int) -> list[assignment.Entry]:
    return [
        assignment.Entry(
            consumer_uuid=f'server-{number}',
            assignments=(
                assignment.Assignment(
                    rp_uuid='some',
                    rp_key='L3_0',
                    resource_class=classes.WAYS,
                    amount=mask.bit_count(),
                    units={'mask': f'{mask:x}'},
                ),
            ),
            cpus=frozenset({number}),
            state=assignment.State.APPLIED,
        )
        for number, mask in enumerate(masks)
    ]


class MakePlanTest(base.TestCase):
    def make(
        self,
        entries: Sequence[assignment.Entry],
        target: plan.HandoverTarget,
        *,
        is_before: bool = False,
    ) -> plan.HandoverPlan:
        return target.make_plan(entries, is_before=is_before)

    def list_masks(self, made: plan.HandoverPlan) -> dict[str, str]:
        return {
            one.consumer_uuid: one.assignments[0].units['mask']
            for one in made.entries
        }

    def test_who_can_keep_its_ways_does(self) -> None:
        masks = (0b110, 0b11000, 0b1110000000)

        made = self.make(make_entries(*masks), make_target(0xFFFFF))

        self.assertEqual((), made.obstacles)
        self.assertEqual(
            {f'server-{n}': f'{mask:x}' for n, mask in enumerate(masks)},
            self.list_masks(made),
        )

    def test_who_cannot_gets_others_of_its_own(self) -> None:
        made = self.make(make_entries(0xF000, 0x3), make_target(0xFF))

        self.assertEqual((), made.obstacles)
        masks = self.list_masks(made)
        self.assertEqual('3', masks['server-1'])
        other = bitmask.parse_mask(masks['server-0'])
        self.assertEqual((4, 0), (other.bit_count(), other & ~0xFC))

    def test_ways_that_are_kept_are_given_up_where_all_fit_no_other_way(
        self,
    ) -> None:
        # Kept, two ways in the middle leave no room for four.
        made = self.make(make_entries(0x18, 0xF00), make_target(0x3F))

        self.assertEqual((), made.obstacles)
        masks = [bitmask.parse_mask(m) for m in self.list_masks(made).values()]
        self.assertEqual(0x3F, masks[0] | masks[1])

    def test_the_largest_claims_first(self) -> None:
        # A single way in the upper run would leave no room for three.
        made = self.make(
            make_entries(0x400, 0x800, 0x7000), make_target(0b11100011)
        )

        self.assertEqual((), made.obstacles)
        self.assertEqual('e0', self.list_masks(made)['server-2'])

    def test_units_of_another_tracker_are_exchanged(self) -> None:
        (entry,) = make_entries(0b110)
        (ways,) = entry.assignments
        odd = dataclasses.replace(ways, units={'mask': 'none'})

        made = self.make(
            [dataclasses.replace(entry, assignments=(odd,))],
            make_target(0xFFFFF),
        )

        self.assertEqual((), made.obstacles)
        mask = bitmask.parse_mask(self.list_masks(made)['server-0'])
        self.assertEqual(2, mask.bit_count())

    def test_what_is_in_force_now_fits_as_it_lies(self) -> None:
        # Packed anew, the longest first, they would not fit.
        masks = (0xF, 0x70, 0x700, 0x1800)

        made = self.make(make_entries(*masks), make_target(0), is_before=True)

        self.assertEqual((), made.obstacles)

    def test_the_ledgers_own_words_stay(self) -> None:
        (entry,) = make_entries(0b110)

        (done,) = self.make([entry], make_target(0xFFFFF)).entries

        self.assertEqual(
            dataclasses.replace(entry, state=assignment.State.CLAIMED), done
        )

    def test_more_than_can_ever_be_sold_is_told_once(self) -> None:
        made = self.make(
            make_entries(0xF, 0xF0), make_target(0xFFFFF, reserved=14)
        )

        self.assertEqual(
            (
                'CUSTOM_LLC_WAYS of L3_0: servers hold 8, but other can '
                'allocate at most 6',
            ),
            made.obstacles,
        )

    def test_who_finds_no_run_is_told(self) -> None:
        made = self.make(make_entries(0xF, 0x30), make_target(0b1011011))

        self.assertNotEqual((), made.obstacles)
        for one in made.obstacles:
            self.assertIn(
                'server server-0: CUSTOM_LLC_WAYS of L3_0: 4 requested', one
            )
