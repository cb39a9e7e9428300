# SPDX-License-Identifier: Apache-2.0

"""The steps of the entry table, as actions on a world.

A run is one event of one consumer, or of a server and its migration in one
transaction. Each of its actions is done whole or not at all, and another
thread or a kill may come between any two.
"""

from collections.abc import Mapping
import dataclasses
import itertools
from typing import NamedTuple

from nova_ext_resources.host.claims import entry_table
from tests.explore import world

Action = entry_table.EntryAction
Event = entry_table.EntryEvent
Table = Mapping[entry_table.EntryKey, entry_table.EntryStep]

#: Whose entry an event is of: the server's own, its migration's, or that of
#: the consumer that a thread of repair looks after.
OWN, MOVED, TARGET = range(3)

#: Events that give an entry to another consumer: the former, the next one.
_RENAMED = {
    Event.PARK: (OWN, MOVED),
    Event.EXCHANGE: (MOVED, OWN),
    Event.UNPARK: (MOVED, OWN),
}

#: Actions that a peer may refuse.
FALLIBLE = frozenset(
    {
        *(Action.WRITE, Action.DELETE, Action.ENFORCE),
        *(Action.REMOVE, Action.TRY_TO_REMOVE),
    }
)

#: Events after which memory is ahead of a ledger that refuses, until repair
#: has the ledger follow.
_OWING = frozenset({Event.RELEASE, Event.FINISH})


#: Instead of a kind: the thread has the whole entry.
_GIVEN = -1


class Part(NamedTuple):
    """What becomes of one entry.

    :ivar old: whose it is
    :ivar new: whose it is afterwards
    :ivar kind: number of its state and purpose afterwards, or ``_GIVEN``
    """

    old: int
    new: int
    kind: int


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """The actions of one event.

    :ivar name: of the event
    :ivar actions: each with the parts that it is of
    :ivar compensation: what is done when one after the first fails
    :ivar owes: whether memory stays ahead of a ledger that refuses
    """

    name: str
    actions: tuple[tuple[Action, tuple[Part, ...]], ...]
    compensation: tuple[tuple[Action, tuple[Part, ...]], ...] = ()
    owes: bool = False


#: Numbers of the entries before a run: of the consumer, or of server and
#: migration; and the event.
_Key = tuple[int, int, str]


class Runs:
    """All runs of a table, by a number that fits into a byte."""

    def __init__(self, table: Table) -> None:
        #: 0 stands for none.
        self.all = [Run('', ())]
        self._numbers: dict[_Key, int] = {}
        for (state, purpose, event), step in table.items():
            kind = world.KIND_NUMBERS[state, purpose]
            run = _make_run(step, event)
            self._numbers[kind, 0, event] = self._add(run)
        self._add_exchanges(table)
        self.orphan = self._add(_make_plain('orphan', Action.REMOVE))
        self.rewrite = self._add(_make_plain('rewrite', Action.WRITE))
        # What a guest had before, when its claim is given up: whether memory
        # and ledger have the claim, and whether the former was applied.
        self.reinstate = {
            (in_memory, in_ledger, is_applied): self._add(
                _make_plain(
                    'reinstate',
                    *(Action.TRY_TO_REMOVE, Action.REMEMBER)[: 2 * in_memory],
                    *(Action.WRITE,)[:in_ledger],
                    *(Action.ENFORCE,)[:is_applied],
                )
            )
            for in_memory, in_ledger, is_applied in itertools.product(
                (True, False), repeat=3
            )
            if in_memory or in_ledger or is_applied
        }

    def _add(self, run: Run) -> int:
        self.all.append(run)
        return len(self.all) - 1

    def _add_exchanges(self, table: Table) -> None:
        """Add the runs in which a server's guest is off for a move.

        What it leaves is parked, and what it gets is its own, at once.
        """
        by_event = {
            event: {
                world.KIND_NUMBERS[state, purpose]: step
                for (state, purpose, one), step in table.items()
                if one is event
            }
            for event in (Event.PARK, Event.EXCHANGE)
        }
        for own in [None, *by_event[Event.PARK]]:
            for moved in [None, *by_event[Event.EXCHANGE]]:
                made = [
                    _make_run(by_event[event][kind], event)
                    for event, kind in (
                        (Event.PARK, own),
                        (Event.EXCHANGE, moved),
                    )
                    if kind is not None
                ]
                if made:
                    self._numbers[own or 0, moved or 0, 'hold'] = self._add(
                        _join(made)
                    )

    def find(self, event: str, kind: int, moved: int = 0) -> int:
        """Return the number of a run; 0: the table has none."""
        return self._numbers.get((kind, moved, event), 0)


def _make_run(step: entry_table.EntryStep, event: Event) -> Run:
    old, new = _RENAMED.get(event, (TARGET, TARGET))
    part = Part(old, new, world.KIND_NUMBERS[step.state, step.purpose])
    return Run(
        event,
        tuple((one, (part,)) for one in step.actions),
        tuple((one, (part,)) for one in step.compensation),
        event in _OWING,
    )


def _make_plain(name: str, *actions: Action) -> Run:
    """Return a run that no event of the table describes."""
    parts = (Part(TARGET, TARGET, _GIVEN),)
    return Run(name, tuple((one, parts) for one in actions), owes=True)


def _join(made: list[Run]) -> Run:
    """Return one run of two: the ledger writes both or none."""
    removing = []
    joined: dict[Action, tuple[Part, ...]] = {}
    for run in made:
        for action, parts in run.actions:
            if action is Action.TRY_TO_REMOVE:
                removing.append((action, parts))
            else:
                joined[action] = (*joined.get(action, ()), *parts)
    return Run('hold', (*removing, *joined.items()))


def do(
    state: world.World,
    host: int,
    action: Action,
    parts: tuple[Part, ...],
    consumers: tuple[int, int, int],
    given: int,
    switches: frozenset[str] = frozenset(),
) -> bool:
    """Do one action; return whether there was room for it.

    :param host: where the fields of the host begin
    :param consumers: of the server, of its migration, and that of the thread
    :param given: the entry that the thread has
    :param switches: see :class:`.machine.Protocol`
    """
    if action is Action.TAKE:
        return _take(
            *(state, host, consumers[parts[0].old], parts[0].kind),
            'gives the former to others' in switches,
        )
    if action is Action.REMEMBER and parts[0].kind == _GIVEN:
        consumer = consumers[parts[0].new]
        _free_former(state, host, consumer)
        if 'frees at once' not in switches:
            _keep_former(state, host, consumer, given)
    if action is Action.REMEMBER or action is Action.WRITE:
        _record(state, host, action, parts, consumers, given)
        return True
    for one in parts:
        _do_part(state, host, action, consumers[one.old], consumers[one.new])
    return True


def _record(
    state: world.World,
    host: int,
    action: Action,
    parts: tuple[Part, ...],
    consumers: tuple[int, int, int],
    given: int,
) -> None:
    """Have memory or ledger have all entries as they are after a run."""
    field = world.MEMORY if action is Action.REMEMBER else world.LEDGER
    units = [
        _find_unit(state, host, consumers[one.old], consumers[one.new])
        for one in parts
    ]
    for one in parts:
        state[host + field + consumers[one.old]] = 0
    for one, unit in zip(parts, units, strict=True):
        is_given = one.kind == _GIVEN
        state[host + field + consumers[one.new]] = (
            given if is_given else world.encode(one.kind, unit)
        )
    if action is Action.WRITE:
        _settle_debt(state, host, parts, consumers)


def _do_part(
    state: world.World, host: int, action: Action, old: int, new: int
) -> None:
    if action is Action.FORGET:
        state[host + world.MEMORY + old] = 0
        _free_former(state, host, old)
    elif action is Action.DELETE:
        state[host + world.LEDGER + old] = 0
        state[host + world.DEBT] &= ~(1 << old)
    elif action is Action.ENFORCE:
        state[host + world.APPLIED + new] = (
            _find_unit(state, host, old, new) + 1
        )
    else:
        state[host + world.APPLIED + old] = 0
        state[host + world.RELEASED] |= 1 << old


def _free_former(state: world.World, host: int, consumer: int) -> None:
    if consumer in world.SERVERS:
        state[host + world.FORMER + consumer] = 0


def _keep_former(
    state: world.World, host: int, consumer: int, given: int
) -> None:
    """Give no other what the ledger has yet of a claim that is given up."""
    code = state[host + world.MEMORY + consumer]
    if code not in (0, given):
        state[host + world.FORMER + consumer] = world.UNIT_OF[code] + 1


def _settle_debt(
    state: world.World,
    host: int,
    parts: tuple[Part, ...],
    consumers: tuple[int, int, int],
) -> None:
    for one in parts:
        for consumer in (consumers[one.old], consumers[one.new]):
            state[host + world.DEBT] &= ~(1 << consumer)


def _find_unit(state: world.World, host: int, old: int, new: int) -> int:
    """Return the unit of an entry, wherever it is on record."""
    for field in (world.MEMORY, world.LEDGER):
        for consumer in (old, new):
            code = state[host + field + consumer]
            if code:
                return world.UNIT_OF[code]
    # What is applied is all that is left of it.
    return max(0, state[host + world.APPLIED + new] - 1)


def _take(
    state: world.World,
    host: int,
    consumer: int,
    kind: int,
    is_careless: bool,
) -> bool:
    """Count a free unit as a consumer's.

    Units that are applied without an entry count as used by other software.
    What the consumer has had comes back if the claim fails, and is given to
    no other until then.
    """
    used = set()
    for one in world.CONSUMERS:
        code = state[host + world.MEMORY + one]
        applied = state[host + world.APPLIED + one]
        if one != consumer:
            if code:
                used.add(world.UNIT_OF[code])
            if applied:
                used.add(applied - 1)
            if one in world.SERVERS and state[host + world.FORMER + one]:
                used.add(state[host + world.FORMER + one] - 1)
    free = [one for one in world.UNITS if one not in used]
    if not free:
        return False
    own = state[host + world.MEMORY + consumer]
    if own:
        former = world.UNIT_OF[own]
        if not is_careless:
            state[host + world.FORMER + consumer] = former + 1
        # That it gets others is the harder case.
        free.sort(key=lambda one: one == former)
    state[host + world.MEMORY + consumer] = world.encode(kind, free[0])
    return True
