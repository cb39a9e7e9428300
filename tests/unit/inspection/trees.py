# SPDX-License-Identifier: Apache-2.0

"""Makes hosts as placement shows them, and what they have published."""

from collections.abc import Mapping
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.reservation import publication
from tests.unit import builders

ROOT: str = uuids.root
WAYS = builders.WAYS
POOL = 'CUSTOM_RACK1_GB'
CLOS = builders.CLOS
RDT = builders.RDT
L3_0 = builders.L3_0

#: Twelve ways, of which the host has the upper four; masks of two servers.
ALL = 0xFFF
OWN = 0xF00
ONE: str = uuids.one
TWO: str = uuids.two
MASKS = {ONE: 0x00F, TWO: 0x0C0}


def make_provider(
    name: str,
    parent: str | None,
    resource_class: str,
    inventory: class_inventory.Inventory,
    held: Mapping[str, int],
    **fields: Any,
) -> host_tree.TreeProvider:
    used = sum(held.values())
    return host_tree.TreeProvider(
        **{
            'rp_uuid': {'': ROOT, '_RDT': RDT, '_L3_0': L3_0}[name],
            'name': f'compute-1{name}',
            'parent_uuid': parent,
            'traits': frozenset(
                {host_provider.OWNER_TRAIT, 'CUSTOM_RDT_L3_CAT'}
                if parent
                else {'COMPUTE_NODE'}
            ),
            'amounts': {
                resource_class: host_tree.Amount(
                    capacity=inventory.capacity,
                    used=used,
                    inventory=inventory,
                )
            },
            'holders': {resource_class: held} if held else {},
            **fields,
        }
    )


def make_tree(held: Mapping[str, int] | None = None) -> host_tree.HostTree:
    """Make a host of one cache.

    :param held: consumer -> ways that placement has allocated to it
    """
    if held is None:
        held = {one: mask.bit_count() for one, mask in MASKS.items()}
    [tree] = host_tree.group(
        [
            make_provider(
                '', None, 'VCPU', builders.make_inventory(8), {ONE: 2}
            ),
            make_provider(
                '_RDT', ROOT, CLOS, builders.make_inventory(8, reserved=4), {}
            ),
            make_provider(
                '_L3_0',
                RDT,
                WAYS,
                builders.make_inventory(12, reserved=4),
                held,
            ),
        ]
    )
    return tree


def make_pool(capacity: int, used: int = 0) -> host_tree.TreeProvider:
    """Make a sharing provider, of which hosts have something."""
    return host_tree.TreeProvider(
        rp_uuid=uuids.pool,
        name='POOL_rack1',
        traits=frozenset({host_provider.SHARING_TRAIT}),
        amounts={POOL: host_tree.Amount(capacity=capacity, used=used)},
    )


def make_publication(
    masks: Mapping[str, int] | None = None,
    reserved: Mapping[host_view.Place, reserved_units.Reserved] | None = None,
    rules: host_constraints.Constraints = host_constraints.NONE,
) -> publication.Publication:
    """Make what the host of :func:`make_tree` publishes.

    :param masks: consumer -> ways that it has
    :param reserved: what has the reserved units; hosts with an older release
        publish none
    :param rules: what the host can never do, or not now
    """
    masks = MASKS if masks is None else masks
    taken = sum(masks.values())
    host = host_view.HostView(
        tracked={
            (L3_0, WAYS): host_view.Tracked(
                tracker='cache_ways',
                state=cache_ways.CacheWaysState(ALL & ~OWN, taken),
                implied=(RDT, CLOS),
                cpus='0-3',
            ),
            (RDT, CLOS): host_view.Tracked(
                tracker='count',
                # Of eight, two are others'.
                state=count.CountState(6, len(masks)),
            ),
        },
        keys={L3_0: 'L3_0', RDT: 'RDT'},
        constraints=rules,
    )
    entries = [
        assignment.Entry(
            consumer_uuid=consumer,
            assignments=(
                builders.make_assignment(
                    amount=mask.bit_count(), units={'mask': f'{mask:x}'}
                ),
                builders.make_assignment(
                    rp_uuid=RDT,
                    rp_key='RDT',
                    resource_class=CLOS,
                    amount=1,
                    units={},
                    is_allocated=False,
                ),
            ),
        )
        for consumer, mask in masks.items()
    ]
    return publication.Publication(
        host='compute-1',
        document=stats.encode(host),
        holders=holders.encode(entries, 1 << 16, reserved),
    )
