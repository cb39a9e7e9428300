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

"""How good a host is for a request, as one number.

Pure. Of every resource class that a host publishes the share that is free
counts: for the server that asks, so that servers spread or pack; against
the server that does not ask, so that hosts with something scarce are kept
for those that do.
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.conf import scheduler as options
from nova_ext_resources.objects import stats
from nova_ext_resources.plugins import base

#: Resource class -> share of all its units of the host that is free, 0 to 1.
Shares: TypeAlias = Mapping[str, float]

#: Of a state that no tracker here understands.
_UNKNOWN = (0, 0)

_GARBLED = (AttributeError, IndexError, KeyError, TypeError, ValueError)

#: States repeat from host to host; this many different ones are kept.
_MAX_KEPT = 1 << 16


class ShareReader:
    """Reads the shares from documents."""

    def __init__(self, trackers: Mapping[str, base.Tracker]) -> None:
        self._trackers = trackers
        self._counts: dict[tuple[object, ...], tuple[int, int]] = {}

    def read(self, document: stats.Document) -> Shares:
        """Give the shares; what is garbled or unknown is left out."""
        sums: dict[str, tuple[int, int]] = {}
        for records in document.values():
            try:
                for name, record in records.items():
                    free, used = self._count(record['t'], record['s'])
                    if name in sums:
                        free += sums[name][0]
                        used += sums[name][1]
                    sums[name] = free, used
            except _GARBLED:
                continue
        return {
            name: free / (free + used)
            for name, (free, used) in sums.items()
            if free + used > 0
        }

    def _count(
        self, tracker: str, state: Mapping[str, str | int]
    ) -> tuple[int, int]:
        key = (tracker, *state.items())
        try:
            return self._counts[key]
        except KeyError:
            if len(self._counts) >= _MAX_KEPT:
                self._counts.clear()
            counts = self._counts[key] = self._compute(tracker, state)
            return counts

    def _compute(
        self, tracker: str, state: Mapping[str, str | int]
    ) -> tuple[int, int]:
        if tracker not in self._trackers:
            return _UNKNOWN
        try:
            made = self._trackers[tracker].from_dict(state)
        except _GARBLED:
            return _UNKNOWN
        return made.free, made.used


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """What one request prefers.

    :ivar asked: the resource classes that it asks for
    :ivar policies: resource class -> spread or pack
    :ivar scarce: classes whose hosts are kept for those who ask
    """

    asked: frozenset[str]
    policies: Mapping[str, str]
    scarce: frozenset[str]

    @property
    def is_indifferent(self) -> bool:
        """Whether every host is as good as any other."""
        return not self.asked and not self.scarce

    def score(self, shares: Shares) -> float | None:
        """Give the score; None when the host says nothing of what counts."""
        asked = [
            self._get_sign(name) * shares[name]
            for name in self.asked
            if name in shares
        ]
        if self.asked and not asked:
            return None
        wanted = sum(asked) / len(asked) if asked else 0.0
        return wanted - sum(self._list_wasted(shares))

    def _get_sign(self, name: str) -> int:
        any_policy = self.policies.get(options.ANY, options.SPREAD)
        policy = self.policies.get(name, any_policy)
        return -1 if policy == options.PACK else 1

    def _list_wasted(self, shares: Shares) -> Iterable[float]:
        is_any = options.ANY in self.scarce
        return (
            share
            for name, share in shares.items()
            if name not in self.asked and (is_any or name in self.scarce)
        )


def fill_gaps(scores: Iterable[float | None]) -> list[float]:
    """Put hosts that say nothing in the middle of those that do."""
    given = list(scores)
    known = [score for score in given if score is not None]
    middle = sum(known) / len(known) if known else 0.0
    return [middle if score is None else score for score in given]
