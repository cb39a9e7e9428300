# SPDX-License-Identifier: Apache-2.0

"""What one server asks for, as its flavor says it."""

from collections.abc import Collection, Mapping
import dataclasses
import enum


#: Attribute: whether units have to be near the CPUs of the server.
AFFINITY = 'numa_affinity'


class Affinity(enum.StrEnum):
    """Its values.

    ``REQUIRED``: the server is refused otherwise.
    ``PREFERRED``: they are, if the host has such units free.
    """

    REQUIRED = 'required'
    PREFERRED = 'preferred'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RequestGroup:
    """The amounts of one ``resources<suffix>:*`` group.

    :ivar suffix: '' for the group without one
    :ivar resources: resource class -> amount, zero amounts left out
    """

    suffix: str
    resources: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """All that a flavor asks of the resources of this package.

    :ivar groups: sorted by suffix, empty groups left out
    :ivar attributes: resource class -> attribute -> value, the ``resource:
        CLASS:ATTRIBUTE`` extra specs
    :ivar enforcers: enforcer -> key -> value, the ``resource:rmd:policy``
        kind
    :ivar thread_policy: the flavor's ``hw:cpu_thread_policy``, '' if it has
        none; None: not known
    """

    groups: tuple[RequestGroup, ...] = ()
    attributes: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )
    enforcers: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )
    thread_policy: str | None = None

    @property
    def resources(self) -> dict[str, int]:
        """Resource class -> amount, summed over all groups."""
        total: dict[str, int] = {}
        for group in self.groups:
            for resource_class, amount in group.resources.items():
                total[resource_class] = total.get(resource_class, 0) + amount
        return total

    def is_met_by_each(
        self, resource_class: str, amounts: Collection[int]
    ) -> bool:
        """Return whether each amount is what one group alone requests.

        As of a server whose CPUs lie in several cache domains.

        :param amounts: of one class, by provider
        """
        return set(amounts) == {
            self.resources.get(resource_class)
        } and self.is_in_one_group(resource_class)

    def is_in_one_group(self, resource_class: str) -> bool:
        """Return whether one request group alone requests a class."""
        return sum(resource_class in one.resources for one in self.groups) == 1

    def find_affinity(self, resource_class: str) -> str:
        """Return an :class:`Affinity`, or '' where it does not matter."""
        return self.attributes.get(resource_class, {}).get(AFFINITY, '')

    def __bool__(self) -> bool:
        return bool(self.groups or self.attributes or self.enforcers)
