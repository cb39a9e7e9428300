# SPDX-License-Identifier: Apache-2.0

"""The worked examples in docstrings are what really happens."""

import dataclasses

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import transition
from tests import base
from tests.unit.drivers.resctrl.policy import states
from tests.unit.drivers.resctrl.policy import test_transition

FULL = 0xFFF

A, B, C, D = (getattr(uuidsentinel, name) for name in 'abcd')


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

        row = '  '.join(
            ''.join(name for name, mask in owners.items() if mask >> way & 1)
            for way in reversed(range(12))
        )

        self.assertIn(f'owner    {row}\n', ownership.__doc__ or '')
        goals = layout.layout(owned).groups
        self.assertEqual(
            {0xE00},
            {goals[n].schemata['L3'][0] for n in ('', groups.make_name(D))},
        )


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
            members={groups.make_name(C): layout.Members()},
        )
        rows = [self.make_row('', tree)]
        for step in transition.transition(tree, desired):
            tree = test_transition.do(tree, step)
            text = str(step).replace('L3:0=', '')
            for name, uuid in (('A', A), ('B', B), ('C', C), ('D', D)):
                text = text.replace(groups.make_name(uuid), name)
            rows.append(self.make_row(text, tree))

        self.assertIn('\n'.join(rows), transition.__doc__ or '')

    def make_row(self, text: str, tree: groups.Tree) -> str:
        masks = []
        for uuid in ('', A, B, C, D):
            group = tree.find(groups.make_name(uuid) if uuid else '')
            mask = group.get_ways(states.CACHE) if group else 0
            masks.append(f'{mask:03x}' if mask else '  -')
        return f'    {text:40}{"   ".join(masks)}'
