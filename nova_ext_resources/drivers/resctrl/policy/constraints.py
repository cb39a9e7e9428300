# SPDX-License-Identifier: Apache-2.0

"""What a host can never do with a flavor, whatever is free. Pure.

A server is in one control group: it has one class of service, and one mask
for each cache. Claims are decided by ``CONSTRAINTS`` and
``make_code_constraints``; the enforcer checks ``find_code`` again, because
the mount options may have changed since.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import constraints

#: Assignments that cannot be had, and why.
Violation: TypeAlias = tuple[tuple[assignment.Assignment, ...], str]


_OWN = frozenset(
    {classes.WAYS, classes.L2_WAYS, classes.BURST, *classes.BANDWIDTHS}
)

#: The servers of the shared pool have one class of service together.
_NOT_SHARED = frozenset({classes.SHARED})

CONSTRAINTS: Mapping[str, constraints.ClassConstraints] = {
    **dict.fromkeys(_OWN, constraints.ClassConstraints(excludes=_NOT_SHARED)),
    classes.SHARED: constraints.ClassConstraints(excludes=_OWN),
    classes.WAYS: constraints.ClassConstraints(
        excludes=_NOT_SHARED, excludes_beside=frozenset({classes.BURST})
    ),
    classes.BURST: constraints.ClassConstraints(
        excludes=_NOT_SHARED, excludes_beside=frozenset({classes.WAYS})
    ),
}


def make_code_constraints(
    least: Mapping[str, int | None],
) -> dict[str, constraints.ClassConstraints]:
    """Return who can have ways for code alone.

    :param least: class of ways -> the fewest ways that code, or data, can
        have; None where the kernel has no code/data prioritization (CDP)
    """
    return {
        name: constraints.ClassConstraints(
            attributes={'pool': 0}
            if ways is None
            else {'pool': 0, 'code': ways}
        )
        for name, ways in least.items()
    }


def list_twice(
    held: Iterable[assignment.Assignment],
) -> tuple[assignment.Assignment, ...]:
    """Return the ways of caches where a server has own and burst ones."""
    ways = classes.pick(held, classes.WAYS, classes.BURST)
    kinds = {(one.rp_key, one.resource_class) for one in ways}
    keys = [key for key, _name in kinds]
    return tuple(one for one in ways if keys.count(one.rp_key) > 1)


def find_code(
    one: assignment.Assignment, *, has_cdp: bool, least: int
) -> Violation | None:
    """Find why code and data cannot have ways of their own.

    :param has_cdp: whether the cache is mounted with code/data
        prioritization
    :param least: the fewest ways that the CPU gives to either
    """
    if 'code' not in one.units:
        return None
    code = int(one.units['code'])
    if not has_cdp:
        cache = classes.find_level(one)
        trait = classes.L2_CDP_TRAIT if cache == 2 else classes.CDP_TRAIT
        return (one,), (
            'code/data prioritization (CDP) is not enabled for this cache '
            '(mount option cdp or cdpl2); let the flavor say '
            f'trait:{trait}=required'
        )
    if min(code, one.amount - code) < least:
        return (one,), (
            f'{code} of {one.amount} ways are for code, and this CPU gives '
            f'neither code nor data fewer than {least}'
        )
    return None
