# SPDX-License-Identifier: Apache-2.0

"""Makes states of one cache for tests: groups, entries, and who owns what."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import info
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import machine
from nova_ext_resources.objects import assignment

CACHE = schemata.Cache(3, 0)

MACHINE = machine.HostMachine(
    cpus={CACHE: frozenset(range(8))}, online=frozenset(range(8))
)


def make_entry(
    uuid: str,
    resource_class: str = classes.WAYS,
    *,
    amount: int = 1,
    state: assignment.State = assignment.State.APPLIED,
    cpus: frozenset[int] | None = None,
    **units: Any,
) -> assignment.Entry:
    """Make a server that holds something of ``L3_0``."""
    held = assignment.Assignment(
        rp_uuid='rp',
        rp_key='L3_0',
        resource_class=resource_class,
        amount=amount,
        units=units,
    )
    return assignment.Entry(
        consumer_uuid=uuid, state=state, assignments=(held,), cpus=cpus
    )


def make_tree(
    default: int,
    ours: Mapping[str, int],
    *,
    foreign: Mapping[str, int] | None = None,
    mode: str = 'shareable',
    full: int = 0xFF,
    **fields: Any,
) -> groups.Tree:
    """Make a tree whose groups have ways of one cache.

    :param ours: server -> ways
    :param foreign: name of a group of other software -> ways
    """
    found = [groups.Group(name='', schemata={('L3', 0): default})]
    found += [
        groups.Group(
            name=groups.make_name(uuid),
            schemata={('L3', 0): mask},
            consumer_uuid=uuid,
        )
        for uuid, mask in ours.items()
    ]
    found += [
        groups.Group(name=name, schemata={('L3', 0): mask}, mode=mode)
        for name, mask in (foreign or {}).items()
    ]
    cache = info.CacheInfo(num_closids=16, full=full, **fields)
    return groups.Tree(
        info=info.ControlInfo(levels={3: cache}),
        groups={one.name: one for one in found},
    )


def want(mask: int) -> layout.Wanted:
    ways = {CACHE: schemata.Ways(mask)} if mask else {}
    return layout.Wanted(ways=ways)
