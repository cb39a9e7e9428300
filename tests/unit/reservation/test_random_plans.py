# SPDX-License-Identifier: Apache-2.0

"""Random fleets: each plan is checked in every second, each refusal too.

``RESERVATION_CASES`` and ``RESERVATION_SEED`` say how many, and the first
seed; a failure names its own.
"""

import collections
from collections.abc import Iterator, Mapping
import dataclasses
import random

from nova_ext_resources.claims import decide
from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import server_demand
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import span
from tests.unit.reservation import reference
from tests.unit.reservation import test_calendar
from tests.unit.reservation import test_stays

SECONDS = 14
STEPS = 12

#: The last start that is tried: by then, all that has an end has ended.
HORIZON = (STEPS + 1) * (SECONDS + 1)

Affinity = plan_request.Affinity

#: A planner is slower than a calendar.
CASES = max(test_calendar.CASES // 8, 1)
SEEDS = range(test_calendar.SEED, test_calendar.SEED + CASES)


class Machine:
    """Asks a planner at random; hands each answer to a test."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.requests: dict[str, plan_request.Request] = {}
        self.outages: list[tuple[str, interval.Interval]] = []
        self.make()

    def make(self) -> None:
        """Make the fleet."""
        self.sizes = {
            f'host {number}': {
                'VCPU': self.rng.randint(2, 9),
                'MEMORY_MB': self.rng.randint(2, 9),
            }
            for number in range(self.rng.randint(1, 3))
        }
        self.planner = hosts.make_planner(
            *(
                hosts.make_host(name, '', **one)
                for name, one in self.sizes.items()
            )
        )
        for name in self.sizes:
            if self.rng.random() < 0.2:
                self.outages.append((name, self.draw_time(0)))
                self.planner.fleet.change(name, None, self.outages[-1][1])

    def draw_time(self, now: int) -> interval.Interval:
        start = self.rng.randrange(now, SECONDS)
        if self.rng.random() < 0.15:
            return span(start)
        return span(start, self.rng.randint(start + 1, SECONDS + 1))

    def draw_demand(self) -> server_demand.Demand:
        names = self.rng.choice(
            [['VCPU'], ['MEMORY_MB'], ['VCPU', 'MEMORY_MB']]
        )
        return hosts.make_demand(
            _={name: self.rng.randint(1, 5) for name in names}
        )

    def draw_request(self, key: str, now: int) -> plan_request.Request:
        least = self.rng.choice((1, 1, 2, 3))
        return hosts.make_request(
            key,
            self.draw_time(now),
            self.draw_demand(),
            delay=self.rng.choice((0, 0, 3, interval.FOREVER)),
            least=least,
            most=least + self.rng.choice((0, 2)),
            affinity=self.rng.choice([*Affinity]),
            priority=self.rng.randint(0, 1),
        )

    def play(
        self,
    ) -> Iterator[
        tuple[plan_request.Request, int, planner.Plan | planner.Refusal]
    ]:
        now = 0
        for number in range(STEPS):
            now = min(now + (self.rng.random() < 0.3), SECONDS - 1)
            if self.requests and self.rng.random() < 0.2:
                key = self.rng.choice([*self.requests])
                del self.requests[key]
                self.planner.cancel(key)
            request = self.draw_request(str(number), now)
            answer = self.planner.plan(request, now)
            yield request, now, answer
            if isinstance(answer, planner.Plan):
                self.requests[request.key] = request
                self.planner.accept(request, answer)

    def list_seconds(self, during: interval.Interval) -> range:
        """Return all that matter: after the last change they are alike."""
        times = [one.during for one in self.planner.fleet.bookings.values()]
        times += [when for _name, when in self.outages]
        last = max(
            (
                time
                for one in times
                for time in (one.start, one.end)
                if time < interval.FOREVER
            ),
            default=0,
        )
        end = max(min(during.end, last + 1), during.start + 1)
        return range(during.start, end)

    def list_held(
        self, name: str, during: interval.Interval
    ) -> list[list[dict[str, int]]]:
        """Return what servers have on a host, in each second."""
        return [
            [
                {one.resource_class: one.amount for one in booking.assignments}
                for booking in self.planner.fleet.bookings.values()
                if booking.host == name
                and booking.during.start <= second < booking.during.end
            ]
            for second in self.list_seconds(during)
        ]

    def count(
        self, request: plan_request.Request, during: interval.Interval
    ) -> int:
        """Return how many servers fit, by looking at every second."""
        fits = [
            0
            if any(
                name == host and during.overlaps(when)
                for host, when in self.outages
            )
            else min(
                max(
                    size[name_of] - sum(one.get(name_of, 0) for one in held), 0
                )
                // amount
                for name_of, amount in request.demand.largest.items()
                for held in self.list_held(name, during)
            )
            for name, size in self.sizes.items()
        ]
        if request.affinity is Affinity.SAME_HOST:
            return max(fits)
        if request.affinity is Affinity.DIFFERENT_HOSTS:
            return sum(map(bool, fits))
        return sum(fits)

    def find_earliest(
        self, request: plan_request.Request, latest: int
    ) -> int | None:
        for start in range(request.during.start, min(latest, HORIZON) + 1):
            during = request.during.shift(start)
            if self.count(request, during) >= request.least:
                return start
        return None


class CountedTest(base.TestCase):
    """Classes of which only the number matters: all answers are exact."""

    MACHINE: type[Machine] = Machine

    def test_random_requests(self) -> None:
        kinds: collections.Counter[str] = collections.Counter()
        for seed in SEEDS:
            machine = self.MACHINE(seed)
            for request, now, answer in machine.play():
                where = f'RESERVATION_SEED={seed}, request {request.key}'
                if isinstance(answer, planner.Refusal):
                    kinds['refused'] += 1
                    self._check_refusal(machine, request, answer, where)
                elif answer.moved:
                    kinds['moved'] += 1
                    self._check_moves(machine, request, now, answer, where)
                else:
                    kinds['planned'] += 1
                    self._check_plan(machine, request, answer, where)
            self._check_fleet(machine, f'RESERVATION_SEED={seed}')
        if len(SEEDS) > 20:
            self.assertEqual(3, len(kinds), str(kinds))

    def _check_plan(
        self,
        machine: Machine,
        request: plan_request.Request,
        plan: planner.Plan,
        where: str,
    ) -> None:
        start = machine.find_earliest(request, request.latest)
        self.assertEqual(start, plan.during.start, where)
        self.assertEqual(
            min(machine.count(request, plan.during), request.most),
            len(plan.servers),
            where,
        )

    def _check_refusal(
        self,
        machine: Machine,
        request: plan_request.Request,
        refusal: planner.Refusal,
        where: str,
    ) -> None:
        self.assertIsNone(
            machine.find_earliest(request, request.latest), where
        )
        largest, earliest = refusal.largest, refusal.earliest
        self.assertEqual(
            machine.count(request, request.during),
            len(largest.servers) if largest else 0,
            where,
        )
        self.assertEqual(
            machine.find_earliest(request, interval.FOREVER),
            earliest.during.start if earliest else None,
            where,
        )
        if request.affinity is Affinity.ANY:
            self.assertEqual({*machine.sizes}, {*refusal.shortfalls}, where)

    def _check_moves(
        self,
        machine: Machine,
        request: plan_request.Request,
        now: int,
        plan: planner.Plan,
        where: str,
    ) -> None:
        self.assertIsNone(
            machine.find_earliest(request, request.latest), where
        )
        for one in plan.moved:
            before = machine.planner.fleet.bookings[one.key]
            moved = machine.requests[one.key.partition('/')[0]]
            self.assertEqual(before.during, one.during, where)
            self.assertGreater(one.during.start, now, where)
            self.assertLessEqual(moved.priority, request.priority, where)

    def _check_fleet(self, machine: Machine, where: str) -> None:
        """Compare all that is booked with what there is."""
        for name, size in machine.sizes.items():
            for held in machine.list_held(name, span(0)):
                for name_of, total in size.items():
                    used = sum(one.get(name_of, 0) for one in held)
                    self.assertLessEqual(used, total, where)
        for key, request in machine.requests.items():
            used_hosts = [
                one.host
                for one in machine.planner.fleet.bookings.values()
                if one.key.partition('/')[0] == key
            ]
            self.assertGreaterEqual(len(used_hosts), request.least, where)
            if request.affinity is Affinity.SAME_HOST:
                self.assertEqual(1, len({*used_hosts}), where)
            if request.affinity is Affinity.DIFFERENT_HOSTS:
                self.assertEqual(len(used_hosts), len({*used_hosts}), where)
        for name, when in machine.outages:
            self.assertEqual(
                [], machine.planner.fleet.list_overlapping(name, when), where
            )


class SharingMachine(Machine):
    """Hosts of two racks: each rack has seats, and all have a disk.

    What there is of the seats of a rack changes for a time.
    """

    def make(self) -> None:
        """Make the fleet."""
        names = [f'host {one}' for one in range(self.rng.randint(2, 4))]
        self.sizes = {one: {'VCPU': self.rng.randint(1, 9)} for one in names}
        self.racks = {one: f'rack {self.rng.randint(0, 1)}' for one in names}
        self.pools = {
            ('rack 0', 'CUSTOM_SEAT'): self.rng.randint(2, 9),
            ('rack 1', 'CUSTOM_SEAT'): self.rng.randint(2, 9),
            ('disk', 'DISK_GB'): self.rng.randint(2, 16),
        }
        self.planner = hosts.make_planner(*map(self.make_host, names))
        self.cut = self.draw_time(0)
        self.capacity = {
            **{
                (one, 'VCPU'): [own['VCPU']] for one, own in self.sizes.items()
            },
            **{place: [total] for place, total in self.pools.items()},
        }
        for place, units in self.capacity.items():
            self.capacity[place] = units * (HORIZON + 1)
        self.make_cut('rack 0')

    def make_host(self, name: str) -> host_mod.Host:
        shared = [
            hosts.make_provider(rp_uuid, (), **{name_of: total})
            for (rp_uuid, name_of), total in self.pools.items()
            if rp_uuid in ('disk', self.racks[name])
        ]
        own = hosts.make_provider(name, (), **self.sizes[name])
        return host_mod.make_host(name, [own, *shared], host_view.HostView())

    def make_cut(self, rack: str) -> None:
        """Let a rack have fewer seats for a time."""
        place = rack, 'CUSTOM_SEAT'
        left = self.rng.randint(0, self.pools[place])
        for second in range(self.cut.start, min(self.cut.end, HORIZON + 1)):
            self.capacity[place][second] = left
        for name, host in self.planner.fleet.hosts.items():
            if self.racks[name] == rack:
                view = host.view.with_state(place, count.CountState(left))
                self.planner.fleet.change(name, view, self.cut)
        self.outages = [('', self.cut)]

    def draw_demand(self) -> server_demand.Demand:
        names = self.rng.choice(
            [
                ['VCPU', 'CUSTOM_SEAT'],
                ['VCPU', 'DISK_GB'],
                ['VCPU', 'CUSTOM_SEAT', 'DISK_GB'],
                ['CUSTOM_SEAT'],
            ]
        )
        return hosts.make_demand(
            _={name: self.rng.randint(1, 4) for name in names}
        )

    def count_of(
        self,
        place: host_view.Place,
        during: interval.Interval,
        amounts: Mapping[str, int],
    ) -> int:
        """Return how many servers a place has room for."""
        if place[1] not in amounts:
            return 1000
        return min(
            max(
                self.capacity[place][min(second, HORIZON)]
                - sum(
                    one.places.get(place, 0)
                    for one in self.planner.fleet.bookings.values()
                    if one.during.start <= second < one.during.end
                ),
                0,
            )
            // amounts[place[1]]
            for second in self.list_seconds(during)
        )

    def count(
        self, request: plan_request.Request, during: interval.Interval
    ) -> int:
        """Return how many servers fit: of a host, a rack, and of all."""
        amounts = request.demand.largest
        room = {
            place: self.count_of(place, during, amounts)
            for place in self.capacity
        }
        disk = room['disk', 'DISK_GB']
        racks: dict[str, int] = {}
        most = 0
        for name, rack in self.racks.items():
            own = room[name, 'VCPU']
            seats = room[rack, 'CUSTOM_SEAT']
            most = max(most, min(own, seats, disk))
            if request.affinity is Affinity.DIFFERENT_HOSTS:
                own = min(own, 1)
            racks[rack] = min(racks.get(rack, 0) + own, seats)
        if request.affinity is Affinity.SAME_HOST:
            return most
        return min(sum(racks.values()), disk)


class SharingTest(CountedTest):
    """What hosts share is promised once: by new requests and by later ends."""

    MACHINE = SharingMachine

    def _check_fleet(self, machine: Machine, where: str) -> None:
        """Prolong all, and add up what is booked, place by place."""
        assert isinstance(machine, SharingMachine)
        for key, request in machine.requests.items():
            if not request.during.is_open:
                self._prolong(machine, key, where)
            self.assertEqual([], self._list_overbooked(machine), where)

    def _prolong(self, machine: SharingMachine, key: str, where: str) -> None:
        bookings = machine.planner.fleet.bookings
        held = tuple(
            one
            for one in bookings.values()
            if one.key.partition('/')[0] == key
        )
        start, end = held[0].during.start, held[0].during.end
        longer = span(start, end + machine.rng.randint(1, 4))
        request = dataclasses.replace(
            machine.requests[key],
            during=longer,
            delay=0,
            least=len(held),
            most=len(held),
        )

        answer = machine.planner.prolong(request, held)

        fits = 0
        for number in range(1, len(held) + 1):
            with machine.planner.fleet.trying(
                without=[one.key for one in held],
                adding=[
                    dataclasses.replace(one, during=longer)
                    for one in held[:number]
                ]
                + [*held[number:]],
            ):
                if not self._list_overbooked(machine):
                    fits = number
        if isinstance(answer, planner.Plan):
            self.assertEqual(len(held), fits, where)
            for before, after in zip(held, answer.servers, strict=True):
                machine.planner.fleet.release(before.key)
                machine.planner.fleet.book(after)
        else:
            offered = answer.largest.servers if answer.largest else ()
            self.assertLess(fits, len(held), where)
            self.assertEqual(fits, len(offered), where)

    def _list_overbooked(
        self, machine: SharingMachine
    ) -> list[tuple[host_view.Place, int]]:
        return reference.list_overbooked(
            machine.planner.fleet.bookings.values(), machine.capacity
        )


class CachedMachine(Machine):
    """Two caches of eight ways and a cell of four CPUs each."""

    CLOS = 3

    def make(self) -> None:
        self.planner = hosts.make_planner(
            hosts.make_cached_host('one', clos=self.CLOS)
        )

    def draw_demand(self) -> server_demand.Demand:
        cpus = self.rng.randint(1, 3)
        ways = {hosts.WAYS: self.rng.randint(1, 6)}
        return hosts.make_demand(_={'PCPU': cpus, **ways}, cells=(cpus,))

    def fits(self, request: plan_request.Request) -> bool:
        """Return whether one server fits, by looking at every second."""
        held = [
            one
            for one in self.planner.fleet.bookings.values()
            if one.during.overlaps(request.during)
        ]
        for second in self.list_seconds(request.during):
            if True:
                running = sum(
                    one.during.start <= second < one.during.end for one in held
                )
                if running >= self.CLOS:
                    return False
        needs = request.demand.largest
        return any(
            bitmask.has_run(
                0xFF & ~self.unite(held, number), needs[hosts.WAYS]
            )
            and len(cell.difference(*(one.cpus or () for one in held)))
            >= needs['PCPU']
            and self.leaves_ways(request, number)
            for number, cell in enumerate(hosts.CELLS)
        )

    def leaves_ways(self, request: plan_request.Request, number: int) -> bool:
        """Return whether all find ways, if the host chooses them in turn."""
        known = [
            test_stays.make(one.key, each.amount, None, one.during)
            for one in self.planner.fleet.bookings.values()
            for each in one.assignments
            if each.rp_uuid == f'one L3_{number}'
        ]
        ways = request.demand.largest[hosts.WAYS]
        new = test_stays.make(f'{request.key}/0', ways, None, request.during)
        state = test_stays.make_state()
        return all(
            {*test_stays.come([*known, new], sign, state)}
            <= {*test_stays.come(known, sign, state)}
            for sign in test_stays.SIGNS
        )

    def unite(
        self, held: list[planned_server.PlannedServer], number: int
    ) -> int:
        return bitmask.unite(
            int(each.units['mask'], 16)
            for one in held
            for each in one.assignments
            if each.rp_uuid == f'one L3_{number}'
        )


class CachedTest(base.TestCase):
    """Ways are runs in the cache of the CPUs, and nobody else's."""

    def test_random_requests(self) -> None:
        for seed in SEEDS:
            machine = CachedMachine(seed)
            where = f'RESERVATION_SEED={seed}'
            for request, _now, answer in machine.play():
                is_at_once = (
                    isinstance(answer, planner.Plan)
                    and not answer.moved
                    and answer.during == request.during
                )
                if request.least == 1:
                    self.assertEqual(
                        machine.fits(request),
                        is_at_once,
                        f'{where}, request {request.key}',
                    )
            for second in machine.list_seconds(span(0)):
                self._check_second(machine, second, where)

    def _check_second(
        self, machine: CachedMachine, second: int, where: str
    ) -> None:
        taken: collections.Counter[tuple[str, int]] = collections.Counter()
        running = [
            one
            for one in machine.planner.fleet.bookings.values()
            if one.during.start <= second < one.during.end
        ]
        for one in running:
            taken.update(('CPU', cpu) for cpu in one.cpus or ())
            (ways,) = [
                each
                for each in one.assignments
                if each.resource_class == hosts.WAYS
            ]
            mask = int(ways.units['mask'], 16)
            self.assertTrue(bitmask.has_run(mask, ways.amount), where)
            taken.update((ways.rp_uuid, bit) for bit in bitmask.split(mask))
            cell = hosts.CELLS[int(ways.rp_uuid[-1])]
            self.assertLessEqual({*(one.cpus or ())}, cell, where)
        self.assertLessEqual(len(running), CachedMachine.CLOS, where)
        self.assertEqual({1}, {1, *taken.values()}, where)


class FragmentedMachine(CachedMachine):
    """Servers without a reservation have ways here and there, and CPUs."""

    CLOS = 6

    def make(self) -> None:
        host = hosts.make_cached_host('one', clos=self.CLOS)
        tracked = dict(host.view.tracked)
        cells = [*hosts.CELLS]
        for place, one in host.view.tracked.items():
            if place[1] != hosts.WAYS:
                continue
            taken = 0
            for _number in range(self.rng.randint(0, 2)):
                amount = self.rng.randint(1, 2)
                start = self.rng.randrange(8 - amount)
                taken |= bitmask.make_run(start, amount)
            tracked[place] = dataclasses.replace(
                one, state=cache_ways.CacheWaysState(0xFF, taken)
            )
            number = int(place[0][-1])
            gone = self.rng.sample(
                sorted(cells[number]), self.rng.randint(0, 2)
            )
            cells[number] -= frozenset(gone)
        self.host = dataclasses.replace(
            host,
            view=dataclasses.replace(host.view, tracked=tracked),
            cells=tuple(cells),
        )
        self.planner = hosts.make_planner(self.host)

    def draw_demand(self) -> server_demand.Demand:
        cpus = self.rng.randint(1, 2)
        ways = {hosts.WAYS: self.rng.randint(1, 4)}
        return hosts.make_demand(_={'PCPU': cpus, **ways}, cells=(cpus,))

    def play(
        self,
    ) -> Iterator[
        tuple[plan_request.Request, int, planner.Plan | planner.Refusal]
    ]:
        """Cancel nothing: who comes next may get other ways for it."""
        now = 0
        for number in range(STEPS):
            now = min(now + (self.rng.random() < 0.3), SECONDS - 1)
            request = self.draw_request(str(number), now)
            answer = self.planner.plan(request, now)
            yield request, now, answer
            if isinstance(answer, planner.Plan):
                self.requests[request.key] = request
                self.planner.accept(request, answer)


class Boots:
    """Boots servers on a host as they come: it chooses their units.

    :ivar refused: keys of those that the host did not take
    """

    def __init__(self, machine: FragmentedMachine) -> None:
        self.view = machine.host.view
        self.machine = machine
        self.tests = [*hosts.make_tests().values()]
        self.taken: dict[str, tuple[assignment.Assignment, ...]] = {}
        self.refused: list[str] = []

    def play(self, sign: int) -> None:
        """Boot all, of each second the ones with fewer ways first.

        :param sign: -1 for those with more ways first, 0 by their keys
        """
        events = []
        for one in self.machine.planner.fleet.bookings.values():
            (ways,) = [
                each.amount
                for each in one.assignments
                if each.resource_class == hosts.WAYS
            ]
            order = sign * ways
            events.append((one.during.start, 1, order, one.key, one))
            events.append((one.during.end, 0, order, one.key, one))
        for _time, is_start, _order, _key, one in sorted(
            events, key=lambda event: event[:4]
        ):
            if is_start:
                self.boot(one)
            else:
                self.view = decide.free(
                    self.view, self.taken.pop(one.key, ()), hosts.TRACKERS
                )

    def boot(self, slot: planned_server.PlannedServer) -> None:
        """Claim what placement has allocated, with the CPUs of the plan."""
        request = self.machine.requests[slot.key.partition('/')[0]]
        allocations: dict[str, dict[str, int]] = {}
        for (rp_uuid, name), amount in slot.allocations.items():
            allocations.setdefault(rp_uuid, {})[name] = amount
        decision = decide.decide(
            self.view,
            assignment.ClaimRequest(
                consumer_uuid=slot.key,
                allocations=allocations,
                requirement=request.demand.requirement,
                cpus=slot.cpus,
            ),
            trackers=hosts.TRACKERS,
            tests=self.tests,
        )
        if decision.fits:
            self.view = decision.view
            self.taken[slot.key] = decision.taken
        else:
            self.refused.append(slot.key)


class FragmentedTest(base.TestCase):
    """What is promised is had, though the host chooses the units itself."""

    def test_no_boot_is_refused(self) -> None:
        planned = 0
        for seed in SEEDS:
            machine = FragmentedMachine(seed)
            for _request, _now, _answer in machine.play():
                pass
            planned += len(machine.planner.fleet.bookings)
            for sign in (-1, 0, 1):
                boots = Boots(machine)
                boots.play(sign)
                self.assertEqual([], boots.refused, f'RESERVATION_SEED={seed}')
        self.assertGreater(planned, len(SEEDS))

    def test_units_that_were_planned_are_free(self) -> None:
        for seed in SEEDS:
            machine = FragmentedMachine(seed)
            for _request, _now, answer in machine.play():
                if not isinstance(answer, planner.Plan):
                    continue
                for server in answer.servers:
                    self._check(machine, server, f'RESERVATION_SEED={seed}')

    def _check(
        self,
        machine: FragmentedMachine,
        server: planned_server.PlannedServer,
        where: str,
    ) -> None:
        free = frozenset[int]().union(*(machine.host.cells or ()))
        self.assertLessEqual(server.cpus or frozenset(), free, where)
        for one in server.assignments:
            if one.resource_class == hosts.WAYS:
                place: host_view.Place = one.rp_uuid, one.resource_class
                state = machine.host.view.tracked[place].state
                assert isinstance(state, cache_ways.CacheWaysState)
                mask = int(one.units['mask'], 16)
                self.assertEqual(0, mask & ~state.free_mask, where)
                self.assertTrue(bitmask.has_run(mask, one.amount), where)
