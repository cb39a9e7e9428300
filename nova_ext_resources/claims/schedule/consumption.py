# SPDX-License-Identifier: Apache-2.0

"""What servers of one request have taken from hosts so far.

Nova asks the filters again for every server of a request that creates
several, with the same stats and the same allocation candidates; of these it
claims only the first. Without a memory of what was claimed, the next server
is given the same units, and placement refuses the host although others of
its providers are free.
"""

import dataclasses
from typing import Any
import weakref

from nova_ext_resources.claims.schedule import candidates as candidates_mod
from nova_ext_resources.objects.documents import stats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A host as the last pass left it.

    :ivar text: what it had published; another text makes all this obsolete
    :ivar document: that, without what was taken since
    :ivar num_instances: Nova's own count, which it raises when it consumes
    :ivar candidates: those that were kept, the best one first
    """

    text: str | None
    document: stats.Document | None
    num_instances: int
    candidates: list[candidates_mod.Candidate]


class Consumption:
    """Keyed by Nova's host states, which live for one request."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[Any, _Seen] = (
            weakref.WeakKeyDictionary()
        )

    def read(
        self,
        host_state: Any,
        text: str | None,
        judge: candidates_mod.Judge,
    ) -> tuple[stats.Document | None, bool]:
        """Return the host's document, without what was taken.

        :returns: the document, and whether a server was put on the host
            since :meth:`remember`
        """
        seen = self._seen.get(host_state) if self._seen else None
        if seen is None or seen.text != text:
            return stats.decode(text), False
        if host_state.num_instances <= seen.num_instances:
            return seen.document, False
        claimed = _guess_claimed(seen, host_state.allocation_candidates)
        if seen.document is None or claimed is None:
            return seen.document, True
        return judge.take(seen.document, claimed), True

    def remember(
        self,
        host_state: Any,
        text: str | None,
        document: stats.Document | None,
    ) -> None:
        """Note what this pass has decided on."""
        self._seen[host_state] = _Seen(
            text=text,
            document=document,
            num_instances=host_state.num_instances,
            candidates=host_state.allocation_candidates,
        )


def _guess_claimed(
    seen: _Seen, now: list[candidates_mod.Candidate]
) -> candidates_mod.Candidate | None:
    # Filters that ran after this one, or have just run before it, may have
    # exchanged the list for a shorter one; its first is the better guess.
    return next(iter(now or seen.candidates), None)
