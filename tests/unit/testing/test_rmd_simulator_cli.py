# SPDX-License-Identifier: Apache-2.0

"""The simulator as a process."""

import os
import signal
import subprocess
import sys

import fixtures
import requests

from nova_ext_resources.testing.rmd_simulator import cli
from nova_ext_resources.testing.rmd_simulator import settings
from tests import base

MODULE = 'nova_ext_resources.testing.rmd_simulator'


class OptionsTest(base.TestCase):
    def parse(self, *arguments: str) -> settings.Settings:
        options = cli.make_parser().parse_args(['--port', '0', *arguments])
        made = cli.make_simulator(options)
        self.addCleanup(made.stop)
        return made.settings

    def test_without_options_the_host_is_the_default_one(self) -> None:
        self.assertEqual(settings.Settings(), self.parse())

    def test_options_make_another_host(self) -> None:
        parsed = self.parse(
            '--sockets=1',
            '--cpus=8',
            '--ways=20',
            '--clos=16',
            '--pools=os=2,guarantee=10,besteffort=7',
            '--policy=Gold=8:8,silver=5:2',
            '--plugin=pstate',
            '--mba-mode=mbps',
            '--cache-mixup',
            '--races',
            '--shrink',
        )

        self.assertEqual(
            {'os': 2, 'guarantee': 10, 'besteffort': 7}, parsed.pools
        )
        self.assertEqual({'gold': (8, 8), 'silver': (5, 2)}, parsed.policies)
        self.assertEqual({0: frozenset(range(8))}, parsed.caches)
        self.assertEqual((20, 16), (parsed.ways, parsed.clos))
        self.assertEqual(('pstate',), parsed.plugins)
        self.assertTrue(parsed.has_cache_mixup and parsed.has_races)
        self.assertTrue(parsed.has_shrink)

    def test_faults_can_be_there_from_the_start(self) -> None:
        options = cli.make_parser().parse_args(
            [
                '--port=0',
                '--slow=0.5',
                '--hang',
                '--drop',
                '--garbage=html',
                '--status=500',
                '--lie',
            ]
        )
        made = cli.make_simulator(options)
        self.addCleanup(made.stop)

        self.assertEqual(
            ['slow', 'hang', 'drop', 'garbage', 'status'],
            [fault.kind for fault in made.faults.list_faults()],
        )
        self.assertTrue(made.daemon.enforcement.failing)

    def test_impossible_hosts_are_refused(self) -> None:
        for arguments in (
            ['--sockets=5'],
            ['--cpus=0'],
            ['--ways=64'],
            ['--clos=2'],
            ['--pools=os=1,guarantee=11'],
            ['--pools=gold=1'],
            ['--pools=os'],
            ['--policy=gold'],
        ):
            with self.subTest(arguments=arguments):
                self.assertRaises(ValueError, self.parse, *arguments)


class ProcessTest(base.TestCase):
    def start(self, *arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, '-m', MODULE, '--port=0', *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process, process.stdout.readline().strip()

    def run_to_its_end(
        self, *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, '-m', MODULE, *arguments],
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        )

    def test_it_prints_its_url_and_ends_on_a_signal(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                process, url = self.start('--exit-with-parent')
                answer = requests.get(f'{url}/v1/cache/l3', timeout=60)

                process.send_signal(number)

                self.assertEqual(2, answer.json()['number'])
                self.assertEqual(0, process.wait(60))

    def test_a_port_in_use_is_told(self) -> None:
        _process, url = self.start()
        port = url.rpartition(':')[2]

        second = self.run_to_its_end(f'--port={port}')

        self.assertEqual(2, second.returncode)
        self.assertIn('in use', second.stderr)

    def test_a_database_with_which_rmd_does_not_start_is_told(self) -> None:
        database = self.useFixture(fixtures.TempDir()).join('rmd.db')
        process, url = self.start(f'--database={database}')
        requests.post(
            f'{url}/v1/workloads',
            json={
                'core_ids': ['1'],
                'policy': 'gold',
                'rdt': {'mba': {'mbps': 1000}},
            },
            timeout=60,
        )
        process.terminate()
        process.wait(60)

        second = self.run_to_its_end('--port=0', f'--database={database}')

        self.assertEqual(2, second.returncode)
        self.assertIn(
            'not compatible with current configuration', second.stderr
        )
        self.assertNotIn('Traceback', second.stderr)
