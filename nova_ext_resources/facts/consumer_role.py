# SPDX-License-Identifier: Apache-2.0

"""What a consumer is to a host, and whether Nova goes on with a migration."""

import enum


class Role(enum.StrEnum):
    """Why a consumer may hold anything of a host, or no longer may.

    ``SERVER``: a server that Nova or the hypervisor has on the host.
    ``SOURCE``: a move in progress from the host. Its consumer is the
        migration; or the server, if the host could not keep its entry for
        the migration.
    ``DESTINATION``: a server that a move in progress brings to the host.
    ``ARRIVED``: a server that a live migration has brought to the host, which
        was not told.
    ``RETURNED``: a move that has ended, and whose server is on the host
        again: it gets back what the move has kept.
    ``LEFT``: a move that has ended, or a server that is deleted or on no
        host, or that neither Nova's cell nor placement has here; nothing of
        it is on the host.
    ``IN_DOUBT``: a move with which Nova does not go on. Whether the server
        gets back what it has kept, cannot be told.
    ``ELSEWHERE``: a server whose guest is on this host, while Nova has it on
        another or on none, and no move in progress explains that.
    """

    SERVER = 'server'
    SOURCE = 'source'
    DESTINATION = 'destination'
    ARRIVED = 'arrived'
    RETURNED = 'returned'
    LEFT = 'left'
    IN_DOUBT = 'in_doubt'
    ELSEWHERE = 'elsewhere'


class MigrationPhase(enum.StrEnum):
    """Whether Nova goes on with a migration.

    ``OPEN``: it does, or may.
    ``WAITING``: when the user has confirmed or reverted a resize.
    ``ABANDONED``: not on the way to the next host: a process of Nova was
        killed, or the state of the server was set by hand.
    ``STUCK``: nor after that, in a confirmation or a revert.
    ``EVACUATED``: when nova-compute of the former host starts again.
    ``ENDED``: never.
    """

    OPEN = 'open'
    WAITING = 'waiting'
    ABANDONED = 'abandoned'
    STUCK = 'stuck'
    EVACUATED = 'evacuated'
    ENDED = 'ended'


#: Types of migrations of a server whose guest is off meanwhile, and whose
#: former host keeps what it had.
COLD = ('migration', 'resize')

LIVE = 'live-migration'

EVACUATION = 'evacuation'

#: Statuses of migrations that may hold something on the host that they leave,
#: in the order of life. Before the last three, Nova has given the server a
#: task, and takes that away with the last status.
OPEN_STATUSES = (
    *('accepted', 'queued', 'pre-migrating', 'preparing', 'migrating'),
    *('running', 'running (post-copy)', 'post-migrating'),
    *('finished', 'confirming', 'reverting'),
)

#: As in Nova's ``migration_get_in_progress_by_host_and_node``.
_ENDED = (
    *('cancelled', 'completed', 'confirmed', 'done', 'error', 'failed'),
    'reverted',
)

#: Status -> the phase when the server has no task.
_WITHOUT_TASK = {
    **dict.fromkeys(OPEN_STATUSES, MigrationPhase.ABANDONED),
    **dict.fromkeys(OPEN_STATUSES[-3:], MigrationPhase.STUCK),
    **dict.fromkeys(_ENDED, MigrationPhase.ENDED),
}


def find_phase(
    kind: str,
    status: str,
    *,
    has_task: bool = False,
    is_resized: bool = False,
    is_old: bool = True,
) -> MigrationPhase:
    """Return the phase of a migration; ``OPEN`` for an unknown status.

    :param kind: its type
    :param has_task: whether Nova does anything with its server
    :param is_resized: whether that waits for the user
    :param is_old: whether a confirmation has lasted too long, which gives the
        server no task
    """
    if (kind, status) == (EVACUATION, 'done'):
        return MigrationPhase.EVACUATED
    phase = _WITHOUT_TASK.get(status, MigrationPhase.OPEN)
    is_young = status == 'confirming' and not is_old
    if phase is not MigrationPhase.ENDED and (has_task or is_young):
        return MigrationPhase.OPEN
    return (
        MigrationPhase.WAITING
        if status == 'finished' and is_resized
        else phase
    )
