# SPDX-License-Identifier: Apache-2.0

"""Units of a running server that tuning may move."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tunable:
    """What one server has of one resource class of one provider now.

    All amounts are in the unit of the resource class.

    :ivar rp_key: the provider's key on this host, such as ``L3_0``
    :ivar minimum: units allocated to the server; they are never taken away
    :ivar maximum: the most units it may have while some are free
    :ivar amount: units that it has now
    :ivar step: amounts change by a multiple of it; above 1 where the hardware
        counts in more than one unit
    """

    consumer_uuid: str
    rp_key: str
    resource_class: str
    minimum: int
    maximum: int
    amount: int
    step: int = 1
