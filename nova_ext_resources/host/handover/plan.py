# SPDX-License-Identifier: Apache-2.0

"""The units that servers get at the new backend. Pure.

Servers claim there one after the other, as on a host that has just been
started: with the same tests and the same trackers. Their amounts and providers
stay as placement has them. Their units change where they cannot be the same.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import dataclasses

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources.host.inventory import view as view_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements

Assignment = assignment.Assignment
Entry = assignment.Entry
HostView = host_view.HostView


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HandoverPlan:
    """The entries to apply, in this order, and what prevents that.

    :ivar obstacles: sentences; with any of them the hand-over is impossible
    """

    entries: tuple[Entry, ...]
    obstacles: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HandoverTarget:
    """The new backend, and how servers claim there.

    :ivar name: of its entry points
    :ivar found: the resources that it offers now
    :ivar constraints: what it can never do
    :ivar serves: whether a resource class is handed over
    """

    name: str
    found: Sequence[host_provider.HostProvider]
    constraints: host_constraints.Constraints
    serves: Callable[[str], bool]
    trackers: Mapping[str, base.Tracker]
    tests: Sequence[base.ClaimTest]

    def make_plan(
        self,
        entries: Collection[Entry],
        *,
        applied: Collection[Entry] = (),
        is_before: bool = False,
    ) -> HandoverPlan:
        """Plan which units servers get.

        :param entries: what will be applied
        :param applied: what is applied there already
        :param is_before: the units of ``entries`` are still applied at the
            old backend, so that the target may see them as used; they count
            as free
        """
        assignments = view_mod.list_assignments((*entries, *applied))
        # The ledger knows the uuids of all providers that matter here.
        uuids = {one.key: one.key for one in self.found}
        uuids.update((one.rp_key, one.rp_uuid) for one in assignments)
        view = view_mod.make_view(
            self.found,
            uuids=uuids,
            trackers=self.trackers,
            settled=assignments
            if is_before
            else view_mod.list_assignments(applied),
            resource_classes=frozenset(),
            constraints=self.constraints,
        )
        view = view_mod.book(view, applied, self.trackers)
        ranked = sorted(entries, key=_rank)
        # Servers that can keep their ways claim before those that cannot.
        stable = sorted(ranked, key=lambda one: not self._can_keep(view, one))
        plan = self._claim_all(view, stable, keep=True)
        if plan.obstacles:
            plan = self._claim_all(view, ranked, keep=False)
        too_many = self._list_overbooked(assignments)
        return dataclasses.replace(plan, obstacles=too_many + plan.obstacles)

    def _list_overbooked(
        self, assignments: Iterable[Assignment]
    ) -> tuple[str, ...]:
        """Explain of what servers hold more than there will ever be."""
        used: collections.Counter[tuple[str, str]] = collections.Counter()
        for one in assignments:
            used[one.rp_key, one.resource_class] += one.amount
        return tuple(
            f'{name} of {one.key}: servers hold {used[one.key, name]}, but '
            f'{self.name} can allocate at most {inventory.capacity}'
            for one in self.found
            for name, inventory in sorted(one.inventories.items())
            if used[one.key, name] > inventory.capacity
        )

    def _claim_all(
        self, view: HostView, entries: Iterable[Entry], *, keep: bool
    ) -> HandoverPlan:
        """Claim for one server after the other.

        :param keep: whether servers keep the units that they have where those
            are free: what a server has cached in its ways stays there
        """
        planned: list[Entry] = []
        obstacles: list[str] = []
        for entry in entries:
            taken, reasons = self._claim(view, entry)
            if reasons:
                server = f'server {entry.consumer_uuid}'
                obstacles += [f'{server}: {one}' for one in reasons]
                continue
            pairs = [(a, taken.get(_place(a), a)) for a in entry.assignments]
            units = tuple(
                old if keep and self._can_stay(view, old, new) else new
                for old, new in pairs
            )
            state = assignment.State.CLAIMED
            planned.append(
                dataclasses.replace(entry, state=state, assignments=units)
            )
            view = view_mod.book(view, planned[-1:], self.trackers)
        return HandoverPlan(entries=tuple(planned), obstacles=tuple(obstacles))

    def _claim(
        self, view: HostView, entry: Entry
    ) -> tuple[dict[host_view.Place, Assignment], list[str]]:
        """Return what a server would get at each place, and why it cannot."""
        assignments = [
            a for a in entry.assignments if self.serves(a.resource_class)
        ]
        missing = [
            f'{self.name} does not offer {one.resource_class} of {one.rp_key}'
            for one in assignments
            if _place(one) not in view.tracked
        ]
        if missing:
            return {}, missing
        made = decide.decide(
            view,
            self._make_request(view, entry, assignments),
            trackers=self.trackers,
            tests=self.tests,
            may_move=False,
        )
        keys = {'': '', **view.keys}
        return {_place(one): one for one in made.taken}, [
            # Operators know providers by their keys.
            str(dataclasses.replace(one, rp_uuid=keys[one.rp_uuid]))
            for one in made.shortfalls
        ]

    def _make_request(
        self, view: HostView, entry: Entry, assignments: Iterable[Assignment]
    ) -> assignment.ClaimRequest:
        allocations: dict[str, dict[str, int]] = {}
        attributes: dict[str, dict[str, str]] = {}
        for one in assignments:
            name = one.resource_class
            tracker = self.trackers[view.tracked[_place(one)].tracker]
            if one.is_allocated:
                allocations.setdefault(one.rp_uuid, {})[name] = one.amount
            for key in tracker.ATTRIBUTES.keys() & one.units.keys():
                attributes.setdefault(name, {})[key] = str(one.units[key])
        return assignment.ClaimRequest(
            consumer_uuid=entry.consumer_uuid,
            allocations=allocations,
            requirement=requirements.Requirement(
                attributes=attributes, enforcers=entry.enforcers
            ),
            cpus=entry.cpus,
        )

    def _can_keep(self, view: HostView, entry: Entry) -> bool:
        return all(self._can_stay(view, a, a) for a in entry.assignments)

    def _can_stay(
        self, view: HostView, old: Assignment, new: Assignment
    ) -> bool:
        """Return whether a server can keep the very units that it has."""
        tracked = view.tracked.get(_place(old))
        if tracked is None or old.units.keys() != new.units.keys():
            return tracked is None
        tracker = self.trackers[tracked.tracker]
        if not tracker.can_parse(old.units):
            return False
        state, _ = tracker.allocate(tracked.state, old.amount, old.units)
        return tracked.state.free - state.free == old.amount


def _rank(entry: Entry) -> tuple[int, str]:
    """Return a key that sorts the largest first: it needs the longest run."""
    largest = max((one.amount for one in entry.assignments), default=0)
    return -largest, entry.consumer_uuid


def _place(one: Assignment) -> host_view.Place:
    return one.rp_uuid, one.resource_class
