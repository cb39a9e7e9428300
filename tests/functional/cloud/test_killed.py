# SPDX-License-Identifier: Apache-2.0

"""The demo's process is killed while machines have something mounted."""

import os
import subprocess
import sys
import time

from dev.cloud import folder as folders
from dev.cloud import mounts
from tests import base
from tests.functional.resctrl import mounting

_PATIENCE = 60.0

_DEMO = """
from dev.cloud import folder
from dev.cloud.machines import resctrl
import pathlib, sys, time
made = folder.Folder(pathlib.Path(sys.argv[1]))
started = [resctrl.Machine(host, made) for host in ('node1', 'node2')]
for one in started:
    one.start()
for one in started:
    one.wait()
print('up', flush=True)
time.sleep(60)
"""


class KilledTest(base.TestCase):
    def test_neither_a_mount_nor_the_folder_is_left(self) -> None:
        mounting.require()
        folder = folders.Folder.create()
        self.addCleanup(folder.remove)
        demo = subprocess.Popen(
            [sys.executable, '-c', _DEMO, str(folder.root)],
            stdout=subprocess.PIPE,
        )
        assert demo.stdout is not None
        self.addCleanup(demo.stdout.close)
        demo.stdout.readline()
        self.assertEqual(2, len(mounts.list_below(str(folder.root))))

        demo.kill()
        demo.wait()

        self.wait_until_gone(folder)
        self.assertFalse(os.path.lexists(folder.root))
        self.assertEqual((), mounts.list_below(str(folder.root)))

    def wait_until_gone(self, folder: folders.Folder) -> None:
        deadline = time.monotonic() + _PATIENCE
        while os.path.lexists(folder.root) and time.monotonic() < deadline:
            time.sleep(0.05)
