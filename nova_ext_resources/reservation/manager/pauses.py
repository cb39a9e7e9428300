# SPDX-License-Identifier: Apache-2.0

"""Pauses that grow, for what is in vain again and again."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Pause:
    """A pause after something was done.

    :ivar state: in which it was in vain
    :ivar number: how often it was done before, in that state
    :ivar words: what is missing
    """

    state: object
    number: int
    begin: int
    end: int
    words: str


class Pauses:
    """Knows for each key until when it waits.

    All times are in seconds since the epoch. A clock that is set back ends a
    pause.

    :param first: seconds of the first pause; each is twice as long as the one
        before
    :param longest: seconds at most
    """

    def __init__(self, first: int, longest: int) -> None:
        self._first = first
        self._longest = longest
        self._pauses: dict[str, _Pause] = {}

    def forget(self, now: int) -> None:
        """Forget what nobody has done again when it could."""
        self._pauses = {
            key: one
            for key, one in self._pauses.items()
            if now < one.end + self._longest
        }

    def find(self, key: str, state: object, now: int) -> str | None:
        """Return what is missing while it waits; None if it does not.

        :param state: another one than before ends the pause
        """
        one = self._pauses.get(key)
        if one is None or one.state != state:
            return None
        return one.words if one.begin <= now < one.end else None

    def begin(
        self, key: str, state: object, now: int, words: str = ''
    ) -> None:
        """Begin a pause, longer than the one before in the same state."""
        before = self._pauses.get(key)
        number = 0
        if before is not None and before.state == state:
            number = before.number + 1
        seconds = min(self._first << min(number, 20), self._longest)
        self._pauses[key] = _Pause(
            state=state,
            number=number,
            begin=now,
            end=now + seconds,
            words=words,
        )
