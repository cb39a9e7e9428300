# SPDX-License-Identifier: Apache-2.0

"""A host's extended resources as one value: in the host, and published."""

from collections.abc import Mapping
import dataclasses
from typing import Any, Protocol, Self, TypeAlias

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import reserved_units

#: (rp_uuid, resource class)
Place: TypeAlias = tuple[str, str]

#: rp_uuid -> resource class -> amount
Amounts: TypeAlias = Mapping[str, Mapping[str, int]]


class TrackerState(Protocol):
    """What a tracker knows of one resource class of one provider.

    Immutable; equal when the content is equal.
    """

    @property
    def available(self) -> int:
        """The most that one server could get now."""

    @property
    def used(self) -> int:
        """Units held by servers of this host."""

    @property
    def free(self) -> int:
        """Units left in all, whether or not one server could get them."""

    def to_dict(self) -> Mapping[str, str | int]:
        """Return what ``from_dict`` makes the same state of."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read a state.

        :raises (KeyError, TypeError, ValueError): it is something else
        """


class StateReader(Protocol):
    """The part of a tracker that reads a published state."""

    def from_dict(self, data: Mapping[str, Any]) -> TrackerState:
        """Return the state, or raise KeyError, TypeError or ValueError."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """One resource class of one provider, with its tracker's state.

    :ivar tracker: the tracker's entry point name
    :ivar inventory: None where the view was published: placement has it
    :ivar implied: (rp_uuid, resource class) of which a server that holds
        this one holds one unit too
    :ivar cpus: list of the CPUs that the units serve; None when they serve
        the whole host
    :ivar follows_tasks: whether they also serve a server whose CPUs float
    :ivar near: list of the CPUs that the units, which serve the whole host,
        serve best; '' when it does not know, None where all are the same
    :ivar alike: what other providers must have too for their units to be as
        good, but for the CPUs; None where that does not matter, or where the
        view was published: placement offers them itself
    :ivar reserved: what has the reserved units; None where the host does not
        report it, or where the view was published: ``holders`` has it
    """

    tracker: str
    state: TrackerState
    inventory: class_inventory.Inventory | None = None
    implied: Place | None = None
    cpus: str | None = None
    follows_tasks: bool = False
    near: str | None = None
    alike: frozenset[str] | None = None
    reserved: reserved_units.Reserved | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """Everything that claim tests and scheduler filters decide on.

    :ivar tracked: (rp_uuid, resource class) -> :class:`Tracked`
    :ivar keys: rp_uuid -> the provider's key on its host
    :ivar resource_classes: what this host's plugins define, whether or not
        it was discovered
    :ivar constraints: what this host can never do
    :ivar during: the time throughout which this is there, as a sentence has
        it; None for now
    """

    tracked: Mapping[Place, Tracked] = dataclasses.field(default_factory=dict)
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    resource_classes: frozenset[str] = frozenset()
    constraints: host_constraints.Constraints = host_constraints.NONE
    during: object = None

    def list_places(self, allocations: Amounts) -> dict[Place, int]:
        """Return place -> amount of what is tracked, sorted.

        Providers of others, such as Nova's own root, are left out.
        """
        return {
            (rp_uuid, resource_class): amount
            for rp_uuid, resources in sorted(allocations.items())
            for resource_class, amount in sorted(resources.items())
            if (rp_uuid, resource_class) in self.tracked
        }

    def list_reserved(self) -> dict[Place, reserved_units.Reserved]:
        """Return what has the reserved units, where the host reports it."""
        return {
            place: tracked.reserved
            for place, tracked in sorted(self.tracked.items())
            if tracked.reserved is not None
        }

    def with_state(self, place: Place, state: TrackerState) -> 'HostView':
        """Return the same view with one state exchanged."""
        changed = dataclasses.replace(self.tracked[place], state=state)
        return dataclasses.replace(
            self, tracked={**self.tracked, place: changed}
        )
