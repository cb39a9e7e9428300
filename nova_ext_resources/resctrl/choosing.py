# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What a server shall have of what the kernel controls. Pure.

What cannot be had where the tracker wanted it (other software came first) is
taken elsewhere in the same cache.
"""

from collections.abc import Callable, Mapping
import dataclasses

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import bandwidth
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import masks
from nova_ext_resources.resctrl import schemata

#: Classes of ways that a server has for itself -> trait of the hosts that
#: tell code from data.
OWN_WAYS = {rdt.WAYS: rdt.CDP_TRAIT, rdt.L2_WAYS: rdt.L2_CDP_TRAIT}

#: Classes of pools of ways -> the option that makes them.
_POOLS = {rdt.BURST: 'burst_ways', rdt.SHARED: 'shared_ways'}

_OF_CACHES = (*OWN_WAYS, *_POOLS, *rdt.BANDWIDTHS)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is there.

    :ivar host: its name, for errors
    :ivar find_run: chooses so many ways of some; raises ValueError
    :ivar entries: what all servers of the host hold
    :ivar memory_bandwidth: of each last-level cache in MB/s, if known
    """

    host: str
    tree: groups.Tree
    layout: layout.Host
    find_run: Callable[[int, int], int]
    entries: Mapping[str, assignment.Entry] = dataclasses.field(
        default_factory=dict
    )
    memory_bandwidth: int = 0


def choose(
    scene: Scene, entry: assignment.Entry
) -> tuple[assignment.Assignment, ...]:
    """Give its assignments with the units that it can have.

    :raises EnforcementFailed, ClaimError: this host cannot
    """
    _check_mix(scene, entry)
    return tuple(_choose(scene, entry, one) for one in entry.assignments)


def is_shared(entry: assignment.Entry) -> bool:
    """Tell whether a server has a place in the shared pool."""
    return bool(rdt.pick(entry.assignments, rdt.SHARED))


def make_group_name(entry: assignment.Entry) -> str:
    """Give the name of the group that a server is in."""
    if is_shared(entry):
        return groups.SHARED
    return groups.make_name(entry.consumer_uuid)


def _check_mix(scene: Scene, entry: assignment.Entry) -> None:
    """Make sure that one class of service is enough for a server.

    :raises ConstraintsViolated: it would need two, or two runs of a cache
    """
    own = rdt.pick(entry.assignments, *OWN_WAYS, rdt.BURST, *rdt.BANDWIDTHS)
    if own and is_shared(entry):
        raise rdt.make_violated(
            scene.host,
            entry.consumer_uuid,
            own,
            'the servers of the shared pool have one class of service '
            'together, and what is of this server alone needs one of its '
            f'own; let the flavor ask for either, not beside {rdt.SHARED}',
        )
    twice = list_twice(entry)
    if twice:
        raise rdt.make_violated(
            scene.host,
            entry.consumer_uuid,
            twice,
            f'a server has one run of ways in a cache, not one of {rdt.WAYS} '
            f'and one of {rdt.BURST} beside it; let the flavor ask for '
            f'{rdt.WAYS} alone, or for {rdt.BURST} alone, whose amount is '
            'always held, or for them of two caches, in request groups with '
            'group_policy=isolate',
        )


def list_twice(entry: assignment.Entry) -> tuple[assignment.Assignment, ...]:
    """Give the ways of caches where a server has own and burst ones."""
    both = {one.rp_key for one in rdt.pick(entry.assignments, rdt.WAYS)} & {
        one.rp_key for one in rdt.pick(entry.assignments, rdt.BURST)
    }
    return tuple(
        one
        for one in rdt.pick(entry.assignments, rdt.WAYS, rdt.BURST)
        if one.rp_key in both
    )


def _choose(
    scene: Scene, entry: assignment.Entry, one: assignment.Assignment
) -> assignment.Assignment:
    if not rdt.pick((one,), *_OF_CACHES) or scene.layout.is_offline(
        find_cache(one)
    ):
        # It is put into force as soon as something can run there.
        return one
    if one.resource_class in rdt.BANDWIDTHS:
        return _choose_limit(scene, entry, one)
    if one.resource_class in OWN_WAYS:
        return _choose_ways(scene, entry, one)
    if one.resource_class in _POOLS:
        _check_pool(scene, entry, one)
    return one


def _check_pool(
    scene: Scene, entry: assignment.Entry, one: assignment.Assignment
) -> None:
    """Make sure that there is such a pool, and something of it left.

    :raises EnforcementFailed: there is none
    :raises CapacityExceeded: other software has all of a shared one
    """
    cache, option = find_cache(one), _POOLS[one.resource_class]
    if cache not in layout.list_caches(scene.tree):
        raise make_misplaced(scene, entry, one, 'ways')
    regions = layout.find_pools(scene.tree, cache, scene.layout)
    is_burst = one.resource_class == rdt.BURST
    if not (regions.burst if is_burst else regions.shared):
        raise exception.EnforcementFailed(
            host=scene.host,
            enforcer='resctrl',
            consumer_uuid=entry.consumer_uuid,
            reason=f'{one.rp_key} has no such pool of ways (any more); keep '
            f'[ext_resources_resctrl] {option} until no server has anything '
            'of it',
        )
    if is_burst or is_applied(entry):
        return
    if not layout.find_shared_room(scene.tree, cache, scene.layout):
        raise rdt.make_busy(
            scene.host,
            entry.consumer_uuid,
            (one,),
            'something else on the host uses it: no way of the shared pool '
            'is left',
        )


def _choose_ways(
    scene: Scene, entry: assignment.Entry, one: assignment.Assignment
) -> assignment.Assignment:
    cache = find_cache(one)
    if cache not in layout.list_caches(scene.tree):
        raise make_misplaced(scene, entry, one, 'ways')
    domain = _make_domain(scene, entry, cache)
    _check_code(scene, entry, one, domain)
    mask = bitmask.parse_mask(str(one.units['mask']))
    is_allowed = domain.allows(mask)
    # A pool may have come to lie there since the ways were sold.
    if is_allowed and (
        not mask & domain.pools or _has(scene, entry, cache, mask)
    ):
        return one
    try:
        mask = scene.find_run(domain.free, one.amount)
    except ValueError as err:
        if is_allowed or _is_kept(scene, entry, one, domain):
            return one
        raise rdt.make_busy(
            scene.host,
            entry.consumer_uuid,
            (one,),
            f'something else on the host uses it: {err}',
        ) from err
    return dataclasses.replace(
        one, units={**one.units, 'mask': bitmask.format_mask(mask)}
    )


def _make_domain(
    scene: Scene, entry: assignment.Entry, cache: schemata.Cache
) -> masks.Domain:
    """Sum up what all others have of a cache, the shared pool among them."""
    domain = layout.make_domain(
        scene.tree, cache, scene.layout, ignored=entry.consumer_uuid
    )
    pool = scene.tree.groups.get(groups.SHARED)
    if pool is None:
        return domain
    filled = domain.pools & pool.get_ways(cache)
    return dataclasses.replace(domain, sold=domain.sold | filled)


def _has(
    scene: Scene, entry: assignment.Entry, cache: schemata.Cache, mask: int
) -> bool:
    """Tell whether a server's group has these ways now."""
    group = scene.tree.ours.get(entry.consumer_uuid)
    return group is not None and group.get_ways(cache) == mask


def _is_kept(
    scene: Scene,
    entry: assignment.Entry,
    one: assignment.Assignment,
    domain: masks.Domain,
) -> bool:
    """Tell whether a server keeps ways into which other software has come.

    Refused, it could not even be started again, and its CPUs, threads and all
    else of it would not be put back. Who looks at the host hears of it.
    """
    if not is_applied(entry):
        return False
    mask = bitmask.parse_mask(str(one.units['mask']))
    if _has(scene, entry, find_cache(one), mask):
        return True
    return dataclasses.replace(domain, foreign=0).allows(mask)


def is_applied(entry: assignment.Entry) -> bool:
    """Tell whether a server has had what it holds before."""
    return entry.state is assignment.State.APPLIED


def _check_code(
    scene: Scene,
    entry: assignment.Entry,
    one: assignment.Assignment,
    domain: masks.Domain,
) -> None:
    """Make sure that code and data can have ways of their own.

    :raises ConstraintsViolated: they cannot
    """
    if 'code' not in one.units:
        return
    code, least = int(one.units['code']), domain.cache.min_bits
    reason = ''
    if not schemata.has_cdp(
        scene.tree.default.schemata, find_cache(one).level
    ):
        reason = (
            'the kernel does not tell code from data in this cache (mount '
            'option cdp or cdpl2); let the flavor say '
            f'trait:{OWN_WAYS[one.resource_class]}=required'
        )
    elif min(code, one.amount - code) < least:
        reason = (
            f'{code} of {one.amount} ways are for code, and this CPU gives '
            f'neither code nor data fewer than {least}'
        )
    if reason:
        raise rdt.make_violated(
            scene.host, entry.consumer_uuid, (one,), reason
        )


def _choose_limit(
    scene: Scene, entry: assignment.Entry, one: assignment.Assignment
) -> assignment.Assignment:
    tree = scene.tree
    unit = find_unit(tree)
    is_percent = one.resource_class == rdt.PERCENT
    values = tree.default.schemata.get(schemata.BANDWIDTH, {})
    if (
        unit is None
        or is_percent != (unit is bandwidth.Unit.PERCENT)
        or rdt.find_domain(one) not in values
    ):
        raise make_misplaced(
            scene, entry, one, 'memory bandwidth in this unit'
        )
    info = tree.info.bandwidth
    assert info is not None, 'it has a unit'
    value = bandwidth.to_kernel(info, unit, get_limit(one))
    limit = bandwidth.to_amount(unit, value)
    return dataclasses.replace(one, units={**one.units, 'limit': limit})


def make_misplaced(
    scene: Scene,
    entry: assignment.Entry,
    one: assignment.Assignment,
    what: str,
) -> exception.EnforcementFailed:
    """Give the error of what the kernel does not control there (any more)."""
    return exception.EnforcementFailed(
        host=scene.host,
        enforcer='resctrl',
        consumer_uuid=entry.consumer_uuid,
        reason=f'the kernel does not control {what} in {one.rp_key}; was '
        'resctrl mounted anew with other options, or are all CPUs of it '
        'offline?',
    )


# -- what it comes to --------------------------------------------------


def find_cache(one: assignment.Assignment) -> schemata.Cache:
    level = 2 if one.rp_key.startswith(rdt.L2_PREFIX) else 3
    return schemata.Cache(level, rdt.find_domain(one))


def list_ways(
    held: tuple[assignment.Assignment, ...],
) -> dict[schemata.Cache, schemata.Ways]:
    """Give the ways that a server has for itself."""
    return {
        find_cache(one): schemata.Ways(
            bitmask.parse_mask(str(one.units['mask'])),
            int(one.units.get('code', 0)),
        )
        for one in held
        if one.resource_class in OWN_WAYS
    }


def list_held(
    entries: Mapping[str, assignment.Entry],
) -> dict[str, dict[schemata.Cache, schemata.Ways]]:
    """Give server -> cache -> ways of its own, as they are on record.

    None of burst ways, which may have been moved since.
    """
    return {
        uuid: {
            **{
                find_cache(one): schemata.Ways(0)
                for one in rdt.pick(entry.assignments, rdt.BURST)
            },
            **list_ways(entry.assignments),
        }
        for uuid, entry in entries.items()
        if entry.assignments
    }


def get_limit(one: assignment.Assignment) -> int:
    """Give what was sold of bandwidth, in the unit of the class."""
    return int(one.units.get('limit', one.amount))


def find_unit(tree: groups.Tree) -> bandwidth.Unit | None:
    info = tree.info.bandwidth
    values = tree.default.schemata.get(schemata.BANDWIDTH)
    if info is None or not values:
        return None
    return bandwidth.find_unit(info, max(values.values()))
