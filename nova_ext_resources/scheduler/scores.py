# SPDX-License-Identifier: Apache-2.0

"""How good a host is for a request, as one number.

Pure. For every resource class that a host publishes, the free share counts:
in favor of the host when the server asks for the class, so that servers spread
or pack; against the host when it does not, so that hosts with something scarce
are kept for servers that ask.

A server that asks for something is kept away from other resources only where
these are named as scarce. Otherwise the classes of service that come with its
cache ways, which are free where ways are free, would outweigh the ways.
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

from nova_ext_resources.conf import scheduler
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.reservation import interval


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """Which hosts one request prefers.

    :ivar asked: the resource classes that it asks for
    :ivar policies: resource class -> spread or pack
    :ivar scarce: classes whose hosts are kept for servers that ask
    """

    asked: frozenset[str]
    policies: Mapping[str, str]
    scarce: frozenset[str]

    @property
    def is_indifferent(self) -> bool:
        """Whether every host is as good as any other."""
        return not self.asked and not self.scarce

    def score(self, totals: Mapping[str, Any]) -> float | None:
        """Score a host.

        :param totals: see ``objects.documents.stats.decode_totals``
        :returns: None when the host publishes nothing that is asked for
        """
        asked = []
        wasted = 0.0
        is_any = scheduler.ANY in self.scarce and not self.asked
        for name, total in totals.items():
            share = _find_share(total)
            if share is None:
                continue
            if name in self.asked:
                asked.append(share * self._get_sign(name))
            elif is_any or name in self.scarce:
                wasted += share
        if asked:
            return sum(asked) / len(asked) - wasted
        return None if self.asked else -wasted

    def _get_sign(self, name: str) -> int:
        others = self.policies.get(scheduler.ANY, scheduler.SPREAD)
        policy = self.policies.get(name, others)
        return -1 if policy == scheduler.PACK else 1


def score_gap(now: int, end: int, begin: int) -> float:
    """Score a host for a server that ends before something is promised there.

    What such a server can use, one without an end cannot. The less of it is
    left unused, the better; a host that has nothing to give back in time is
    kept for those that stay.

    :param end: of the server; all times are in seconds since the epoch
    :param begin: when it would be in the way; ``FOREVER`` if it never is
    :returns: the share of the time until then that it uses, 0 to 1
    """
    if begin >= interval.FOREVER or end <= now:
        return 0.0
    return (end - now) / (max(begin, end) - now)


def fill_gaps(scores: Iterable[float | None]) -> list[float]:
    """Give hosts without a score the mean of the others."""
    given = list(scores)
    known = [score for score in given if score is not None]
    middle = sum(known) / len(known) if known else 0.0
    return [middle if score is None else score for score in given]


def _find_share(total: Any) -> float | None:
    """Return the free share, 0 to 1; None when that makes no sense."""
    try:
        free, used = total
        # Of a class that the host takes none of now, both may be 0.
        share: float = free / (free + used or 1)
    except foreign_data.UNREADABLE:
        return None
    # A value of one host must not spoil the comparison of the others. This
    # is false for NaN too.
    return share if 0 <= share <= 1 else None
