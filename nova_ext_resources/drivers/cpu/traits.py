# SPDX-License-Identifier: Apache-2.0

"""What CPUs do to save energy, as traits of the compute node. Pure.

No standard trait has these facts. ``HW_CPU_HYPERTHREADING`` is near to one of
them, and Nova's libvirt driver reports it itself, of the hardware.

What a flavor would require is there if all CPUs have it. What it would forbid,
because it takes time to wake from it, is there if any CPU has it.
"""

from collections.abc import Callable, Iterable
import dataclasses

import os_traits

from nova_ext_resources.drivers.cpu import sysfs
from nova_ext_resources.objects import bitmask

P_STATES = 'CUSTOM_CPU_P_STATES'
TURBO = 'CUSTOM_CPU_TURBO'
SMT = 'CUSTOM_CPU_SMT'

#: Followed by the name of the state.
C_STATE = 'C_STATE_'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CpuTraits:
    """The traits, and why others are missing."""

    traits: frozenset[str]
    notes: tuple[str, ...] = ()


def find(seen: sysfs.CpuScan, *, has_governors: bool = True) -> CpuTraits:
    """Return the traits of a host.

    :param has_governors: whether governors stay as they are; Nova may change
        them
    """
    traits = {_make(f'{C_STATE}{one}') for one in seen.idle_states}
    notes = []
    if seen.has_smt:
        traits.add(SMT)
    scaling = frozenset[int]().union(*(one.cpus for one in seen.policies))
    if seen.policies and scaling >= seen.cpus:
        traits.add(P_STATES)
        if _has_turbo(seen):
            traits.add(TURBO)
        for word, read in _list_settings(has_governors):
            values = {read(one) for one in seen.policies}
            value = values.pop() if len(values) == 1 else ''
            if value:
                traits.add(_make(f'{word}_{value}'))
            elif values:
                notes.append(_describe(word, seen.policies, read))
    elif seen.policies:
        missing = bitmask.format_list(seen.cpus - scaling)
        notes.append(
            f'CPUs {missing} have no frequency scaling: no trait of frequency '
            'scaling is reported'
        )
    return CpuTraits(traits=frozenset(traits), notes=tuple(notes))


def _list_settings(
    has_governors: bool,
) -> Iterable[tuple[str, Callable[[sysfs.Policy], str]]]:
    yield 'SCALING_DRIVER', lambda one: one.driver
    if has_governors:
        yield 'GOVERNOR', lambda one: one.governor
        # Follows the governor: with "performance" it cannot be another one.
        yield 'EPP', lambda one: one.preference


def _has_turbo(seen: sysfs.CpuScan) -> bool:
    """Return whether each CPU may exceed its nominal frequency."""
    if seen.turbo is False:
        return False
    each = {one.boost for one in seen.policies}
    return False not in each and (seen.turbo is True or each == {True})


def _describe(
    word: str,
    policies: Iterable[sysfs.Policy],
    read: Callable[[sysfs.Policy], str],
) -> str:
    """Explain which CPUs have which value."""
    by_value: dict[str, frozenset[int]] = {}
    for one in policies:
        value = read(one) or 'none'
        by_value[value] = by_value.get(value, frozenset()) | one.cpus
    listed = ', '.join(
        f'{value} on CPUs {bitmask.format_list(cpus)}'
        for value, cpus in sorted(by_value.items())
    )
    return (
        f'no trait CUSTOM_CPU_{word}_* is reported, because the values '
        f'differ: {listed}'
    )


def _make(name: str) -> str:
    return str(os_traits.normalize_name(f'CPU_{name}'))
