# SPDX-License-Identifier: Apache-2.0

"""A planned change of capacity: a maintenance, an upgrade or a cut.

Pure. Capacity is what placement's inventories allow. What will be otherwise
from a date on, or until one, an operator plans as a change. Changes of the
same place add up, and where one takes away all, nothing is left.

What counts of them when, :mod:`.forecast` says.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import TypeAlias

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CapacityChange:
    """What a host or a provider has more or less, and when.

    :ivar key: unique among the changes
    :ivar host: '' for a provider that hosts share
    :ivar rp_uuid: the provider; '' for all that the host has itself
    :ivar provider: its name, for people
    :ivar amounts: resource class -> units of capacity, the allocation ratio
        counted in, above or below zero; empty where nothing is there
    :ivar before: the same classes -> the capacity that there would be without
        any change
    :ivar reason: a sentence for whoever asks why
    :ivar created_by: who planned it
    :ivar created_at: seconds since the epoch
    :raises ValueError: it names nothing, or an amount is zero
    """

    key: str
    during: interval.Interval
    host: str = ''
    rp_uuid: str = ''
    provider: str = ''
    amounts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    before: Mapping[str, int] = dataclasses.field(default_factory=dict)
    reason: str = ''
    created_by: str = ''
    created_at: int = 0

    def __post_init__(self) -> None:
        if not self.host and not self.rp_uuid:
            raise ValueError(
                f'capacity change {self.key} names neither a host nor a '
                'provider'
            )
        if not all(self.amounts.values()):
            raise ValueError(
                f'capacity change {self.key} has an amount of zero, which '
                'changes nothing; leave the amount out'
            )
        if self.amounts and not self.rp_uuid:
            raise ValueError(
                f'capacity change {self.key} has amounts, but no provider '
                'for the amounts'
            )

    @property
    def is_maintenance(self) -> bool:
        """Whether nothing is there meanwhile."""
        return not self.amounts

    @property
    def is_of_host(self) -> bool:
        """Whether it is of all that a host has itself."""
        return not self.rp_uuid

    @property
    def names(self) -> tuple[str, ...]:
        """The host and the provider, as far as there are any.

        Whoever takes of what is changed takes from one of them.
        """
        return tuple(filter(None, (self.host, self.rp_uuid)))

    @property
    def row(self) -> str:
        """Whose row of a chart it is in: a host, or a shared provider."""
        return self.host or self.provider or self.rp_uuid

    @property
    def what(self) -> str:
        """What is there or not, such as ``8 VCPU more``."""
        if self.is_maintenance:
            return 'maintenance'
        return ', '.join(
            f'{abs(amount)} {name} {"more" if amount > 0 else "less"}'
            for name, amount in sorted(self.amounts.items())
        )

    def has(self, place: host_view.Place) -> bool:
        """Return whether a place of a host that it is of is changed."""
        if place[0] != self.rp_uuid:
            return self.is_of_host
        return self.is_maintenance or place[1] in self.amounts

    def concerns(self, server: planned_server.PlannedServer) -> bool:
        """Return whether a planned server takes of what is changed."""
        if self.is_of_host:
            return server.host == self.host
        return any(self.has(place) for place in server.places)

    def takes(self, *, is_withdrawn: bool = False) -> bool:
        """Return whether there is less with it; or without it."""
        if self.is_maintenance:
            return not is_withdrawn
        return any(
            (amount > 0) == is_withdrawn for amount in self.amounts.values()
        )

    def rebase(self, bases: Mapping[str, int]) -> 'CapacityChange':
        """Return the same with other bases, as far as they are named."""
        before = {
            name: bases.get(name, base) for name, base in self.before.items()
        }
        return dataclasses.replace(self, before=before)

    def describe(
        self, *, is_withdrawn: bool = False, is_late: bool = False
    ) -> str:
        """Return a sentence that begins with the host or the provider.

        :param is_withdrawn: whether it was taken back
        :param is_late: whether placement does not show it yet
        """
        whose = self.provider or self.rp_uuid
        begin = f'provider {whose}'
        if self.host:
            begin = f'host {self.host}'
            if whose and whose != self.host:
                begin += f', provider {whose},'
        name = f'capacity change {self.key}'
        if self.is_maintenance:
            return f'{begin} is in maintenance from {self.during} ({name})'
        if is_withdrawn:
            return (
                f'{begin} does not have {self.what} from {self.during}: '
                f'{name} was withdrawn'
            )
        if is_late:
            return (
                f'{begin} does not have {self.what} yet, planned from '
                f'{self.during} ({name})'
            )
        return f'{begin} has {self.what} from {self.during} ({name})'


#: Several of them.
Changes: TypeAlias = Sequence[CapacityChange]
