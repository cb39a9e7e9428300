# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The image service: glance in one process, files on disk.

``python -m demo.cloud.image --etc FOLDER --image-fd NUMBER``
"""

import argparse
import os
import sys
import threading

from demo.cloud import ending
from demo.cloud import serving
from demo.cloud import sqlite


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
    _make_database(arguments.etc)

    from glance.common import wsgi_app

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
