# SPDX-License-Identifier: Apache-2.0

"""What nova-compute of this host is configured with, as commands read it."""

import argparse
from typing import NamedTuple

from oslo_config import cfg

from nova_ext_resources.conf import reader
from nova_ext_resources import exception


class Configuration(NamedTuple):
    """The options, as :func:`.reader.read_conf` reads them, and the host."""

    conf: cfg.ConfigOpts
    host: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that name the files and the host."""
    for option, what in (('file', 'a file'), ('dir', 'a folder of files')):
        parser.add_argument(
            f'--config-{option}',
            action='append',
            help=f'{what} with options of nova-compute; may be repeated '
            '(default: where nova-compute itself looks)',
        )
    parser.add_argument(
        '--host', help='[DEFAULT] host of nova-compute, if no file sets it'
    )


def read(options: argparse.Namespace) -> Configuration:
    """Read the configuration that the arguments name.

    :raises InvalidConfiguration: it cannot be read
    """
    files, folders = find_files(options)
    host = options.host or reader.read_host(files, folders)
    conf = reader.read_conf(files, folders, host)
    # oslo.privsep, which writes to resctrl, reads the global options.
    reader.parse(cfg.CONF, files, folders)
    return Configuration(conf, host)


def find_files(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the files and folders that the arguments name.

    If they name none, those that nova-compute reads without arguments.

    :raises InvalidConfiguration: there are none
    """
    files, folders = options.config_file, options.config_dir
    if files is not None or folders is not None:
        return files or [], folders or []
    names = 'nova', 'nova-compute'
    files = cfg.find_config_files(*names)
    folders = cfg.find_config_dirs(*names)
    if not files and not folders:
        raise exception.InvalidConfiguration(
            option='--config-file',
            value=None,
            reason='there is no nova.conf in /etc/nova or another place where '
            'nova-compute looks; name the files that nova-compute is started '
            'with',
        )
    return files, folders
