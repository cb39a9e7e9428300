# SPDX-License-Identifier: Apache-2.0

"""What Nova and repair do, as programs of small instructions.

A thread of Nova for each server and one of repair for each host run them, one
instruction at a time and in any order. What a host does comes from the entry
table; the rest is what was read in Nova 34 and tried with it, see the page
"Moves" of the contributors.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import enum
from typing import NamedTuple

from nova_ext_resources.host.claims import entry_table
from tests.explore import runs
from tests.explore import world

Event = entry_table.EntryEvent


class Where(enum.Enum):
    """Where an instruction is carried out.

    ``PLACE``: on the host to which the server goes, or on which it is.
    ``SOURCE``: on the host that it leaves.
    ``CONDUCTOR``: on none.
    """

    PLACE = 'place'
    SOURCE = 'source'
    CONDUCTOR = 'conductor'


class Context(NamedTuple):
    """The thread that runs a program.

    :ivar thread: where its fields begin
    :ivar server: whose program it is
    :ivar consumer: the one that repair looks after, else the server's own
    :ivar place: number of the host, see :class:`Where`
    :ivar source: likewise
    """

    thread: int
    server: int
    consumer: int
    place: int
    source: int


Effect = Callable[[world.World, Context], None]
Condition = Callable[[world.World, Context], bool]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction of a program.

    :ivar event: what happens to an entry: an event of the table, or
        ``hold``, ``orphan``, ``rewrite``, ``reinstate``
    :ivar of: whose entry it is
    :ivar call: the method of the host that it belongs to
    :ivar is_optional: whether to go on where nothing is to be done
    :ivar is_joined: whether the locks of the former one are still held
    :ivar fail: where to go on after a failure; None: it cannot fail. A label,
        or how many instructions further
    :ivar keeps: whether to note the entry as it is before
    :ivar effect: what becomes of Nova's records
    :ivar condition: of a jump
    :ivar target: of a jump
    :ivar is_end: whether the program ends
    """

    where: Where = Where.CONDUCTOR
    event: str = ''
    of: int = runs.OWN
    call: str = ''
    is_optional: bool = False
    is_joined: bool = False
    fail: str | int | None = None
    keeps: bool = False
    effect: Effect | None = None
    condition: Condition | None = None
    target: str | int = 0
    is_end: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """Instructions, with numbers in place of labels.

    :ivar killed: what Nova's records are when a host is killed in it
    :ivar is_start: whether repair leaves its claim alone
    """

    name: str
    instructions: tuple[Instruction, ...]
    killed: int = world.NONE
    is_start: bool = True


_Line = Instruction | str


def _make(
    name: str,
    *lines: _Line | Iterable[_Line],
    killed: int = world.NONE,
    is_start: bool = True,
) -> Program:
    """Return a program; a text among its lines labels the next one."""
    labels: dict[str, int] = {}
    made: list[Instruction] = []
    for line in lines:
        for one in [line] if isinstance(line, str | Instruction) else line:
            if isinstance(one, str):
                labels[one] = len(made)
            else:
                made.append(one)

    def find(target: str | int, position: int) -> int:
        if isinstance(target, str):
            return labels[target]
        return position + target

    return Program(
        name,
        tuple(
            dataclasses.replace(
                one,
                fail=None if one.fail is None else find(one.fail, number),
                target=find(one.target, number),
            )
            for number, one in enumerate(made)
        ),
        killed,
        is_start,
    )


# -- instructions ------------------------------------------------------------


def _do(event: str, call: str, **fields: object) -> Instruction:
    made = {'where': Where.PLACE, 'fail': 1, **fields}
    return Instruction(event=event, call=call, **made)  # type: ignore[arg-type]


def _release(
    call: str = 'release', *, fail: str = '', **fields: object
) -> tuple[Instruction, ...]:
    """Release an entry, if there is any."""
    return (
        _do(
            Event.RELEASE,
            call,
            is_optional=True,
            **{'fail': fail or 2, **fields},
        ),
        _do(
            Event.FINISH,
            call,
            is_optional=True,
            **{'fail': fail or 1, **fields, 'is_joined': True},
        ),
    )


def _claim(
    event: Event, *, fail: str, **fields: object
) -> tuple[Instruction, ...]:
    """Claim in place of what there is."""
    call = 'claim_move' if event is Event.CLAIM_MOVE else 'claim'
    return (
        *_release(call, fail=fail, **fields),
        _do(event, call, fail=fail, **{**fields, 'is_joined': True}),
    )


def _unpark(*, fail: str, **fields: object) -> tuple[Instruction, ...]:
    """Give back what a move has parked."""
    call = 'take_back'
    return (
        *_release(call, fail=fail, **fields),
        _do(
            Event.UNPARK,
            call,
            fail=fail,
            of=runs.MOVED,
            is_joined=True,
            **fields,
        ),
        _do(Event.APPLY, call, fail=fail, is_joined=True, **fields),
    )


def _nova(effect: Effect, where: Where = Where.CONDUCTOR) -> Instruction:
    return Instruction(where=where, effect=effect)


def _follow(fail: str, where: Where = Where.PLACE) -> Instruction:
    """Have placement follow a claim, or give the claim up."""
    return Instruction(where=where, effect=_settle, fail=fail, call='follow')


def _jump(target: str, condition: Condition | None = None) -> Instruction:
    return Instruction(condition=condition or _always, target=target)


def make_jump(position: int) -> Instruction:
    """Return what goes on at a position of a program that was made."""
    return Instruction(condition=_always, target=position)


_END = Instruction(is_end=True)

# -- conditions --------------------------------------------------------------


def _always(_state: world.World, _context: Context) -> bool:
    return True


def _has(field: int, of: int, where: Where = Where.PLACE) -> Condition:
    def has(state: world.World, context: Context) -> bool:
        return world.IS_HELD[state[_find_entry(context, field, of, where)]]

    return has


def _find_entry(
    context: Context, field: int, of: int, where: Where = Where.PLACE
) -> int:
    consumer = (context.server, world.MIGRATION, context.consumer)[of]
    host = context.place if where is Where.PLACE else context.source
    return host * world.HOST_SIZE + field + consumer


_holds = _has(world.MEMORY, runs.OWN)
_holds_at_source = _has(world.MEMORY, runs.OWN, Where.SOURCE)


def _is_parked(state: world.World, host: int) -> bool:
    code = state[host * world.HOST_SIZE + world.MEMORY + world.MIGRATION]
    return (
        world.IS_HELD[code]
        and world.PURPOSE_OF[code] is world.Purpose.MIGRATION_SOURCE
    )


def _is_parked_at_place(state: world.World, context: Context) -> bool:
    return context.server == 0 and _is_parked(state, context.place)


def _is_parked_at_source(state: world.World, context: Context) -> bool:
    return _is_parked(state, context.source)


def _moves_here(_state: world.World, context: Context) -> bool:
    return context.place == context.source


def _stays(_state: world.World, context: Context) -> bool:
    return context.server != 0


def _was_unapplied(state: world.World, context: Context) -> bool:
    code = state[context.thread + world.KEPT]
    return world.STATE_OF[code] is not world.State.APPLIED


def _has_entry(state: world.World, context: Context) -> bool:
    return bool(state[_find_entry(context, world.MEMORY, runs.TARGET)])


def is_starting(state: world.Cells, host: int, server: int) -> bool:
    """Return whether a start is under way, of which repair takes no claim."""
    thread = world.THREADS + server * world.THREAD_SIZE
    program = PROGRAMS[state[thread]]
    if not program.is_start:
        return False
    where = program.instructions[state[thread + world.POSITION]].where
    return find_host(state, thread, server, where) == host


def find_host(
    state: world.Cells, thread: int, server: int, where: Where
) -> int:
    """Return the host on which a thread of Nova is, see :class:`Where`."""
    if where is Where.PLACE:
        return state[thread + world.PLACE]
    is_leaving = where is Where.SOURCE and server == 0
    return state[world.MOVE + world.SOURCE] if is_leaving else world.NOWHERE


def _has_changed(state: world.World, context: Context) -> bool:
    """Return whether the entry is not as it was compared."""
    entry = state[_find_entry(context, world.MEMORY, runs.TARGET)]
    return entry != state[context.thread + world.KEPT] or is_starting(
        state, context.place, context.server
    )


def _has_own_changed(state: world.World, context: Context) -> bool:
    """Return whether this is so of the entry or of that of its server."""
    own = state[_find_entry(context, world.MEMORY, runs.OWN)]
    return own != state[context.thread + world.BEFORE] or _has_changed(
        state, context
    )


def _is_gone(state: world.World, context: Context) -> bool:
    """Return whether Nova has released the server here, or it has claimed."""
    gone = state[context.place * world.HOST_SIZE + world.GONE]
    return bool(gone & 1 << context.server) or _has_changed(state, context)


def _is_used(state: world.World, context: Context) -> bool:
    """Return whether Nova has used what was claimed for its server."""
    code = state[_find_entry(context, world.MEMORY, runs.OWN)]
    is_idle = not state[world.THREADS + context.server * world.THREAD_SIZE]
    return not is_idle or world.STATE_OF[code] is not world.State.CLAIMED


# -- what becomes of Nova's records, of placement and of guests ---------------


def _find(context: Context) -> int:
    return world.NOVA + context.server * world.SERVER_SIZE


def _settle(state: world.World, context: Context) -> None:
    """Give others what a claim has replaced, once the ledger has it."""
    for host in {context.place, context.source}:
        own = host * world.HOST_SIZE + context.server
        if state[own + world.MEMORY] == state[own + world.LEDGER]:
            state[own + world.FORMER] = 0


def _settle_written(state: world.World, context: Context) -> None:
    thread = world.THREADS + context.server * world.THREAD_SIZE
    follow = next(
        number
        for number, one in enumerate(RECLAIM.instructions)
        if one.call == 'follow'
    )
    # Of a claim that is not final, the former may come back.
    if PROGRAMS[state[thread]] is not RECLAIM or (
        state[thread + world.POSITION] > follow
    ):
        _settle(state, context)


def _allocate(state: world.World, context: Context) -> None:
    own = _find(context)
    state[own + world.HOST] = context.place
    state[own + world.PHASE] = world.ACTIVE
    state[own + world.ALLOCATED] = 1 << context.place
    _forget_former(state, context.server)


def _forget_former(state: world.World, consumer: int) -> None:
    """Forget what hosts remember of one with another uuid."""
    for host in world.HOSTS:
        for field in (world.RELEASED, world.GONE):
            state[host * world.HOST_SIZE + field] &= ~(1 << consumer)


def _forget_server(state: world.World, context: Context) -> None:
    own = _find(context)
    state[own + world.HOST] = state[own + world.GUEST] = world.NOWHERE
    state[own + world.PHASE] = state[own + world.ALLOCATED] = 0
    if context.server == 0 and state[world.MOVE + world.STATUS]:
        state[world.MOVE + world.STATUS] = world.FAILED
        state[world.MOVE + world.KEPT_ALLOCATED] = 0


def start_guest(state: world.World, context: Context) -> None:
    state[_find(context) + world.GUEST] = context.place


def _stop_guest(state: world.World, context: Context) -> None:
    state[_find(context) + world.GUEST] = world.NOWHERE


def _begin_move(kind: int) -> Effect:
    def begin(state: world.World, context: Context) -> None:
        source = state[_find(context) + world.HOST]
        state[world.MOVE : world.THREADS] = [
            *(kind, source, context.place, world.OPEN),
            *(1 << source, 0),
        ]
        state[_find(context) + world.ALLOCATED] = 1 << context.place
        _forget_former(state, world.MIGRATION)

    return begin


def _undo_move(state: world.World, context: Context) -> None:
    own = _find(context)
    state[own + world.ALLOCATED] = 1 << context.source
    _fail_move(state, context)


def _fail_move(state: world.World, context: Context) -> None:
    state[_find(context) + world.PHASE] = world.ACTIVE
    state[world.MOVE + world.KEPT_ALLOCATED] = 0
    state[world.MOVE + world.STATUS] = world.FAILED


def _go(state: world.World, context: Context) -> None:
    state[_find(context) + world.HOST] = context.place
    state[world.MOVE + world.FLAVOR] = 1


def _resized(state: world.World, context: Context) -> None:
    start_guest(state, context)
    state[_find(context) + world.PHASE] = world.RESIZED
    state[world.MOVE + world.STATUS] = world.WAITING


def _confirmed(state: world.World, context: Context) -> None:
    state[_find(context) + world.PHASE] = world.ACTIVE
    state[world.MOVE + world.STATUS] = world.ENDED
    state[world.MOVE + world.KEPT_ALLOCATED] = 0


def _return(state: world.World, context: Context) -> None:
    own = _find(context)
    state[own + world.HOST] = context.source
    state[own + world.ALLOCATED] = 1 << context.source
    state[world.MOVE + world.FLAVOR] = 0
    state[world.MOVE + world.KEPT_ALLOCATED] = 0


def _reverted(state: world.World, context: Context) -> None:
    state[_find(context) + world.GUEST] = context.source
    _confirmed(state, context)


def _arrive(state: world.World, context: Context) -> None:
    state[_find(context) + world.HOST] = context.place
    state[world.MOVE + world.KEPT_ALLOCATED] = 0


def _end_live(state: world.World, _context: Context) -> None:
    state[world.MOVE + world.STATUS] = world.ENDED


# -- what Nova does --------------------------------------------------

_SOURCE = Where.SOURCE

BOOT = _make(
    'boot',
    _nova(_allocate),
    _claim(Event.CLAIM, fail='undo'),
    _follow('undo'),
    _do(Event.APPLY, 'apply', fail='undo'),
    _nova(start_guest, Where.PLACE),
    _END,
    'undo',
    _release(),
    _nova(_forget_server),
    _END,
)

DELETE = _make(
    'delete',
    _nova(_stop_guest, Where.PLACE),
    _release(fail='gone'),
    _jump('gone', _stays),
    _release(of=runs.MOVED),
    'gone',
    _nova(_forget_server),
    _END,
    is_start=False,
)

RESTART = _make(
    'restart',
    _nova(_stop_guest, Where.PLACE),
    _jump('apply', _holds),
    _jump('unpark', _is_parked_at_place),
    'claim',
    _claim(Event.CLAIM, fail='end'),
    _follow('undo'),
    'apply',
    _do(Event.APPLY, 'apply', fail='end'),
    _nova(start_guest, Where.PLACE),
    'end',
    _END,
    'unpark',
    _unpark(fail='end'),
    _jump('apply'),
    'undo',
    _release('undo'),
    _END,
)

RECLAIM = _make(
    'claim again',
    _do(Event.RECLAIM, 'reclaim', fail='back', keeps=True),
    Instruction(
        where=Where.PLACE,
        condition=_was_unapplied,
        target='follow',
        is_joined=True,
    ),
    _do(Event.APPLY, 'reclaim', fail='back', is_joined=True),
    'follow',
    _follow('undo'),
    _do(Event.APPLY, 'apply', is_optional=True),
    _END,
    'back',
    _do('reinstate', 'reclaim', is_joined=True, is_optional=True),
    Instruction(
        where=Where.PLACE, condition=_always, target='end', is_joined=True
    ),
    'undo',
    _do('reinstate', 'undo', is_optional=True),
    'end',
    Instruction(where=Where.PLACE, effect=_settle, is_joined=True),
    _END,
    is_start=False,
)

RESIZE = _make(
    'resize',
    _nova(_begin_move(world.COLD)),
    _jump('here', _moves_here),
    _claim(Event.CLAIM_MOVE, fail='undo'),
    _jump('claimed'),
    'here',
    _claim(Event.CLAIM_MOVE, fail='undo', of=runs.MOVED),
    'claimed',
    _follow('undo'),
    _nova(_stop_guest, _SOURCE),
    _do('hold', 'hold', where=_SOURCE, is_optional=True),
    _nova(_go),
    _jump('finish', lambda state, context: not _moves_here(state, context)),
    _do('hold again', 'hold_again', is_optional=True, fail='error'),
    'finish',
    _jump('apply', _holds),
    _claim(Event.CLAIM, fail='error'),
    _follow('release'),
    'apply',
    _do(Event.APPLY, 'apply', fail='error'),
    _nova(_resized, Where.PLACE),
    _END,
    'undo',
    _jump('undo_here', _moves_here),
    _release(),
    _jump('undone'),
    'undo_here',
    _release(of=runs.MOVED),
    'undone',
    _nova(_undo_move),
    _END,
    'release',
    _release('undo'),
    'error',
    _nova(_fail_move),
    _END,
    killed=world.ABANDONED,
)

CONFIRM = _make(
    'confirm',
    _release(of=runs.MOVED, where=_SOURCE),
    _jump('confirmed', _moves_here),
    _release(where=_SOURCE),
    'confirmed',
    _nova(_confirmed),
    _END,
    killed=world.STUCK,
    is_start=False,
)

REVERT = _make(
    'revert',
    _nova(_stop_guest, Where.PLACE),
    _release(),
    _nova(_return),
    _jump('unpark', _is_parked_at_source),
    _jump('apply', _holds_at_source),
    _claim(Event.CLAIM, fail='error', where=_SOURCE),
    _follow('undo', _SOURCE),
    'apply',
    _do(Event.APPLY, 'apply', fail='error', where=_SOURCE),
    _jump('reverted'),
    'unpark',
    _unpark(fail='error', where=_SOURCE),
    'reverted',
    _nova(_reverted, _SOURCE),
    _END,
    'undo',
    _release('undo', where=_SOURCE),
    'error',
    _nova(_fail_move),
    _END,
    killed=world.STUCK,
)

LIVE_MIGRATE = _make(
    'live migrate',
    _nova(_begin_move(world.LIVE)),
    _claim(Event.CLAIM_MOVE, fail='undo'),
    _follow('undo'),
    _do(Event.PREPARE, 'prepare', fail='undo'),
    Instruction(where=_SOURCE, effect=start_guest, fail='undo'),
    _release(where=_SOURCE),
    _nova(_arrive),
    _jump('apply', _holds),
    _claim(Event.CLAIM, fail='end'),
    _follow('release'),
    'apply',
    _do(Event.APPLY, 'apply', fail='end'),
    'end',
    _nova(_end_live),
    _END,
    'release',
    _release('undo'),
    _jump('end'),
    'undo',
    _release(),
    _nova(_undo_move),
    _END,
    killed=world.ABANDONED,
)

# -- what repair does --------------------------------------------------

_TARGET = runs.TARGET

GONE = _make(
    'release what is gone',
    _jump('end', _has_changed),
    _release('release_gone', of=_TARGET),
    'end',
    _END,
)

ORPHAN = _make(
    'release an orphan',
    _jump('end', _has_entry),
    _do('orphan', 'release_orphan', of=_TARGET),
    'end',
    _END,
)

FINISH = _make(
    'finish',
    _jump('apply', _has(world.MEMORY, _TARGET)),
    _release('finish', of=_TARGET),
    _jump('end'),
    'apply',
    _do(Event.PREPARE, 'finish', of=_TARGET, is_optional=True),
    'end',
    _END,
)

REWRITE = _make(
    'rewrite',
    _do('rewrite', 'rewrite', of=_TARGET, fail='end'),
    Instruction(where=Where.PLACE, effect=_settle_written),
    'end',
    _END,
)

TAKE_BACK = _make(
    'take back',
    _jump('end', _has_own_changed),
    _unpark(fail='end'),
    'end',
    _END,
)

ARRIVE = _make(
    'arrive',
    _jump('end', _has_changed),
    _do(Event.APPLY, 'apply'),
    'end',
    _END,
)

RECOGNIZE = _make(
    'recognize',
    _jump('end', _is_gone),
    _do(Event.RECOGNIZE, 'recognize', of=_TARGET),
    'end',
    _END,
)

RESTORE = _make(
    'restore',
    _jump('end', _is_gone),
    _do(Event.CLAIM, 'restore', fail='end'),
    _follow('undo'),
    _jump('end'),
    'undo',
    _jump('end', _is_used),
    _release('undo'),
    'end',
    _END,
)

#: All programs, by a number; 0 is none.
PROGRAMS: tuple[Program, ...] = (
    _make('', _END),
    *(BOOT, DELETE, RESTART, RECLAIM, RESIZE, CONFIRM, REVERT, LIVE_MIGRATE),
    *(GONE, ORPHAN, FINISH, REWRITE, TAKE_BACK, ARRIVE, RECOGNIZE, RESTORE),
)

NUMBERS: Mapping[str, int] = {
    one.name: number for number, one in enumerate(PROGRAMS)
}
