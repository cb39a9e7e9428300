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

"""Who may fill which ways of a cache domain. Pure.

Ways are exclusive when every other class of service leaves them out. So the
default group, in which everything runs that has no class of its own, gives up
the ways that are sold. It keeps the *host's own* ways at all times, which no
server gets.
"""

from collections.abc import Iterable
import dataclasses

from nova_ext_resources.objects import bitmask
from nova_ext_resources.resctrl import info as info_mod


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One cache domain, as all groups together leave it.

    :ivar default: ways of the default group
    :ivar sold: ways that groups of ours have for themselves
    :ivar foreign: ways that groups of other software may fill
    :ivar exclusive: those of ``foreign`` which the kernel lets nobody else
        have (group mode ``exclusive``)
    :ivar locked: ways that are pseudo-locked
    :ivar pools: ways that are kept for pools, used or not
    :ivar host_ways: how many ways the host keeps at least
    """

    cache: info_mod.CacheInfo
    default: int
    sold: int = 0
    foreign: int = 0
    exclusive: int = 0
    locked: int = 0
    pools: int = 0
    host_ways: int = 1

    @property
    def host(self) -> int:
        """The host's own ways.

        Those that the hardware fills too (I/O) are never exclusive, so they
        are the first; else they are the highest.
        """
        usable = self.cache.full & ~(
            self.sold | self.exclusive | self.locked | self.pools
        )
        runs = [bitmask.make_run(*one) for one in bitmask.list_runs(usable)]
        if not runs:
            return 0
        length = max(self.host_ways, self.cache.min_bits)
        run = max(runs, key=lambda one: self._rank(one, length))
        return _cut(run, run & self.cache.shareable, length)

    def _rank(self, run: int, length: int) -> tuple[bool, int, int]:
        return (
            run.bit_count() >= length,
            (run & self.cache.shareable).bit_count(),
            run,
        )

    @property
    def free(self) -> int:
        """Ways that can be sold."""
        return self.cache.full & ~(
            self.host
            | self.sold
            | self.foreign
            | self.locked
            | self.pools
            | self.cache.shareable
        )

    def allows(self, mask: int) -> bool:
        """Tell whether a server can have these ways for itself.

        Ways that the hardware fills too are not refused: who holds them
        got them from another backend, and loses nothing.
        """
        used = self.sold | self.foreign | self.exclusive | self.locked
        if mask & (used | ~self.cache.full):
            return False
        left = dataclasses.replace(self, sold=self.sold | mask).host
        return left.bit_count() >= max(self.host_ways, self.cache.min_bits)

    @property
    def wanted_default(self) -> int:
        """Ways that the default group shall have.

        What it had and what nobody else has; one run, with the host's own
        ways in it, where the hardware wants one.
        """
        usable = self.cache.full & ~(self.sold | self.exclusive | self.locked)
        mask = usable & (self.default | ~self.foreign) | self.host
        if self.cache.is_sparse:
            return mask
        return _find_run_of(mask, self.host)


def _find_run_of(mask: int, part: int) -> int:
    """Give the run of ``mask`` in which ``part`` lies."""
    for start, length in bitmask.list_runs(mask):
        run = bitmask.make_run(start, length)
        if run & part:
            return run
    return 0


def _cut(run: int, preferred: int, length: int) -> int:
    """Take ``length`` ways of a run around ``preferred``, downwards first."""
    mask = preferred or 1 << (run.bit_length() - 1)
    # The preferred ways may be two runs of their own.
    mask = bitmask.make_run(_lowest(mask), mask.bit_length() - _lowest(mask))
    while mask.bit_count() < length:
        wider = (mask >> 1 | mask) & run
        if wider == mask:
            wider = (mask << 1 | mask) & run
        if wider == mask:
            break
        mask = wider
    return mask


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def unite(masks: Iterable[int]) -> int:
    together = 0
    for mask in masks:
        together |= mask
    return together
