# SPDX-License-Identifier: Apache-2.0

"""What the hypervisor reports of a server that runs."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """One run of a server, from its start to its end.

    :ivar name: by which the hypervisor knows it, such as
        ``instance-0000002a``
    :ivar number: of this run; the next start has another
    """

    name: str
    number: int
