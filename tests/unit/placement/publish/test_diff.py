# SPDX-License-Identifier: Apache-2.0


import dataclasses

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import diff
from tests import base
from tests.unit.placement import worlds

PARENT, CHILD, OTHER = worlds.OURS[:3]
OWNED = frozenset({host_provider.OWNER_TRAIT})


def make_provider(
    rp_uuid: str = CHILD,
    parent_uuid: str | None = worlds.ROOT,
    *,
    name: str = '',
    traits: frozenset[str] = OWNED,
    **totals: int,
) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=rp_uuid,
        name=name or f'host1_{rp_uuid[-1]}',
        parent_uuid=parent_uuid,
        traits=traits,
        inventories={
            name: class_inventory.Inventory(total=total)
            for name, total in totals.items()
        },
    )


class PlanPropertyTest(base.TestCase):
    @hypothesis.given(seen=worlds.trees(), wanted=worlds.trees(is_owned=False))
    def test_applying_the_plan_to_what_is_seen_gives_what_is_wanted(
        self,
        seen: tuple[host_provider.Provider, ...],
        wanted: tuple[host_provider.Provider, ...],
    ) -> None:
        root = worlds.make_root()
        world = worlds.World([root, *seen])

        plan = diff.plan(wanted, world.providers.values())
        for change in plan.changes:
            world.apply(change)

        former = {p.rp_uuid: p for p in seen}
        expected = {
            p.rp_uuid: self.add_what_is_not_ours(
                dataclasses.replace(p, traits=p.traits | OWNED),
                former.get(p.rp_uuid, p),
            )
            for p in wanted
        }
        self.assertEqual({root.rp_uuid: root, **expected}, world.providers)
        self.assertEqual((), plan.undeleted)

    def add_what_is_not_ours(
        self, one: host_provider.Provider, seen: host_provider.Provider
    ) -> host_provider.Provider:
        return dataclasses.replace(
            one,
            traits=one.traits | (seen.traits - one.published_traits),
            aggregates=one.aggregates | seen.aggregates,
        )

    @hypothesis.given(tree=worlds.trees())
    def test_the_plan_of_equal_trees_is_empty(
        self, tree: tuple[host_provider.Provider, ...]
    ) -> None:
        plan = diff.plan(tree, [worlds.make_root(), *tree])

        self.assertEqual(((), ()), (plan.changes, plan.undeleted))

    @hypothesis.given(
        seen=worlds.trees(),
        wanted=worlds.trees(is_owned=False),
        data=st.data(),
    )
    def test_where_nothing_may_go_everything_stays_as_it_is(
        self,
        seen: tuple[host_provider.Provider, ...],
        wanted: tuple[host_provider.Provider, ...],
        data: st.DataObject,
    ) -> None:
        holders = data.draw(worlds.holders_of(seen))
        world = worlds.World([worlds.make_root(), *seen], holders)

        plan = diff.plan(
            wanted,
            world.providers.values(),
            holders=holders,
            may_delete=False,
        )
        for change in plan.changes:
            world.apply(change)

        self.assertEqual((), plan.undeleted)
        for one in wanted:
            now = world.providers[one.rp_uuid]
            self.assertLessEqual(
                one.inventories.items(), now.inventories.items()
            )
        new = {one.rp_uuid: one.inventories for one in wanted}
        wanted_by_uuid = {one.rp_uuid: one for one in wanted}
        for one in seen:
            now = world.providers[one.rp_uuid]
            read = wanted_by_uuid.get(one.rp_uuid)
            if read and one.inventories.keys() <= read.inventories.keys():
                # It was read as a whole.
                kept = one.traits - read.published_traits
                self.assertEqual(read.traits | kept | OWNED, now.traits)
            else:
                self.assertLessEqual(one.traits, now.traits)
            self.assertEqual(
                {**one.inventories, **new.get(one.rp_uuid, {})},
                now.inventories,
            )

    @hypothesis.given(data=st.data())
    def test_nothing_is_taken_from_others_or_from_those_who_hold_it(
        self, data: st.DataObject
    ) -> None:
        seen = data.draw(worlds.trees())
        foreign = data.draw(worlds.foreign_children(seen))
        holders = data.draw(worlds.holders_of(seen))
        wanted = data.draw(worlds.trees(is_owned=False))
        before = [worlds.make_root(), *foreign]
        world = worlds.World([*before, *seen], holders)

        plan = diff.plan(wanted, world.providers.values(), holders=holders)
        for change in plan.changes:
            world.apply(change)

        again = diff.plan(wanted, world.providers.values(), holders=holders)
        self.assertEqual((), again.changes)
        self.assertEqual(plan.undeleted, tuple(sorted(plan.undeleted)))
        for untouched in before:
            self.assertEqual(untouched, world.providers[untouched.rp_uuid])
        self.assert_closed(world, wanted, plan, holders)

    def assert_closed(
        self,
        world: worlds.World,
        wanted: tuple[host_provider.Provider, ...],
        plan: diff.PublishPlan,
        holders: diff.Holders,
    ) -> None:
        """What is held and not wanted stays, full, and is reported."""
        wanted_places = {(p.rp_uuid, n) for p in wanted for n in p.inventories}
        held_places = {
            (rp_uuid, name)
            for rp_uuid, names in holders.items()
            for name in names
        }
        for rp_uuid, name in held_places - wanted_places:
            kept = world.providers[rp_uuid].inventories[name]
            self.assertEqual(0, kept.capacity)
        self.assertEqual(
            held_places - wanted_places,
            {
                (h.rp_uuid, h.resource_class)
                for h in plan.undeleted
                if h.resource_class
            },
        )

    @hypothesis.given(data=st.data())
    def test_only_what_could_be_held_is_asked_for(
        self, data: st.DataObject
    ) -> None:
        seen = data.draw(worlds.trees())
        wanted = data.draw(worlds.trees(is_owned=False))
        tree = [worlds.make_root(), *seen]

        shrinking = diff.find_shrinking(wanted, tree)

        for change in diff.plan(wanted, tree).changes:
            before = {p.rp_uuid: p for p in seen}.get(change.rp_uuid)
            match change:
                case diff.Replace(field='inventories', content=kept):
                    pass
                case diff.DeleteProvider():
                    kept = {}
                case _:
                    continue
            if before is None:
                continue
            if before.inventories.keys() - kept.keys():
                self.assertIn(change.rp_uuid, shrinking)


class PlanTest(base.TestCase):
    def plan(
        self,
        wanted: list[host_provider.Provider],
        seen: list[host_provider.Provider],
        holders: diff.Holders | None = None,
    ) -> diff.PublishPlan:
        return diff.plan(wanted, [worlds.make_root(), *seen], holders=holders)

    def test_creation_goes_from_parent_to_child(self) -> None:
        wanted = [make_provider(CHILD, PARENT), make_provider(PARENT)]

        plan = self.plan(wanted, [])

        self.assertEqual(
            [PARENT, CHILD],
            [
                c.rp_uuid
                for c in plan.changes
                if isinstance(c, diff.CreateProvider)
            ],
        )

    def test_deletion_goes_from_child_to_parent(self) -> None:
        seen = [make_provider(PARENT), make_provider(CHILD, PARENT)]

        plan = self.plan([], seen)

        self.assertEqual(
            (
                diff.DeleteProvider(rp_uuid=CHILD, name='host1_1'),
                diff.DeleteProvider(rp_uuid=PARENT, name='host1_0'),
            ),
            plan.changes,
        )

    def test_siblings_are_of_one_wave(self) -> None:
        wanted = [
            make_provider(PARENT),
            make_provider(CHILD, PARENT),
            make_provider(OTHER, PARENT),
        ]

        plan = self.plan(wanted, [])

        self.assertEqual(
            [{PARENT}, {CHILD, OTHER}],
            [{step.rp_uuid for step in wave} for wave in plan.waves],
        )
        self.assertEqual({PARENT}, plan.waves[1][0].after)

    def test_one_changed_total_is_one_change(self) -> None:
        plan = self.plan(
            [make_provider(CUSTOM_A=8)], [make_provider(CUSTOM_A=11)]
        )

        self.assertEqual(
            (
                diff.Replace(
                    rp_uuid=CHILD,
                    name='host1_1',
                    field='inventories',
                    content={'CUSTOM_A': class_inventory.Inventory(total=8)},
                ),
            ),
            plan.changes,
        )

    def test_the_owner_trait_comes_before_inventories(self) -> None:
        plan = self.plan([make_provider(traits=frozenset(), CUSTOM_A=8)], [])

        self.assertEqual(
            ['CreateProvider', 'traits', 'inventories'],
            [
                getattr(change, 'field', type(change).__name__)
                for change in plan.changes
            ],
        )

    def test_a_renamed_host_renames_its_providers(self) -> None:
        plan = self.plan([make_provider(name='new')], [make_provider()])

        self.assertEqual(
            (
                diff.UpdateProvider(
                    rp_uuid=CHILD, name='new', parent_uuid=worlds.ROOT
                ),
            ),
            plan.changes,
        )

    def test_a_ratio_rounded_by_the_database_is_no_change(self) -> None:
        def with_ratio(ratio: float) -> host_provider.Provider:
            return dataclasses.replace(
                make_provider(),
                inventories={
                    'CUSTOM_A': class_inventory.Inventory(
                        total=8, allocation_ratio=ratio
                    )
                },
            )

        rounded = self.plan([with_ratio(1 / 3)], [with_ratio(0.333333)])
        changed = self.plan([with_ratio(1 / 3)], [with_ratio(0.3334)])

        self.assertEqual((), rounded.changes)
        self.assertEqual(1, len(changed.changes))

    def test_what_vanished_and_is_held_stays_closed_and_says_by_whom(
        self,
    ) -> None:
        plan = self.plan(
            [make_provider(CUSTOM_A=8)],
            [make_provider(CUSTOM_A=8, CUSTOM_B=4)],
            holders={CHILD: {'CUSTOM_B': ('server-2', 'server-1')}},
        )

        self.assertEqual(
            {
                'CUSTOM_A': class_inventory.Inventory(total=8),
                'CUSTOM_B': class_inventory.Inventory(total=4, reserved=4),
            },
            plan.changes[0].content,  # type: ignore[attr-defined]
        )
        self.assertEqual(
            'CUSTOM_B of provider host1_1 no longer exists or is no longer '
            'configured, but is still held by server-1, server-2: the '
            'inventory is kept, closed to other servers, until these '
            'consumers are deleted or moved away',
            str(plan.undeleted[0]),
        )

    def test_a_held_child_keeps_its_parent(self) -> None:
        plan = self.plan(
            [],
            [
                make_provider(PARENT, CUSTOM_A=1),
                make_provider(CHILD, PARENT, CUSTOM_A=4),
                make_provider(OTHER, PARENT),
            ],
            holders={CHILD: {'CUSTOM_A': ('server',)}},
        )

        self.assertEqual(
            [
                (PARENT, {}),
                (
                    CHILD,
                    {
                        'CUSTOM_A': class_inventory.Inventory(
                            total=4, reserved=4
                        )
                    },
                ),
            ],
            sorted(
                (c.rp_uuid, dict(c.content))
                for c in plan.changes
                if isinstance(c, diff.Replace) and c.field == 'inventories'
            ),
        )
        self.assertIn(
            diff.DeleteProvider(rp_uuid=OTHER, name='host1_2'),
            plan.changes,
        )
        self.assertEqual([CHILD], [held.rp_uuid for held in plan.undeleted])

    def test_a_provider_of_others_below_ours_keeps_it(self) -> None:
        foreign = make_provider(
            OTHER, CHILD, name='theirs', traits=frozenset()
        )

        plan = self.plan([], [make_provider(CUSTOM_A=1), foreign])

        self.assertEqual(
            (
                diff.Replace(
                    rp_uuid=CHILD,
                    name='host1_1',
                    field='inventories',
                    content={},
                ),
            ),
            plan.changes,
        )
        self.assertIn('are deleted: theirs', str(plan.undeleted[0]))

    def test_the_compute_nodes_own_provider_cannot_be_wanted(self) -> None:
        self.assertRaises(
            exception.InvalidResource, self.plan, [worlds.make_root()], []
        )

    def test_parents_in_a_circle_are_refused(self) -> None:
        error = self.assertRaises(
            exception.InvalidResource,
            self.plan,
            [make_provider(PARENT, CHILD), make_provider(CHILD, PARENT)],
            [],
        )

        self.assertIn(PARENT, str(error))

    def test_a_step_without_anything_to_do_has_no_changes(self) -> None:
        self.assertEqual((), diff.diff(None, None))


class OwnedTest(base.TestCase):
    """Beside a nova-compute that is not ours, nothing goes."""

    def plan(self, *owned: str, **given: object) -> diff.PublishPlan:
        gone = dataclasses.replace(
            make_provider(CHILD, CUSTOM_A=4), aggregates=frozenset({'pool'})
        )
        seen = [worlds.make_root(), gone, make_provider(OTHER, CUSTOM_A=2)]
        return diff.plan([], seen, owned=frozenset(owned), **given)  # type: ignore[arg-type]

    def test_what_it_has_published_is_emptied(self) -> None:
        plan = self.plan(CHILD)

        self.assertEqual(
            [(CHILD, 'aggregates'), (CHILD, 'inventories')],
            [
                (one.rp_uuid, one.field)
                for one in plan.changes
                if isinstance(one, diff.Replace)
            ],
        )
        self.assertEqual(2, len(plan.changes))

    def test_what_it_has_not_is_left_alone(self) -> None:
        self.assertEqual((), self.plan().changes)

    def test_what_servers_hold_is_closed(self) -> None:
        plan = self.plan(CHILD, holders={CHILD: {'CUSTOM_A': ['server']}})

        (change,) = plan.changes
        assert isinstance(change, diff.Replace)
        self.assertEqual(4, change.content['CUSTOM_A'].reserved)
        self.assertEqual(1, len(plan.undeleted))

    def test_an_emptied_one_is_not_written_again(self) -> None:
        empty = make_provider(CHILD)

        plan = diff.plan(
            [], [worlds.make_root(), empty], owned=frozenset({CHILD})
        )

        self.assertEqual((), plan.changes)


class UnreadTest(base.TestCase):
    """A part of the host was not read: nothing is deleted."""

    def find_traits(self, **given: object) -> frozenset[str]:
        seen = make_provider(
            CHILD, traits=OWNED | {'CUSTOM_F1', 'CUSTOM_HIS'}, CUSTOM_A=1
        )
        wanted = dataclasses.replace(
            make_provider(CHILD, CUSTOM_A=1),
            traits=frozenset({'CUSTOM_F2'}),
            published_traits=frozenset({'CUSTOM_F1', 'CUSTOM_F2'}),
        )
        wanted = dataclasses.replace(wanted, **given)  # type: ignore[arg-type]
        plan = diff.plan(
            [wanted], [worlds.make_root(), seen], may_delete=False
        )
        (found,) = [
            one.content
            for one in plan.changes
            if isinstance(one, diff.Replace) and one.field == 'traits'
        ]
        return frozenset(found) - OWNED

    def test_traits_of_what_was_read_follow(self) -> None:
        self.assertEqual({'CUSTOM_F2', 'CUSTOM_HIS'}, self.find_traits())

    def test_those_of_what_was_not_stay(self) -> None:
        kept = {'CUSTOM_F1', 'CUSTOM_F2', 'CUSTOM_HIS'}

        self.assertEqual(kept, self.find_traits(is_unread=True))
        self.assertEqual(kept, self.find_traits(inventories={}))
