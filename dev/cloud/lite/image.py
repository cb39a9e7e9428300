# SPDX-License-Identifier: Apache-2.0

"""The image service: glance in one process, files on disk.

``python -m dev.cloud.lite.image --etc FOLDER --image-fd NUMBER``
"""

import argparse
import os
import sys
import threading

from dev.cloud import ending
from dev.cloud.lite import sqlite
from dev.cloud import serving


def main() -> None:
    """Make the database, serve, and stay until a signal comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--etc', required=True)
    parser.add_argument('--image-fd', type=int, required=True)
    arguments = parser.parse_args()
    # Glance reads the command line too.
    del sys.argv[1:]
    os.environ['OS_GLANCE_CONFIG_DIR'] = arguments.etc
    sqlite.install()
    # Before 33, glance registers options when this is imported, which it
    # cannot once the configuration was read.
    from glance.common import wsgi_app

    _make_database(arguments.etc)
    serving.serve(wsgi_app.init_app(), arguments.image_fd)
    threading.Event().wait()


def _make_database(etc: str) -> None:
    from glance.cmd import manage
    from glance.common import config

    config.set_config_defaults()
    manage.CONF(
        [],
        project='glance',
        prog='glance-manage',
        default_config_files=[f'{etc}/glance-api.conf'],
    )
    manage.DbCommands().sync()


if __name__ == '__main__':
    ending.run(main)
