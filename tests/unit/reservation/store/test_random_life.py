# SPDX-License-Identifier: Apache-2.0

"""Reservations made, changed, taken, lost and ended at random.

Two processes admit to one store. What they were told is compared with the
rows after each step, and what both know with what is read anew.
"""

import collections
from collections.abc import Mapping, Sequence
import dataclasses
import json
import math
import pathlib
import shutil
import tempfile
from typing import Any, ClassVar

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st
import sqlalchemy as sa

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import schema
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.store import tables
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores
from tests.unit.reservation import test_calendar

Admission = admission_mod.Admission
State = state_mod.State

#: Seconds of a step. A plan is fixed for three of them.
STEP = 100

#: The CPUs of each host.
CPUS = 8
HOSTS = ('a', 'b', 'c')

#: A store is slower than a planner.
EXAMPLES = max(test_calendar.CASES // 16, 1)

WHICH = st.integers(0, 1)
SIZES = st.integers(1, 4)


@dataclasses.dataclass
class Told:
    """What the project of a reservation was told.

    :ivar amount: CPUs of each server
    :ivar at: server -> its host
    :ivar consumers: servers of Nova that have taken one of its servers
    """

    request: plan_request.Request
    amount: int
    during: interval.Interval
    at: dict[str, str]
    state: State = State.PENDING
    consumers: set[str] = dataclasses.field(default_factory=set)


class Life(stateful.RuleBasedStateMachine):
    """The life of reservations on three hosts."""

    template: ClassVar[pathlib.Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = pathlib.Path(tempfile.mkdtemp())
        # All of it: SQLite keeps what is new in a file of its own.
        shutil.copytree(self.template, self.folder, dirs_exist_ok=True)
        url = f'sqlite:///{self.folder}/reservations.db'
        self.databases = [databases.Database(url) for _process in range(2)]
        self.now = 1000
        self.number = 0
        self.told: dict[str, Told] = {}
        self.admissions = [self.make_admission(one) for one in range(2)]

    def teardown(self) -> None:
        for one in self.databases:
            one.close()
        shutil.rmtree(self.folder)

    def make_admission(self, which: int, lost: str = '') -> Admission:
        there = [
            hosts.make_host(one, VCPU=CPUS) for one in HOSTS if one != lost
        ]
        return Admission(self.databases[which], hosts.make_planner(*there))

    def read_servers(self) -> Sequence[sa.Row[Any]]:
        """Return the rows of all servers that are held."""
        query = sa.select(tables.SERVERS).where(tables.SERVERS.c.is_held)
        with self.databases[0].transaction() as connection:
            return connection.execute(query).all()

    def make_name(self, kind: str) -> str:
        self.number += 1
        return f'{kind} {self.number}'

    def make_time(self, later: int, steps: int) -> interval.Interval:
        start = self.now + later * STEP
        return interval.Interval(start, start + steps * STEP)

    def is_fixed(self, key: str) -> bool:
        return (
            self.told[key].during.start
            <= self.now + admission_mod.FIXED_SECONDS
        )

    def choose(
        self, data: st.DataObject, start: float = math.inf
    ) -> str | None:
        """Choose one that goes on by the clock.

        :param start: it starts then at the latest
        """
        keys = [
            key
            for key, one in self.told.items()
            if one.during.end > self.now and one.during.start <= start
        ]
        return data.draw(st.sampled_from(keys)) if keys else None

    @stateful.rule(data=st.data(), which=WHICH, later=st.integers(1, 6))
    def create_big(self, data: st.DataObject, which: int, later: int) -> None:
        """Leave holes, and ask for what must be moved for."""
        before = set(self.told)
        for _number in range(2 * len(HOSTS)):
            self.create(which, later, 2, 4, 1, 0)
        small = sorted(self.told.keys() - before)
        for key in small:
            if data.draw(st.booleans()):
                self.write(key, State.CANCELLED, which)
        self.create(which, later, 2, CPUS, 1, 0, priority=1)

    @stateful.rule(which=WHICH, least=SIZES)
    def create_now(self, which: int, least: int) -> None:
        """Ask for what can be taken at once."""
        self.create(which, 0, 6, 2, least, 1)

    @stateful.rule(
        which=WHICH,
        later=st.integers(0, 9),
        steps=st.integers(1, 6),
        amount=st.integers(1, 5),
        least=SIZES,
        more=st.integers(0, 2),
        delay=st.sampled_from((0, 0, 2 * STEP, interval.FOREVER)),
        affinity=st.sampled_from([*plan_request.Affinity]),
        priority=st.integers(0, 1),
    )
    def create(
        self,
        which: int,
        later: int,
        steps: int,
        amount: int,
        least: int,
        more: int,
        **fields: Any,
    ) -> None:
        request = hosts.make_request(
            self.make_name('lease'),
            self.make_time(later, steps),
            hosts.make_demand(_={'VCPU': amount}),
            least=least,
            most=least + more,
            **fields,
        )
        plan = self.admissions[which].admit(
            request, now=self.now, reason=stores.REASON
        )
        if isinstance(plan, planner.Plan):
            self.note(request, plan, Told(request, amount, plan.during, {}))
        else:
            self.check_refusal(request, amount, which)

    def note(
        self,
        request: plan_request.Request,
        plan: planner.Plan,
        told: Told,
    ) -> None:
        assert request.least <= len(plan.servers) <= request.most
        told.request, told.during = request, plan.during
        told.at = {one.key: one.host for one in plan.servers}
        self.told[request.key] = told
        for one in plan.moved:
            (key,) = (k for k, t in self.told.items() if one.key in t.at)
            assert not self.is_fixed(key), f'{key} was moved'
            self.told[key].at[one.key] = one.host

    def check_refusal(
        self, request: plan_request.Request, amount: int, which: int
    ) -> None:
        """Check that what is refused would not fit by itself."""
        if request.affinity is not plan_request.Affinity.ANY:
            return
        fitting = sum(
            self.find_free(host, request.during, which) // amount
            for host in HOSTS
        )
        assert fitting < request.least, f'{request} was refused'

    def find_free(
        self, host: str, during: interval.Interval, which: int
    ) -> int:
        return min(
            CPUS
            - self.count_used(host, second)
            - self.count_staying(host, second, which)
            for second in range(during.start, during.end, STEP)
        )

    def count_staying(self, host: str, second: int, which: int) -> int:
        """Return what servers hold whose slots a program has seen go."""
        mirror = self.admissions[which]._mirror
        return sum(
            sum(one.places.values())
            for key, one in mirror.planner.fleet.bookings.items()
            if one.host == host
            and one.during.start <= second
            and key not in mirror.owners
        )

    def count_used(self, host: str, second: int) -> int:
        return sum(
            told.amount
            for told in self.told.values()
            for where in told.at.values()
            if where == host and second in range(*self.list_ends(told))
        )

    def list_ends(self, told: Told) -> tuple[int, int]:
        return told.during.start, told.during.end

    @stateful.rule(data=st.data(), which=WHICH)
    def ask_again(self, data: st.DataObject, which: int) -> None:
        """Whoever has missed the answer gets the same one."""
        key = self.choose(data)
        if key is None or self.told[key].request.during.start < self.now:
            return
        plan = self.admissions[which].admit(
            self.told[key].request, now=self.now, reason=stores.REASON
        )
        assert isinstance(plan, planner.Plan)
        assert plan.during == self.told[key].during
        assert {one.key: one.host for one in plan.servers} == self.told[key].at

    @stateful.rule(
        data=st.data(), which=WHICH, steps=st.integers(1, 6), size=SIZES
    )
    def change(
        self, data: st.DataObject, which: int, steps: int, size: int
    ) -> None:
        key = self.choose(data)
        if key is None:
            return
        told, was_fixed = self.told[key], self.is_fixed(key)
        during = self.make_time(steps + 3, steps)
        if was_fixed:
            end = max(told.during.start, self.now) + steps * STEP
            during = interval.Interval(told.during.start, end)
        request = dataclasses.replace(
            told.request, during=during, delay=0, least=size, most=size
        )
        before = dict(told.at)
        try:
            plan = self.admissions[which].replace(
                request, now=self.now, reason='changed by a test'
            )
        except ValueError:
            # More servers than a reservation has that is not moved.
            assert was_fixed
            return
        if not isinstance(plan, planner.Plan):
            return
        self.note(request, plan, told)
        if was_fixed:
            assert told.at.items() <= before.items()
        self.forget_consumers(told, plan)

    def forget_consumers(self, told: Told, plan: planner.Plan) -> None:
        """What was taken goes last, when servers are released."""
        left = {one.consumer for one in plan.servers if one.consumer}
        assert left <= told.consumers
        assert len(left) == min(len(told.consumers), len(plan.servers))
        told.consumers = left

    @stateful.rule(data=st.data(), which=WHICH)
    def cancel(self, data: st.DataObject, which: int) -> None:
        key = self.choose(data)
        if key is not None:
            self.write(key, State.CANCELLED, which)

    def write(self, key: str, state: State, which: int = 0) -> None:
        self.admissions[which].change(
            key, state, now=self.now, reason=f'{state} by a test'
        )
        self.told[key].state = state
        if state.is_final:
            del self.told[key]

    @stateful.rule(which=WHICH)
    def read_hosts(self, which: int) -> None:
        """Servers that stayed have gone by then."""
        self.admissions[which] = self.make_admission(which)

    @stateful.rule(steps=st.integers(1, 4))
    def wait(self, steps: int) -> None:
        self.now += steps * STEP

    @stateful.rule()
    def manage(self) -> None:
        """Write what the clock says."""
        for key, one in [*self.told.items()]:
            state = one.state.find_now(one.during, self.now)
            if state is not one.state:
                self.write(key, state)

    @stateful.rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        key = self.choose(data, self.now)
        if key is not None:
            for _server in range(data.draw(SIZES)):
                self.take_slot(key)

    def take_slot(self, key: str) -> None:
        consumer = self.make_name('server')
        taken = slots.take(
            self.databases[0],
            key,
            consumer,
            lambda held: next((s for s in held if not s.consumer), None),
            now=self.now,
        )
        told = self.told[key]
        assert (taken is None) == (len(told.consumers) == len(told.at))
        if taken is not None:
            told.consumers.add(consumer)

    @stateful.rule(host=st.sampled_from(HOSTS))
    def lose(self, host: str) -> None:
        """Lose a host, and move what has not started, as the manager does."""
        manager = self.make_admission(0, host)
        for key, told in [*self.told.items()]:
            if host in told.at.values() and told.during.end > self.now:
                self.relocate(key, told, host, manager)

    def relocate(
        self, key: str, told: Told, host: str, manager: Admission
    ) -> None:
        plan = manager.relocate(key, now=self.now, reason='a host is lost')
        if not isinstance(plan, planner.Plan):
            self.write(key, State.DEGRADED)
            return
        assert told.during.start > self.now
        assert host not in {one.host for one in plan.servers}
        size = len(told.at)
        self.note(told.request, plan, told)
        assert len(told.at) == size
        told.state = State.PENDING

    @stateful.rule()
    def purge(self) -> None:
        purge.purge(self.databases[0], self.now - 3 * STEP)

    @stateful.invariant()
    def nothing_is_promised_twice(self) -> None:
        rows = self.read_servers()
        for second in {row.starts_at for row in rows}:
            taken = collections.Counter[str]()
            for row in rows:
                if row.starts_at <= second < row.ends_at:
                    (one,) = json.loads(row.assignments)
                    taken[row.host] += one['amount']
            assert max(taken.values()) <= CPUS

    @stateful.invariant()
    def all_is_as_told(self) -> None:
        rows = self.read_servers()
        for key, told in self.told.items():
            mine = [row for row in rows if row.reservation == key]
            assert {row.server: row.host for row in mine} == told.at
            times = {(row.starts_at, row.ends_at) for row in mine}
            assert times == {self.list_ends(told)}
            consumers = {row.consumer for row in mine if row.consumer}
            assert consumers == told.consumers
        assert {row.reservation for row in rows} == self.told.keys()

    @stateful.invariant()
    def all_know_the_same(self) -> None:
        fresh = self.make_admission(0)
        for one in (fresh, *self.admissions):
            one.refresh(self.now)
        expected = self.list_known(fresh)
        for one in self.admissions:
            assert self.list_known(one) == expected

    def list_known(
        self, admission: Admission
    ) -> tuple[Mapping[str, planned_server.PlannedServer], Mapping[str, Any]]:
        """Return what is booked, and what each reservation holds."""
        mirror = admission._mirror
        # Beside slots, servers that stay when these are over: only programs
        # that have seen the slots need them.
        booked = {
            key: one
            for key, one in mirror.planner.fleet.bookings.items()
            if one.during.end > self.now and key in mirror.owners
        }
        held = {
            key: {one.key: one for one in found}
            for key, found in mirror.held.items()
            if found[0].during.end > self.now
        }
        return booked, held


class LifeTest(base.TestCase):
    def test_life(self) -> None:
        Life.template = pathlib.Path(self.make_folder())
        url = f'sqlite:///{Life.template}/reservations.db'
        schema.upgrade(databases.Database(url))
        stateful.run_state_machine_as_test(
            Life,
            settings=hypothesis.settings(
                max_examples=EXAMPLES,
                stateful_step_count=40,
                deadline=None,
                database=None,
            ),
        )
