# SPDX-License-Identifier: Apache-2.0

"""Walks all states of a protocol, breadth first, in one process or several.

A state belongs to one of the processes by its checksum. Each walks one layer
of its own states, and then they exchange what belongs to the others.
"""

from collections.abc import Callable
import dataclasses
import multiprocessing
from multiprocessing import connection
import time
from typing import TypeAlias
import zlib

from tests.explore import invariants
from tests.explore import machine
from tests.explore import world

#: State -> the one before it.
_Parents: TypeAlias = dict[bytes, bytes]

#: Process -> the way to it.
_Peers: TypeAlias = dict[int, connection.Connection]


@dataclasses.dataclass(frozen=True, slots=True)
class Counterexample:
    """How an invariant is broken.

    :ivar invariant: in words
    :ivar states: from the first state to that in which it is broken
    :ivar moves: what leads from each to the next
    """

    invariant: str
    states: tuple[bytes, ...]
    moves: tuple[machine.Move, ...]

    def __str__(self) -> str:
        lines = [
            f'{number:3} {move.actor}: {move.what} {move.outcome}'.rstrip()
            for number, move in enumerate(self.moves, 1)
        ]
        return '\n'.join(
            [self.invariant, *lines, world.describe(self.states[-1])]
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a walk has come to.

    :ivar count: of distinct states
    :ivar seconds: that it took
    :ivar is_complete: whether there are no others
    """

    count: int
    seconds: float
    is_complete: bool
    counterexample: Counterexample | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What a process tells the others after each layer.

    :ivar new: how many states it has found, its own and those of others
    :ivar count: of all its own states
    :ivar broken: states that break an invariant, and which
    :ivar is_late: whether its time is over
    """

    new: int
    count: int
    broken: tuple[tuple[bytes, str], ...]
    is_late: bool


class _Walker:
    """Walks the states of one process.

    :param number: of this process
    """

    def __init__(
        self,
        protocol: machine.Protocol,
        scope: machine.Scope,
        number: int,
        peers: _Peers,
    ) -> None:
        self._protocol = protocol
        self._machine = machine.Machine(protocol, scope)
        self._number = number
        self._peers = peers
        self._layer: list[bytes] = []
        self._broken: list[tuple[bytes, str]] = []
        self.parents: _Parents = {}

    def run(self, limit: int, end: float) -> tuple[list[_Report], bool]:
        """Return the last reports, and whether there are no other states.

        :param limit: how many states all processes find together, about
        :param end: monotonic time
        """
        first = bytes(world.make_first())
        if find_owner(first, len(self._peers) + 1) == self._number:
            self._add(first, b'')
        while True:
            outgoing = self._walk_layer(limit, end)
            reports = self._exchange(
                outgoing,
                _Report(
                    new=len(self._layer) + sum(map(len, outgoing.values())),
                    count=len(self.parents),
                    broken=tuple(self._broken),
                    is_late=time.monotonic() > end,
                ),
            )
            if not any(one.new for one in reports):
                return reports, True
            if (
                any(one.broken or one.is_late for one in reports)
                or sum(one.count for one in reports) >= limit
            ):
                return reports, False

    def _add(self, state: bytes, before: bytes) -> None:
        if state in self.parents:
            return
        self.parents[state] = before
        self._layer.append(state)
        for broken in invariants.list_broken(self._protocol, state):
            self._broken.append((state, broken))

    def _walk_layer(self, limit: int, end: float) -> dict[int, _Parents]:
        """Find what follows the last layer; return what others own of it."""
        layer, self._layer = self._layer, []
        size = len(self._peers) + 1
        outgoing: dict[int, _Parents] = {one: {} for one in self._peers}
        for before in layer:
            for _move, state in self._machine.list_next(before):
                after = bytes(state)
                owner = find_owner(after, size)
                if owner == self._number:
                    self._add(after, before)
                else:
                    outgoing[owner][after] = before
            if (
                self._broken
                or size * len(self.parents) >= limit
                or time.monotonic() > end
            ):
                break
        return outgoing

    def _exchange(
        self, outgoing: dict[int, _Parents], report: _Report
    ) -> list[_Report]:
        """Tell each other, in an order in which none waits for ever."""
        reports = [report]
        for number, peer in sorted(self._peers.items()):
            if self._number < number:
                peer.send((report, outgoing[number]))
            other, parents = peer.recv()
            if self._number > number:
                peer.send((report, outgoing[number]))
            reports.append(other)
            for state, before in parents.items():
                self._add(state, before)
        return reports


def find_owner(state: bytes, size: int) -> int:
    """Return the process to which a state belongs."""
    return zlib.crc32(state) % size if size > 1 else 0


def walk(
    protocol: machine.Protocol,
    scope: machine.Scope,
    *,
    limit: int,
    seconds: float = 600.0,
    processes: int = 1,
) -> Outcome:
    """Walk until all states are found, or so many, or for so long."""
    begin = time.monotonic()
    end = begin + seconds
    if processes == 1:
        walker = _Walker(protocol, scope, 0, {})
        reports, is_complete = walker.run(limit, end)
        return _make_outcome(
            *(protocol, scope, begin, reports, is_complete),
            walker.parents.__getitem__,
        )
    pipes = {
        (first, second): multiprocessing.Pipe()
        for second in range(processes)
        for first in range(second)
    }
    lines = [multiprocessing.Pipe() for _number in range(processes)]
    for number in range(processes):
        peers = {
            first if second == number else second: pair[second == number]
            for (first, second), pair in pipes.items()
            if number in (first, second)
        }
        multiprocessing.get_context('fork').Process(
            target=_work,
            args=(
                protocol,
                scope,
                number,
                peers,
                limit,
                end,
                lines[number][1],
            ),
            daemon=True,
        ).start()
    answers = [line.recv() for line, _far in lines]

    def find_parent(state: bytes) -> bytes:
        line, _far = lines[find_owner(state, processes)]
        line.send(state)
        before: bytes = line.recv()
        return before

    reports, is_complete = answers[0]
    outcome = _make_outcome(
        protocol, scope, begin, reports, is_complete, find_parent
    )
    for line, _far in lines:
        line.send(b'')
    return outcome


def _work(
    protocol: machine.Protocol,
    scope: machine.Scope,
    number: int,
    peers: _Peers,
    limit: int,
    end: float,
    line: connection.Connection,
) -> None:
    """Walk as one of several processes; then say which states lead where."""
    walker = _Walker(protocol, scope, number, peers)
    line.send(walker.run(limit, end))
    while state := line.recv():
        line.send(walker.parents[state])


def _make_outcome(
    protocol: machine.Protocol,
    scope: machine.Scope,
    begin: float,
    reports: list[_Report],
    is_complete: bool,
    find_parent: Callable[[bytes], bytes],
) -> Outcome:
    broken = min((two for one in reports for two in one.broken), default=None)
    return Outcome(
        count=sum(one.count for one in reports),
        seconds=time.monotonic() - begin,
        is_complete=is_complete,
        counterexample=broken
        and _trace(machine.Machine(protocol, scope), find_parent, *broken),
    )


def _trace(
    made: machine.Machine,
    find_parent: Callable[[bytes], bytes],
    state: bytes,
    invariant: str,
) -> Counterexample:
    """Return the way to a state."""
    states = [state]
    while before := find_parent(states[0]):
        states.insert(0, before)
    moves = tuple(
        next(
            move
            for move, after in made.list_next(before)
            if bytes(after) == states[number]
        )
        for number, before in enumerate(states[:-1], 1)
    )
    return Counterexample(invariant, tuple(states), moves)
