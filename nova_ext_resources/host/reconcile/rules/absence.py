# SPDX-License-Identifier: Apache-2.0

"""For how long entries have been without a server, as far as is proven. Pure.

All times are monotonic seconds, which no step of the clock changes.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import datetime

from nova_ext_resources.objects import assignment

#: So many entries may be missing at once, however few a host has.
_FEW = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """When Nova and the hypervisor were asked, and had answered.

    :ivar began: before the first of the questions
    :ivar ended: after the last of the answers
    :ivar answered_at: the latter for an operator; aware, UTC
    """

    began: float
    ended: float
    answered_at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AbsentServer:
    """An entry whose server neither Nova nor the hypervisor has on the host.

    :ivar first: the first of the answers in a row without it
    :ivar last: the last one
    """

    entry: assignment.Entry
    first: Asked
    last: Asked

    @property
    def age(self) -> float:
        """Seconds for which it has been missing, at the least.

        The first answer may be as old as its last part, and the last one as
        old as its first.
        """
        return max(0.0, self.last.began - self.first.ended)


def follow(
    former: Mapping[str, AbsentServer],
    entries: Iterable[assignment.Entry],
    asked: Asked,
    max_gap: float,
) -> dict[str, AbsentServer]:
    """Return what is missing now, by consumer; each keeps its age or begins.

    :param former: what was missing in the answer before
    :param entries: those that are missing in this one
    :param max_gap: seconds between two answers, after which nothing is known
        of the time between them
    """
    return {
        one.consumer_uuid: AbsentServer(
            entry=one,
            first=_find_first(
                former.get(one.consumer_uuid), one, asked, max_gap
            ),
            last=asked,
        )
        for one in entries
    }


def _find_first(
    former: AbsentServer | None,
    entry: assignment.Entry,
    asked: Asked,
    max_gap: float,
) -> Asked:
    # What a server has claimed anew is another matter.
    if former is None or former.entry != entry:
        return asked
    is_next = asked.began - former.last.ended <= max_gap
    return former.first if is_next else asked


def list_orphans(
    missing: Mapping[str, AbsentServer], age: float
) -> tuple[AbsentServer, ...]:
    """Return those that have been missing for longer, the oldest first.

    :param age: seconds
    """
    return tuple(
        sorted(
            (one for one in missing.values() if one.age > age),
            key=lambda one: (one.first.ended, one.entry.consumer_uuid),
        )
    )


def find_least_age(pause: float, long_call_timeout: float) -> float:
    """Return the seconds for which anything may be missing that is not gone.

    Nova's records may be behind for as long as one of its calls takes, such
    as in a live migration. And a server has to be missing from more answers
    than the two that raise the first alarm.

    :param pause: seconds from one answer to the next
    """
    return max(2 * pause, long_call_timeout)


def is_suspicious(missing: int, total: int) -> bool:
    """Return whether the answer is likely to be wrong, not the entries.

    A nova-compute with the database of another cell, or with an empty one,
    misses all of its servers at once. Their guests say nothing of that.

    :param missing: how many entries are of servers that Nova lacks, whatever
        their age, and whether they have a guest or not
    :param total: how many entries there are
    """
    return missing > _FEW and 2 * missing > total
