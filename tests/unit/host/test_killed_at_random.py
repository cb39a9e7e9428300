# SPDX-License-Identifier: Apache-2.0

"""Two hosts that are killed at random steps of a random mix of operations.

Processes, ledgers and RMD are real, and nothing else of Nova than the calls
that it makes, and what it says after a crash (read in and tried with Nova
34). ``tests.crash`` kills real nova-computes.

``KILLS`` and ``KILLS_SEED`` say how many and which.
"""

from collections.abc import Iterator
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
from typing import Any
import uuid

from testtools import content

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host.reconcile import ended_migrations
from nova_ext_resources.objects import assignment
from nova_ext_resources.testing import rmd_simulator
from tests.unit.host import dying
from tests.unit.host import with_host

Role = consumer_role.Role
State = assignment.State

#: Of these each host has six.
_MAX_WAYS = 2

#: More steps than any calls have on a host, and than a hold has, which lets a
#: server go and come again.
_STEPS, _STEPS_OF_HOLD = 25, 45

_MAX_SERVERS = 3

#: CPUs of the first domain: of each server two, for a move on its host.
_CPUS = ((1, 6), (2, 7), (3, 8))

Call = tuple[Any, ...]


@dataclasses.dataclass
class Held:
    """What a server has on a host."""

    side: int
    ways: int
    cpu: int


@dataclasses.dataclass
class Server:
    """A server as Nova knows it.

    :ivar number: tells which CPUs are its own
    :ivar own: what it has by its flavor
    :ivar kept: what a move keeps of it
    """

    uuid: str
    number: int
    own: Held
    migration: str = ''
    kept: Held | None = None

    @property
    def other_cpu(self) -> int:
        first, second = _CPUS[self.number]
        return second if self.own.cpu == first else first


class KilledAtRandomTest(with_host.RmdHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.seed = int(
            os.environ.get('KILLS_SEED') or random.randrange(2**32)
        )
        self.chosen = random.Random(self.seed)
        self.servers: dict[str, Server] = {}
        second = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.sides = (
            (self.fixture, self.ledger_path),
            (second, f'{self.ledger_path}.2'),
        )
        self.processes = [self.start_process(n) for n in (0, 1)]
        self.kills = 0

    def at(self, side: int) -> None:
        """Turn to one of the hosts."""
        self.fixture, self.ledger_path = self.sides[side]
        self.simulator = self.fixture.simulator

    def start_process(self, side: int) -> 'subprocess.Popen[str]':
        self.at(side)
        made = subprocess.Popen(
            [
                *(sys.executable, '-m', 'tests.unit.host.dying'),
                *(self.ledger_path, 'rmd', f'url={self.fixture.url}'),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(made.communicate, timeout=120)
        return made

    def test_all_agrees_after_each_kill(self) -> None:
        kills = int(os.environ.get('KILLS') or 40)
        self.addDetail('seed', content.text_content(str(self.seed)))
        while self.kills < kills:
            self.do_one()

    # -- one operation -----------------------------------------------------

    def do_one(self) -> None:
        """Do one, killed somewhere or not, and compare both hosts."""
        name, server = self.choose()
        self.what = f'seed {self.seed}, kill {self.kills}: {name} {server}'
        parts = [*getattr(self, f'list_{name}')(server)]
        number = self.chosen.randrange(len(parts))
        died = -1
        for index, (side, calls) in enumerate(parts):
            step = self.choose_step(calls) if index == number else 0
            code = self.play(side, calls, step)
            if code:
                died = index
                self.kills += code == -signal.SIGKILL
                break
        getattr(self, f'end_{name}')(server, died)
        for side in (0, 1):
            self.converge(side)

    def choose_step(self, calls: list[Call]) -> int:
        is_hold = any(name.startswith('park') for name, *_rest in calls)
        return self.chosen.randint(1, _STEPS_OF_HOLD if is_hold else _STEPS)

    def choose(self) -> tuple[str, Server]:
        known = sorted(self.servers.values(), key=lambda one: one.number)
        free = {0, 1, 2} - {one.number for one in known}
        if free and (not known or self.chosen.random() < 0.3):
            number = min(free)
            made = Server(
                uuid=str(uuid.UUID(int=self.chosen.getrandbits(128))),
                number=number,
                own=self.choose_held(self.chosen.randrange(2), number),
            )
            return 'boot', made
        one = self.chosen.choice(known)
        names = ['confirm', 'revert']
        if one.kept is None:
            names = ['restart', 'delete', 'move', 'move', 'move']
        return self.chosen.choice(names), one

    def choose_held(self, side: int, number: int) -> Held:
        return Held(
            side=side,
            ways=self.chosen.randint(1, _MAX_WAYS),
            cpu=_CPUS[number][0],
        )

    def play(self, side: int, calls: list[Call], step: int) -> int:
        """Have a host do it; return how that ends: 0 if as it should."""
        process = self.processes[side]
        assert process.stdin is not None
        assert process.stdout is not None
        text = json.dumps(calls, separators=(',', ':'))
        process.stdin.write(f'{text} {step}\n')
        process.stdin.flush()
        code = int(process.stdout.readline())
        self.assertIn(code, (0, -signal.SIGKILL, dying.REFUSED), self.what)
        # Its last request may still be answered.
        self.at(side)
        with self.simulator.daemon.locked():
            pass
        return code

    # -- what Nova calls, host by host -------------------------------------

    def list_boot(self, one: Server) -> Iterator[tuple[int, list[Call]]]:
        calls = [
            ('claim', one.uuid, one.own.ways, one.own.cpu),
            ('apply', one.uuid),
        ]
        yield one.own.side, calls

    def list_restart(self, one: Server) -> Iterator[tuple[int, list[Call]]]:
        yield one.own.side, [('apply', one.uuid)]

    def list_delete(self, one: Server) -> Iterator[tuple[int, list[Call]]]:
        yield one.own.side, [('release', one.uuid)]

    def list_move(self, one: Server) -> Iterator[tuple[int, list[Call]]]:
        new = self.choose_held(self.chosen.randrange(2), one.number)
        is_here = new.side == one.own.side
        if is_here:
            new.cpu = one.other_cpu
        one.migration = str(uuid.UUID(int=self.chosen.getrandbits(128)))
        self.new = new
        again: list[Call] = [('hold_again', one.uuid, one.migration)]
        consumer = one.migration if is_here else one.uuid
        yield (
            new.side,
            [('claim_move', consumer, one.uuid, new.ways, new.cpu)],
        )
        yield one.own.side, [('park', one.uuid, one.migration)]
        yield new.side, [*(again if is_here else ()), ('apply', one.uuid)]

    def list_confirm(self, one: Server) -> Iterator[tuple[int, list[Call]]]:
        assert one.kept is not None
        calls: list[Call] = [('release', one.migration)]
        if one.kept.side != one.own.side:
            calls.append(('release', one.uuid))
        yield one.kept.side, calls

    def list_revert(self, one: Server) -> Iterator[tuple[int, list[Call]]]:
        assert one.kept is not None
        yield one.own.side, [('release', one.uuid)]
        yield one.kept.side, [('unpark', one.uuid, one.migration)]

    # -- what Nova says afterwards -------------------------------------------

    def end_boot(self, one: Server, died: int) -> None:
        self.maybe = {one.uuid} if died >= 0 else set()
        # Nova builds it elsewhere, or leaves it in ERROR.
        if died < 0 or self.chosen.random() < 0.5:
            self.servers[one.uuid] = one
        self.roles: dict[str, Role] = {}

    def end_restart(self, one: Server, died: int) -> None:
        self.maybe, self.roles = set(), {}

    def end_delete(self, one: Server, died: int) -> None:
        self.maybe, self.roles = set(), {}
        del self.servers[one.uuid]

    def end_move(self, one: Server, died: int) -> None:
        self.maybe, self.roles = set(), {}
        if died in (0, 1):
            # Nova gives up, and the server stays where it is.
            self.roles = {one.migration: Role.RETURNED}
            one.migration = ''
            return
        one.kept, one.own = one.own, self.new
        if died == 2:
            # It is in ERROR on its new host.
            self.end_confirm(one, died)

    def end_confirm(self, one: Server, died: int) -> None:
        self.maybe = set()
        self.roles = {one.migration: Role.LEFT}
        one.migration, one.kept = '', None

    def end_revert(self, one: Server, died: int) -> None:
        assert one.kept is not None
        self.maybe, self.roles = set(), {}
        if died == 0:
            # Its guest is gone; an administrator deletes it.
            self.roles = {one.migration: Role.LEFT}
            del self.servers[one.uuid]
            return
        self.roles = {one.migration: Role.RETURNED}
        one.own, one.migration, one.kept = one.kept, '', None

    # -- what both hosts make of it ------------------------------------------

    def list_expected(self, side: int) -> dict[str, Held]:
        """Return consumer -> what it should hold of a host."""
        found = {}
        for one in self.servers.values():
            if one.own.side == side:
                found[one.uuid] = one.own
            if one.kept and one.kept.side == side:
                found[one.migration] = one.kept
        return found

    def converge(self, side: int) -> None:
        """Start a host anew, have it hear of Nova, and look at all."""
        self.at(side)
        host = self.make_rmd_host()
        expected = self.list_expected(side)
        roles = self.find_roles(host, expected)
        before = host.entries
        host.reconcile(
            [u for u, role in roles.items() if role is not Role.LEFT],
            before=before,
        )
        ended_migrations.finish(host, before, roles)
        # What repair has applied meanwhile waits for Nova's next answer.
        ended_migrations.finish(host, host.entries, roles)
        self.drop_unborn(host, expected)
        self.compare(host, expected)
        host.close()

    def find_roles(
        self, host: Any, expected: dict[str, Held]
    ) -> dict[str, Role]:
        """Return what Nova says of each entry, and of what it has here."""
        roles = dict.fromkeys(host.entries, Role.LEFT)
        roles.update(dict.fromkeys(expected, Role.SERVER))
        for uuid_, role in self.roles.items():
            entry = host.find_entry(uuid_)
            is_back = role is Role.RETURNED and (
                entry is not None
                and entry.purpose is assignment.Purpose.MIGRATION_SOURCE
            )
            roles[uuid_] = role if is_back else Role.LEFT
        return roles

    def drop_unborn(self, host: Any, expected: dict[str, Held]) -> None:
        """Forget servers that were killed before their claim."""
        for uuid_ in self.maybe & expected.keys() - host.entries.keys():
            del expected[uuid_], self.servers[uuid_]

    def compare(self, host: Any, expected: dict[str, Held]) -> None:
        self.assertEqual((), host.problems, self.what)
        self.assert_agreement(host)
        self.assertEqual(
            {
                uuid_: (one.ways, frozenset({one.cpu}))
                for uuid_, one in expected.items()
            },
            {
                uuid_: (
                    sum(
                        held.amount
                        for held in one.assignments
                        if held.resource_class == with_host.WAYS
                    ),
                    one.cpus,
                )
                for uuid_, one in host.entries.items()
            },
            self.what,
        )
