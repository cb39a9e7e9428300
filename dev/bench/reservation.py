# SPDX-License-Identifier: Apache-2.0

"""Reservations in a cloud that is booked for weeks, beside Blazar.

The leases take 1 to 48 hours, start in 30 days, and never over-commit.

:mod:`dev.bench.harness.admissions` measures whole reservations on SQLite, and
Blazar's search beside them; :mod:`dev.bench.harness.planning` the planner
alone; :mod:`dev.bench.harness.commands` whole commands of the client, with a
real placement; :mod:`dev.bench.harness.reserving` the filter of
nova-scheduler, and :mod:`dev.bench.harness.reserving_ways` the same where
cache ways are reserved.

Blazar is in an environment of its own, that of ``tox -e blazar``.
"""

import argparse
from collections.abc import Iterator, Sequence
import pathlib
import sys
import tempfile

from dev.bench.harness import admissions
from dev.bench.harness import commands
from dev.bench.harness import leased
from dev.bench.harness import leases
from dev.bench.harness import placements
from dev.bench.harness import planning
from dev.bench.harness import reserving
from dev.bench.harness import reserving_ways
from dev.bench.harness import rows as rows_mod

#: With this one there are goals.
GOALS = leases.Shape(1_000, 10_000)

SHAPES = (
    GOALS,
    leases.Shape(100, 1_000),
    leases.Shape(100, 10_000),
    leases.Shape(1_000, 1_000),
    leases.Shape(1_000, 100_000),
    leases.Shape(10_000, 10_000),
    leases.Shape(10_000, 100_000),
)

#: What can be measured.
PARTS = ('admission', 'planner', 'command', 'filter')


def run(arguments: Sequence[str] = ()) -> list[rows_mod.Row]:
    options = _make_parser().parse_args(arguments)
    _check_blazar(options.blazar)
    return [*_measure(options)]


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser('python -m dev.bench reservation')
    parser.add_argument(
        '--shape',
        type=leases.Shape.parse,
        action='append',
        metavar='HOSTSxLEASES',
        help='how many hosts and leases; may be repeated. By default '
        f'{", ".join(f"{one.hosts}x{one.leases}" for one in SHAPES)}. Only '
        f'{GOALS.hosts}x{GOALS.leases} has goals',
    )
    parser.add_argument(
        '--part',
        choices=PARTS,
        action='append',
        help='what is measured; may be repeated. By default all of it',
    )
    parser.add_argument(
        '--folder',
        help='where the databases are, whose file system is measured, too. By '
        'default that of temporary files',
    )
    parser.add_argument(
        '--blazar',
        default=str(pathlib.Path(sys.prefix).parent / 'blazar/bin/python'),
        metavar='PYTHON',
        help="the interpreter of Blazar's environment; none leaves Blazar "
        'out. By default %(default)s',
    )
    parser.add_argument(
        '--rounds',
        type=int,
        default=admissions.ROUNDS,
        help=f'searches of Blazar, each beside {admissions.ADMISSIONS} '
        'admissions. By default %(default)s',
    )
    parser.add_argument(
        '--hosts',
        type=int,
        action='append',
        help='of the part "command"; may be repeated, in growing order. By '
        f'default {", ".join(map(str, commands.HOSTS))}',
    )
    placements.add_option(parser)
    return parser


def _check_blazar(python: str) -> None:
    if python != 'none' and not pathlib.Path(python).is_file():
        raise SystemExit(
            f'There is no Blazar to compare with: {python} does not exist. '
            'Make its environment by "sh tools/tox -e blazar --notest", name '
            'another interpreter by --blazar, or leave Blazar out by '
            '"--blazar none".'
        )


def _measure(options: argparse.Namespace) -> Iterator[rows_mod.Row]:
    parts = options.part or PARTS
    if not {*parts} <= {'command', 'filter'}:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            yield admissions.measure_commit(folder)
            for shape in options.shape or SHAPES:
                print(f'{shape} ...', file=sys.stderr)
                yield from _measure_shape(shape, parts, folder, options)
    if 'command' in parts:
        print('command ...', file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            yield from commands.measure(
                folder,
                options.hosts or commands.HOSTS,
                is_sqlite=options.sqlite,
            )
    if 'filter' in parts:
        print('filter ...', file=sys.stderr)
        yield from reserving.run()
        yield from reserving_ways.run()


def _measure_shape(
    shape: leases.Shape,
    parts: Sequence[str],
    folder: str,
    options: argparse.Namespace,
) -> Iterator[rows_mod.Row]:
    fleet, full = leased.Leased(shape), leased.Leased(shape, full=True)
    if 'admission' in parts:
        bench = admissions.Bench(
            shape=shape,
            folder=folder,
            blazar='' if options.blazar == 'none' else options.blazar,
            rounds=options.rounds,
            has_goals=shape == GOALS,
        )
        yield from bench.measure(fleet, full)
    if 'planner' in parts:
        # Last, because it changes them.
        yield from planning.measure(
            shape, fleet, full, has_goals=shape == GOALS
        )
