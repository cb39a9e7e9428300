# SPDX-License-Identifier: Apache-2.0

"""Run one benchmark: ``python -m dev.bench NAME [OPTIONS]``.

Prints a table and, last, one line of JSON. Exits with 1 when a goal is
missed, with 2 when there is no such benchmark.
"""

import importlib
import inspect
import pkgutil
import sys

from dev import bench
from dev.bench.harness import rows as rows_mod


def list_names() -> list[str]:
    """Give the names of all benchmarks: the modules of this package."""
    return sorted(
        info.name
        for info in pkgutil.iter_modules(bench.__path__)
        if not info.ispkg and info.name != '__main__'
    )


def main(arguments: list[str]) -> int:
    names = list_names()
    if not arguments or arguments[0] not in names:
        print(
            f'Name one benchmark: python -m dev.bench {"|".join(names)}',
            file=sys.stderr,
        )
        return 2
    name, *options = arguments
    run = importlib.import_module(f'dev.bench.{name}').run
    if options and not inspect.signature(run).parameters:
        print(f'The benchmark {name} has no options.', file=sys.stderr)
        return 2
    rows = run(options) if options else run()
    print(rows_mod.format_table(rows))
    print(rows_mod.format_json(name, rows), flush=True)
    return 0 if all(row.is_ok for row in rows) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
