# SPDX-License-Identifier: Apache-2.0

"""All that may happen next in a state of the small world.

A thread does one action, a peer refuses one, a process is killed or started,
a host is booted, Nova begins an operation, repair acts on what it finds.
"""

from collections.abc import Iterator
import dataclasses
from typing import NamedTuple

from nova_ext_resources.host.claims import entry_table
from tests.explore import findings
from tests.explore import programs
from tests.explore import runs
from tests.explore import world

_Where = programs.Where

#: Fields of a host that are lost with its process.
_VOLATILE = (
    *range(world.MEMORY, world.MEMORY + 3),
    *range(world.FORMER, world.FORMER + 2),
    *(world.PROCESS, world.RELEASED, world.GONE, world.DEBT),
)


_IDLE = [0] * world.THREAD_SIZE


class Move(NamedTuple):
    """What leads from one state to the next.

    :ivar actor: number of a thread, or ``host0`` and ``host1``
    :ivar what: in words
    :ivar outcome: how it ends; '' if as it should
    :ivar call: the method of a host that it belongs to, '' for none
    :ivar host: of that call
    :ivar consumer: of that call
    """

    actor: int | str
    what: str
    outcome: str = ''
    call: str = ''
    host: int = 0
    consumer: int = 0


_Next = tuple[Move, world.World]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What hosts and Nova do. Seeded bugs change it.

    :ivar table: the life of an entry
    :ivar operations: see :data:`.programs.PROGRAMS`
    :ivar switches: names of what a bug changes elsewhere
    """

    table: runs.Table = dataclasses.field(
        default_factory=lambda: entry_table.ENTRY_TABLE
    )
    operations: tuple[programs.Program, ...] = programs.PROGRAMS
    switches: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What may happen at all.

    :ivar max_faults: how many kills, boots and refusals there may be on the
        way to a state
    :ivar servers: that there may be
    :ivar hosts: on which they are built
    :ivar names: of the operations that Nova begins; empty: all
    """

    max_faults: int
    servers: tuple[int, ...] = world.SERVERS
    hosts: tuple[int, ...] = world.HOSTS
    names: frozenset[str] = frozenset()


class Machine:
    """Finds the next states of a protocol."""

    def __init__(self, protocol: Protocol, scope: Scope) -> None:
        self._runs = runs.Runs(protocol.table)
        self._programs = protocol.operations
        self._switches = protocol.switches
        self._scope = scope

    def list_next(self, before: bytes) -> Iterator[_Next]:
        """Yield each move, and the state that it leads to."""
        state = [*before]
        can_fail = state[world.FAULTS] < self._scope.max_faults
        for number in range(4):
            thread = world.THREADS + number * world.THREAD_SIZE
            if state[thread]:
                yield from self._advance(state, number, thread, can_fail)
            elif number in self._scope.servers:
                yield from _list_operations(state, number, self._scope)
            elif number not in world.SERVERS:
                yield from self._list_repairs(state, number)
        for host in world.HOSTS:
            own = host * world.HOST_SIZE
            if not state[own + world.PROCESS]:
                yield self._start(state, host)
            elif can_fail:
                yield self._kill(state, host)
                yield self._boot(state, host)

    # -- threads -----------------------------------------------------------

    def _find_context(
        self, state: world.World, number: int, thread: int
    ) -> programs.Context:
        place = state[thread + world.PLACE]
        if number in world.SERVERS:
            source = state[world.MOVE + world.SOURCE] if not number else place
            return programs.Context(thread, number, number, place, source)
        server = world.find_server(place)
        host = number - 2
        return programs.Context(thread, server, place, host, host)

    def _advance(
        self, state: world.World, number: int, thread: int, can_fail: bool
    ) -> Iterator[_Next]:
        """Yield what one thread may do next."""
        program = self._programs[state[thread]]
        context = self._find_context(state, number, thread)
        position = state[thread + world.POSITION]
        while True:
            one = program.instructions[position]
            if one.is_end:
                new = state.copy()
                new[thread : thread + world.THREAD_SIZE] = _IDLE
                yield Move(number, 'end'), new
                return
            if one.condition is not None:
                is_met = one.condition(state, context)
                position = int(one.target) if is_met else position + 1
                continue
            if one.where is not _Where.CONDUCTOR:
                host = (
                    context.place
                    if one.where is _Where.PLACE
                    else context.source
                )
                if not state[host * world.HOST_SIZE + world.PROCESS]:
                    return
            if one.effect is not None:
                yield from self._tell_nova(
                    state, number, context, one, position, can_fail
                )
                return
            run = state[thread + world.RUN]
            if not run:
                if not one.is_joined and self._is_locked(
                    state, number, context, host
                ):
                    return
                run = self._find_run(state, context, one, host)
                if not run:
                    # To release nothing is known to be a release, too.
                    state = state.copy()
                    self._begin(state, context, one, host)
                    position = (
                        position + 1 if one.is_optional else int(one.fail or 0)
                    )
                    continue
            yield from self._act(
                state, number, context, host, one, position, run, can_fail
            )
            return

    def _is_locked(
        self,
        state: world.World,
        number: int,
        context: programs.Context,
        host: int,
    ) -> bool:
        """Return whether another thread has the locks of the consumers."""
        if number in world.SERVERS:
            other = world.THREADS + (2 + host) * world.THREAD_SIZE
            consumer = state[other + world.PLACE]
            if world.find_server(consumer) != context.server:
                return False
            return self._has_locks(state, other)
        other = world.THREADS + context.server * world.THREAD_SIZE
        if not state[other] or not self._has_locks(state, other):
            return False
        one = self._programs[state[other]].instructions[
            state[other + world.POSITION]
        ]
        place = programs.find_host(state, other, context.server, one.where)
        return place == host

    def has_locks(self, state: world.Cells, number: int) -> bool:
        """Return whether a thread is within a call of a host."""
        return self._has_locks(
            state, world.THREADS + number * world.THREAD_SIZE
        )

    def _has_locks(self, state: world.Cells, thread: int) -> bool:
        if state[thread + world.RUN]:
            return True
        program = self._programs[state[thread]]
        return program.instructions[state[thread + world.POSITION]].is_joined

    def _tell_nova(
        self,
        state: world.World,
        number: int,
        context: programs.Context,
        one: programs.Instruction,
        position: int,
        can_fail: bool,
    ) -> Iterator[_Next]:
        assert one.effect is not None
        what = one.effect.__name__
        new = state.copy()
        one.effect(new, context)
        new[context.thread + world.POSITION] = position + 1
        yield (
            Move(number, what, '', one.call, context.place, context.server),
            new,
        )
        if one.fail is not None and can_fail:
            new = state.copy()
            new[world.FAULTS] += 1
            new[context.thread + world.POSITION] = int(one.fail)
            yield Move(number, what, 'refused'), new

    def _find_run(
        self,
        state: world.World,
        context: programs.Context,
        one: programs.Instruction,
        host: int,
    ) -> int:
        """Return what an event leads to now; 0: the table has nothing."""
        own = host * world.HOST_SIZE + world.MEMORY
        consumers = context.server, world.MIGRATION, context.consumer
        code = state[own + consumers[one.of]]
        if one.event in ('hold', 'hold again'):
            return self._find_exchange(state, own, context.server, one.event)
        if one.event == 'orphan':
            return self._runs.orphan
        if one.event == 'rewrite':
            return self._runs.rewrite
        if one.event == 'reinstate':
            kept = state[context.thread + world.KEPT]
            is_applied = world.STATE_OF[kept] is world.State.APPLIED
            # A new claim may have the same units.
            former = state[
                host * world.HOST_SIZE + world.FORMER + context.server
            ]
            in_memory = code != kept or bool(former)
            ledger = state[own + world.LEDGER + context.server]
            in_ledger = one.call == 'undo' or ledger != kept
            return self._runs.reinstate.get(
                (in_memory, in_ledger, is_applied), 0
            )
        return self._runs.find(one.event, world.KIND_OF[code])

    def _find_exchange(
        self, state: world.World, own: int, server: int, event: str
    ) -> int:
        """Return what :meth:`.ClaimManager.park` does."""
        leaving, moved = state[own + server], state[own + world.MIGRATION]
        if world.IS_HELD[moved] and (
            world.PURPOSE_OF[moved] is world.Purpose.MIGRATION_SOURCE
        ):
            return 0
        is_coming = world.IS_HELD[moved] and (
            world.PURPOSE_OF[moved] is world.Purpose.MIGRATION_DEST
        )
        if not world.IS_HELD[leaving] or not (
            is_coming
            or event == 'hold'
            or world.PURPOSE_OF[leaving] is world.Purpose.OWN
        ):
            leaving = 0
        return self._runs.find(
            'hold',
            world.KIND_OF[leaving],
            world.KIND_OF[moved] if is_coming else 0,
        )

    def _act(
        self,
        state: world.World,
        number: int,
        context: programs.Context,
        host: int,
        one: programs.Instruction,
        position: int,
        run: int,
        can_fail: bool,
    ) -> Iterator[_Next]:
        """Yield what becomes of the next action of a run."""
        thread, own = context.thread, host * world.HOST_SIZE
        consumers = (
            context.server,
            world.MIGRATION,
            (context.server, world.MIGRATION, context.consumer)[one.of],
        )
        found = self._runs.all[run]
        at = state[thread + world.ACTION]
        action, parts = found.actions[at]
        begun = state.copy()
        begun[thread + world.POSITION] = position
        begun[thread + world.RUN] = run
        if not at:
            self._begin(begun, context, one, host)
        given = begun[thread + world.KEPT]
        if one.event == 'rewrite':
            given = begun[own + world.MEMORY + consumers[2]]
        done = begun.copy()
        what = f'{one.event}: {action}'
        if runs.do(
            *(done, own, action, parts, consumers, given), self._switches
        ):
            self._leave(done, thread, found, at, position)
            yield Move(number, what, '', one.call, host, consumers[2]), done
        else:
            self._fail(begun, thread, one)
            yield (
                Move(number, what, 'no room', one.call, host, consumers[2]),
                begun,
            )
            return
        if can_fail and action in runs.FALLIBLE:
            begun[world.FAULTS] += 1
            if action is runs.Action.TRY_TO_REMOVE:
                begun[own + world.RELEASED] |= 1 << consumers[parts[0].old]
                self._leave(begun, thread, found, at, position)
            else:
                for action, parts in found.compensation:
                    runs.do(begun, own, action, parts, consumers, given)
                if found.owes:
                    begun[own + world.DEBT] |= 1 << consumers[2]
                self._fail(begun, thread, one)
            yield (
                Move(number, what, 'refused', one.call, host, consumers[2]),
                begun,
            )

    def _begin(
        self,
        state: world.World,
        context: programs.Context,
        one: programs.Instruction,
        host: int,
    ) -> None:
        """Note what is noted when a call begins."""
        own = host * world.HOST_SIZE
        consumers = context.server, world.MIGRATION, context.consumer
        consumer = consumers[one.of]
        if one.keeps:
            state[context.thread + world.KEPT] = state[
                own + world.MEMORY + consumer
            ]
        if one.event == entry_table.EntryEvent.RELEASE:
            if one.call in ('release', 'undo'):
                state[own + world.RELEASED] |= 1 << consumer
            if one.call == 'release':
                state[own + world.GONE] |= 1 << consumer
        elif one.event in ('claim', 'claim for a move', 'unpark'):
            state[own + world.GONE] &= ~(1 << context.server)

    def _leave(
        self,
        state: world.World,
        thread: int,
        run: runs.Run,
        at: int,
        position: int,
    ) -> None:
        """Go on behind an action."""
        if at + 1 < len(run.actions):
            state[thread + world.ACTION] = at + 1
        else:
            state[thread + world.RUN] = state[thread + world.ACTION] = 0
            state[thread + world.POSITION] = position + 1

    def _fail(
        self, state: world.World, thread: int, one: programs.Instruction
    ) -> None:
        state[thread + world.RUN] = state[thread + world.ACTION] = 0
        state[thread + world.POSITION] = int(one.fail or 0)

    # -- repair --------------------------------------------------------------

    def _list_repairs(
        self, state: world.World, number: int
    ) -> Iterator[_Next]:
        """Yield what repair of a host may begin with what it finds now."""
        host = number - 2
        own = host * world.HOST_SIZE
        if state[own + world.PROCESS] == world.DOWN:
            return
        thread = world.THREADS + number * world.THREAD_SIZE
        for name, consumer in findings.list_repairs(
            state, host, self._switches
        ):
            new = state.copy()
            if name == findings.COMPARED:
                new[own + world.PROCESS] = world.COMPARED
                yield Move(number, name), new
                continue
            new[thread] = programs.NUMBERS[name]
            new[thread + world.PLACE] = consumer
            memory = own + world.MEMORY
            new[thread + world.KEPT] = state[memory + consumer]
            new[thread + world.BEFORE] = state[
                memory + world.find_server(consumer)
            ]
            yield (
                Move(number, f'begin to {name}', '', 'find', host, consumer),
                new,
            )

    # -- processes and hosts -----------------------------------------------

    def _start(self, state: world.World, host: int) -> _Next:
        new = state.copy()
        own = host * world.HOST_SIZE
        new[own + world.PROCESS] = world.UP
        if 'starts empty' not in self._switches:
            new[own + world.MEMORY : own + world.LEDGER] = new[
                own + world.LEDGER : own + world.APPLIED
            ]
        return Move(f'host{host}', 'start'), new

    def _kill(self, state: world.World, host: int) -> _Next:
        new = state.copy()
        new[world.FAULTS] += 1
        own = host * world.HOST_SIZE
        for field in _VOLATILE:
            new[own + field] = 0
        thread = world.THREADS + (2 + host) * world.THREAD_SIZE
        new[thread : thread + world.THREAD_SIZE] = _IDLE
        for server in world.SERVERS:
            self._interrupt(new, host, server)
        return Move(f'host{host}', 'kill'), new

    def _interrupt(self, state: world.World, host: int, server: int) -> None:
        """End the thread of Nova that a host was in the midst of."""
        thread = world.THREADS + server * world.THREAD_SIZE
        program = self._programs[state[thread]]
        position = state[thread + world.POSITION]
        one = program.instructions[position]
        if not state[thread] or host != programs.find_host(
            state, thread, server, one.where
        ):
            return
        is_begun = state[thread + world.RUN] or (
            position and program.instructions[position - 1].where is one.where
        )
        if not is_begun:
            # The request waits on the message bus.
            return
        if program.killed:
            own = world.NOVA + server * world.SERVER_SIZE
            state[world.MOVE + world.STATUS] = program.killed
            state[own + world.PHASE] = world.ACTIVE
        state[thread : thread + world.THREAD_SIZE] = _IDLE

    def _boot(self, state: world.World, host: int) -> _Next:
        _move, new = self._kill(state, host)
        own = host * world.HOST_SIZE
        for one in world.CONSUMERS:
            new[own + world.APPLIED + one] = 0
        for server in world.SERVERS:
            guest = world.NOVA + server * world.SERVER_SIZE + world.GUEST
            if new[guest] == host:
                new[guest] = world.NOWHERE
        return Move(f'host{host}', 'boot'), new


# -- what users do --------------------------------------------------


def _list_operations(
    state: world.World, server: int, scope: Scope
) -> Iterator[_Next]:
    """Yield the operations that Nova accepts for a server without a task."""
    own = world.NOVA + server * world.SERVER_SIZE
    host, guest, phase = state[own : own + 3]
    names: list[tuple[str, int]] = []
    if phase == world.ABSENT:
        if not _is_known(state, server):
            names += [('boot', one) for one in scope.hosts]
    elif phase == world.RESIZED:
        names += [('confirm', host), ('revert', host)]
    else:
        names += [('delete', host), ('restart', host)]
        if guest == host:
            code, written = (
                state[host * world.HOST_SIZE + field + server]
                for field in (world.MEMORY, world.LEDGER)
            )
            # A ledger that lags behind follows before a server claims anew.
            if code == written and world.IS_HELD[code]:
                names.append(('claim again', host))
            if server == 0 and _may_move(state):
                names += [('resize', one) for one in world.HOSTS]
                names.append(('live migrate', 1 - host))
    thread = world.THREADS + server * world.THREAD_SIZE
    for name, place in names:
        if scope.names and name not in scope.names:
            continue
        if not state[place * world.HOST_SIZE + world.PROCESS]:
            continue
        new = state.copy()
        new[thread] = programs.NUMBERS[name]
        new[thread + world.PLACE] = place
        yield Move(server, f'begin to {name}, host{place}'), new


def _is_known(state: world.World, consumer: int) -> bool:
    """Return whether any host has anything of a consumer, or looks after it.

    The next server, or migration, has another uuid.
    """
    return any(
        state[host * world.HOST_SIZE + field + consumer]
        for host in world.HOSTS
        for field in (world.MEMORY, world.LEDGER, world.APPLIED)
    ) or any(
        state[thread] and state[thread + world.PLACE] == consumer
        for thread in (
            world.THREADS + (2 + host) * world.THREAD_SIZE
            for host in world.HOSTS
        )
    )


def _may_move(state: world.World) -> bool:
    status = state[world.MOVE + world.STATUS]
    return status not in (
        *(world.OPEN, world.WAITING, world.STUCK),
    ) and not _is_known(state, world.MIGRATION)
