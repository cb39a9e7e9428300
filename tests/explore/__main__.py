# SPDX-License-Identifier: Apache-2.0

"""``python -m tests.explore [OPTIONS]``; see the package."""

import argparse
import sys

from tests.explore import bugs
from tests.explore import drawing
from tests.explore import invariants
from tests.explore import machine
from tests.explore import walk


def main() -> int:
    """Walk; return 1 when a state breaks an invariant."""
    arguments = _parse()
    if arguments.table:
        print(drawing.draw(), end='')
        return 0
    protocol, scope = (
        machine.Protocol(),
        machine.Scope(max_faults=arguments.faults),
    )
    if arguments.bug:
        [bug] = (one for one in bugs.BUGS if one.name == arguments.bug)
        protocol, scope = bug.make_protocol(), bug.scope
    outcome = walk.walk(
        protocol,
        scope,
        limit=arguments.limit,
        seconds=arguments.seconds,
        processes=arguments.processes,
    )
    print(
        f'{outcome.count:,} distinct states'
        f'{", which are all" if outcome.is_complete else ""}, in '
        f'{outcome.seconds:.0f} seconds with {arguments.processes} processes;'
        f' {len(invariants.INVARIANTS)} invariants in each'
    )
    if outcome.counterexample is None:
        print('no invariant is broken')
        return 0
    print(outcome.counterexample)
    return 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='tests.explore')
    parser.add_argument(
        '--limit', type=int, default=3_000_000, help='so many states at most'
    )
    parser.add_argument(
        '--seconds', type=float, default=600.0, help='for so long at most'
    )
    parser.add_argument('--processes', type=int, default=2)
    parser.add_argument(
        '--faults',
        type=int,
        default=2,
        help='so many kills, boots and refusals on the way to a state',
    )
    parser.add_argument(
        '--table', action='store_true', help='draw the entry table instead'
    )
    parser.add_argument('--bug', choices=[one.name for one in bugs.BUGS])
    return parser.parse_args()


if __name__ == '__main__':
    sys.exit(main())
