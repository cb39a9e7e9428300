# SPDX-License-Identifier: Apache-2.0

"""The two kinds of plugins that decide: trackers and claim tests. Pure."""

import abc
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar
import warnings

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view


class RenamedMethods:
    """Lets plugins have, and call, former names of methods for one release."""

    #: Former name of a method -> its name.
    RENAMED: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = dict(vars(cls))
        for former, name in cls.RENAMED.items():
            if name in own:
                setattr(cls, former, own[name])
            elif former in own:
                setattr(cls, name, own[former])
                warnings.warn(
                    f'{cls.__qualname__}.{former} has to be named {name}',
                    DeprecationWarning,
                    stacklevel=2,
                )


class Tracker(RenamedMethods, abc.ABC):
    """Knows how units are counted and allocated. Pure: no I/O, no clock."""

    RENAMED: ClassVar[Mapping[str, str]] = {
        'take': 'allocate',
        'give': 'free',
        'understands': 'can_parse',
    }

    #: Attribute of ``resource:CLASS:ATTRIBUTE`` -> a regular expression that
    #: its whole value must match.
    ATTRIBUTES: ClassVar[Mapping[str, str]] = {}

    #: Attribute that a flavor might be expected to have -> why there is none.
    NO_ATTRIBUTES: ClassVar[Mapping[str, str]] = {}

    #: Whether a server's units mean nothing until an enforcer acts.
    NEEDS_ENFORCER: ClassVar[bool] = False

    #: Keys of the units that it allocates. Those of a tracker that needs no
    #: enforcer are only recorded: nothing has to be undone for them.
    UNITS: ClassVar[frozenset[str]] = frozenset()

    #: Whether units serve only the CPUs of their own provider.
    IS_CPU_LOCAL: ClassVar[bool] = False

    #: Whether units serve all CPUs, and those of their own provider best.
    CAN_BE_NEAR: ClassVar[bool] = False

    #: Whether it can do nothing without ``HostProvider.units``.
    NEEDS_FACTS: ClassVar[bool] = False

    #: The state that it keeps; ``from_dict`` reads what it published.
    STATE: ClassVar[type[host_view.TrackerState]]

    def observe(
        self,
        inventory: class_inventory.Inventory,
        units: Mapping[str, Any],
        assignments: Iterable[assignment.Assignment],
    ) -> class_inventory.Inventory:
        """Return the inventory with everything ``reserved`` that others use.

        :param units: the facts that the inventory provider reported
        :param assignments: what was applied for servers of this host while the
            provider read the host
        """
        return inventory

    @abc.abstractmethod
    def initial(
        self, inventory: class_inventory.Inventory, units: Mapping[str, Any]
    ) -> host_view.TrackerState:
        """Make the state in which no server of this host holds anything.

        :param inventory: as observed
        :raises InvalidResource: such an inventory cannot be tracked
        """

    @abc.abstractmethod
    def fits(self, state: Any, amount: int) -> bool:
        """Return whether ``allocate`` would succeed. Called very often."""

    @abc.abstractmethod
    def allocate(
        self,
        state: Any,
        amount: int,
        units: Mapping[str, Any] | None = None,
    ) -> tuple[host_view.TrackerState, Mapping[str, Any]]:
        """Allocate ``amount`` units: the new state, and which they are.

        :param units: exactly these, which a server holds already: they are
            booked whether or not they looked free
        :raises ValueError: it does not fit (without ``units`` only)
        """

    @abc.abstractmethod
    def free(
        self, state: Any, amount: int, units: Mapping[str, Any]
    ) -> host_view.TrackerState:
        """Free units that ``allocate`` returned."""

    def join(self, states: Sequence[Any]) -> host_view.TrackerState:
        """Return the state that leaves what all of these leave.

        For a time in which servers come and go, given the state after each
        change: what ``allocate`` returns there is free throughout. So are the
        units themselves, where they are not all alike.

        :param states: of one resource, one or more
        :raises NotImplementedError: the tracker does not know how, and its
            resources cannot be reserved for a later time
        """
        raise NotImplementedError

    def can_parse(self, units: Mapping[str, Any]) -> bool:
        """Return whether ``allocate`` and ``free`` can work with these units.

        An entry of the ledger may have those of another tracker, which the
        resource had before its type was changed.
        """
        return True

    def list_names(self, units: Mapping[str, Any]) -> Set[str]:
        """Return the names of units; empty where they have none.

        :param units: what a server holds, or an inventory provider reports
        """
        return frozenset()

    def find_lost(self, state: Any, units: Mapping[str, Any]) -> Set[str]:
        """Return the names of units that the host no longer has.

        Empty where units have no names: then only their number matters, or
        they cannot vanish one by one.

        :param units: what a server holds
        """
        return frozenset()

    def withhold(
        self, units: Mapping[str, Any], names: Set[str]
    ) -> Mapping[str, Any]:
        """Return the facts of a provider without units of these names.

        They are given to no server, although the host may have them; the
        inventory counts them as reserved.

        :param units: the facts that the inventory provider reported
        :param names: such as :meth:`find_lost` returns
        """
        return units

    def read_attributes(
        self, amount: int, attributes: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """Return what the flavor's attributes add to the units of a server.

        JSON types only, such as ``{'max': 6}``; they go into the ledger
        beside the units that ``allocate`` returns.

        :param attributes: attribute -> value, as the flavor has them
        :raises ValueError: such an amount cannot have them; says why
        """
        unknown = sorted(set(attributes) - set(self.ATTRIBUTES))
        if unknown:
            known = ', '.join(sorted(self.ATTRIBUTES)) or 'none'
            raise ValueError(
                f'this resource class has no attribute {", ".join(unknown)}; '
                f'known attributes: {known}'
            )
        return {}

    def from_dict(self, data: Mapping[str, Any]) -> host_view.TrackerState:
        """Read what the state's ``to_dict`` wrote.

        :raises (KeyError, TypeError, ValueError): it is something else
        """
        return self.STATE.from_dict(data)


class ClaimTest(abc.ABC):
    """Finds reasons why a host cannot take a server. Pure."""

    def __init__(self, trackers: Mapping[str, Tracker]) -> None:
        self.trackers = trackers

    @abc.abstractmethod
    def shortfalls(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> Iterable[exception.Shortfall]:
        """Report all reasons, none when there is none.

        Every place of ``request.allocations`` is in the view, and implied
        units are among them.
        """

    def count_unmet(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> int:
        """Count the wishes of a request that are not met.

        They are no reason to refuse it. Where units of other providers of
        the host meet more of them, these are taken.
        """
        return 0
