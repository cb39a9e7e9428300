# SPDX-License-Identifier: Apache-2.0

"""Kills at random steps of a random mix of operations on two hosts.

Whatever goes on, both hosts are about to be killed at one of their next
steps, and again while they start. Now and then something else goes away for
some seconds. After every few kills all is brought back, and must agree, or
at least keep each promise where no rule explains a state: see ``promises``.
"""

import collections
import contextlib
import random
import time
from typing import Any

import requests

from tests.crash import agreement
from tests.crash import every_step
from tests.crash import history
from tests.crash import operations
from tests.crash import outages as outages_mod
from tests.crash import process
from tests.crash import site as site_mod
from tests.crash import steps

#: How many servers there are at most: as many as the hosts have ways for.
_MAX_SERVERS = 4

#: After how many kills all must agree.
_BETWEEN = 8

#: How many steps a host may live: on its way, and while it starts.
_STEPS, _FIRST_STEPS = 120, 30

#: How often operations may end before the next begins, and seconds for it.
_MAY_END, _LONGEST = 0.8, 30.0

#: Seconds without an operation, or without a kill, after which all is brought
#: back.
_IDLE, _BARREN = 60.0, 900.0

_ACTIONS: dict[str, tuple[str, ...]] = {
    'ACTIVE': (
        *('os-stop', 'reboot', 'rebuild', 'shelve'),
        *('resize', 'migrate', 'resize', 'migrate', 'delete'),
        *('os-migrateLive', 'os-migrateLive'),
    ),
    'SHUTOFF': ('os-start', 'migrate', 'resize', 'delete'),
    'SHELVED_OFFLOADED': ('unshelve', 'delete'),
    'VERIFY_RESIZE': ('confirmResize', 'revertResize', 'delete'),
    'ERROR': ('delete', 'reboot'),
}


class AtRandom:
    """One run of a seed."""

    def __init__(
        self,
        servers: operations.Servers,
        chosen: random.Random,
        outages: list[outages_mod.Outage],
    ) -> None:
        self.servers, self.site = servers, servers.site
        self.chosen = chosen
        self._outages = outages
        self._away: dict[str, tuple[outages_mod.Outage, float]] = {}
        self.kills = 0
        self.failures = 0
        self.novas = 0
        #: What no rule explains, and nobody has lost anything by.
        self.kept = 0
        #: When the last operation has begun, and the last host has died.
        self._begun = self._killed = 0.0
        #: How many kills there were at the last check.
        self._checked = -1
        self._dead: set[int] = set()
        self._steps: collections.Counter[str] = collections.Counter()

    def run(self, kills: int) -> None:
        while self.kills < kills:
            target = min(self.kills + _BETWEEN, kills)
            self._begun = self._killed = time.monotonic()
            while self.kills < target and not self._is_idle():
                self._step()
            self._check()

    def _is_idle(self) -> bool:
        """Return whether nothing can begin: each server has a task for ever.

        Of deletions, say, that went to a host that was killed. Or operations
        begin, and none comes to a step at which a host dies.
        """
        now = time.monotonic()
        return now - self._begun > _IDLE or now - self._killed > _BARREN

    # -- one moment --------------------------------------------------------

    def _step(self) -> None:
        for one in self.site.computes.values():
            if not one.is_running:
                self._note_dead(one)
                self._start(one)
            elif not (one.folder / 'plan').exists():
                one.plan(steps.Plan(count=self.chosen.randint(1, _STEPS)))
        self._change_outages()
        # A service may be away; then the server stays as it is.
        with contextlib.suppress(requests.RequestException):
            self._act()
        time.sleep(self.chosen.uniform(0.0, 0.5))
        # Else most servers would be in ERROR, and few would move.
        if not self._away and self.chosen.random() < _MAY_END:
            self._linger()

    def _linger(self) -> None:
        """Let operations end, unless a host dies before."""
        deadline = time.monotonic() + _LONGEST
        computes = self.site.computes.values()
        while time.monotonic() < deadline and not self.site.is_quiet():
            if not all(one.is_running for one in computes):
                return
            time.sleep(0.05)

    def _note_dead(self, one: process.Compute) -> None:
        if one.pid in self._dead:
            return
        self._dead.add(one.pid)
        found = one.read_steps(0)[-1:]
        if found and found[0][0] == 'killed':
            self.kills += 1
            self._killed = time.monotonic()
            self._steps[found[0][1]] += 1
            print(f'{self.kills}: {one.host} {found[0][1]}', flush=True)
        else:
            # Nova's own start needs its database and placement.
            print(f'{one.host} has ended by itself', flush=True)

    def _start(self, one: process.Compute) -> None:
        one.plan(None)
        if self.chosen.random() < 0.3:
            count = self.chosen.randint(1, _FIRST_STEPS)
            one.plan(steps.Plan(count=count))
        one.start()

    def _change_outages(self) -> None:
        now = time.monotonic()
        for name, (one, until) in [*self._away.items()]:
            if now > until:
                one.end()
                del self._away[name]
        if self._outages and self.chosen.random() < 0.1 and not self._away:
            one = self.chosen.choice(self._outages)
            print(f'   away: {one.name}', flush=True)
            one.begin()
            self._away[one.name] = one, now + self.chosen.uniform(1, 6)

    def _act(self) -> None:
        found = self.servers.list(seconds=10)
        if len(found) < _MAX_SERVERS and self.chosen.random() < 0.5:
            self.servers.boot(self.chosen.choice(site_mod.HOSTS))
            self._begun = time.monotonic()
            return
        ready = [
            one
            for one in found.values()
            if one['OS-EXT-STS:task_state'] is None
            and one['status'] in _ACTIONS
        ]
        if ready:
            self._act_on(self.chosen.choice(ready))
            # Nova may refuse it for ever.
            self._begun = time.monotonic()

    def _act_on(self, one: dict[str, Any]) -> None:
        uuid, action = one['id'], self.chosen.choice(_ACTIONS[one['status']])
        print(f'   {action} {uuid}', flush=True)
        if action == 'delete':
            self.servers.delete(uuid)
            return
        flavor = one['flavor']['original_name']
        bodies: dict[str, Any] = {
            'reboot': {'type': 'HARD'},
            'os-migrateLive': operations.LIVE,
            'rebuild': {'imageRef': self.site.image},
            'resize': {
                'flavorRef': self.servers.large
                if flavor.endswith(str(operations.SMALL))
                else self.servers.small
            },
        }
        self.servers.act(uuid, action, bodies.get(action))

    def show_steps(self) -> None:
        """Print at which steps hosts were killed, and how often."""
        print(f'== killed at {len(self._steps)} different steps')
        for name, count in sorted(self._steps.items()):
            print(f'{count:5} {name}')

    # -- the end -----------------------------------------------------------

    def _check(self) -> None:
        for one, _until in self._away.values():
            one.end()
        self._away.clear()
        for compute in self.site.computes.values():
            compute.plan(None)
        for compute in self.site.computes.values():
            if not compute.is_running:
                self._note_dead(compute)
        self.site.converge()
        made = agreement.compare(self.servers)
        statuses = [one['status'] for one in self.servers.list().values()]
        verdict = 'FAILED' if made.ours else 'agrees'
        print(f'== {self.kills} kills: {statuses} {verdict}', flush=True)
        self._report(made.ours)
        self.novas += len(made.novas)
        self.kept += len(made.kept)
        self._show(made.kept)
        is_stuck = any(
            one['OS-EXT-STS:task_state']
            or one['status'] == 'ERROR'
            or one['status'] not in _ACTIONS
            for one in self.servers.list().values()
        )
        # Whatever it is with which a run would go on for ever.
        is_barren = self.kills == self._checked
        self._checked = self.kills
        left = made.ours or made.novas or made.kept
        if left or is_stuck or is_barren:
            self._clear()

    def _clear(self) -> None:
        """Delete what Nova does not go on with, and look again."""
        ending = every_step.EveryStep(self.servers)
        undisturbed = operations.OPERATIONS['delete']
        self._report([*ending.end(undisturbed)])

    def _report(self, faults: list[str]) -> None:
        self.failures += bool(faults)
        self._show(faults)

    def _show(self, texts: list[str]) -> None:
        for text in texts:
            print(f'    {text}', flush=True)
        for line in history.describe(self.site, texts) if texts else ():
            print(f'      {line}', flush=True)


def run(
    servers: operations.Servers,
    chosen: random.Random,
    kills: int,
    *,
    with_outages: bool,
) -> int:
    """Return 1 when anything does not agree."""
    outages = outages_mod.list_all(servers.site) if with_outages else []
    made = AtRandom(servers, chosen, outages)
    made.run(kills)
    made.show_steps()
    print(
        f'== {made.kills} kills, {made.failures} times it did not agree; '
        f'{made.novas} allocations left by Nova, {made.kept} differences that '
        f'no rule explains, with each promise kept'
    )
    return 1 if made.failures else 0
