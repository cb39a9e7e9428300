# SPDX-License-Identifier: Apache-2.0

"""How much of one resource class a provider has."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects.documents import foreign_data

MAX_INT = foreign_data.MAX_INT


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A placement inventory record.

    Fields and rules are those of the Placement API's ``PUT
    /resource_providers/{uuid}/inventories``; ``max_unit`` is the whole
    ``total`` unless given.

    :raises InvalidResource: a number is outside of placement's bounds
    """

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 0
    step_size: int = 1
    allocation_ratio: float = 1.0

    def __post_init__(self) -> None:
        self._check_bounds('total', 1)
        if self.max_unit == 0:
            object.__setattr__(self, 'max_unit', self.total)
        for field, low in (
            ('reserved', 0),
            ('min_unit', 1),
            ('max_unit', self.min_unit),
            ('step_size', 1),
        ):
            self._check_bounds(field, low)
        if self.reserved > self.total:
            raise exception.InvalidResource(
                name='inventory',
                reason=f'reserved {self.reserved} is more than the total '
                f'{self.total}',
            )
        ratio = self.allocation_ratio
        try:
            foreign_data.read_number(
                ratio, foreign_data.MIN_RATIO, foreign_data.MAX_RATIO
            )
        except ValueError as err:
            raise exception.InvalidResource(
                name='inventory',
                reason=f'allocation_ratio {ratio!r} is not a number above 0 '
                'and up to 10000',
            ) from err

    def _check_bounds(self, field: str, low: int) -> None:
        try:
            foreign_data.read_whole(getattr(self, field), low)
        except ValueError as err:
            raise exception.InvalidResource(
                name='inventory', reason=f'{field} {err}'
            ) from err

    @property
    def capacity(self) -> int:
        """Units that can be allocated in all.

        The only place where this package computes it: placement's own
        rule, ``(total - reserved) * allocation_ratio`` cut to a whole
        number.
        """
        return int((self.total - self.reserved) * self.allocation_ratio)

    def find_unit_error(self, amount: int) -> str | None:
        """Explain why ``amount`` breaks the granularity, or None.

        Placement's rule: ``min_unit <= amount <= max_unit`` and a multiple
        of ``step_size``. And whoever leaves, there are never more than the
        total.
        """
        if amount < self.min_unit:
            return f'at least {self.min_unit} must be requested'
        if amount > self.max_unit:
            return (
                f'one server can request at most {self.max_unit}; this '
                f'provider has {self.total} in total'
            )
        if amount > self.total * self.allocation_ratio:
            return (
                f'this provider has {self.total} in total; request fewer '
                'units, or another host'
            )
        if amount % self.step_size:
            return f'the amount must be a multiple of {self.step_size}'
        return None

    def to_dict(self) -> dict[str, int | float]:
        """Return exactly the JSON that placement takes."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> 'Inventory':
        """Read placement's JSON; other keys are ignored.

        :raises InvalidResource: the total is missing, or a number is
            outside of placement's bounds
        """
        fields = {f.name for f in dataclasses.fields(cls)}
        known = {k: v for k, v in data.items() if k in fields}
        return cls(**{'total': None, **known})
