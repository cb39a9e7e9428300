# SPDX-License-Identifier: Apache-2.0

"""A thousand hosts that publish to one placement, and questions about them.

What the last hundred hosts cost is compared with what the first hundred cost.
They are published in turns: the first ones to a second placement, which is
empty, so that whatever else the machine does meanwhile slows down both.

Each host has one server. ``explain`` and ``simulate`` then ask about all
hosts: for a flavor that fits, and one that fits nowhere. Only the Compute API,
which has that flavor, is not real.
"""

import argparse
from collections.abc import Iterator, Sequence
import statistics
import sys
import tempfile
from typing import TypeAlias

from dev.bench.harness import placements
from dev.bench.harness import publishing
from dev.bench.harness import rows as rows_mod
from dev.bench.harness import scaling
from nova_ext_resources.cmd.osc.resource import explain
from nova_ext_resources.cmd.osc.resource import simulate

HOSTS = 1_000

#: The last ones, and the first ones.
COMPARED = 100

#: Hosts that warm up the second placement, and are not compared.
WARMING = 5

#: What one of the last may cost, of what one of the first costs.
MAX_GROWTH = {'requests': 1.0, 'ms': 1.5}

WORDS = {'requests': 'requests', 'ms': 'time'}

MAX_MS = 3000.0

#: Ways that a flavor requests: as many as are free, and more than are free.
FITTING = scaling.WAYS - scaling.HELD_WAYS
REFUSED = FITTING + 1

_Costs: TypeAlias = tuple[publishing.Cost, ...]


def run(arguments: Sequence[str] = ()) -> list[rows_mod.Row]:
    options = _read_options(arguments)
    with (
        placements.started(is_sqlite=options.sqlite) as large,
        placements.started(is_sqlite=options.sqlite) as small,
        tempfile.TemporaryDirectory() as folder,
    ):
        print(f'placement with {large.database} ...', file=sys.stderr)
        last, first = (scaling.Hosts(one, folder) for one in (large, small))
        last.fill(options.hosts - options.compared)
        first.fill(WARMING)
        print(f'the last {options.compared} hosts ...', file=sys.stderr)
        pairs = [_add(last, first, n) for n in range(options.compared)]
        return [
            *_compare(pairs, options.hosts),
            *_ask(large, options.hosts),
        ]


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser('python -m dev.bench scale')
    parser.add_argument(
        '--hosts',
        type=int,
        default=HOSTS,
        help='how many; at least twice those compared. By default %(default)s',
    )
    parser.add_argument(
        '--compared',
        type=int,
        default=COMPARED,
        help='how many of the last ones are compared with as many of the '
        'first ones. By default %(default)s',
    )
    placements.add_option(parser)
    options = parser.parse_args(arguments)
    if not 0 < 2 * options.compared <= options.hosts:
        parser.error(
            f'{options.hosts} hosts are fewer than twice those '
            f'compared, {options.compared}'
        )
    return options


def _add(
    last: scaling.Hosts, first: scaling.Hosts, number: int
) -> tuple[_Costs, _Costs]:
    """Add one host to each; return the costs of the last one before."""
    if number % 2:
        ours = last.add()
        return ours, first.add()
    peer = first.add()
    return last.add(), peer


def _compare(
    pairs: Sequence[tuple[_Costs, _Costs]], hosts: int
) -> Iterator[rows_mod.Row]:
    compared = len(pairs)
    for number, phase in enumerate(('first publication', 'nothing changed')):
        for unit, goal in MAX_GROWTH.items():
            ours, peer = (
                statistics.median(getattr(one[number], unit) for one in costs)
                for costs in zip(*pairs, strict=True)
            )
            yield rows_mod.compare(
                f'{phase}, {WORDS[unit]}, the last {compared} of {hosts} '
                f'hosts : the first {compared}',
                ours,
                peer,
                goal,
                f'{unit} a host',
            )


def _ask(
    placement: placements.Placement, hosts: int
) -> Iterator[rows_mod.Row]:
    for what, kind, ways in (
        ('explain, all fit', explain.Explain, FITTING),
        ('explain, none fits', explain.Explain, REFUSED),
        ('simulate', simulate.Simulate, FITTING),
    ):
        ms, data = scaling.time_command(kind, placement, ways)
        assert len(data['hosts'].machine_readable()) == hosts
        yield rows_mod.make_row(f'{what}, {hosts} hosts', ms, MAX_MS)
