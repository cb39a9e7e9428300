# SPDX-License-Identifier: Apache-2.0

"""The planner alone, without a database.

The search is for one server of three classes for 24 hours, at times drawn at
random, after a change of one host, which the index has to follow. Beside the
usual case there are the worst ones: a flavor that was never seen before, and
hosts that are all full but for one. A refusal includes the counter-offer: the
largest number, the earliest interval, what is short on each host, and that
no move helps.
"""

from collections.abc import Iterator
import statistics
import time

from dev.bench.harness import leased
from dev.bench.harness import leases as leases_mod
from dev.bench.harness import rows as rows_mod
from dev.bench.harness import timing
from nova_ext_resources.reservation import planner

SEARCHES = 200

#: Of which the host that is not full can have four.
SERVERS = 10
ANSWERS = 20

MAX_SEARCH_US = 100.0
MAX_REFUSAL_MS = 20.0


def measure(
    shape: leases_mod.Shape,
    fleet: leased.Leased,
    full: leased.Leased,
    *,
    has_goals: bool,
) -> Iterator[rows_mod.Row]:
    """Search, plan and refuse; changes both fleets."""
    first = timing.time_once(
        lambda: fleet.search(leases_mod.ASKED, fleet.draw())
    )
    yield _make_row(f'{shape}: first search of a flavor', first * 1000, None)
    goal = MAX_SEARCH_US if has_goals else None
    yield _make_row(f'{shape}: search', _time_searches(fleet), goal)
    yield _make_row(
        f'{shape}: plan of one server', _time_answers(fleet, 1), None
    )
    full.search(leases_mod.ASKED, full.draw())
    yield _make_row(
        f'{shape}: search, one host is not full', _time_searches(full), goal
    )
    limit = MAX_REFUSAL_MS * 1000 if has_goals else None
    yield _make_row(
        f'{shape}: refusal of {SERVERS} servers',
        _time_answers(full, SERVERS),
        limit,
    )


def _time_searches(fleet: leased.Leased) -> float:
    """Return the median of searches that follow a change each, in us.

    CPU time, for others may share the machine.
    """
    times = []
    for number in range(SEARCHES):
        place = (
            leased.make_uuid(fleet.rng.randrange(len(fleet.names))),
            'VCPU',
        )
        fleet.calendar.add(f'search {number}', fleet.draw(), {place: 1})
        during = fleet.draw()
        start = time.process_time()
        fleet.search(leases_mod.ASKED, during)
        times.append(time.process_time() - start)
    return statistics.median(times) * 1e6


def _time_answers(fleet: leased.Leased, servers: int) -> float:
    """Return the median of plans, or of refusals, in us of CPU time."""
    times = []
    for _number in range(ANSWERS):
        during = fleet.draw()
        start = time.process_time()
        answer = fleet.plan(servers, during)
        times.append(time.process_time() - start)
        is_refused = isinstance(answer, planner.Refusal)
        assert is_refused == (servers == SERVERS), answer.during
    return statistics.median(times) * 1e6


def _make_row(what: str, us: float, limit: float | None) -> rows_mod.Row:
    return rows_mod.make_row(what, us, limit, 'us')
