# SPDX-License-Identifier: Apache-2.0

"""A server of Nova, and how it leaves its host.

Nova does one thing with a server after the other, and says in ``task_state``
which one. Whoever asks for the next step looks first.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import enum

from nova_ext_resources.reservation import flavor as flavor_mod

#: Hint, or metadata, of a server: the name of the reservation that it is for.
RESERVATION = 'nova_ext:reservation'

#: Status of a server that is on no host until it is unshelved.
OFFLOADED = 'SHELVED_OFFLOADED'


class Action(enum.Enum):
    """What Nova is asked to do with a server; the names are its own."""

    UNRESCUE = 'unrescue'
    CONFIRM = 'confirmResize'
    SHELVE = 'shelve'
    OFFLOAD = 'shelveOffload'
    DELETE = 'delete'
    FORCE_DELETE = 'forceDelete'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NovaServer:
    """A server as Nova shows it.

    :ivar status: such as ``ACTIVE``
    :ivar task_state: what Nova does with it now, '' for nothing
    :ivar is_locked: whether somebody has locked it against changes
    :ivar host: that it is on, '' for none
    :ivar created_at: seconds since the epoch
    :ivar project: id of the project that has it
    :ivar flavor: as it was when the server was created or resized
    :ivar metadata: which its owner can change
    :ivar hints: scheduler hints that it was created with, which nobody can
        change; none where Nova was not asked for them
    """

    uuid: str
    name: str = ''
    status: str = 'ACTIVE'
    task_state: str = ''
    is_locked: bool = False
    host: str = ''
    created_at: int = 0
    project: str = ''
    flavor: flavor_mod.Flavor = dataclasses.field(
        default_factory=flavor_mod.Flavor
    )
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hints: Mapping[str, Sequence[str]] = dataclasses.field(
        default_factory=dict
    )


def find_reservation(
    server: NovaServer, *, has_metadata: bool = False
) -> str | None:
    """Return the name of the reservation that a server was created for.

    None if it names none, or what cannot be a name: its owner has written it.

    :param has_metadata: whether its metadata say so where no hint does
    """
    values = server.hints.get(RESERVATION, ())
    if len(values) == 1:
        name = values[0]
    elif has_metadata:
        name = server.metadata.get(RESERVATION, '')
    else:
        return None
    # JSON can have what is no text, and what no database takes.
    is_text = name == name.encode(errors='replace').decode()
    return name if name and is_text and '\0' not in name else None


#: How the ``task_state`` begins of what is shelved, offloaded or deleted.
_LEAVING = ('shelving', 'powering-off', 'deleting', 'soft-deleting')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next step of a server that is to leave its host.

    :ivar action: what to ask for; None where there is nothing to ask now
    :ivar missing: what it waits for, in words; '' if it has left
    """

    action: Action | None = None
    missing: str = ''


#: Status -> what leads to a server that is shelved and offloaded. Its owner
#: could keep it where it is otherwise, by a rescue or a resize.
_TO_SHELVE = {
    **dict.fromkeys(
        ('ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED'), Action.SHELVE
    ),
    'RESCUE': Action.UNRESCUE,
    'VERIFY_RESIZE': Action.CONFIRM,
    'SHELVED': Action.OFFLOAD,
}


def find_step(server: NovaServer | None, *, is_deleted: bool) -> Step:
    """Return the next step.

    :param server: None if there is none
    :param is_deleted: whether it is deleted, or else shelved and offloaded
    """
    if server is None or server.status == 'DELETED':
        return Step()
    if server.status == 'SHELVED_OFFLOADED' and not is_deleted:
        return Step()
    if server.task_state:
        return Step(missing=f'server {server.uuid} is {server.task_state}')
    action = _choose(server.status, is_deleted=is_deleted)
    if action is None:
        return Step(
            missing=f'server {server.uuid} cannot be shelved while its status '
            f'is {server.status}'
        )
    return Step(
        action=action, missing=f'{action.value} of server {server.uuid}'
    )


def can_leave(server: NovaServer, *, is_deleted: bool) -> bool:
    """Return whether a server leaves its host, or there is a way to have it.

    :param is_deleted: as of :func:`find_step`
    """
    step = find_step(server, is_deleted=is_deleted)
    return bool(step.action or server.task_state or not step.missing)


def is_leaving(server: NovaServer) -> bool:
    """Return whether Nova is having a server leave its host now.

    The image of a large one may take long.
    """
    return server.task_state.startswith(_LEAVING)


def holds_nothing(server: NovaServer | None) -> bool:
    """Return whether Nova agrees that a server holds no resources.

    One that is being moved or built holds nothing for a moment, and does
    again.

    :param server: None if there is none
    """
    if server is None or server.status in ('DELETED', 'SHELVED_OFFLOADED'):
        return True
    return server.status == 'ERROR' and not server.host


def _choose(status: str, *, is_deleted: bool) -> Action | None:
    if is_deleted:
        # Nova may keep what is deleted, with all its resources, for a while.
        is_kept = status == 'SOFT_DELETED'
        return Action.FORCE_DELETE if is_kept else Action.DELETE
    return _TO_SHELVE.get(status)
