# SPDX-License-Identifier: Apache-2.0

"""What the hypervisor reports of a server that runs."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """One run of a server, from its start to its end.

    :ivar name: by which the hypervisor knows it, such as
        ``instance-0000002a``
    :ivar number: of this run; the next start has another
    :ivar pci_functions: addresses of the PCI functions of the host that it
        has now; empty where no enforcer hands any to guests
    """

    name: str
    number: int
    # They change while it runs.
    pci_functions: frozenset[str] = dataclasses.field(
        default=frozenset(), compare=False
    )
