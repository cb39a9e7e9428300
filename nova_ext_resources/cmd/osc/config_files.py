# SPDX-License-Identifier: Apache-2.0

"""The arguments that name configuration files of Nova."""

import argparse
import logging

from osc_lib import exceptions
from oslo_config import cfg

from nova_ext_resources.conf import reader
from nova_ext_resources.conf import reservation

_USE = (
    'of Nova, for the database of the reservations and the credentials for '
    'placement; may be repeated (default: where Nova itself looks, such as '
    '/etc/nova/nova.conf)'
)


def add_arguments(
    parser: argparse.ArgumentParser,
    *,
    title: str = 'configuration',
    use: str = _USE,
) -> None:
    """Add the arguments that name configuration files."""
    group = parser.add_argument_group(title)
    group.add_argument(
        '--config-file',
        metavar='<file>',
        action='append',
        help=f'a configuration file {use}',
    )
    group.add_argument(
        '--config-dir',
        metavar='<folder>',
        action='append',
        help='a folder of such files; may be repeated',
    )


def read(arguments: argparse.Namespace) -> cfg.ConfigOpts:
    """Read the configuration files that the arguments name, or Nova's own.

    :raises CommandError: there is none, or it has a name that reservations
        do not have
    :raises InvalidConfiguration: one cannot be read
    """
    # It logs a traceback of what our error says in words.
    logging.getLogger('oslo_db.sqlalchemy.exc_filters').setLevel(
        logging.CRITICAL
    )
    files, folders = arguments.config_file, arguments.config_dir
    if files is None and folders is None:
        files = cfg.find_config_files('nova')
        folders = cfg.find_config_dirs('nova')
        if not files and not folders:
            raise exceptions.CommandError(
                'There is no nova.conf where Nova looks for it, such as '
                '/etc/nova; name the file with --config-file.'
            )
    files, folders = files or [], folders or []
    conf = cfg.ConfigOpts()
    reader.parse(conf, files, folders)
    if problems := reservation.list_misspelt(conf):
        raise exceptions.CommandError('\n'.join(problems))
    return conf
