# SPDX-License-Identifier: Apache-2.0

"""``python -m dev.demo``."""

import sys


def _main() -> int:
    try:
        from dev.demo import cli
    except ModuleNotFoundError as error:
        print(
            f'{error}: the demo needs Nova, placement, glance and their '
            f'client. The environment that has them is made by: '
            f'sh tools/tox -e demo',
            file=sys.stderr,
        )
        return 1
    return cli.main()


if __name__ == '__main__':
    sys.exit(_main())
