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

"""Where the pools of a last-level cache lie. Pure.

They are told from the hardware and the options alone, so that they are where
they were after every restart: beside the ways of the host, as far from them
as can be. The ways between are those that servers have for themselves, and
the default group keeps what is free of these for as long as it is one run
with the host's.
"""

import dataclasses

from nova_ext_resources.objects import bitmask
from nova_ext_resources.resctrl import masks


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many ways of each last-level cache are for each pool."""

    burst: int = 0
    shared: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """The ways of each pool in one cache."""

    burst: int = 0
    shared: int = 0

    @property
    def together(self) -> int:
        return self.burst | self.shared

    def widen(self, sold: int) -> int:
        """Add what is kept from everybody else once some of it is sold.

        Burst ways that no server of the pool uses now are theirs all the
        same; without any such server everybody uses them.
        """
        return sold | self.burst if sold & self.burst else sold


def find_regions(plain: masks.Domain, sizes: Sizes) -> Regions:
    """Place the pools.

    :param plain: the cache as if nothing were sold
    :raises ValueError: they do not fit; says why
    """
    # What other software holds comes and goes.
    plain = dataclasses.replace(plain, exclusive=0, foreign=0, sold=0, pools=0)
    host = plain.host
    usable = plain.cache.full & ~(host | plain.cache.shareable | plain.locked)
    least = plain.cache.min_bits
    burst = _place(usable, sizes.burst, host, least, 'burst_ways')
    # Whose pool it is that is too large, only the deployer can tell.
    before = f' and of burst_ways = {sizes.burst}' if burst else ''
    shared = _place(
        usable & ~burst, sizes.shared, host, least, 'shared_ways', before
    )
    return Regions(burst=burst, shared=shared)


def _place(
    usable: int,
    size: int,
    host: int,
    min_bits: int,
    name: str,
    before: str = '',
) -> int:
    if not size:
        return 0
    if size < min_bits:
        raise ValueError(
            f'{name} is {size}, and this CPU gives nobody fewer than '
            f'{min_bits} ways'
        )
    runs = [run for run in bitmask.list_runs(usable) if run[1] >= size]
    if not runs:
        longest = max(
            (n for _start, n in bitmask.list_runs(usable)), default=0
        )
        raise ValueError(
            f'{name} is {size}, and {longest} ways in a row are left beside '
            f'those of the host, of I/O devices{before}'
        )
    if host > usable:
        return bitmask.make_run(runs[0][0], size)
    start, length = runs[-1]
    return bitmask.make_run(start + length - size, size)
