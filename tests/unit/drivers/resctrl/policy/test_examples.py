# SPDX-License-Identifier: Apache-2.0

"""The worked examples in docstrings are what really happens."""

import dataclasses
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.policy import choice
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import pool
from nova_ext_resources.drivers.resctrl.policy import pools
from nova_ext_resources.drivers.resctrl.policy import write_order
from nova_ext_resources.objects import assignment
from tests import base
from tests.unit.drivers.resctrl.policy import states
from tests.unit.drivers.resctrl.policy import test_write_order

FULL = 0xFFF

A, B, C, D = (getattr(uuidsentinel, name) for name in 'abcd')


def make_owner_row(owned: ownership.Ownership) -> str:
    """Return the owner of each way, the highest way first."""
    domain = owned.caches[states.CACHE]
    owners = {
        'h': domain.host,
        'x': domain.foreign,
        '.': domain.free,
        **{
            name: domain.servers.get(uuid, 0)
            for name, uuid in (('A', A), ('B', B), ('C', C), ('D', D))
        },
    }
    return '  '.join(
        ''.join(name for name, mask in owners.items() if mask >> way & 1)
        for way in reversed(range(12))
    )


class OwnershipTest(base.TestCase):
    def test_each_way_has_the_owner_that_the_table_says(self) -> None:
        tree = states.make_tree(
            0xE00,
            {A: 0x038, B: 0x040, C: 0x007, D: 0xE00},
            foreign={'dba': 0x180},
            full=FULL,
        )
        entries = [
            states.make_entry(A, mask='38'),
            states.make_entry(B, mask='40'),
            states.make_entry(C, classes.BURST),
            states.make_entry(D, classes.PERCENT),
        ]
        machine = dataclasses.replace(states.MACHINE, burst_ways=3)
        owned = ownership.build(
            tree, machine, {one.consumer_uuid: one for one in entries}
        )
        row = make_owner_row(owned)

        self.assertIn(f'owner    {row}\n', ownership.__doc__ or '')
        goals = layout.layout(owned).groups
        self.assertEqual(
            {0xE00},
            {goals[n].schemata['L3', 0] for n in ('', groups.make_name(D))},
        )


class ChoiceTest(base.TestCase):
    def test_other_ways_are_chosen_as_the_table_says(self) -> None:
        servers = {A: 0x038, B: 0x040, D: 0x800}
        tree = states.make_tree(0x800, servers, foreign={'dba': 3}, full=FULL)
        claimed = states.make_entry(
            C, amount=2, state=assignment.State.CLAIMED, mask='3'
        )
        entries = {
            A: states.make_entry(A, amount=3, mask='38'),
            B: states.make_entry(B, mask='40'),
            C: claimed,
            D: states.make_entry(D, classes.PERCENT),
        }
        before = ownership.build(tree, states.MACHINE, entries)

        held = choice.choose(before, claimed)

        entries[C] = dataclasses.replace(
            claimed, assignments=held, state=assignment.State.APPLIED
        )
        after = ownership.build(tree, states.MACHINE, entries)
        self.assertIn(
            f'    before   {make_owner_row(before)}\n'
            f'    after    {make_owner_row(after)}\n',
            choice.__doc__ or '',
        )


class PoolTest(base.TestCase):
    def test_a_pool_is_divided_as_the_table_says(self) -> None:
        uuids = dict(zip('ABCD', sorted((A, B, C, D)), strict=True))
        masks = {'A': 0x003, 'B': 0x00C, 'C': 0x030}
        tree = states.make_tree(
            0xFC0, {uuids[n]: m for n, m in masks.items()}, full=FULL
        )
        machine = dataclasses.replace(states.MACHINE, burst_ways=6)
        units: dict[str, dict[str, Any]] = {'A': {'max': 2}}
        entries = {
            n: states.make_entry(u, classes.BURST, **units.get(n, {}))
            for n, u in uuids.items()
            if n != 'D'
        }
        owned = ownership.build(
            tree, machine, {uuids[n]: one for n, one in entries.items()}
        )
        new = states.make_entry(uuids['D'], classes.BURST, amount=2)
        key = ('L3_0', classes.BURST)

        wanted = pools.make_room(
            owned, new, new.assignments, layout.Wanted(), {}
        )

        found = pool.make_pool(owned, key, added={uuids['D']: new.assignments})
        assert found is not None
        rows = []
        for name, uuid in uuids.items():
            least, most = found.demands[uuid]
            has = f'{masks[name]:03x}' if name in masks else '  -'
            gets = f'{wanted[uuid].ways[states.CACHE].mask:03x}'
            rows.append(f'    {name:10}{least:5}{most:6}{has:>8}{gets:>11}\n')
        self.assertIn(''.join(rows), pool.__doc__ or '')


class TransitionTest(base.TestCase):
    def test_the_steps_are_those_of_the_table(self) -> None:
        old = {A: 0x07E, B: 0x080, D: 0xF00}
        tree = states.make_tree(0xF00, old, full=FULL)
        entries = [
            states.make_entry(A, mask='7e'),
            states.make_entry(B, mask='80'),
            states.make_entry(D, classes.PERCENT),
        ]
        owned = ownership.build(
            tree, states.MACHINE, {one.consumer_uuid: one for one in entries}
        )
        desired = layout.layout(
            owned,
            {A: states.want(0x03F), C: states.want(0x700)},
            members={groups.make_name(C): layout.GroupMembers()},
        )
        rows = [self.make_row('', tree)]
        for step in write_order.plan_writes(tree, desired):
            tree = test_write_order.do(tree, step)
            text = str(step).replace('L3:0=', '')
            for name, uuid in (('A', A), ('B', B), ('C', C), ('D', D)):
                text = text.replace(groups.make_name(uuid), name)
            rows.append(self.make_row(text, tree))

        self.assertIn('\n'.join(rows), write_order.__doc__ or '')

    def make_row(self, text: str, tree: groups.Tree) -> str:
        masks = []
        for uuid in ('', A, B, C, D):
            group = tree.groups.get(groups.make_name(uuid) if uuid else '')
            mask = group.get_ways(states.CACHE) if group else 0
            masks.append(f'{mask:03x}' if mask else '  -')
        return f'    {text:40}{"   ".join(masks)}'
