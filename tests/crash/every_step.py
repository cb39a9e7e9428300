# SPDX-License-Identifier: Apache-2.0

"""Kills a nova-compute at each step of each operation, one after the other.

First an operation runs undisturbed, which shows its steps on both hosts. Then
it runs once for each step, and the host is killed there. Killed after a step
is killed before the next one; the first is tried before it, too.
"""

import collections
from collections.abc import Iterable, Iterator
import contextlib
import dataclasses

import requests

from tests.crash import agreement
from tests.crash import operations
from tests.crash import patience
from tests.crash import placement
from tests.crash import process
from tests.crash import steps


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Where a host is killed, and what came of it.

    :ivar host: which one
    :ivar plan: at which step
    """

    operation: str
    host: str
    plan: steps.Plan

    def __str__(self) -> str:
        return (
            f'{self.operation}: {self.host} {self.plan.phase} '
            f'{self.plan.name} #{self.plan.count}'
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a kill.

    :ivar was_killed: whether the step came; threads of a host may order
        theirs in another way
    :ivar status: of the server in Nova afterwards
    :ivar faults: what does not agree
    :ivar novas: what Nova has left in placement
    """

    kill: Kill
    was_killed: bool
    status: str
    faults: tuple[str, ...]
    novas: tuple[str, ...]


class EveryStep:
    """Runs the cases of a site."""

    def __init__(self, servers: operations.Servers) -> None:
        self.servers = servers
        self.site = servers.site

    def list_kills(self, name: str) -> list[Kill]:
        """Run an operation undisturbed; return where to kill.

        :raises AssertionError: it does not end as it should
        """
        one = operations.OPERATIONS[name]
        self.site.revive()
        uuid = one.prepare(self.servers)
        self.site.settle()
        begins = {
            host: made.find_end() for host, made in self.site.computes.items()
        }
        one.act(self.servers, uuid)
        self.site.settle()
        kills = [
            Kill(operation=name, host=host, plan=plan)
            for host, made in self.site.computes.items()
            for plan in _list_plans(made.read_steps(begins[host]))
        ]
        faults = [*self.end(one)]
        assert not faults, faults
        return kills

    def run(self, kill: Kill) -> Outcome:
        """Kill a host at a step, and see what comes of it."""
        one = operations.OPERATIONS[kill.operation]
        self.site.revive()
        uuid = one.prepare(self.servers)
        self.site.settle()
        compute = self.site.computes[kill.host]
        starts = compute.starts
        compute.plan(kill.plan)
        # It may be killed before it has answered.
        with contextlib.suppress(requests.RequestException):
            one.act(self.servers, uuid)
        was_killed = self._wait(compute)
        compute.plan(None)
        self.site.revive()
        one.undo(self.servers)
        self.site.converge()
        made = agreement.compare(self.servers)
        # The rules know all that one kill leaves.
        faults = [*made.ours, *made.kept]
        status = ', '.join(
            f'{s["status"]} {s["OS-EXT-STS:task_state"] or ""}'.strip()
            for s in self.servers.list().values()
        )
        if not was_killed and compute.starts != starts:
            faults.append(f'{kill.host} has ended by itself')
        faults += self.end(one)
        return Outcome(
            kill=kill,
            was_killed=was_killed,
            status=status or 'deleted',
            faults=tuple(faults),
            novas=tuple(made.novas.values()),
        )

    def _wait(self, compute: process.Compute) -> bool:
        """Wait for the end of the operation, or of the host."""

        def is_over() -> bool:
            return not compute.is_running or self.site.is_quiet()

        patience.wait_until(is_over, 'kill')
        return not compute.is_running

    def end(self, one: operations.Operation) -> Iterator[str]:
        """Delete all servers; yield what is left then."""
        self.site.revive()
        one.undo(self.servers)
        anew = self.servers.delete_anew
        for delete in (self.servers.delete, anew, anew):
            left = self.servers.list()
            if not left:
                break
            for uuid in left:
                with contextlib.suppress(requests.RequestException):
                    delete(uuid)
            self.site.settle()
        self.site.converge()
        made = agreement.compare(self.servers)
        for text in (*made.ours, *made.kept):
            yield f'after the delete: {text}'
        yield from (f'not deleted: {uuid}' for uuid in self.servers.list())
        for uuid in made.novas:
            placement.remove_allocations(self.site, uuid)
        for host, said in self.site.report().items():
            for uuid in said['entries']:
                yield f'after the delete: {host} has an entry of {uuid}'


def _list_plans(found: Iterable[tuple[str, str]]) -> Iterator[steps.Plan]:
    seen: collections.Counter[str] = collections.Counter()
    is_first = True
    for phase, name in found:
        if phase != steps.AFTER:
            if is_first:
                yield steps.Plan(name=name, phase=steps.BEFORE)
            is_first = False
            continue
        seen[name] += 1
        yield steps.Plan(name=name, phase=steps.AFTER, count=seen[name])
