# SPDX-License-Identifier: Apache-2.0

"""What one server of a flavor needs, as Nova would ask placement for it.

Rules from Nova's flavor documentation (*Extra Specs*) and
``nova/scheduler/utils.py``: VCPU, MEMORY_MB and DISK_GB come from the flavor's
own numbers unless an extra spec ``resources:`` replaces them; a server with
dedicated CPUs needs PCPU in place of VCPU; ``trait:`` belongs to the group
without a suffix.
"""

from collections.abc import Mapping
import dataclasses
import re

from nova_ext_resources.claims import extra_specs as extra_specs_mod
from nova_ext_resources import exception
from nova_ext_resources.objects import requirements

#: With these, Nova asks placement for resources that the flavor does not name.
_UNPLANNED = frozenset(
    {'accel:device_profile', 'hw:mem_encryption', 'pci_passthrough:alias'}
)

_TRAIT = re.compile(r'trait([a-zA-Z0-9_-]{1,64})?:([A-Z0-9_]{1,255})')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the providers of one request group must have, and must not."""

    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one server needs.

    :ivar requirement: all its amounts, those of Nova's own classes included,
        with the attributes of the resources
    :ivar traits: suffix of a group -> the traits of its providers
    :ivar is_isolated: whether groups with a suffix need a provider each
        (``group_policy=isolate``)
    :ivar cells: dedicated CPUs of each guest NUMA cell; () when it floats
    """

    requirement: requirements.Requirement
    traits: Mapping[str, Traits] = dataclasses.field(default_factory=dict)
    is_isolated: bool = False
    cells: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.requirement.groups:
            raise ValueError(
                'the flavor requests no resources; there is nothing to reserve'
            )

    @property
    def largest(self) -> dict[str, int]:
        """Resource class -> the most that one of its groups requests."""
        found: dict[str, int] = {}
        for group in self.requirement.groups:
            for name, amount in group.resources.items():
                found[name] = max(found.get(name, 0), amount)
        return found


def make_demand(
    *,
    vcpus: int,
    memory_mb: int,
    disk_gb: int,
    extra_specs: Mapping[str, str],
    grammar: extra_specs_mod.Grammar,
) -> Demand:
    """Read a flavor.

    :param disk_gb: root and ephemeral disk, and swap in GB rounded upwards
    :raises InvalidExtraSpec: an extra spec is malformed, or of a kind that
        cannot be planned
    :raises ValueError: a number is below zero, or nothing is requested
    """
    _check_planned(extra_specs)
    cells = _read_cells(vcpus, extra_specs)
    own = {
        'PCPU' if cells else 'VCPU': vcpus,
        'MEMORY_MB': memory_mb,
        'DISK_GB': disk_gb,
    }
    for name, amount in own.items():
        if amount < 0:
            raise ValueError(f'{name} of the flavor is {amount}, below zero')
    parsed = extra_specs_mod.parse(extra_specs, grammar)
    groups = {one.suffix: dict(one.resources) for one in parsed.groups}
    rest = groups.setdefault('', {})
    for name, amount in own.items():
        if amount and f'resources:{name}' not in extra_specs:
            rest[name] = amount
    return Demand(
        requirement=dataclasses.replace(
            parsed,
            groups=tuple(
                requirements.RequestGroup(suffix=suffix, resources=one)
                for suffix, one in sorted(groups.items())
                if one
            ),
        ),
        traits=read_traits(extra_specs),
        is_isolated=extra_specs.get('group_policy') == 'isolate',
        cells=cells,
    )


def _check_planned(extra_specs: Mapping[str, str]) -> None:
    for key, value in extra_specs.items():
        if key in _UNPLANNED and value.lower() not in ('', 'false'):
            raise exception.InvalidExtraSpec(
                key=key,
                value=value,
                reason='the resources that it takes are not known before a '
                'server is created, so servers with this extra spec cannot '
                'be planned',
            )


def read_traits(extra_specs: Mapping[str, str]) -> dict[str, Traits]:
    """Return suffix of a group -> the traits of its providers.

    :raises InvalidExtraSpec: one is neither required nor forbidden
    """
    found: dict[str, dict[str, set[str]]] = {}
    for key, value in extra_specs.items():
        if not (match := _TRAIT.fullmatch(key)):
            continue
        if value not in ('required', 'forbidden'):
            raise exception.InvalidExtraSpec(
                key=key,
                value=value,
                reason='the value must be required or forbidden',
            )
        of_group = found.setdefault(match[1] or '', {})
        of_group.setdefault(value, set()).add(match[2])
    return {
        suffix: Traits(
            required=frozenset(one.get('required', ())),
            forbidden=frozenset(one.get('forbidden', ())),
        )
        for suffix, one in found.items()
    }


def _read_cells(vcpus: int, extra_specs: Mapping[str, str]) -> tuple[int, ...]:
    """Return the dedicated CPUs of each guest NUMA cell."""
    policy = extra_specs.get('hw:cpu_policy', 'shared')
    if policy == 'shared':
        return ()
    if policy != 'dedicated':
        raise exception.InvalidExtraSpec(
            key='hw:cpu_policy',
            value=policy,
            reason='only servers whose CPUs are all shared or all dedicated '
            'can be planned',
        )
    if not vcpus:
        return ()
    text = extra_specs.get('hw:numa_nodes', '1')
    number = int(text) if re.fullmatch('[1-9][0-9]{0,3}', text) else 0
    if not number or vcpus % number or 'hw:numa_cpus.0' in extra_specs:
        raise exception.InvalidExtraSpec(
            key='hw:numa_nodes',
            value=text,
            reason=f'the number of NUMA cells must divide the {vcpus} CPUs '
            'of the flavor, and all NUMA cells must be alike',
        )
    return (vcpus // number,) * number
