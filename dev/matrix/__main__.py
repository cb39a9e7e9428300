# SPDX-License-Identifier: Apache-2.0

"""Runs ``python -m dev.matrix``."""

from collections.abc import Iterator, Mapping
import pathlib
import sys

from dev.matrix import outcomes
from dev.matrix import plan
from dev.matrix import table


def main(arguments: list[str]) -> int:
    """Write the table; return the exit status."""
    if not arguments:
        print('Name the files of one or more runs.', file=sys.stderr)
        return 2
    planned = plan.read()
    passed = outcomes.read(map(pathlib.Path, arguments))
    table.write(planned, passed)
    lines = list(explain(planned, passed))
    for line in lines:
        print(line, file=sys.stderr)
    return int(bool(lines))


def explain(planned: plan.Plan, passed: Mapping[str, bool]) -> Iterator[str]:
    """Return a line for each test of the table that did not pass."""
    words = {None: 'did not run', False: 'failed'}
    for name in sorted(planned.list_tests()):
        outcome = passed.get(name)
        if not outcome:
            yield f'{name} {words[outcome]}'


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
