# SPDX-License-Identifier: Apache-2.0

"""What a flavor requests with an image, and what is wrong with it.

Rules from Nova's flavor documentation (*Extra Specs*), its image properties,
and ``nova/scheduler/utils.py``.
"""

from collections.abc import Iterator, Mapping
import dataclasses
import re

from nova_ext_resources.claims import extra_specs as extra_specs_mod
from nova_ext_resources import exception
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.reservation import flavor as flavor_mod
from nova_ext_resources.reservation import server_demand

#: Image property -> the extra spec with which it competes.
_PROPERTIES = {
    'hw_cpu_policy': 'hw:cpu_policy',
    'hw_numa_nodes': 'hw:numa_nodes',
}

#: Extra spec -> why it is not counted. Nova asks placement for more then.
_NOT_COUNTED = {
    'accel:device_profile': 'the resources of a Cyborg device profile',
    'hw:mem_encryption': 'encrypted memory',
    'pci_passthrough:alias': 'PCI devices',
}

_TRAIT = re.compile(r'trait([a-zA-Z0-9_-]{1,64})?:(.*)')
_MIXED = 'mixed'
_POLICY = 'group_policy'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlavorRequest:
    """A flavor, with the image where one is named.

    :ivar mistakes: sentences; with one of these, no server of the flavor
        starts, or it starts without what it requests
    :ivar notes: sentences; what is not counted here
    :ivar demand: what Nova asks placement for; None where a mistake makes
        that unknown
    :ivar extra_specs: of the flavor alone
    """

    mistakes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    demand: server_demand.Demand | None = None
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)


def read(
    flavor: flavor_mod.Flavor,
    image: Mapping[str, str],
    grammar: extra_specs_mod.Grammar,
) -> FlavorRequest:
    """Read a flavor with the properties of an image."""
    specs = _add_image(flavor.extra_specs, image)
    made = FlavorRequest(
        notes=tuple(_list_notes(specs)), extra_specs=flavor.extra_specs
    )
    mistakes = list(dict.fromkeys(_list_mistakes(specs, grammar)))
    counted = {
        key: value
        for key, value in specs.items()
        if key not in _NOT_COUNTED and value != _MIXED
    }
    try:
        demand = dataclasses.replace(flavor, extra_specs=counted).make_demand(
            grammar
        )
    except exception.InvalidExtraSpec as err:
        mistakes = mistakes or [str(err)]
        return dataclasses.replace(made, mistakes=tuple(mistakes))
    except ValueError:
        return dataclasses.replace(
            made, mistakes=(*mistakes, 'The flavor requests no resources.')
        )
    return dataclasses.replace(made, mistakes=tuple(mistakes), demand=demand)


def make_query(
    demand: server_demand.Demand, host: host_tree.HostTree | None = None
) -> list[tuple[str, str]]:
    """Return the query of ``GET /allocation_candidates`` for a request.

    As Nova makes it, but for what depends on the user and the project, such
    as the aggregates of an availability zone.

    :param host: the only one that matters; None for all
    """
    providers = host.providers if host else ()
    had = {name for one in providers for name in one.amounts}
    query = [('root_required', '!COMPUTE_STATUS_DISABLED')]
    suffixes = []
    for group in demand.requirement.groups:
        suffix = group.suffix
        if suffix:
            suffixes.append(suffix)
        amounts = ','.join(
            f'{name}:{amount}'
            for name, amount in sorted(group.resources.items())
        )
        query.append((f'resources{suffix}', amounts))
        # What the tree does not have may come from a shared pool.
        if host is not None and group.resources.keys() <= had:
            query.append((f'in_tree{suffix}', host.root.rp_uuid))
        traits = demand.traits.get(suffix, server_demand.Traits())
        wanted = [
            *sorted(traits.required),
            *(f'!{one}' for one in sorted(traits.forbidden)),
        ]
        if wanted:
            query.append((f'required{suffix}', ','.join(wanted)))
    if len(suffixes) > 1:
        policy = 'isolate' if demand.is_isolated else 'none'
        query.append((_POLICY, policy))
    return query


def _add_image(
    specs: Mapping[str, str], image: Mapping[str, str]
) -> dict[str, str]:
    """Return extra specs with what an image adds: the flavor comes first."""
    added = {
        _PROPERTIES.get(key, key): value
        for key, value in image.items()
        if key in _PROPERTIES or key.startswith('trait:')
    }
    return {**added, **specs}


def _list_notes(specs: Mapping[str, str]) -> Iterator[str]:
    for key, what in _NOT_COUNTED.items():
        if specs.get(key, '').lower() not in ('', 'false'):
            yield f'{key}={specs[key]} is not counted here: {what}.'
    if specs.get('hw:cpu_policy') == _MIXED:
        yield (
            'hw:cpu_policy=mixed is not counted here: all CPUs are counted as '
            'shared CPUs.'
        )


def _list_mistakes(
    specs: Mapping[str, str], grammar: extra_specs_mod.Grammar
) -> Iterator[str]:
    suffixes = set()
    for key, value in sorted(specs.items()):
        try:
            extra_specs_mod.check(key, value, grammar)
        except exception.InvalidExtraSpec as err:
            yield str(err)
        name = key.partition(':')[0].removeprefix('resources')
        if key.startswith('resources') and name:
            suffixes.add(name)
        if (match := _TRAIT.fullmatch(key)) and value not in (
            'required',
            'forbidden',
        ):
            yield (
                f'Extra spec {key}={value} is ignored by Nova: the value must '
                f'be required or forbidden, so that {match[2]} counts.'
            )
    policy = specs.get(_POLICY)
    if policy is None and len(suffixes) > 1:
        yield (
            f'Extra spec {_POLICY} is missing: with more than one request '
            f'group ({", ".join(sorted(suffixes))}) placement refuses every '
            'request without it. Set it to none or isolate.'
        )
    elif policy not in (None, 'none', 'isolate'):
        yield (
            f'Extra spec {_POLICY}={policy} is ignored by Nova: the value '
            'must be none or isolate.'
        )
