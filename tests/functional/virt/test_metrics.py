# SPDX-License-Identifier: Apache-2.0

"""Tests of the metrics of a compute service."""

import pathlib
import shutil
import struct
import subprocess
import tempfile
import urllib.request

from tests.functional.virt import base
from tests import ports

#: Seconds for a browser to start and draw, on a busy machine.
_PATIENCE = 180

#: Size of the window in pixels.
_WIDTH, _HEIGHT = 1000, 1400


class MetricsTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.port = self.useFixture(ports.Port()).number
        self.host_options = f'\n[ext_resources_metrics]\nport = {self.port}\n'
        self.service = self.start_host('host1')

    def test_a_server_shows_with_its_flavor_and_project(self) -> None:
        flavor_id = self.make_pinned_flavor(4)
        server = self.boot(flavor_id)
        self.publish(self.service)
        # It is asked by itself, some seconds later.
        self.service.manager.driver._ext.metrics.servers.run_once()

        lines = [line for line in self.read() if server['id'] in line]

        [ways] = [line for line in lines if 'CUSTOM_LLC_WAYS' in line]
        flavor = self.api.get_flavor(flavor_id)['name']
        self.assertIn(f'flavor="{flavor}"', ways)
        self.assertIn(f'project="{server["tenant_id"]}"', ways)
        self.assertTrue(ways.endswith(' 4.0'), ways)

    def read(self) -> list[str]:
        url = f'http://127.0.0.1:{self.port}/metrics'
        with urllib.request.urlopen(url, timeout=60) as response:
            text: str = response.read().decode()
        return text.splitlines()

    def test_a_browser_shows_who_has_what(self) -> None:
        if shutil.which('chromium') is None:
            self.skipTest('chromium is not installed, see bindep.txt')
        server = self.boot(self.make_pinned_flavor(4))
        self.publish(self.service)

        shown = self.browse('--dump-dom').decode()

        self.assertIn('<h1>Extended resources of host1</h1>', shown)
        self.assertEqual(4, shown.count(f'<title>4: {server["id"]}'))
        # A way of the cache, and two classes of service.
        for amount in (1, 2):
            self.assertEqual(
                1, shown.count(f'<title>{amount}: the host itself')
            )
        self.assertEqual(1, shown.count('</span> other software<'))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'host.png')
            self.browse(f'--screenshot={path}')
            picture = path.read_bytes()
        self.assertEqual(
            (_WIDTH, _HEIGHT), struct.unpack('>2I', picture[16:24])
        )
        # One of a single colour has some 10,000 bytes.
        self.assertLess(20_000, len(picture))

    def browse(self, what: str) -> bytes:
        """Have a browser without a screen look at the page."""
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                [
                    *(
                        'chromium',
                        '--headless',
                        '--no-sandbox',
                        '--disable-gpu',
                    ),
                    *('--disable-dev-shm-usage', '--no-first-run'),
                    f'--user-data-dir={folder}',
                    f'--window-size={_WIDTH},{_HEIGHT}',
                    what,
                    f'http://127.0.0.1:{self.port}/',
                ],
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
            ).stdout
