# SPDX-License-Identifier: Apache-2.0

"""A reservation, as one pass sees it that looks at its servers."""

from collections.abc import Mapping
import dataclasses
import functools

from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A reservation, as a pass sees it.

    :ivar held: its slots
    :ivar is_steady: whether the clock is trusted
    """

    one: progress.Unfinished
    held: servers.PlannedServers
    now: int
    is_steady: bool

    @property
    def key(self) -> str:
        return self.one.key

    @property
    def has_started(self) -> bool:
        return self.one.during.start <= self.now

    @functools.cached_property
    def own(self) -> Mapping[str, planned_server.PlannedServer]:
        """Server of Nova -> its slot."""
        return {one.consumer: one for one in self.held if one.consumer}
