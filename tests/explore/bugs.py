# SPDX-License-Identifier: Apache-2.0

"""Bugs of the protocol that the walk has to find.

Each changes steps of the entry table, a program of Nova or of a host, or what
a host does beside them. They show that the invariants are worth something.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

from nova_ext_resources.host.claims import entry_table
from tests.explore import machine
from tests.explore import programs
from tests.explore import world

_Action = entry_table.EntryAction
_Event = entry_table.EntryEvent
_Change = Callable[[machine.Protocol], machine.Protocol]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A bug, and a scope that is large enough to find it.

    :ivar name: what is wrong, in words
    """

    name: str
    change: _Change
    scope: machine.Scope

    def make_protocol(self) -> machine.Protocol:
        return self.change(machine.Protocol())


def _make(
    name: str,
    change: _Change,
    operations: str,
    *,
    faults: int = 0,
    servers: int = 1,
) -> Bug:
    return Bug(
        name=name,
        change=change,
        scope=machine.Scope(
            max_faults=faults,
            servers=world.SERVERS[:servers],
            hosts=(0,),
            names=frozenset(operations.split(', ')),
        ),
    )


def _alter(event: _Event, **fields: Any) -> _Change:
    """Change the steps of an event."""
    return _alter_each(event, lambda step: dataclasses.replace(step, **fields))


def _without(event: _Event, action: _Action) -> _Change:
    """Leave an action out of the steps of an event."""
    return _alter_each(
        event,
        lambda step: dataclasses.replace(
            step,
            actions=tuple(one for one in step.actions if one is not action),
        ),
    )


def _alter_each(
    event: _Event,
    alter: Callable[[entry_table.EntryStep], entry_table.EntryStep],
) -> _Change:
    def change(protocol: machine.Protocol) -> machine.Protocol:
        return dataclasses.replace(
            protocol,
            table={
                key: alter(step) if key[2] is event else step
                for key, step in protocol.table.items()
            },
        )

    return change


def _swap(program: programs.Program, first: int, second: int) -> _Change:
    """Exchange two instructions of a program."""

    def change(lines: list[programs.Instruction]) -> None:
        one, two = lines[first], lines[second]
        lines[first] = dataclasses.replace(two, fail=two.fail and first + 1)
        lines[second] = dataclasses.replace(one, fail=one.fail and second + 1)

    return _rewrite(program, change)


def _forget(
    program: programs.Program, call: str, where: programs.Where | None = None
) -> _Change:
    """Leave the calls of a method out of a program."""

    def change(lines: list[programs.Instruction]) -> None:
        for number, one in enumerate(lines):
            if one.call == call and where in (None, one.where):
                lines[number] = programs.make_jump(number + 1)

    return _rewrite(program, change)


def _look_away(program: programs.Program) -> _Change:
    """Have repair act on what it has found, whatever came since."""

    def change(lines: list[programs.Instruction]) -> None:
        lines[0] = programs.make_jump(1)

    return _rewrite(program, change)


def _rewrite(
    program: programs.Program,
    change: Callable[[list[programs.Instruction]], None],
) -> _Change:
    lines = [*program.instructions]
    change(lines)
    made = dataclasses.replace(program, instructions=tuple(lines))
    return lambda protocol: dataclasses.replace(
        protocol,
        operations=tuple(
            made if one.name == program.name else one
            for one in protocol.operations
        ),
    )


def _switch(name: str) -> _Change:
    return lambda protocol: dataclasses.replace(
        protocol, switches=frozenset({name})
    )


def _find(program: programs.Program, effect: str) -> int:
    """Return where a program changes a record of Nova."""
    return next(
        number
        for number, one in enumerate(program.instructions)
        if one.effect and one.effect.__name__ == effect
    )


_BOOTING = 'boot'
_DELETING = 'boot, delete'
_MOVING = 'boot, resize, revert, confirm'
_LIVE = 'boot, live migrate'
_PLACE, _SOURCE = programs.Where.PLACE, programs.Where.SOURCE

BUGS: tuple[Bug, ...] = (
    _make(
        'a claim is not written',
        _without(_Event.CLAIM, _Action.WRITE),
        _BOOTING,
    ),
    _make(
        'a claim is written before memory counts it',
        _alter(_Event.CLAIM, actions=(_Action.WRITE, _Action.TAKE)),
        _BOOTING,
        servers=2,
    ),
    _make(
        'a claim that the ledger refuses stays in memory',
        _alter(_Event.CLAIM, compensation=()),
        _BOOTING,
        faults=1,
    ),
    _make(
        'what is applied is not written',
        _without(_Event.APPLY, _Action.WRITE),
        _BOOTING,
    ),
    _make(
        'what is applied is remembered before it is written',
        _alter(
            _Event.APPLY,
            actions=(_Action.ENFORCE, _Action.REMEMBER, _Action.WRITE),
        ),
        _BOOTING,
        faults=1,
    ),
    _make(
        'what is recorded as applied is not applied',
        _without(_Event.APPLY, _Action.ENFORCE),
        _BOOTING,
    ),
    _make(
        'a live migration prepares nothing',
        _without(_Event.PREPARE, _Action.ENFORCE),
        _LIVE,
    ),
    _make(
        'the guest of an entry that is applied is still to come',
        _alter(_Event.APPLY, purpose=world.Purpose.MIGRATION_DEST),
        _BOOTING,
    ),
    _make(
        'what is parked is not written',
        _without(_Event.PARK, _Action.WRITE),
        _MOVING,
    ),
    _make(
        'what is parked has the role of what a guest has',
        _alter(_Event.PARK, purpose=world.Purpose.OWN),
        _MOVING,
    ),
    _make(
        'what is parked counts as applied',
        _alter(_Event.PARK, state=world.State.APPLIED),
        _MOVING,
    ),
    _make(
        'the settings of what is parked stay',
        _without(_Event.PARK, _Action.TRY_TO_REMOVE),
        _MOVING,
    ),
    _make(
        'what a migration has claimed is parked for its server',
        _alter(_Event.EXCHANGE, purpose=world.Purpose.MIGRATION_SOURCE),
        _MOVING,
    ),
    _make(
        'what a revert gives back keeps its mark',
        _alter(_Event.UNPARK, purpose=world.Purpose.MIGRATION_SOURCE),
        _MOVING,
    ),
    _make(
        'what a revert gives back is not written',
        _without(_Event.UNPARK, _Action.WRITE),
        _MOVING,
    ),
    _make(
        'a release is marked in the ledger first',
        _alter(_Event.RELEASE, actions=(_Action.WRITE, _Action.REMEMBER)),
        _DELETING,
        faults=1,
    ),
    _make(
        'units are free before the ledger has forgotten them',
        _alter(
            _Event.FINISH,
            actions=(_Action.REMOVE, _Action.FORGET, _Action.DELETE),
        ),
        _DELETING,
        servers=2,
    ),
    _make(
        'the ledger forgets what is still applied',
        _alter(
            _Event.FINISH,
            actions=(_Action.DELETE, _Action.REMOVE, _Action.FORGET),
        ),
        _DELETING,
    ),
    _make(
        'a release stays in the ledger',
        _without(_Event.FINISH, _Action.DELETE),
        _DELETING,
    ),
    _make(
        'a release leaves the settings',
        _without(_Event.FINISH, _Action.REMOVE),
        _DELETING,
    ),
    _make(
        'others get what a guest has until its new claim is final',
        _switch('gives the former to others'),
        'boot, claim again',
        faults=1,
        servers=2,
    ),
    _make(
        'others get what the ledger has of a claim that is given up',
        _switch('frees at once'),
        'boot, claim again',
        faults=1,
        servers=2,
    ),
    _make(
        'a guest starts before its units are applied',
        _swap(
            programs.BOOT,
            _find(programs.BOOT, 'start_guest') - 1,
            _find(programs.BOOT, 'start_guest'),
        ),
        _BOOTING,
    ),
    _make(
        'a build that fails keeps its claim',
        _forget(programs.BOOT, 'release'),
        _BOOTING,
        faults=1,
    ),
    _make(
        'a live migration releases its source before the guest has left',
        _swap(
            programs.LIVE_MIGRATE,
            _find(programs.LIVE_MIGRATE, 'start_guest'),
            _find(programs.LIVE_MIGRATE, 'start_guest') + 1,
        ),
        _LIVE,
    ),
    _make(
        'a revert leaves what its destination has',
        _forget(programs.REVERT, 'release', _PLACE),
        _MOVING,
    ),
    _make(
        'a confirmation leaves what was parked',
        _forget(programs.CONFIRM, 'release', _SOURCE),
        _MOVING,
    ),
    _make(
        'a move is given back whatever its server has by then',
        _look_away(programs.TAKE_BACK),
        'boot, resize, restart',
        faults=2,
    ),
    _make(
        'a start does not read the ledger',
        _switch('starts empty'),
        _BOOTING,
        faults=1,
    ),
    _make(
        'a server of which nothing is known counts as gone',
        _switch('unknown is gone'),
        _BOOTING,
        faults=1,
    ),
)
