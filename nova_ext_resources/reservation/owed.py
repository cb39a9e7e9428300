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
    :ivar end: when it is removed, if it is known; ``FOREVER`` if not
    :ivar is_counted: whether it counts as promised still
    """

    consumer: str
    amount: int
    end: int
    is_counted: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """What is promised of a place while a server is there.

    :ivar amounts: (since when, amount) of slots that nobody has taken, and of
        those that count as promised still, in order of time
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
        missing = sum(
            max(one.amount - held.get(one.consumer, 0), 0)
            for one in self.taken
            if not one.is_counted
        )
        return missing + max(
            (
                amount - self._count_returned(since, held)
                for since, amount in self.amounts
            ),
            default=0,
        )

    def _count_returned(self, until: int, held: Mapping[str, int]) -> int:
        """Return what servers hold now and have given back by then."""
        return sum(
            min(one.amount, held.get(one.consumer, 0))
            for one in self.taken
            if one.end <= until
        )
