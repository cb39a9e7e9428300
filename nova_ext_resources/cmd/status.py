# SPDX-License-Identifier: Apache-2.0

"""``nova-ext-resources-status``: would nova-compute start here, and with what.

Run as the user that nova-compute runs as. It changes nothing, so that it may
run before nova-compute is started or while it runs. Output and exit status of
``check`` are those of ``nova-status upgrade check``.
"""

import argparse
from collections.abc import Sequence
import sys
from typing import Any

from oslo_upgradecheck import upgradecheck

from nova_ext_resources.cmd import checks
from nova_ext_resources.cmd import configuration
from nova_ext_resources.cmd import diff
from nova_ext_resources import exception

_PROGRAM = 'nova-ext-resources-status'

_DESCRIPTION = """\
Check whether nova-compute of this host can start with its configuration, and
which resources the host would offer. Run this command as the user that
nova-compute runs as. The command changes nothing."""

_EXIT_STATUS = """\
Exit status: 0, all is well; 1, a warning; 2, a failure: correct it before you
restart nova-compute; 255, an unexpected error."""


class _Commands(upgradecheck.UpgradeCommands):
    def _get_details(self, result: upgradecheck.Result) -> str | None:
        # The original makes one paragraph of all problems.
        lines = (result.details or '').splitlines()
        wrapped = (
            super(_Commands, self)._get_details(
                upgradecheck.Result(result.code, one)
            )
            for one in lines
        )
        return '\n'.join(filter(None, wrapped)) or None


def make_parser() -> argparse.ArgumentParser:
    """Declare the arguments."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, description=_DESCRIPTION)
    commands = parser.add_subparsers(dest='name', required=True)
    checking = commands.add_parser(
        'check', description=_DESCRIPTION, epilog=_EXIT_STATUS
    )
    configuration.add_arguments(checking)
    checking.add_argument(
        '--json', action='store_true', help='print JSON, not a table'
    )
    comparing = commands.add_parser(
        'diff', description=diff.DESCRIPTION, epilog=diff.EXIT_STATUS
    )
    configuration.add_arguments(comparing)
    diff.add_arguments(comparing)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or compare the host; return the exit status."""
    options = make_parser().parse_args(arguments)
    if options.name == 'diff':
        return diff.main(options)
    options.action_fn = lambda: check(options)
    # Where the library looks for the format of its output.
    conf: Any = argparse.Namespace(command=options)
    upgradecheck.CONF = conf
    return int(upgradecheck.run(conf))


def check(options: argparse.Namespace) -> upgradecheck.Code:
    """Run all checks that the configuration allows, and print them."""
    commands = _Commands()
    try:
        made = checks.Checks(*configuration.read(options))
    except exception.ExtResourcesError as err:
        failed = upgradecheck.Result(upgradecheck.Code.FAILURE, str(err))
        commands.display_title = 'Extended resources'
        commands._upgrade_checks = (('Configuration', lambda _: failed),)
    else:
        commands.display_title = f'Extended resources of host {made.host}'
        commands._upgrade_checks = made.list_rows()
    return commands.check()


if __name__ == '__main__':
    sys.exit(main())
