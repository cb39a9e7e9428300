# SPDX-License-Identifier: Apache-2.0

"""Changes a host's ledger such that an older release can read it.

Run as ``python3 -m nova_ext_resources.cmd.downgrade_ledger PATH`` while
nova-compute of the host is stopped, as the user that it runs as, before the
older release is installed.
"""

from collections.abc import Sequence
import os
import stat
import sys

from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger

_WHERE = 'nova-compute logs the path at its start, after "recorded in"'


def main(arguments: Sequence[str]) -> int:
    """Downgrade the ledger named by the only argument.

    :return: the exit status
    """
    if len(arguments) != 1 or arguments[0].startswith('-'):
        print(
            'Usage: python3 -m nova_ext_resources.cmd.downgrade_ledger PATH\n'
            f'PATH: the path of the ledger of this host; {_WHERE}',
            file=sys.stderr,
        )
        return 2
    problem = _find_problem(arguments[0])
    if problem:
        print(f'Ledger {arguments[0]}: {problem}', file=sys.stderr)
        return 2
    try:
        ledger.downgrade(arguments[0])
    except exception.LedgerInUse:
        print(
            f'Ledger {arguments[0]}: nova-compute of this host, or another '
            'process, uses the ledger. Nothing was changed; stop the process '
            'first, servers keep running',
            file=sys.stderr,
        )
        return 1
    except exception.LedgerError as err:
        print(err, file=sys.stderr)
        return 1
    print(
        f'Ledger {arguments[0]} has version 1 now. Install the older release '
        'before you start nova-compute: this release would upgrade the ledger '
        'again.'
    )
    return 0


def _find_problem(path: str) -> str:
    """Return why there is no file to change, or ''."""
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        return (
            'this user cannot reach the file; run this command as the user '
            'that nova-compute runs as'
        )
    except OSError:
        is_file = False
    return '' if is_file else f'there is no such file; {_WHERE}'


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
