# SPDX-License-Identifier: Apache-2.0

"""Servers that wait for their reservation, shelved and on no host.

Where the scheduler does not know reservations, a server is created before, as
any other, and says by its metadata for which reservation it is. It is shelved
and offloaded, and unshelved on the host of its slot once it can have that.
"""

from collections.abc import Sequence
import enum

from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import server_demand

#: How often Nova is asked to unshelve a server.
MAX_TRIES = 10

#: Seconds after the first failure until it is asked again, twice as long each
#: time, and at most.
FIRST_PAUSE = 60
LONGEST_PAUSE = 3600


class Step(enum.Enum):
    """What is done with a server that has no slot.

    ``NONE``: Nova is busy with it, it waits, or it is none that can wait.
    ``SHELVE``: it is on a host, and is to wait.
    ``UNSHELVE``: it has waited, and may have a slot.
    """

    NONE = enum.auto()
    SHELVE = enum.auto()
    UNSHELVE = enum.auto()


def find_step(server: nova_server.NovaServer, *, has_started: bool) -> Step:
    """Return what is done with a server that has no slot.

    One that its owner has stopped, or that failed, is left alone.

    :param has_started: whether its reservation has
    """
    if server.task_state:
        return Step.NONE
    if is_offloaded(server):
        return Step.UNSHELVE if has_started else Step.NONE
    return Step.SHELVE if _can_wait(server) else Step.NONE


def can_be_shelved(server: nova_server.NovaServer) -> bool:
    """Return whether a server may be shelved, and then offloaded, to wait.

    To an administrator Nova shelves what is stopped or locked, too.
    """
    return _can_wait(server) and not server.is_locked


def _can_wait(server: nova_server.NovaServer) -> bool:
    return server.status in ('ACTIVE', 'SHELVED')


def is_offloaded(server: nova_server.NovaServer) -> bool:
    """Return whether a server is on no host, and Nova does nothing with it."""
    return server.status == 'SHELVED_OFFLOADED' and not server.task_state


def fits(
    demand: server_demand.Demand, slot: planned_server.PlannedServer
) -> bool:
    """Return whether a server needs no more of a class than its slot has."""
    amounts: dict[str, int] = {}
    for (_rp_uuid, name), amount in slot.allocations.items():
        amounts[name] = amounts.get(name, 0) + amount
    return all(
        amount <= amounts.get(name, 0)
        for name, amount in demand.requirement.resources.items()
    )


def find_next_try(failures: Sequence[int]) -> int | None:
    """Return when Nova is asked again to unshelve a server; None for never.

    :param failures: when it was in vain, in seconds since the epoch
    """
    if not failures:
        return 0
    if len(failures) >= MAX_TRIES:
        return None
    pause = FIRST_PAUSE << (len(failures) - 1)
    return max(failures) + min(pause, LONGEST_PAUSE)
