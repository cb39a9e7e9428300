# SPDX-License-Identifier: Apache-2.0

"""What has the units of a resource that servers cannot have.

For people alone: nothing is decided by it. So it is no part of the states that
schedulers read for each host and request; it is published beside who holds
which units (``holders``).
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """What is known of the reserved units of one class of one provider.

    Masks of ways where servers get certain ways of a cache; else amounts.
    It is not known what has a reserved unit that is in none of them. Ways that
    are free, or a server's, may be in them and do not count.

    A way may be in several: what the host keeps, a group of other software
    may fill too.

    :ivar host: what the host keeps for itself, or fills by I/O devices
    :ivar other: what other software has
    :ivar pools: what belongs to pools, which servers request by other
        resource classes, whether or not a server uses it
    """

    host: int = 0
    other: int = 0
    pools: int = 0
