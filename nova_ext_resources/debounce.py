# SPDX-License-Identifier: Apache-2.0

"""What has been there for long enough to be believed.

One look may be wrong: what it sees may be on its way, or gone by now.
"""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from nova_ext_resources import clocks

K = TypeVar('K')
V = TypeVar('V')


class _Seen(NamedTuple, Generic[V]):
    """What several looks in a row have seen.

    :ivar looks: how many
    :ivar first: when the first of them was, in monotonic seconds
    :ivar last: when the last one was
    """

    value: V
    looks: int
    first: float
    last: float


class Debounce(Generic[K, V]):
    """Remembers what each look sees, and returns what lasts.

    What is not seen is forgotten, and what has changed begins anew. Used by
    one thread at a time.

    :param confirmations: looks in a row that have to see the same
    :param age: seconds from the first of these looks to the last
    """

    def __init__(
        self,
        *,
        confirmations: int = 1,
        age: float = 0.0,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self._confirmations = confirmations
        self._age = age
        self._clock = clock
        self._seen: dict[K, _Seen[V]] = {}

    def observe(
        self,
        found: Mapping[K, V],
        is_unknown: Callable[[K, V], bool] = lambda _key, _value: False,
    ) -> dict[K, V]:
        """Take a look; return all that lasts.

        :param found: all that is there now
        :param is_unknown: returns whether this look says nothing of something
            that was seen before: it stays as it was
        """
        now = self._clock.monotonic()
        kept = {
            key: one
            for key, one in self._seen.items()
            if is_unknown(key, one.value)
        }
        self._seen = kept | {
            key: self._see(key, value, now) for key, value in found.items()
        }
        return {
            key: one.value
            for key, one in self._seen.items()
            if one.looks >= self._confirmations
            and one.last - one.first >= self._age
        }

    def _see(self, key: K, value: V, now: float) -> _Seen[V]:
        former = self._seen.get(key)
        if former is None or former.value != value:
            return _Seen(value=value, looks=1, first=now, last=now)
        return former._replace(looks=former.looks + 1, last=now)
