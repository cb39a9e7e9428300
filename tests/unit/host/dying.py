# SPDX-License-Identifier: Apache-2.0

"""A host's process that is killed at a given step, again and again.

Run as a process of its own, which forks: one thread only, and everything
is imported once. For each line ``SCENARIO STEP`` that it reads it tells
whether the child was killed at that step or came to its end before. In the
place of a scenario there may be calls, as JSON without blanks; a claim of
them may be refused.

A step is whatever can be seen from outside: a statement of the ledger, a
request before it is sent, and after it is sent but not answered, a command
to the kernel before it is given and after it. What only reads is none. Between
two steps only memory changes, which dies with the process.
"""

from collections.abc import Callable, Sequence
import dataclasses
import functools
import json
import os
import signal
import socket
import sqlite3
import sys
from typing import Any, ClassVar

from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.host import manager
from nova_ext_resources import plugins as plugins_mod
from tests.unit.host import with_host

#: Runs all the time; nothing of it may change.
NEIGHBOUR = '11111111-1111-4111-8111-111111111111'

#: Comes and goes. The processes that a test starts have the same, and tests
#: that run beside it another one: a host looks for the guest of a server among
#: all processes of the machine.
SERVER = os.environ.setdefault(
    'TESTS_DYING_SERVER', f'22222222-2222-4222-8222-{os.getpid():012}'
)

#: Moves it.
MIGRATION = '33333333-3333-4333-8333-333333333333'

#: How a child ends whose claim is refused.
REFUSED = 3

#: How statements and requests begin that only read.
_READING = ('SELECT', 'PRAGMA')
_GETTING = b'GET '

#: What the module os does to files of the kernel.
_COMMANDS = ('write', 'mkdir', 'rmdir')


def claim_neighbour(host: manager.HostManager) -> None:
    """Return the neighbour what it has."""
    host.claim(with_host.make_claim(NEIGHBOUR, 2, cpus=frozenset({3})))
    host.apply(NEIGHBOUR)


def come_and_go(host: manager.HostManager) -> None:
    """Build a server and delete it."""
    host.claim(with_host.make_claim(SERVER, 3))
    host.apply(SERVER)
    host.release(SERVER)


def come_and_go_floating(host: manager.HostManager) -> None:
    """Do the same with one whose CPUs float."""
    host.claim(with_host.make_claim(SERVER, 3, cpus=None))
    host.apply(SERVER)
    host.release(SERVER)


def leave(host: manager.HostManager) -> None:
    """Hold what a server has for its way back."""
    host.park(SERVER, MIGRATION)


def come_back(host: manager.HostManager) -> None:
    """Revert that."""
    host.unpark(SERVER, MIGRATION)


def exchange(host: manager.HostManager) -> None:
    """Hold what a server has, and give it what it gets on its host."""
    host.park(SERVER, MIGRATION)


def claim_again(host: manager.HostManager) -> None:
    """Claim more for a server whose guest runs."""
    host.claim(with_host.make_claim(SERVER, 3), is_running=True)


def heal(host: manager.HostManager) -> None:
    """Do what a service does when it starts."""
    host.reconcile([NEIGHBOUR])


SCENARIOS: dict[str, Callable[[manager.HostManager], None]] = {
    'come_and_go': come_and_go,
    'come_and_go_floating': come_and_go_floating,
    'heal': heal,
    'leave': leave,
    'come_back': come_back,
    'exchange': exchange,
    'claim_again': claim_again,
}


def claim(host: manager.HostManager, uuid: str, ways: int, cpu: int) -> None:
    """Claim for a server that is built here."""
    host.claim(with_host.make_claim(uuid, ways, cpus=frozenset({cpu})))


def claim_move(
    host: manager.HostManager, uuid: str, server: str, ways: int, cpu: int
) -> None:
    """Claim for a server that moves here."""
    made = with_host.make_claim(uuid, ways, cpus=frozenset({cpu}))
    host.claim(dataclasses.replace(made, server_uuid=server), is_move=True)


def hold_again(host: manager.HostManager, server: str, migration: str) -> None:
    """Do what is left to do of it before the guest starts on its own host."""
    host.park(server, migration, is_retry=True)


CALLS: dict[str, Callable[..., object]] = {
    'claim': claim,
    'claim_move': claim_move,
    'apply': manager.HostManager.apply,
    'park': manager.HostManager.park,
    'hold_again': hold_again,
    'unpark': manager.HostManager.unpark,
    'release': manager.HostManager.release,
}


def play(host: manager.HostManager, calls: Sequence[Sequence[Any]]) -> None:
    """Do what Nova has a driver do, one after the other."""
    for name, *arguments in calls:
        CALLS[name](host, *arguments)


class _Killer:
    """Kills its own process at a step, without any farewell."""

    def __init__(self, step: int) -> None:
        self._left = step

    def install(self) -> None:
        """Count from here on what this process does."""
        for name in _COMMANDS:
            self._replace(os, **{name: self._watch(getattr(os, name))})
        send = socket.socket.sendall
        watched = self._watch(send)

        def send_all(made: socket.socket, data: Any, *args: Any) -> None:
            call = send if bytes(data[:4]) == _GETTING else watched
            call(made, data, *args)

        self._replace(socket.socket, sendall=send_all)
        _Connection.see = self._see_statement
        connect = functools.partial(sqlite3.connect, factory=_Connection)
        self._replace(sqlite3, connect=connect)

    def _replace(self, owner: Any, **made: Callable[..., Any]) -> None:
        """Replace what this process, which is a fork, has for good."""
        for name, function in made.items():
            setattr(owner, name, function)

    def _watch(self, act: Callable[..., Any]) -> Callable[..., Any]:
        """Let each call be two steps."""

        def act_or_die(*args: Any, **kwargs: Any) -> Any:
            self._step()
            result = act(*args, **kwargs)
            self._step()
            return result

        return act_or_die

    def _see_statement(self, statement: str) -> None:
        if not statement.lstrip().startswith(_READING):
            self._step()

    def _step(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


class _Connection(sqlite3.Connection):
    """Says each statement before it is executed."""

    see: ClassVar[Callable[[str], None]]

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        type(self).see(sql)
        return super().execute(sql, *args)

    def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
        type(self).see(sql)
        return super().executemany(sql, *args)

    def executescript(self, sql: str) -> sqlite3.Cursor:
        type(self).see(sql)
        return super().executescript(sql)


def main(ledger_path: str, backend: str, *options: str) -> None:
    """Read what to do, and do it.

    :param options: ``NAME=VALUE`` of the backend
    """
    conf = cfg.ConfigOpts()
    conf([], project='nova', default_config_files=[])
    plugins: dict[str, dict[str, Any]] = {}
    for namespace in (plugins_mod.INVENTORY_PROVIDERS, plugins_mod.ENFORCERS):
        (cls,) = plugins_mod.load_classes(namespace, [backend]).values()
        plugins_mod.register_opts(conf, backend, cls.OPTIONS)
        for option in options:
            name, _equals, value = option.partition('=')
            conf.set_override(name, value, f'ext_resources_{backend}')
        plugins[namespace] = plugins_mod.load_with_options(
            namespace, [backend], conf, 'host1', lambda: host.entries
        )
    # Once for all children.
    with_host.load_pure()
    for line in sys.stdin:
        scenario, step = line.split()
        child = os.fork()
        if not child:
            _Killer(int(step)).install()
            ledger = ledger_mod.Ledger(ledger_path)
            host = with_host.make_host(
                plugins[plugins_mod.INVENTORY_PROVIDERS],
                plugins[plugins_mod.ENFORCERS],
                ledger,
            )
            host.refresh()
            if scenario in SCENARIOS:
                SCENARIOS[scenario](host)
            else:
                try:
                    play(host, json.loads(scenario))
                except exception.ClaimError:
                    os._exit(REFUSED)
            os._exit(0)
        _pid, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
