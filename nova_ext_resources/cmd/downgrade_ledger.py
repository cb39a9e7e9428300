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


def main(arguments: Sequence[str]) -> int:
    """Downgrade the ledger named by the only argument.

    :return: the exit status
    """
    if len(arguments) != 1 or arguments[0].startswith('-'):
        print('Argument: the path of the ledger of this host', file=sys.stderr)
        return 2
    if not os.path.isfile(arguments[0]):
        print(f'Ledger {arguments[0]}: there is no such file', file=sys.stderr)
        return 2
    try:
        ledger.downgrade(arguments[0])
    except exception.LedgerInUse:
        print(
            f'Ledger {arguments[0]}: nova-compute of this host, or another '
            'process, uses it; stop that first, servers keep running',
            file=sys.stderr,
        )
        return 1
    except exception.LedgerError as err:
        print(err, file=sys.stderr)
        return 1
    print('Done. Install the older release before you start nova-compute.')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
