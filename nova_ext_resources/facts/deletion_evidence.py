# SPDX-License-Identifier: Apache-2.0

"""What Nova and the hypervisor say of a server that a host may have lost."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The answer to a question about the server of one entry.

    :ivar words: what was found, as part of a sentence for an operator
    :ivar is_proof: whether it proves that nothing of the server is on the
        host, and that nothing of it is on its way there
    :ivar is_restart_safe: whether an operator may have the next start of
        nova-compute release the entry, if the server is gone
    """

    words: str
    is_proof: bool
    is_restart_safe: bool = True
