# SPDX-License-Identifier: Apache-2.0

"""What Nova does with a server, as seen by one host."""

import enum


class Operation(enum.StrEnum):
    """The reason for a claim, for applying it or for releasing it.

    ``..._IN``: the server comes to this host. ``..._OUT``: it leaves.
    ``REVERT``: a move is undone, by its user or because it failed.

    ``BUILD_FAILED``: a boot, which Nova may try on another host.
    ``REBUILD``: from another image, on the same host.
    ``RESTART``: a new process for the same guest: start, reboot, resume,
    unrescue, start of the host.
    """

    BOOT = 'boot'
    BUILD_FAILED = 'build failed'
    CONFIRM = 'confirm'
    DELETE = 'delete'
    EVACUATE_IN = 'evacuate in'
    EVACUATE_OUT = 'evacuate out'
    MOVE_IN = 'move in'
    MOVE_OUT = 'move out'
    REBUILD = 'rebuild'
    RESTART = 'restart'
    REVERT_IN = 'revert in'
    REVERT_OUT = 'revert out'
    SHELVE_OFFLOAD = 'shelve offload'
    UNSHELVE = 'unshelve'

    @property
    def keeps_claim(self) -> bool:
        """Whether the server keeps its claim while it has no guest.

        Nova destroys the guest in between, and passes allocations that may
        be missing: it deletes them when a rebuild fails. For a move, the
        server has claimed before its guest comes, and Nova leaves it on the
        host when the guest fails.
        """
        return self in _KEPT


_KEPT = frozenset(
    {
        Operation.MOVE_IN,
        Operation.REBUILD,
        Operation.RESTART,
        Operation.REVERT_IN,
    }
)
