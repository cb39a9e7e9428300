# SPDX-License-Identifier: Apache-2.0

"""A small world, as bytes: two hosts, two servers, one migration.

A state is an immutable row of small numbers, so that millions of them fit into
memory. Each host has two units of one resource, of which each server requests
one. Only the first server moves.
"""

from collections.abc import Sequence
from typing import TypeAlias

from nova_ext_resources.objects import assignment

State = assignment.State
Purpose = assignment.Purpose

#: A state that can change, of which :class:`bytes` are made.
World: TypeAlias = list[int]

#: One that is read only.
Cells: TypeAlias = Sequence[int]

HOSTS = (0, 1)
SERVERS = (0, 1)

#: Consumers of a host: both servers, and the migration of the first.
CONSUMERS = (0, 1, 2)
MIGRATION = 2

#: Units of each host.
UNITS = (0, 1)

#: No host: where a server or its guest is not.
NOWHERE = 2

# Fields of a host. Entries are codes, see :func:`encode`; units are counted
# from 1, and 0 is none. The others are bits, one for each consumer.
MEMORY, LEDGER, APPLIED, FORMER, PROCESS, RELEASED, GONE, DEBT = (
    *(0, 3, 6, 9),
    *(11, 12, 13, 14),
)
HOST_SIZE = 15

#: States of a process: killed, started, and after it has heard of Nova.
DOWN, UP, COMPARED = range(3)

# Fields of a server in Nova and in placement. ``ALLOCATED`` has a bit for each
# host.
NOVA = 2 * HOST_SIZE
HOST, GUEST, PHASE, ALLOCATED = range(4)
SERVER_SIZE = 4

#: Phases of a server: not there, built or being built, waiting for its user.
ABSENT, ACTIVE, RESIZED = range(3)

# Fields of the migration. ``KEPT_ALLOCATED`` is what placement has allocated
# to it, ``FLAVOR`` which flavor its server has in Nova.
MOVE = NOVA + 2 * SERVER_SIZE
KIND, SOURCE, DEST, STATUS, KEPT_ALLOCATED, FLAVOR = range(6)

#: Kinds of migrations.
COLD, LIVE = 1, 2

#: What Nova says of a migration.
NONE, OPEN, WAITING, ABANDONED, STUCK, ENDED, FAILED = range(7)

# Fields of a thread: one of Nova for each server, one of repair for each
# host. ``PLACE`` is the host to which a server goes, or the consumer that is
# repaired; ``KEPT`` an entry as it was when the thread began, and ``BEFORE``
# that of its server.
THREADS = MOVE + 6
PROGRAM, POSITION, RUN, ACTION, KEPT, PLACE, BEFORE = range(7)
THREAD_SIZE = 7

#: How much has gone wrong.
FAULTS = THREADS + 4 * THREAD_SIZE
SIZE = FAULTS + 1

_STATES = (State.CLAIMED, State.APPLIED, State.PARKED, State.RELEASING)
_PURPOSES = (Purpose.OWN, Purpose.MIGRATION_DEST, Purpose.MIGRATION_SOURCE)

#: State and purpose of an entry; None where there is none.
Kind: TypeAlias = tuple[State | None, Purpose | None]

#: By their numbers, in the order of the codes; 0 is no entry.
KINDS: tuple[Kind, ...] = (
    (None, None),
    *((state, purpose) for state in _STATES for purpose in _PURPOSES),
)
KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


def encode(kind: int, unit: int) -> int:
    """Return the code of an entry, 0 for none.

    :param kind: number of its state and purpose
    """
    return 2 * kind + unit - 1 if kind else 0


#: Code -> number of state and purpose, unit.
DECODED = (
    (0, 0),
    *((kind, unit) for kind in range(1, len(KINDS)) for unit in UNITS),
)
KIND_OF = tuple(kind for kind, _unit in DECODED)
STATE_OF = tuple(KINDS[kind][0] for kind in KIND_OF)
PURPOSE_OF = tuple(KINDS[kind][1] for kind in KIND_OF)
UNIT_OF = tuple(unit for _kind, unit in DECODED)

#: Whether an entry is there, and is not being released.
IS_HELD = tuple(state not in (None, State.RELEASING) for state in STATE_OF)


def make_first() -> World:
    """Return the state in which there is no server yet."""
    world = [0] * SIZE
    for host in HOSTS:
        world[host * HOST_SIZE + PROCESS] = COMPARED
    for server in SERVERS:
        place = NOVA + server * SERVER_SIZE
        world[place + HOST] = world[place + GUEST] = NOWHERE
    return world


def find_server(consumer: int) -> int:
    """Return the server of a consumer."""
    return 0 if consumer == MIGRATION else consumer


def describe_entry(code: int) -> str:
    """Return an entry in words."""
    if not code:
        return '-'
    return f'{STATE_OF[code]}/{PURPOSE_OF[code]} unit {UNIT_OF[code]}'


def describe(world: bytes) -> str:
    """Return a state in words, for the reader of a counterexample."""
    lines = []
    for host in HOSTS:
        own = host * HOST_SIZE
        lines.append(
            f'host{host}: {("down", "up", "compared")[world[own + PROCESS]]}'
        )
        for one in CONSUMERS:
            memory, ledger = (
                describe_entry(world[own + field + one])
                for field in (MEMORY, LEDGER)
            )
            applied = world[own + APPLIED + one]
            lines.append(
                f'  {("server0", "server1", "migration")[one]}: memory '
                f'{memory}, ledger {ledger}, applied '
                f'{f"unit {applied - 1}" if applied else "-"}'
            )
    for server in SERVERS:
        host, guest, phase, allocated = world[NOVA + server * SERVER_SIZE :][
            :SERVER_SIZE
        ]
        lines.append(
            f'server{server}: {("absent", "active", "resized")[phase]}, '
            f'host {host}, guest {guest}, allocated {allocated:02b}'
        )
    lines.append(f'migration: {[*world[MOVE:THREADS]]}')
    lines.append(f'threads: {[*world[THREADS:FAULTS]]}')
    return '\n'.join(lines)
