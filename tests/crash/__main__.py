# SPDX-License-Identifier: Apache-2.0

"""``python -m tests.crash FORM [OPERATION ...]``; see the package."""

import argparse
import os
import random
import sys
import time
import traceback

from tests.crash import at_random
from tests.crash import every_step
from tests.crash import operations
from tests.crash import report
from tests.crash import site as site_mod

#: What each does.
_FORMS = ('every-step', 'random', 'short', 'list')

#: What takes minutes.
_SHORT = {
    'operations': ['boot', 'resize', 'revert'],
    'sample': 1,
    'kills': 3,
    'outages': True,
}


def main() -> int:
    """Run one form; return 1 when anything does not agree."""
    arguments = _parse()
    seed = arguments.seed
    if seed is None:
        seed = random.randrange(2**32)
    with site_mod.Site() as site:
        print(f'up; seed {seed}', flush=True)
        servers = operations.Servers(site)
        chosen = random.Random(seed)
        codes = []
        if arguments.form != 'random':
            codes.append(_run_every_step(servers, chosen, arguments))
        if arguments.form in ('random', 'short'):
            codes.append(
                at_random.run(
                    servers,
                    chosen,
                    arguments.kills,
                    with_outages=arguments.outages,
                )
            )
        return max(codes)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='tests.crash')
    parser.add_argument('form', choices=[*_FORMS])
    parser.add_argument('operations', nargs='*')
    parser.add_argument('--seed', type=int)
    parser.add_argument('--kills', type=int, default=1000)
    parser.add_argument('--outages', action='store_true')
    parser.add_argument(
        '--sample', type=int, default=0, help='steps of each operation'
    )
    parser.add_argument(
        '--at', default='', help='only steps whose line has this text'
    )
    parser.set_defaults(**_SHORT if 'short' in sys.argv[1:] else {})
    return parser.parse_intermixed_args()


def _run_every_step(
    servers: operations.Servers,
    chosen: random.Random,
    arguments: argparse.Namespace,
) -> int:
    made = report.Table()
    runner = every_step.EveryStep(servers)
    for name in arguments.operations or operations.OPERATIONS:
        kills = runner.list_kills(name)
        made.add_operation(name, kills)
        if arguments.form == 'list':
            made.show(kills)
            continue
        kills = [one for one in kills if arguments.at in str(one)]
        if arguments.sample and len(kills) > arguments.sample:
            kills = chosen.sample(kills, arguments.sample)
        for one in kills:
            began = time.monotonic()
            outcome = runner.run(one)
            made.add(outcome, time.monotonic() - began)
    made.show_end()
    return 1 if made.failures else 0


if __name__ == '__main__':
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
        code = 2
    sys.stdout.flush()
    # Nova's threads would keep the process.
    os._exit(code)
