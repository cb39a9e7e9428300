# SPDX-License-Identifier: Apache-2.0

"""A plan for placement in words, for a dry run. Pure."""

from collections.abc import Iterator, Mapping, Set
from typing import Any

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import diff

_Inventories = Mapping[str, class_inventory.Inventory]


def describe(plan: diff.PublishPlan) -> Iterator[str]:
    """Yield a line for each provider that is to change, and for each change.

    Then one for each thing that is in use and stays.
    """
    for wave in plan.waves:
        for step in wave:
            yield from _describe_step(step)
    for one in plan.undeleted:
        yield f'stays: {one}'


def _describe_step(step: diff.ProviderSteps) -> Iterator[str]:
    if step.target is None:
        yield f'delete provider {step.seen.name if step.seen else "?"}'
        return
    seen = step.seen or host_provider.Provider(
        rp_uuid=step.rp_uuid,
        name=step.target.name,
        parent_uuid=step.target.parent_uuid,
    )
    word = 'change' if step.seen else 'create'
    yield f'{word} provider {step.target.name}'
    for field in ('name', 'parent_uuid'):
        before, after = getattr(seen, field), getattr(step.target, field)
        if before != after:
            yield f'  {field}: {before} -> {after}'
    yield from _describe_inventories(step.target.inventories, seen.inventories)
    for field in ('traits', 'aggregates'):
        yield from _describe_set(
            field, getattr(step.target, field), getattr(seen, field)
        )


def _describe_inventories(
    target: _Inventories, seen: _Inventories
) -> Iterator[str]:
    for name in sorted(target.keys() | seen.keys()):
        if name not in target:
            yield f'  {name}: removed, total {seen[name].total}'
            continue
        after = target[name].to_dict()
        if name not in seen:
            yield f'  {name}: new, {_join(after)}'
        elif not diff.are_same({name: target[name]}, {name: seen[name]}):
            before = seen[name].to_dict()
            yield f'  {name}: ' + ', '.join(
                f'{key} {before[key]} -> {value}'
                for key, value in after.items()
                if before[key] != value
            )


def _join(values: Mapping[str, Any]) -> str:
    return ', '.join(f'{key} {value}' for key, value in values.items())


def _describe_set(
    field: str, target: Set[str], seen: Set[str]
) -> Iterator[str]:
    for word, some in (('added', target - seen), ('removed', seen - target)):
        if some:
            yield f'  {field} {word}: {", ".join(sorted(some))}'
