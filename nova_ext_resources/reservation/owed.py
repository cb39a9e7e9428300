# SPDX-License-Identifier: Apache-2.0

"""What must be left of a place beside what servers hold of it now.

Pure. Placement says who holds what at this moment, so that it is exact: a
server may have taken a slot and hold less, because it has failed, was deleted
or is not there yet, and what it holds is free when it is removed.
"""

from collections.abc import Mapping, Sequence
import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a server of Nova has taken of a place, with its slot.

    :ivar consumer: uuid of the server
    :ivar end: of the slot
    :ivar is_removed: whether the server is removed then
    :ivar counted_until: when it counts as promised no more; then only what
        the server does not hold is missing
    """

    consumer: str
    amount: int
    end: int
    is_removed: bool
    counted_until: int

    def count(self, time: int, held: Mapping[str, int]) -> int:
        """Return what is missing of it at a time.

        Less than nothing where more is there than now.
        """
        has = held.get(self.consumer, 0)
        if time < self.counted_until:
            return 0
        if time < self.end:
            return max(self.amount - has, 0)
        return -min(self.amount, has) if self.is_removed else 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """What is promised of a place while a server is there.

    :ivar amounts: (time, amount) of slots that nobody has taken, and of those
        that count as promised still: from now on, whenever the amount
        changes, or a slot that was taken counts no more
    :ivar taken: slots that servers have taken
    """

    amounts: Sequence[tuple[int, int]] = ()
    taken: Sequence[Taken] = ()

    def __bool__(self) -> bool:
        """Whether anything is promised, or taken."""
        return bool(self.taken) or any(one[1] for one in self.amounts)

    def count(self, held: Mapping[str, int]) -> int:
        """Return how much must be left.

        :param held: consumer -> what it holds of the place
        """
        # Slots that are taken have begun: less of them is missing later on,
        # but for those that count as promised now.
        return max(
            (
                amount + sum(one.count(since, held) for one in self.taken)
                for since, amount in self.amounts
            ),
            default=0,
        )
