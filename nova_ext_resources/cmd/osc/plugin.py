# SPDX-License-Identifier: Apache-2.0

"""What the OpenStackClient loads at each start, whatever it is asked.

So it imports nothing. The commands are entry points of
``openstack.extended.v1``; cliff imports them at each start, too, so that none
imports a database before it is asked.
"""

import argparse

API_NAME = 'extended'
API_VERSION_OPTION = 'os_extended_api_version'
API_VERSIONS = ('1',)
DEFAULT_API_VERSION = '1'


def build_option_parser(
    parser: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    """Add the options that all commands have."""
    parser.add_argument(
        '--os-extended-api-version',
        metavar='<extended-api-version>',
        default=DEFAULT_API_VERSION,
        help='version of the commands of extended resources (default: 1)',
    )
    return parser
