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

"""The four kinds of plugins of a host.

An entry point's name is the value in the option that enables it, the
suffix of its option group ``[ext_resources_<name>]``, its module and its
page in the documentation.
"""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import resource
from nova_ext_resources.objects import share
from nova_ext_resources.objects import view as view_obj


class InventoryProvider(abc.ABC):
    """Finds resources of the host. Only reads."""

    #: Options of the plugin's own group.
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = ()

    #: Plugins, of either kind, that manage the same part of the host.
    EXCLUDES: ClassVar[frozenset[str]] = frozenset()

    #: As that of :class:`Enforcer`.
    list_entries: Callable[[], Mapping[str, assignment.Entry]]

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        self.options = options
        self.host = host
        self.list_entries = dict

    @property
    def left_out(self) -> frozenset[str]:
        """Name what it should have reported the last time and could not.

        Resource classes, as far as they are known, or any other words. While
        there are some, nothing is taken out of placement, for it may be
        theirs, and claims of those classes are refused.
        """
        return frozenset()

    @abc.abstractmethod
    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        """Describe every resource that ``discover`` may report."""

    @abc.abstractmethod
    def discover(self) -> tuple[provider.HostProvider, ...]:
        """Report what the host has now, parents before children.

        :raises DiscoveryFailed: nothing can be said this time; the last
            report stays in force
        """


class Tracker(abc.ABC):
    """Knows how units are counted and given out. Pure: no I/O, no clock."""

    #: Attribute of ``resource:CLASS:ATTRIBUTE`` -> a regular expression that
    #: its whole value must match.
    ATTRIBUTES: ClassVar[Mapping[str, str]] = {}

    #: Whether a server's units mean nothing until an enforcer acts.
    NEEDS_ENFORCER: ClassVar[bool] = False

    #: Whether units serve only the CPUs of their own provider.
    IS_CPU_LOCAL: ClassVar[bool] = False

    #: Whether it can do nothing without ``HostProvider.units``.
    NEEDS_FACTS: ClassVar[bool] = False

    #: The state that it keeps; ``from_dict`` reads what it published.
    STATE: ClassVar[type[view_obj.State]]

    def observe(
        self,
        inventory: inventory_obj.Inventory,
        units: Mapping[str, Any],
        held: Iterable[assignment.Assignment],
    ) -> inventory_obj.Inventory:
        """Give the inventory with everything ``reserved`` that others use.

        :param units: the facts that the inventory provider reported
        :param held: what was in force for servers of this host while it
            looked
        """
        return inventory

    @abc.abstractmethod
    def initial(
        self, inventory: inventory_obj.Inventory, units: Mapping[str, Any]
    ) -> view_obj.State:
        """Make the state in which no server of this host holds anything.

        :param inventory: as observed
        :raises InvalidResource: such an inventory cannot be tracked
        """

    @abc.abstractmethod
    def fits(self, state: Any, amount: int) -> bool:
        """Tell whether ``take`` would succeed; may be called very often."""

    @abc.abstractmethod
    def take(
        self,
        state: Any,
        amount: int,
        units: Mapping[str, Any] | None = None,
    ) -> tuple[view_obj.State, Mapping[str, Any]]:
        """Give ``amount`` units away: the new state, and which they are.

        :param units: exactly these, which a server holds already: they are
            booked whether or not they looked free
        :raises ValueError: it does not fit (without ``units`` only)
        """

    @abc.abstractmethod
    def give(
        self, state: Any, amount: int, units: Mapping[str, Any]
    ) -> view_obj.State:
        """Take units back that ``take`` gave."""

    def read_attributes(
        self, amount: int, attributes: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """Give what the flavor's attributes add to the units of a server.

        JSON types only, such as ``{'max': 6}``; they go into the ledger
        beside the units that ``take`` gives.

        :param attributes: attribute -> value, as the flavor has them
        :raises ValueError: such an amount cannot have them; says why
        """
        unknown = sorted(set(attributes) - set(self.ATTRIBUTES))
        if unknown:
            known = ', '.join(sorted(self.ATTRIBUTES)) or 'none'
            raise ValueError(
                f'it has no attribute {", ".join(unknown)}; known: {known}'
            )
        return {}

    def from_dict(self, data: Mapping[str, Any]) -> view_obj.State:
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
        self, view: view_obj.HostView, request: assignment.ClaimRequest
    ) -> Iterable[exception.Shortfall]:
        """Report all reasons, none when there is none.

        Every place of ``request.allocations`` is in the view, and implied
        units are among them.
        """


class Enforcer(abc.ABC):
    """Puts assignments into force on the host. Every call is idempotent."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = ()

    #: Key of ``resource:<enforcer>:KEY`` -> a regular expression that its
    #: whole value must match.
    EXTRA_SPECS: ClassVar[Mapping[str, str]] = {}

    #: Plugins, of either kind, that manage the same part of the host.
    EXCLUDES: ClassVar[frozenset[str]] = frozenset()

    #: Resource classes that it puts into force; None stands for any.
    RESOURCE_CLASSES: ClassVar[frozenset[str] | None] = frozenset()

    #: Gives what all servers of the host hold, by uuid, without I/O; the
    #: host sets it before anything else.
    list_entries: Callable[[], Mapping[str, assignment.Entry]]

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        self.options = options
        self.host = host
        self.list_entries = dict

    def check(self, entry: assignment.Entry) -> None:  # noqa: B027
        """Refuse what it could never put into force. No I/O.

        :raises ConstraintsViolated: it could not; says why
        """

    @abc.abstractmethod
    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        """Put it into force; give the assignments as they really are.

        The host may choose other units than the tracker did; the answer
        says which, for the ledger.

        :raises EnforcementFailed: nothing is in force
        """

    @abc.abstractmethod
    def release(self, entry: assignment.Entry) -> None:
        """Take it out of force; what is not in force is a success.

        An entry without assignments stands for a server of which nothing
        but the uuid is known any more.

        :raises EnforcementFailed: it may still be in force, or may come
            into force later
        """

    @abc.abstractmethod
    def list_applied(self) -> frozenset[str] | None:
        """Give the consumer uuids of everything of ours that is in force.

        None: there is nothing that could be looked at.

        :raises EnforcementFailed: it cannot be told now
        """

    def is_in_force(self, entry: assignment.Entry) -> bool:
        """Look closer at one that ``list_applied`` has just given.

        No I/O: decides on what ``list_applied`` saw. False lets healing
        apply it again.
        """
        return True

    def find_fault(self, entry: assignment.Entry) -> str:
        """Say what is not in force although ``apply`` went well, or ''.

        A server that runs keeps what it has when other software comes into
        its place; the answer is for who runs the host. No I/O: tells what
        was last put into force, or looked at.
        """
        return ''

    def list_shares(self) -> tuple[share.Share, ...]:
        """Give what may be moved between servers while they run.

        No I/O: tells what was last put into force, or looked at.
        """
        return ()

    def set_shares(self, shares: Sequence[share.Share]) -> None:
        """Change what servers have of one class of one provider.

        Those of the same class and provider that are not named keep theirs.

        :raises EnforcementFailed: an amount is outside of what was sold, or
            there is not as much in all; nothing is changed, or the kernel
            refused one, and the next look shows how far it got
        """
        if shares:
            raise NotImplementedError(f'{type(self).__name__} has no shares')
