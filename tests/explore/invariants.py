# SPDX-License-Identifier: Apache-2.0

"""What holds in every state, whatever has gone wrong on the way to it."""

from collections.abc import Callable, Iterator
import itertools

from tests.explore import findings
from tests.explore import machine
from tests.explore import programs
from tests.explore import world

_State = world.State
_Purpose = world.Purpose

#: While a server claims anew, its guest has nothing for a moment.
_RECLAIM = programs.NUMBERS[programs.RECLAIM.name]

Invariant = Callable[[machine.Protocol, world.Cells, int], bool]


def _has_unit_twice_in_memory(
    _protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """Memory gives no unit to two consumers, nor one that may come back."""
    own = host * world.HOST_SIZE
    held = _list_units(state, own + world.MEMORY)
    former = [*state[own + world.FORMER : own + world.PROCESS], 0]
    return any(
        held[first] and held[first] in (held[second], former[second])
        for first, second in itertools.permutations(world.CONSUMERS, 2)
    )


def _has_unit_twice_in_ledger(
    _protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """The ledger gives no unit to two consumers."""
    held = _list_units(state, host * world.HOST_SIZE + world.LEDGER)
    return any(
        first and first == second
        for first, second in itertools.combinations(held, 2)
    )


def _has_unit_twice_on_host(
    _protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """No unit is applied for two servers.

    What a move could not remove has the uuid of the same server.
    """
    own = host * world.HOST_SIZE + world.APPLIED
    first, second, moved = state[own : own + 3]
    return bool(second) and second in (first, moved)


def _list_units(state: world.Cells, begin: int) -> list[int]:
    """Return the units of three entries, from 1; 0 for none."""
    return [
        world.UNIT_OF[one] + 1 if one else 0
        for one in state[begin : begin + 3]
    ]


def _is_unrecorded(
    _protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """Nothing is applied that the ledger does not have.

    What a move could not remove is the same server's. What else could not be
    removed is left over: nobody has an entry for it, or it is found to differ
    from that, or the process still knows that it has to remove it.
    """
    own = host * world.HOST_SIZE
    held = _list_units(state, own + world.LEDGER)
    for consumer in world.CONSUMERS:
        memory, ledger, applied = (
            state[own + field + consumer]
            for field in (world.MEMORY, world.LEDGER, world.APPLIED)
        )
        if not applied or applied == held[consumer]:
            continue
        is_old = consumer != 1 and applied in held[::2]
        is_found = ledger and world.IS_HELD[memory]
        if state[world.FAULTS] and (is_old or is_found):
            continue
        known = (state[own + world.RELEASED] | state[own + world.DEBT]) >> (
            consumer
        )
        is_releasing = world.STATE_OF[memory] is _State.RELEASING
        if (
            not state[world.FAULTS]
            or (memory and not known & 1)
            or (is_releasing and not ledger)
        ):
            return True
    return False


def _differs_at_rest(
    protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """At rest, memory and ledger have the same.

    But for a ledger that has refused what repair will have it follow.
    """
    own = host * world.HOST_SIZE
    return any(
        state[own + world.MEMORY + one] != state[own + world.LEDGER + one]
        and not state[own + world.DEBT] & 1 << one
        and not _is_busy(protocol, state, host, world.find_server(one))
        for one in world.CONSUMERS
    )


def _is_busy(
    protocol: machine.Protocol, state: world.Cells, host: int, server: int
) -> bool:
    """Return whether a thread takes a step of a server on a host."""
    for number in (server, 2 + host):
        thread = world.THREADS + number * world.THREAD_SIZE
        program = protocol.operations[state[thread]]
        one = program.instructions[state[thread + world.POSITION]]
        if (state[thread + world.RUN] or one.is_joined) and (
            number not in world.SERVERS
            or host == programs.find_host(state, thread, server, one.where)
        ):
            return True
    return False


def _has_wrong_purpose(
    _protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """A server has nothing that is parked, a migration nothing of its own."""
    own = host * world.HOST_SIZE
    return any(
        world.PURPOSE_OF[state[own + field + consumer]]
        is (
            _Purpose.OWN
            if consumer == world.MIGRATION
            else _Purpose.MIGRATION_SOURCE
        )
        for field in (world.MEMORY, world.LEDGER)
        for consumer in world.CONSUMERS
    )


def _has_uncovered_guest(
    _protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """A guest that runs has its entry and its units.

    Or an alarm says that it lacks them, after a fault.
    """
    own = host * world.HOST_SIZE
    for server in world.SERVERS:
        guest = world.NOVA + server * world.SERVER_SIZE + world.GUEST
        thread = world.THREADS + server * world.THREAD_SIZE
        if state[guest] != host or state[thread] == _RECLAIM:
            continue
        code = state[own + world.MEMORY + server]
        applied = state[own + world.APPLIED + server]
        if world.IS_HELD[code] and applied == world.UNIT_OF[code] + 1:
            continue
        if not state[world.FAULTS]:
            return True
        # Until Nova has answered once, the host reports that. A start that is
        # under way ends the guest, or applies what it has.
        is_known = state[
            own + world.PROCESS
        ] == world.UP or programs.is_starting(state, host, server)
        is_reported = (
            is_known or findings.is_noticed(state, host, server)
            if world.IS_HELD[code]
            else findings.is_missing(state, host, server)
        )
        if not is_reported:
            return True
    return False


def _is_left(
    _protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """What a server leaves is being released when Nova has done with it.

    Not where a host was killed in a move, nor where a ledger has refused the
    release and its host was killed then: the comparison with Nova finds it.
    """
    own = host * world.HOST_SIZE
    for consumer in world.CONSUMERS:
        server = world.find_server(consumer)
        nova = world.NOVA + server * world.SERVER_SIZE
        has_moved = not server and state[world.MOVE + world.STATUS]
        limit = 0 if state[nova + world.PHASE] or has_moved else 1
        if (
            world.IS_HELD[state[own + world.MEMORY + consumer]]
            and not state[world.THREADS + server * world.THREAD_SIZE]
            and state[world.FAULTS] <= limit
            and findings.find_role(state, host, consumer) is findings.Role.LEFT
        ):
            return True
    return False


def _is_idle_otherwise(
    protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """At rest and without a fault, what is here is applied, and nothing else.

    What is parked is the migration's; what a server has is its own.
    """
    if state[world.FAULTS]:
        return False
    own = host * world.HOST_SIZE
    for consumer in world.CONSUMERS:
        code = state[own + world.MEMORY + consumer]
        server = world.find_server(consumer)
        if _is_busy(protocol, state, host, server):
            continue
        is_applied = world.STATE_OF[code] is _State.APPLIED
        applied = state[own + world.APPLIED + consumer]
        if is_applied != (applied == world.UNIT_OF[code] + 1 and bool(code)):
            return True
        if (
            code
            and consumer != world.MIGRATION
            and not state[world.THREADS + server * world.THREAD_SIZE]
            and world.PURPOSE_OF[code] is not _Purpose.OWN
        ):
            return True
    return False


def _is_withheld(
    _protocol: machine.Protocol, state: world.Cells, host: int
) -> bool:
    """At rest, no unit waits to come back to a consumer.

    But for what the ledger has of a claim that was given up.
    """
    own = host * world.HOST_SIZE
    return any(
        state[own + world.FORMER + one]
        and world.IS_HELD[state[own + world.MEMORY + one]]
        and state[own + world.MEMORY + one] == state[own + world.LEDGER + one]
        and not any(
            state[world.THREADS + number * world.THREAD_SIZE]
            for number in (one, 2 + host)
        )
        for one in world.SERVERS
    )


#: In words, and whether a host breaks it.
INVARIANTS: dict[str, Invariant] = {
    'a unit is twice in memory': _has_unit_twice_in_memory,
    'a unit is twice in the ledger': _has_unit_twice_in_ledger,
    'a unit is applied twice': _has_unit_twice_on_host,
    'what is applied is not in the ledger': _is_unrecorded,
    'memory and ledger differ at rest': _differs_at_rest,
    'an entry has the purpose of another consumer': _has_wrong_purpose,
    'a guest runs without its units': _has_uncovered_guest,
    'an entry is left of what is gone': _is_left,
    'an entry at rest is not what it says': _is_idle_otherwise,
    'a unit at rest waits for nothing': _is_withheld,
}

#: Those that hold while the process of a host is down.
_DURABLE = frozenset(
    {
        *('a unit is twice in the ledger', 'a unit is applied twice'),
        'an entry has the purpose of another consumer',
    }
)


def list_broken(
    protocol: machine.Protocol, state: world.Cells
) -> Iterator[str]:
    """Yield which invariants a state breaks."""
    for host in world.HOSTS:
        is_up = state[host * world.HOST_SIZE + world.PROCESS]
        for name, is_broken in INVARIANTS.items():
            if (is_up or name in _DURABLE) and is_broken(
                protocol, state, host
            ):
                yield name
