# SPDX-License-Identifier: Apache-2.0

"""What a running server has of a resource that may be moved meanwhile."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tunable:
    """What one server has of one resource class of one provider now.

    All amounts are in the unit of the resource class.

    :ivar rp_key: the provider's key on this host, such as ``L3_0``
    :ivar minimum: what was sold; it is never taken away
    :ivar maximum: what it may have while it is free
    :ivar amount: what it has
    :ivar step: what may be moved, or a multiple of it; coarser than what is
        sold where the host counts in more than one unit
    """

    consumer_uuid: str
    rp_key: str
    resource_class: str
    minimum: int
    maximum: int
    amount: int
    step: int = 1
