# SPDX-License-Identifier: Apache-2.0

"""A start that fails ends the process, in spite of libvirt's threads."""

import os
import pathlib
import subprocess
import sys

import testtools

from tests import base
from tests.functional.libvirt import daemon
from tests.functional.libvirt import site as sites

_OBSTACLE = daemon.find_obstacle()
_SECONDS = 120

#: What nova-compute does until its driver has started.
_COMPUTE = """
from nova import monkey_patch
monkey_patch.patch()
import sys
import nova.conf
from nova import config
from nova.virt import driver
from oslo_log import log
config.parse_args(['nova-compute', '--config-file', sys.argv[1]])
log.setup(nova.conf.CONF, 'nova')
made = driver.load_compute_driver(None)
made.init_host(nova.conf.CONF.host)
"""

_CONF = """
[DEFAULT]
compute_driver = ext_resources.LibvirtDriver
host = {host}
state_path = {folder}
transport_url = fake:

[libvirt]
connection_uri = {uri}
virt_type = qemu
cpu_mode = none

[placement]
auth_type = admin_token
token = admin
endpoint = http://127.0.0.1:1

[ext_resources]
enforcers = rmdd
"""


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class StartTest(base.TestCase):
    def test_a_wrong_name_of_a_plugin_ends_the_process(self) -> None:
        folder = pathlib.Path(self.make_folder())
        conf = folder / 'nova.conf'
        with daemon.Libvirtd(folder / 'libvirt', sites.HOST) as libvirtd:
            conf.write_text(
                _CONF.format(host=sites.HOST, folder=folder, uri=libvirtd.uri)
            )

            ended = subprocess.run(
                [sys.executable, '-c', _COMPUTE, conf],
                env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=_SECONDS,
            )

        self.assertEqual(1, ended.returncode, ended.stdout)
        self.assertIn("Host lv1: Plugin 'rmdd' is not installed", ended.stdout)
