# SPDX-License-Identifier: Apache-2.0

"""What publishing costs in requests; how long it takes is not tested."""

import json
import os
import subprocess
import sys
from typing import Any

from dev.bench.harness import peers
from tests import base


class PublishingTest(base.TestCase):
    def run_bench(self, *arguments: str) -> list[dict[str, Any]]:
        """Run a benchmark as tox does; return its rows."""
        done = subprocess.run(
            [sys.executable, '-m', 'dev.bench', *arguments, '--sqlite'],
            cwd=peers.ROOT,
            env={**os.environ, 'OS_NOVA_DISABLE_EVENTLET_PATCHING': '1'},
            capture_output=True,
            text=True,
            check=False,
        )
        # A time may be missed.
        self.assertIn(done.returncode, (0, 1), done.stderr)
        answer = json.loads(done.stdout.splitlines()[-1])
        rows: list[dict[str, Any]] = answer['rows']
        return rows

    def assert_goals_of_requests(self, rows: list[dict[str, Any]]) -> None:
        rows = [
            one
            for one in rows
            if 'requests' in one['what'] and one['goal'] is not None
        ]
        self.assertNotEqual([], rows)
        for one in rows:
            self.assertLessEqual(one['ratio'], one['goal'], one['what'])

    def test_a_host_asks_placement_less_often_than_nova_does(self) -> None:
        rows = self.run_bench('publish', '--hosts', '1')

        self.assert_goals_of_requests(rows)
        limits = {
            one['what'].split(', ')[1]: one['ours']
            for one in rows
            if one['what'].endswith('requests : its limit')
        }
        self.assertEqual(
            {'nothing changed': 1, 'one inventory changed': 2, 'restart': 14},
            limits,
        )

    def test_the_last_host_asks_as_often_as_the_first(self) -> None:
        rows = self.run_bench('scale', '--hosts', '8', '--compared', '3')

        self.assert_goals_of_requests(rows)
        asked = [one for one in rows if one['what'].endswith('its limit')]
        self.assertEqual(3, len(asked))
        for one in asked:
            self.assertIn('8 hosts', one['what'])

    def test_whole_commands_with_a_real_placement(self) -> None:
        rows = self.run_bench(
            'reservation',
            '--part',
            'command',
            '--blazar',
            'none',
            '--hosts',
            '10',
        )

        self.assertEqual(8, len(rows))
        for one in rows:
            self.assertIn('10 hosts: the command', one['what'])

    def test_too_few_hosts_are_told(self) -> None:
        done = subprocess.run(
            [sys.executable, '-m', 'dev.bench', 'scale', '--hosts', '5'],
            cwd=peers.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

        self.assertEqual(2, done.returncode)
        self.assertIn('5 hosts are fewer than twice', done.stderr)
