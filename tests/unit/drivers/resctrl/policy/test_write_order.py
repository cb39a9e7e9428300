# SPDX-License-Identifier: Apache-2.0

"""After no step two groups fill a way that one of them has for itself."""

from typing import Any

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import write_order
from nova_ext_resources.objects import bitmask
from tests import base
from tests.unit.drivers.resctrl.policy import states
from tests.unit import strategies  # noqa: F401 - sets the profile

FULL = 0xFFF
NAMES = ('a', 'b', 'c', 'd')
UUIDS = tuple(getattr(uuidsentinel, name) for name in NAMES)

State = dict[str, int]


def make_state(tree: groups.Tree) -> State:
    """Return the ways of all groups of ours."""
    return {
        one.name: one.get_ways(states.CACHE)
        for one in tree.groups.values()
        if not one.name or groups.is_ours(one.name)
    }


def do(tree: groups.Tree, step: write_order.GroupChange) -> groups.Tree:
    """Do a step as a kernel would."""
    match step:
        case write_order.Make(name=name):
            # Nothing runs in it yet, whatever the kernel puts into it.
            return tree.with_group(
                groups.Group(
                    name=name,
                    schemata={},
                    consumer_uuid=groups.parse_name(name),
                )
            )
        case write_order.Remove(name=name):
            return tree.without(name)
        case write_order.Write(name=name, values=values):
            group = tree.groups[name]
            found = {**group.schemata, **values}
            return tree.with_group(
                groups.Group(
                    name=name,
                    schemata=found,
                    consumer_uuid=group.consumer_uuid,
                    cpus=group.cpus,
                )
            )
    return tree


def find_own(state: State, name: str) -> int:
    """Return the ways that a server alone has."""
    others = [mask for one, mask in state.items() if one != name]
    return state.get(name, 0) & ~bitmask.unite(others) if name else 0


def list_disturbed(before: State, now: State, after: State) -> list[str]:
    """Return where two groups fill a way that one is to have, or had.

    What was so before, and what is to be so, is no disturbance.
    """
    found = []
    names = sorted(now)
    for number, one in enumerate(names):
        for other in names[:number]:
            own = 0
            for state in (before, after):
                own |= find_own(state, one) | find_own(state, other)
            common = 0
            for state in (before, after):
                common |= state.get(one, 0) & state.get(other, 0)
            both = now[one] & now[other] & own & ~common
            if both:
                found.append(f'{one} and {other} fill {both:x}')
    return found


@st.composite
def _runs(draw: st.DrawFn, limit: int = FULL >> 1) -> dict[str, int]:
    """Return runs side by side for some servers, 0 for none."""
    start, runs = 0, {}
    for uuid in draw(st.permutations(UUIDS)):
        if not draw(st.booleans()):
            continue
        size = draw(st.integers(min_value=0, max_value=4))
        start += draw(st.integers(min_value=0, max_value=2))
        mask = bitmask.make_run(start, size)
        runs[uuid] = mask if size and mask <= limit else 0
        start += size
    return runs


_mask = st.one_of(
    st.just(FULL),
    st.tuples(st.integers(0, 8), st.integers(1, 4)).map(
        lambda run: bitmask.make_run(*run)
    ),
)


@st.composite
def _spoiled(draw: st.DrawFn, runs: dict[str, int]) -> groups.Tree:
    """Return groups with these runs, some of which were changed by others."""
    ours = {
        uuid: draw(_mask) if draw(st.integers(0, 4)) == 0 else mask or FULL
        for uuid, mask in runs.items()
        if draw(st.integers(0, 4))
    }
    default = FULL & ~bitmask.unite(runs.values())
    return states.make_tree(
        draw(_mask) if draw(st.integers(0, 4)) == 0 else default,
        ours,
        foreign=draw(
            st.one_of(st.just({}), st.fixed_dictionaries({'dba': _mask}))
        ),
        full=FULL,
        is_sparse=draw(st.booleans()),
        shareable=draw(st.sampled_from([0, 0xC00, 0x801])),
    )


def lay_out(
    tree: groups.Tree, old: dict[str, int], new: dict[str, int]
) -> layout.Desired:
    """Lay out new runs, where others are on record up to now."""
    entries = {
        uuid: states.make_entry(uuid, mask=f'{mask:x}')
        if mask
        else states.make_entry(uuid, 'CUSTOM_MEMORY_BANDWIDTH_PERCENT')
        for uuid, mask in old.items()
        if uuid in new
    }
    for uuid in old.keys() - new.keys():
        tree = tree.without(groups.make_name(uuid))
    owned = ownership.build(tree, states.MACHINE, entries)
    return layout.layout(
        owned,
        {uuid: states.want(mask) for uuid, mask in new.items()},
        members={groups.make_name(one): layout.GroupMembers() for one in new},
    )


class InvariantTest(base.TestCase):
    @hypothesis.given(data=st.data())
    def test_no_way_is_disturbed_after_any_step(
        self, data: st.DataObject
    ) -> None:
        old, new = data.draw(_runs()), data.draw(_runs())
        tree = data.draw(_spoiled(old))
        desired = lay_out(tree, old, new)

        steps = write_order.plan_writes(tree, desired)

        before, after = make_state(tree), tree
        for step in steps:
            after = do(after, step)
        # Removing comes first, and ends what was had before.
        gone = before.keys() - make_state(after).keys()
        before = {n: m for n, m in before.items() if n not in gone}
        now = tree
        for step in steps:
            now = do(now, step)
            state = {n: m for n, m in make_state(now).items() if n not in gone}
            self.assertEqual(
                [],
                list_disturbed(before, state, make_state(after)),
                f'{step} of {list(map(str, steps))}',
            )

    @hypothesis.given(data=st.data())
    def test_it_ends_in_what_is_desired(self, data: st.DataObject) -> None:
        old, new = data.draw(_runs()), data.draw(_runs())
        tree = data.draw(_spoiled(old))
        desired = lay_out(tree, old, new)

        for step in write_order.plan_writes(tree, desired):
            self.assertTrue(str(step))
            tree = do(tree, step)

        self.assertEqual(
            {name: goal.schemata for name, goal in desired.groups.items()},
            {name: tree.groups[name].schemata for name in desired.groups},
        )
        self.assertFalse(
            [
                one
                for one in write_order.plan_writes(tree, desired)
                if not isinstance(one, write_order.SetTasks)
            ]
        )

    @hypothesis.given(data=st.data())
    def test_after_a_crash_the_next_start_ends_there_too(
        self, data: st.DataObject
    ) -> None:
        old, new = data.draw(_runs()), data.draw(_runs())
        tree = data.draw(_spoiled(old))
        steps = write_order.plan_writes(tree, lay_out(tree, old, new))
        whole = tree
        for step in steps:
            whole = do(whole, step)
        for step in steps[: data.draw(st.integers(0, len(steps)))]:
            tree = do(tree, step)

        # The ledger says what is to be there, and each is applied in turn.
        again = lay_out(tree, new, new)
        for step in write_order.plan_writes(tree, again):
            tree = do(tree, step)

        for uuid, mask in new.items():
            if mask:
                name = groups.make_name(uuid)
                self.assertEqual(
                    make_state(whole)[name], make_state(tree)[name]
                )


class OrderTest(base.TestCase):
    def list_steps(
        self,
        default: int,
        old: dict[str, int],
        new: dict[str, int],
        **fields: Any,
    ) -> list[str]:
        tree = states.make_tree(
            default,
            {getattr(uuidsentinel, n): m for n, m in old.items()},
            full=FULL,
            **fields,
        )
        desired = lay_out(
            tree,
            {getattr(uuidsentinel, n): m for n, m in old.items()},
            {getattr(uuidsentinel, n): m for n, m in new.items()},
        )
        steps = map(str, write_order.plan_writes(tree, desired))
        found = []
        for text in steps:
            for name in NAMES:
                uuid = getattr(uuidsentinel, name)
                text = text.replace(f'nova-{uuid}', name.upper())
            if ' threads ' not in text:
                found.append(text)
        return found

    def test_servers_that_change_places_are_never_in_each_others_way(
        self,
    ) -> None:
        steps = self.list_steps(
            0xFF0, {'a': 0x003, 'b': 0x00C}, {'a': 0x00C, 'b': 0x003}
        )

        self.assertEqual(
            ['move A to L3:0=800', 'move B to L3:0=3', 'move A to L3:0=c'],
            steps,
        )

    def test_a_server_keeps_out_of_the_way_in_ways_that_will_be_its_own(
        self,
    ) -> None:
        steps = self.list_steps(0x001, {'a': 0x800}, {'a': 0x7FF})

        self.assertEqual(
            [
                'move A to L3:0=7fe',
                'move the default group to L3:0=800',
                'widen A to L3:0=7ff',
            ],
            steps,
        )

    def test_a_way_is_written_although_it_disturbs_where_nothing_else_is_left(
        self,
    ) -> None:
        """Other software has moved the default group onto ways of a server."""
        steps = self.list_steps(0x400, {'a': 0x800}, {'a': 0x400})

        self.assertEqual(
            ['move the default group to L3:0=800', 'move A to L3:0=400'],
            steps,
        )

    def test_no_group_gets_fewer_ways_than_the_cpu_gives(self) -> None:
        steps = self.list_steps(0x3FE, {'a': 0xC00}, {'a': 0x3FF}, min_bits=2)

        self.assertEqual(
            ['move the default group to L3:0=c00', 'move A to L3:0=3ff'],
            steps,
        )
