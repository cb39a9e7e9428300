# SPDX-License-Identifier: Apache-2.0

"""Whole reservations on a SQLite database, and Blazar's search beside them.

Both are filled with the same leases, in files of the same folder, and take
turns in processes of their own. On our side is all that a reservation is: the
order is checked, what has changed is read, servers are planned, written and
committed, and the reservation is read back. On Blazar's side is the search
alone, of which a lease that is created makes two.

What a caller waits for is what counts, so that goals are by the clock. CPU
time is beside it, for others may share the machine.
"""

from collections.abc import Iterator
import dataclasses
import os
import random
import sqlite3
import statistics
import sys
import time

from dev.bench.harness import leased
from dev.bench.harness import leases as leases_mod
from dev.bench.harness import peers
from dev.bench.harness import planning
from dev.bench.harness import rows as rows_mod
from dev.bench.harness import timing
from nova_ext_resources.reservation import interval

#: Admissions between two searches of Blazar, and pairs of both.
ADMISSIONS = 40
ROUNDS = 5

REFUSALS = 20

#: Hosts times leases. With more of them a search takes Blazar minutes.
BLAZAR_MOST = 10_000_000

MAX_ADMISSION_MS = 5.0
MAX_SHARE = 1 / 500
MAX_REFUSAL_MS = 20.0
MAX_START_MS = 2000.0
MAX_MEMORY_MB = 300.0

#: Commits of one row, which show what the file system takes.
_COMMITS = 50


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Measures one shape.

    :param folder: of the databases
    :param blazar: the interpreter of Blazar's environment; '' without it
    """

    shape: leases_mod.Shape
    folder: str
    blazar: str = ''
    rounds: int = ROUNDS
    has_goals: bool = False

    def measure(
        self, fleet: leased.Leased, full: leased.Leased
    ) -> Iterator[rows_mod.Row]:
        """Fill databases with leases, and measure.

        :param fleet: as it was made
        :param full: all hosts but one are
        """
        url = self._fill('usual', fleet)
        with peers.Peer(sys.executable, _OURS, url) as ours:
            yield from self._measure_start(ours)
            count = self.shape.hosts * self.shape.leases
            if self.blazar and count <= BLAZAR_MOST:
                yield from self._compare(ours, fleet)
            else:
                rng = random.Random(1)
                times = [_admit(ours, rng) for _ in range(self.rounds)]
                yield from self._make_rows(times)
            ours.ask('ask_all')
            memory, _spent = ours.ask('read_memory')
            yield self._make_row(
                'memory of the process', memory, MAX_MEMORY_MB, 'MB'
            )
        url = self._fill('full', full)
        with peers.Peer(sys.executable, _OURS, url) as ours:
            ours.ask('load', hosts=self.shape.hosts)
            ours.ask('start')
            yield from self._refuse(ours)

    def _fill(self, name: str, fleet: leased.Leased) -> str:
        """Write leases into tables of ours; return the URL."""
        path = self._make_path(f'{name}.json')
        leases_mod.write(path, fleet.leases)
        url = f'sqlite:///{self._make_path(f"{name}.db")}'
        with peers.Peer(sys.executable, _OURS, url) as ours:
            number, _spent = ours.ask('fill', path=path)
        assert number == len(fleet.leases), number
        return url

    def _make_path(self, name: str) -> str:
        shape = f'{self.shape.hosts}x{self.shape.leases}'
        return os.path.join(self.folder, f'{shape}-{name}')

    def _measure_start(self, ours: peers.Peer) -> Iterator[rows_mod.Row]:
        ours.ask('load', hosts=self.shape.hosts)
        before, _spent = ours.ask('read_memory')
        yield self._make_row('memory without reservations', before, None, 'MB')
        _none, spent = ours.ask('start')
        yield self._make_row(
            'start-up from the tables', spent.wall, MAX_START_MS
        )
        yield self._make_row('start-up, CPU time', spent.cpu, None)
        rng = random.Random(0)
        _host, spent = ours.ask('admit', name='first', **_draw(rng))
        yield self._make_row('first admission of a flavor', spent.wall, None)

    def _compare(
        self, ours: peers.Peer, fleet: leased.Leased
    ) -> Iterator[rows_mod.Row]:
        """Have ours and Blazar take turns."""
        rng = random.Random(1)
        url = f'sqlite:///{self._make_path("blazar.db")}'
        with peers.Peer(self.blazar, _BLAZAR, url) as blazar:
            path = self._make_path('usual.json')
            blazar.ask('fill', hosts=self.shape.hosts, path=path)
            _search(blazar, rng, fleet)
            mine, theirs = [], []
            for number in range(self.rounds):
                if number % 2:
                    mine.append(_admit(ours, rng))
                theirs.append(_search(blazar, rng, fleet))
                if not number % 2:
                    mine.append(_admit(ours, rng))
        yield from self._make_rows(mine)
        yield self._make_share('wall', mine, theirs, MAX_SHARE)
        yield self._make_share('cpu', mine, theirs, None)

    def _make_rows(
        self, times: list[list[timing.Spent]]
    ) -> Iterator[rows_mod.Row]:
        """Make the rows of admissions."""
        spent = [one for ones in times for one in ones]
        yield self._make_row(
            'admission with commit, median',
            statistics.median(one.wall for one in spent),
            MAX_ADMISSION_MS,
        )
        yield self._make_row(
            'admission, CPU time', statistics.median(one.cpu for one in spent)
        )

    def _make_share(
        self,
        clock: str,
        mine: list[list[timing.Spent]],
        theirs: list[timing.Spent],
        goal: float | None,
    ) -> rows_mod.Row:
        pairs = [
            (
                statistics.median(getattr(one, clock) for one in ones),
                getattr(other, clock),
            )
            for ones, other in zip(mine, theirs, strict=True)
        ]
        what = 'admission with commit' if clock == 'wall' else 'both, CPU time'
        return rows_mod.compare_pairs(
            f'{self.shape}: {what} : search of Blazar',
            pairs,
            goal if self.has_goals else None,
        )

    def _refuse(self, ours: peers.Peer) -> Iterator[rows_mod.Row]:
        rng, times = random.Random(2), []
        for number in range(REFUSALS + 1):
            offer, spent = ours.ask(
                'refuse',
                name=f'refused {number}',
                servers=planning.SERVERS,
                **_draw(rng),
            )
            assert offer, 'the counter-offer is empty'
            times.append(spent)
        # The first one reads the flavor's gaps of all hosts.
        del times[0]
        yield self._make_row(
            f'refusal of {planning.SERVERS} servers with its counter-offer',
            statistics.median(one.wall for one in times),
            MAX_REFUSAL_MS,
        )
        yield self._make_row(
            'refusal, CPU time', statistics.median(one.cpu for one in times)
        )

    def _make_row(
        self,
        what: str,
        ours: float,
        limit: float | None = None,
        unit: str = 'ms',
    ) -> rows_mod.Row:
        limit = limit if self.has_goals else None
        return rows_mod.make_row(f'{self.shape}: {what}', ours, limit, unit)


def measure_commit(folder: str) -> rows_mod.Row:
    """Measure what the file system takes for the least that is stored."""
    path, times = os.path.join(folder, 'commit.db'), []
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute('PRAGMA journal_mode = WAL')
    connection.execute('CREATE TABLE numbers (number INTEGER)')
    for number in range(_COMMITS):
        start = time.perf_counter()
        connection.execute('INSERT INTO numbers VALUES (?)', (number,))
        times.append(time.perf_counter() - start)
    connection.close()
    us = statistics.median(times) * 1e6
    return rows_mod.make_row('commit of one row, same folder', us, None, 'us')


_OURS = 'dev.bench.harness.admitting'
_BLAZAR = 'dev.bench.harness.blazar'


def _draw(rng: random.Random) -> dict[str, int]:
    """Draw a day in the time of the leases."""
    days = leases_mod.DAYS * leases_mod.DAY
    start = leases_mod.NOW + rng.randrange(days)
    return {'start': start, 'end': start + leases_mod.DAY}


def _admit(ours: peers.Peer, rng: random.Random) -> list[timing.Spent]:
    """Reserve servers, one after the other."""
    return [
        ours.ask('admit', name=f'new {rng.random()}', **_draw(rng))[1]
        for _number in range(ADMISSIONS)
    ]


def _search(
    blazar: peers.Peer, rng: random.Random, fleet: leased.Leased
) -> timing.Spent:
    """Have Blazar find a host, which must have room by our books, too."""
    drawn, asked = _draw(rng), leases_mod.ASKED
    host, spent = blazar.ask('search', amounts=asked, **drawn)
    assert fleet.fits(host, asked, interval.Interval(**drawn)), host
    return spent
