# SPDX-License-Identifier: Apache-2.0

"""How well a server that ends fills the time until something is promised."""

from collections.abc import Iterable, Mapping
from typing import Any

from oslo_utils import timeutils

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import spare as spare_mod
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler.reservation import commitments
from nova_ext_resources.scheduler.reservation import free_capacity
from nova_ext_resources.scheduler import scores


class BackfillWeight:
    """Answers for one server of a request.

    It must not hold Nova's request, nor what is known of it: it is kept as
    long as that lives, and what placement said with it.

    :param trackers: all that are installed, by name
    :param end: when the server ends, in seconds since the epoch
    """

    def __init__(
        self,
        followed: commitments.Followed,
        ongoing: request_context.OngoingRequest,
        trackers: Mapping[str, host_view.StateReader],
        end: int,
    ) -> None:
        self._followed = followed
        self._free = free_capacity.Free(
            ongoing.summaries, ongoing.consumed, trackers
        )
        self._end = end

    def score(self, hosts: Iterable[Any]) -> list[float]:
        """Score hosts, by the candidates that Nova would claim."""
        now = int(timeutils.utcnow_ts())
        with self._followed.lock:
            spare = spare_mod.Spare(
                self._followed.promises,
                self._free.find,
                now=now,
                end=self._end,
                find_capacity=self._free.find_capacity,
            )
            return [self._score(one, spare) for one in hosts]

    def _score(self, host_state: Any, spare: spare_mod.Spare) -> float:
        candidates = host_state.allocation_candidates
        if not candidates:
            return 0.0
        self._free.host_state = host_state
        begin = spare.find_begin(candidates[0]['allocations'])
        return scores.score_gap(spare.now, self._end, begin)
