# SPDX-License-Identifier: Apache-2.0

"""Changes a host's ledger such that an older release can read it.

Run as ``python3 -m nova_ext_resources.cmd.downgrade_ledger PATH`` while
nova-compute of the host is stopped, as the user that it runs as, before the
older release is installed.
"""

from collections.abc import Sequence
import os
import sys

from nova_ext_resources import exception
from nova_ext_resources.host import ledger

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
    if not os.path.isfile(arguments[0]):
        print(
            f'Ledger {arguments[0]}: there is no such file; {_WHERE}',
            file=sys.stderr,
        )
        return 2
    try:
        ledger.downgrade(arguments[0])
    except exception.LedgerInUse:
        print(
            f'Ledger {arguments[0]}: nova-compute of this host, or another '
            'process, uses it. Nothing was changed; stop that first, servers '
            'keep running',
            file=sys.stderr,
        )
        return 1
    except exception.LedgerError as err:
        print(err, file=sys.stderr)
        return 1
    print(
        f'Ledger {arguments[0]} has version 1 now. Install the older release '
        'before you start nova-compute: this release changes it again.'
    )
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
