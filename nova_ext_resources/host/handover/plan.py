# SPDX-License-Identifier: Apache-2.0

"""Which units servers get at the backend that they are handed over to. Pure.

They claim there as they would on a host that has just been made: the same
tests, the same trackers, one after the other. Their amounts and providers stay
as placement has them; which units they are may change, if those that they have
cannot be had there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources import exception
from nova_ext_resources.host import view as view_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import constraints as constraints_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import requirement as requirement_obj
from nova_ext_resources.objects import view as view_obj

#: Only keys tell providers apart here: the ledger has their uuids already.
_NODE = provider.Node(
    uuid='00000000-0000-4000-8000-000000000000', hypervisor_hostname=''
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be put into force, in this order, and what is in the way.

    :ivar obstacles: sentences; with one of them it cannot be done
    """

    entries: tuple[assignment.Entry, ...]
    obstacles: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is known of the backend.

    :ivar name: of its entry points
    :ivar found: what it offers now
    :ivar constraints: what it can never do
    """

    name: str
    found: Sequence[provider.HostProvider]
    constraints: constraints_obj.Constraints


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """By what servers claim there."""

    target: Target
    trackers: Mapping[str, base.Tracker]
    tests: Sequence[base.ClaimTest]


def make_plan(
    entries: Iterable[assignment.Entry],
    target: Target,
    *,
    classes: Collection[str] | None,
    trackers: Mapping[str, base.Tracker],
    tests: Sequence[base.ClaimTest],
    in_force: Collection[assignment.Entry] = (),
    is_before: bool = False,
) -> Plan:
    """Plan.

    :param entries: what is to be put into force
    :param classes: resource classes that are handed over; None for all
    :param in_force: what is there already
    :param is_before: what they hold is still in force where they come from,
        and the target may see it as used; then it counts as free
    """
    waiting = [_move(one, classes) for one in _order(entries)]
    there = [_move(one, classes) for one in in_force]
    before = waiting if is_before else []
    view = view_mod.make_view(
        target.found,
        node=_NODE,
        trackers=trackers,
        settled=view_mod.list_held((*there, *before)),
        resource_classes=frozenset(),
        constraints=target.constraints,
    )
    view = _book(view, there, trackers)
    # Taken and given back: what they hold is among what can be sold.
    view = decide.give(
        _book(view, before, trackers), view_mod.list_held(before), trackers
    )
    rules = _Rules(target=target, trackers=trackers, tests=tests)
    pairs = list(zip(_order(entries), waiting, strict=True))
    overbooked = _list_overbooked((*waiting, *there), target)
    # Who can keep its ways comes before who might be given them.
    stable = sorted(
        pairs, key=lambda pair: not _can_keep(view, pair[1], rules)
    )
    kept = _place(view, stable, rules, keep=True)
    found = kept if not kept.obstacles else _place(view, pairs, rules)
    return dataclasses.replace(
        found, obstacles=(*overbooked, *found.obstacles)
    )


def _place(
    view: view_obj.HostView,
    pairs: Iterable[tuple[assignment.Entry, assignment.Entry]],
    rules: _Rules,
    *,
    keep: bool = False,
) -> Plan:
    """Claim for one after the other.

    :param pairs: entries, and the same as they are moved
    :param keep: let servers have the very ways that they have, where those
        can be had: what they have cached stays theirs
    """
    planned: list[assignment.Entry] = []
    obstacles: list[str] = []
    for entry, moved in pairs:
        view, taken, found = _claim(view, moved, rules)
        obstacles += found
        if found:
            continue
        if keep:
            view, taken = _keep(view, moved, taken, rules)
        done = _exchange(entry, taken)
        planned.append(done)
    return Plan(entries=tuple(planned), obstacles=tuple(obstacles))


def _keep(
    view: view_obj.HostView,
    moved: assignment.Entry,
    taken: Iterable[assignment.Assignment],
    rules: _Rules,
) -> tuple[view_obj.HostView, list[assignment.Assignment]]:
    """Exchange runs of ways for those that the server has, if possible."""
    before = {(a.rp_uuid, a.resource_class): a for a in moved.assignments}
    kept = []
    for one in taken:
        place = one.rp_uuid, one.resource_class
        old = before.get(place, one)
        tracked = view.tracked[place]
        state = rules.trackers[tracked.tracker].give(
            tracked.state, one.amount, one.units
        )
        same = _take_again(state, old, tracked, rules)
        if same is not None and set(old.units) == set(one.units):
            view = view.with_state(place, same)
            one = dataclasses.replace(one, units=old.units)
        kept.append(one)
    return view, kept


def _take_again(
    state: view_obj.State,
    old: assignment.Assignment,
    tracked: view_obj.Tracked,
    rules: _Rules,
) -> view_obj.State | None:
    """Take the very ways that a server has; None where they are not free."""
    if 'mask' not in old.units:
        return None
    tracker = rules.trackers[tracked.tracker]
    after, _ = tracker.take(state, old.amount, old.units)
    return after if state.free - after.free == old.amount else None


def _can_keep(
    view: view_obj.HostView, moved: assignment.Entry, rules: _Rules
) -> bool:
    """Return whether all ways that a server has are free."""
    for one in moved.assignments:
        tracked = view.tracked.get((one.rp_uuid, one.resource_class))
        if tracked is not None and 'mask' in one.units:
            if _take_again(tracked.state, one, tracked, rules) is None:
                return False
    return True


def _order(entries: Iterable[assignment.Entry]) -> list[assignment.Entry]:
    """The largest come first: they find a free run most hardly."""
    return sorted(
        entries,
        key=lambda one: (
            -max((a.amount for a in one.assignments), default=0),
            one.consumer_uuid,
        ),
    )


def _move(
    entry: assignment.Entry, classes: Collection[str] | None
) -> assignment.Entry:
    """Leave in an entry what is handed over, with providers by key."""
    return dataclasses.replace(
        entry,
        assignments=tuple(
            dataclasses.replace(
                one, rp_uuid=provider.make_rp_uuid(_NODE.uuid, one.rp_key)
            )
            for one in entry.assignments
            if classes is None or one.resource_class in classes
        ),
    )


def _book(
    view: view_obj.HostView,
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
) -> view_obj.HostView:
    return view_mod.book(view, entries, trackers)


def _list_overbooked(
    entries: Iterable[assignment.Entry], target: Target
) -> list[str]:
    """Say of what servers hold more than the target could ever sell.

    That is certain, whatever is in force now.
    """
    capacities = {
        (one.key, name): inventory.capacity
        for one in target.found
        for name, inventory in one.inventories.items()
    }
    held: dict[tuple[str, str], int] = {}
    for one in view_mod.list_held(entries):
        place = one.rp_key, one.resource_class
        held[place] = held.get(place, 0) + one.amount
    return [
        f'{name} of {key}: servers hold {amount}, {target.name} can sell '
        f'{capacities[key, name]} at most'
        for (key, name), amount in sorted(held.items())
        if amount > capacities.get((key, name), amount)
    ]


def _claim(
    view: view_obj.HostView, moved: assignment.Entry, rules: _Rules
) -> tuple[view_obj.HostView, Sequence[assignment.Assignment], list[str]]:
    """Claim for one server: the new view, what it got, what is in the way."""
    missing = [
        f'server {moved.consumer_uuid}: {rules.target.name} does not offer '
        f'{one.resource_class} of {one.rp_key}'
        for one in moved.assignments
        if (one.rp_uuid, one.resource_class) not in view.tracked
    ]
    if missing:
        return view, (), missing
    request = _make_request(view, moved, rules.trackers)
    try:
        made = decide.decide(
            view,
            request,
            trackers=rules.trackers,
            tests=rules.tests,
            may_move=False,
        )
    except ValueError as err:
        return view, (), [f'server {moved.consumer_uuid}: {err}']
    found = [_tell(view, moved, one) for one in made.shortfalls]
    return made.view, made.taken, found


def _make_request(
    view: view_obj.HostView,
    moved: assignment.Entry,
    trackers: Mapping[str, base.Tracker],
) -> assignment.ClaimRequest:
    allocations: dict[str, dict[str, int]] = {}
    attributes: dict[str, dict[str, str]] = {}
    for one in moved.assignments:
        if not one.is_allocated:
            continue
        allocations.setdefault(one.rp_uuid, {})[one.resource_class] = (
            one.amount
        )
        tracked = view.tracked[one.rp_uuid, one.resource_class]
        for name in trackers[tracked.tracker].ATTRIBUTES:
            if name in one.units:
                known = attributes.setdefault(one.resource_class, {})
                known[name] = str(one.units[name])
    return assignment.ClaimRequest(
        consumer_uuid=moved.consumer_uuid,
        allocations=allocations,
        requirement=requirement_obj.Requirement(
            attributes=attributes, enforcers=moved.enforcers
        ),
        cpus=moved.cpus,
    )


def _exchange(
    entry: assignment.Entry, taken: Iterable[assignment.Assignment]
) -> assignment.Entry:
    """Return an entry the units that it is to have now."""
    units = {(one.rp_key, one.resource_class): one.units for one in taken}
    return dataclasses.replace(
        entry,
        state=assignment.State.CLAIMED,
        assignments=tuple(
            dataclasses.replace(
                one,
                units=units.get((one.rp_key, one.resource_class), one.units),
            )
            for one in entry.assignments
        ),
    )


def _tell(
    view: view_obj.HostView,
    moved: assignment.Entry,
    one: exception.Shortfall,
) -> str:
    where = view.keys.get(one.rp_uuid, 'the host')
    return (
        f'server {moved.consumer_uuid}: {one.resource_class} of {where}: '
        f'{one.requested} requested, {one.available} available: {one.reason}'
    )
