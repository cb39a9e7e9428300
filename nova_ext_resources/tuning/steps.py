# SPDX-License-Identifier: Apache-2.0

"""Steps: which units go from one server to another. Values."""

from collections.abc import Iterable, Mapping
import dataclasses
import enum

from nova_ext_resources.objects import tunable_units
from nova_ext_resources.tuning import pressure


class StepKind(enum.StrEnum):
    """Why something is moved."""

    WANTED = 'wanted'
    UNDONE = 'undone'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnitPool:
    """The rules of one resource class of one domain.

    :ivar capacity: units of all servers together; None: not known, so that
        units only go from one server to another
    :ivar step: the units in which the hardware counts
    :ivar max_step: the most units that one server gains or loses at once
    :ivar is_tried: whether a step is a trial, because nothing shows
        beforehand what the giver loses
    :ivar even: server -> what it has with the even division, without tuning
    """

    capacity: int | None = None
    step: int = 1
    max_step: int = 1
    is_tried: bool = True
    even: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnitMove:
    """One step: units of one pool from one server to another.

    :ivar taker: server that gets the units; None: they become free
    :ivar giver: server that has the units; None: they are free
    :ivar reason: a sentence
    :ivar pressures: server -> its mean pressure before
    """

    rp_key: str
    resource_class: str
    units: int
    taker: str | None
    giver: str | None
    kind: StepKind
    reason: str
    pressures: Mapping[str, float]

    @property
    def pool(self) -> pressure.PoolKey:
        return self.rp_key, self.resource_class

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(one for one in (self.taker, self.giver) if one)

    def find_gain(self, consumer_uuid: str) -> int:
        """Return by how much the amount of a server grows."""
        if consumer_uuid == self.taker:
            return self.units
        return -self.units if consumer_uuid == self.giver else 0


def apply_move(
    tunables: Iterable[tunable_units.Tunable], move: UnitMove
) -> tuple[tunable_units.Tunable, ...]:
    """Return the tunables of the pool as they are after the step."""
    return tuple(
        dataclasses.replace(
            one, amount=one.amount + move.find_gain(one.consumer_uuid)
        )
        for one in tunables
        if (one.rp_key, one.resource_class) == move.pool
    )
