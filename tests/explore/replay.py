# SPDX-License-Identifier: Apache-2.0

"""Replays a walk on real hosts: manager, memory and ledger of the product.

Each call of a host runs in a thread of its own, which waits before each action
until the walk comes to it. Only enforcer, Nova and placement are replaced.
"""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
import contextlib
import os
import queue
import threading
from typing import Any

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources import exception
from nova_ext_resources.host.claims import enforcement
from nova_ext_resources.host.claims import entry_table
from nova_ext_resources.host.claims import manager
from nova_ext_resources.host.claims import memory
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from tests.explore import machine
from tests.explore import world
from tests.unit import builders

_Action = entry_table.EntryAction

#: Consumer -> state and purpose of its entry.
Kinds = dict[str, world.Kind]

#: Seconds after which a call hangs.
_WAIT = 10.0

UUIDS = ('server0', 'server1', 'migration')
_NODE = host_provider.Node(
    uuid='99999999-9999-4999-8999-999999999999', hypervisor_hostname='node'
)
_POOL = builders.make_host_provider(
    inventories={builders.SEATS: builders.make_inventory(len(world.UNITS))}
)
_POOL_UUID = _POOL.make_rp_uuid(_NODE)


class _Killed(BaseException):
    """The process of a call is killed."""


class _Call(threading.Thread):
    """A call of a host, which waits before each action.

    :ivar next_action: before which it waits; None: it has ended
    :ivar result: what it has returned
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._arrived: queue.Queue[_Action | None] = queue.Queue()
        self._orders: queue.Queue[str] = queue.Queue()
        self.next_action: _Action | None = None
        self.result: Any = None
        self.start()
        self._await()

    def run(self) -> None:
        try:
            self.result = self._function()
        except (exception.ExtResourcesError, _Killed) as err:
            self.result = err
        finally:
            self._arrived.put(None)

    def wait(self, action: _Action) -> bool:
        """Wait until the action may be done; return whether it is refused."""
        self._arrived.put(action)
        order = self._orders.get(timeout=_WAIT)
        if order == 'kill':
            raise _Killed
        return order == 'refuse'

    def go_on(self, order: str) -> None:
        self._orders.put(order)
        self._await()

    def _await(self) -> None:
        self.next_action = self._arrived.get(timeout=_WAIT)


def _is_refused(action: _Action) -> bool:
    """Wait, within a call; return whether the action is refused."""
    call = threading.current_thread()
    return isinstance(call, _Call) and call.wait(action)


class _Memory(memory.StateMemory):
    def allocate(self, *args: Any, **kwargs: Any) -> assignment.Entry:
        _is_refused(_Action.TAKE)
        return super().allocate(*args, **kwargs)

    def mark_releasing(
        self, consumer_uuids: Iterable[str]
    ) -> list[assignment.Entry]:
        uuids = [*consumer_uuids]
        if self.entries.keys() & uuids:
            _is_refused(_Action.REMEMBER)
        return super().mark_releasing(uuids)

    def replace(
        self,
        gone: Collection[str],
        made: Sequence[assignment.Entry],
        former: Iterable[assignment.Entry] = (),
    ) -> None:
        uuids = {*gone, *(one.consumer_uuid for one in made)}
        before = [self.entries[one] for one in uuids & self.entries.keys()]
        # What only settles a claim changes no entry.
        if before != [*made]:
            _is_refused(_Action.REMEMBER if made else _Action.FORGET)
        super().replace(gone, made, former)


class _Ledger(ledger.Ledger):
    def replace(
        self, gone: Iterable[str], made: Iterable[assignment.Entry]
    ) -> None:
        entries = [*made]
        self._refuse(_Action.WRITE if entries else _Action.DELETE)
        super().replace(gone, entries)

    def set_state(
        self, consumer_uuids: Iterable[str], state: assignment.State
    ) -> None:
        self._refuse(_Action.WRITE)
        super().set_state(consumer_uuids, state)

    def delete(self, consumer_uuids: Iterable[str]) -> None:
        self._refuse(_Action.DELETE)
        super().delete(consumer_uuids)

    def _refuse(self, action: _Action) -> None:
        if _is_refused(action):
            raise exception.LedgerError(path=self.path, reason='no space left')


class _Enforcer(drivers_base.Enforcer):
    RESOURCE_CLASSES = None

    def __init__(self) -> None:
        self.applied: set[str] = set()

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        self._refuse(_Action.ENFORCE)
        self.applied.add(entry.consumer_uuid)
        return entry.assignments

    def release(self, entry: assignment.Entry) -> None:
        self._refuse(_Action.REMOVE)
        self.applied.discard(entry.consumer_uuid)

    def list_applied(self) -> frozenset[str]:
        return frozenset(self.applied)

    def recognize(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        return entry.assignments

    def _refuse(self, action: _Action) -> None:
        if _is_refused(action):
            raise OSError('no such device')


class _Host:
    """One host, whose process comes and goes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.enforcer = _Enforcer()
        self.ledger = _Ledger(path)
        self.manager: manager.ClaimManager
        self.is_up = False
        self.start()

    @property
    def entries(self) -> Mapping[str, assignment.Entry]:
        """What is in memory."""
        return self.manager.entries if self.is_up else {}

    def start(self) -> None:
        self.is_up = True
        trackers = {'count': count.CountTracker()}
        state = _Memory(
            host='host',
            node=_NODE,
            trackers=trackers,
            entries=self.ledger.list_entries(),
            found=discovery.DiscoveredResources(),
            resource_classes=frozenset({builders.SEATS}),
        )
        state.rebuild(
            discovery.DiscoveredResources(providers=(_POOL,)),
            state.entries,
            may_refuse=False,
        )
        self.manager = manager.ClaimManager(
            state,
            enforcement.Enforcement(
                'host', {'enforcer': self.enforcer}, trackers
            ),
            self.ledger,
            host='host',
            tests=(),
        )

    def kill(self) -> None:
        self.is_up = False
        self.ledger.close()
        # What is on the disk is all that is left.
        self.ledger = _Ledger(self._path)


class Replay:
    """Does on real hosts what a walk has done.

    :param folder: of the ledgers
    """

    def __init__(self, folder: str, moves: machine.Machine) -> None:
        self._machine = moves
        self._hosts = [
            _Host(os.path.join(folder, f'host{one}')) for one in world.HOSTS
        ]
        # By the number of the thread.
        self._calls: dict[int, tuple[int, _Call]] = {}
        self._found: dict[int, assignment.Entry | None] = {}
        self._claims: dict[int, Any] = {}

    def close(self) -> None:
        for _host, call in self._calls.values():
            with contextlib.suppress(queue.Empty):
                call.go_on('kill')
        for one in self._hosts:
            one.ledger.close()

    def do(self, move: machine.Move, after: bytes) -> None:
        """Do one move; raise AssertionError where a host does another."""
        if isinstance(move.actor, str):
            self._do_to_process(self._hosts[int(move.actor[-1])], move)
        elif move.call == 'find':
            host = self._hosts[move.host].manager
            self._found[move.actor] = host.find_entry(UUIDS[move.consumer])
        elif move.call == 'follow':
            entry = self._claims.get(move.actor)
            if not move.outcome and isinstance(entry, assignment.Entry):
                self._hosts[move.host].manager.settle(entry)
        elif move.call:
            self._act(move.actor, move, after)

    def _do_to_process(self, host: _Host, move: machine.Move) -> None:
        if move.what == 'start':
            host.start()
            return
        for number, (place, call) in [*self._calls.items()]:
            if self._hosts[place] is host:
                call.go_on('kill')
                del self._calls[number]
        host.kill()
        if move.what == 'boot':
            host.enforcer.applied.clear()

    def _act(self, number: int, move: machine.Move, after: bytes) -> None:
        if number not in self._calls:
            self._calls[number] = move.host, self._begin(number, move)
        _host, call = self._calls[number]
        expected = move.what.partition(': ')[2]
        if expected == _Action.TRY_TO_REMOVE:
            expected = _Action.REMOVE
        # The ledger follows memory, which may have no entry any more.
        if move.call != 'rewrite' and call.next_action != expected:
            raise AssertionError(
                f'{move.what} is expected, and {call.next_action} comes'
            )
        call.go_on('refuse' if move.outcome == 'refused' else 'go')
        # The compensation of a claim.
        if move.outcome and call.next_action is _Action.FORGET:
            call.go_on('go')
        if call.next_action is None:
            self._claims[number] = call.result
            del self._calls[number]
        elif not self._machine.has_locks(after, number):
            raise AssertionError(
                f'after {move.what}, {call.next_action} comes, too'
            )

    def _begin(self, number: int, move: machine.Move) -> _Call:
        host = self._hosts[move.host].manager
        uuid = UUIDS[move.consumer]
        server = UUIDS[world.find_server(move.consumer)]
        request = assignment.ClaimRequest(
            consumer_uuid=uuid,
            server_uuid=server,
            allocations={_POOL_UUID: {builders.SEATS: 1}},
            requirement=builders.make_requirement(_={builders.SEATS: 1}),
        )
        found = self._found.get(number)
        claimed: Any = self._claims.get(number)
        methods: dict[str, Callable[[], Any]] = {
            'claim': lambda: host.claim(request),
            'claim_move': lambda: host.claim(request, is_move=True),
            'reclaim': lambda: host.claim(request, is_running=True),
            'apply': lambda: host.apply(server),
            'prepare': lambda: host.prepare(server),
            'hold': lambda: host.park(server, UUIDS[-1]),
            'hold_again': lambda: host.park(server, UUIDS[-1], is_retry=True),
            'take_back': lambda: host.unpark(server, UUIDS[-1]),
            'release': lambda: host.release(uuid),
            'undo': lambda: host.undo(claimed),
            'release_gone': lambda: host.release_gone(
                [found] if found else []
            ),
            'release_orphan': lambda: host.release_orphan(uuid, ['enforcer']),
            'finish': lambda: host.finish(uuid),
            'rewrite': lambda: host.rewrite(uuid),
            'recognize': lambda: host.restore(request, is_applied=True),
            'restore': lambda: host.restore(request, is_applied=False),
        }
        return _Call(methods[move.call])

    def read(self) -> list[tuple[Kinds, Kinds, set[str]]]:
        """Return memory, ledger and what is applied, of each host."""
        return [
            (
                _list_kinds(one.entries.items()),
                _list_kinds(one.ledger.list_entries().items()),
                {*one.enforcer.applied},
            )
            for one in self._hosts
        ]


def _list_kinds(entries: Iterable[tuple[str, assignment.Entry]]) -> Kinds:
    return {uuid: (one.state, one.purpose) for uuid, one in entries}


def expect(state: bytes) -> list[tuple[Kinds, Kinds, set[str]]]:
    """Return what :meth:`Replay.read` should return in a state."""

    def find(begin: int) -> dict[str, int]:
        codes = zip(UUIDS, state[begin : begin + len(UUIDS)], strict=True)
        return {uuid: code for uuid, code in codes if code}

    def list_kinds(begin: int) -> Kinds:
        return {
            uuid: world.KINDS[world.KIND_OF[code]]
            for uuid, code in find(begin).items()
        }

    return [
        (
            list_kinds(own + world.MEMORY),
            list_kinds(own + world.LEDGER),
            {*find(own + world.APPLIED)},
        )
        for own in (host * world.HOST_SIZE for host in world.HOSTS)
    ]
