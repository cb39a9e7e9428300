# SPDX-License-Identifier: Apache-2.0

"""Brings environments up to date that a benchmark needs beside its own.

``tox -e bench`` runs it. Blazar takes a minute to install, which the other
benchmarks need not wait for.
"""

import subprocess
import sys

#: Name of a benchmark -> the environment of tox.
NEEDS = {'reservation': 'blazar'}


def main(arguments: list[str]) -> int:
    """Call tox, if it is needed, and return what it does."""
    needed = NEEDS.get(arguments[0]) if arguments else None
    if needed is None:
        return 0
    print(f'Bringing .tox/{needed} up to date, too.', flush=True)
    return subprocess.run(
        ['tox', 'run', '-qq', '-e', needed, '--notest'], check=False
    ).returncode


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
