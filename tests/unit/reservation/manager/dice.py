# SPDX-License-Identifier: Apache-2.0

"""What is drawn by hypothesis."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from tests.unit.reservation.manager import worlds

_T = TypeVar('_T')

AMOUNTS = (4, 2, 6, 8, 1)

#: Seconds until something begins.
LATER = (700, 0, 100, 2000, 6000)

#: Seconds that something takes.
SECONDS = (8000, 2000, 400, 900, 8000)


class Dice:
    """Chooses; what comes first is the simplest.

    :ivar data: of the rule that is run
    """

    data: st.DataObject

    def choose(self, label: str, found: Sequence[_T]) -> _T:
        return self.data.draw(st.sampled_from(found), label)

    def find(self, label: str, found: Iterable[_T]) -> _T | None:
        """Choose one; None if there is none."""
        known = [*found]
        return self.choose(label, known) if known else None

    def choose_number(self, label: str, most: int) -> int:
        """Choose a number from 1 on."""
        return self.data.draw(st.integers(1, most), label)

    def choose_host(self) -> str:
        return self.choose('host', worlds.HOSTS)

    def choose_later(self) -> int:
        return self.choose('later', LATER)

    def choose_seconds(self) -> int:
        return self.choose('seconds', SECONDS)

    def choose_amount(self) -> int:
        return self.choose('amount', AMOUNTS)
