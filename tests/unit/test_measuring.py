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

"""Tests of who measures a host and tunes it."""

from collections.abc import Callable
import os
import time

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources import service
from tests.unit import test_service

PATIENCE = 20.0

SERVER: str = uuidsentinel.server

MONITORED = """
[ext_resources_monitoring]
enabled = True
interval = 1
"""

TUNED = """
[ext_resources_tuning]
enabled = True
"""


class MeasuringTest(test_service.HostServiceTestCase):
    """On a host that counts nothing: its resctrl is an empty folder."""

    def start(self, text: str) -> service.HostService:
        made = self.make(
            test_service.HOST
            + text
            + f'[ext_resources_resctrl]\npath = {self.folder}\n'
        )
        made.start([])
        self.addCleanup(made.stop)
        return made

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            self.assertLess(time.monotonic(), deadline, 'it never came')
            time.sleep(0.01)

    def list_parts(self, made: service.HostService) -> dict[str, str]:
        health = made.read_health()
        return {str(one.part): one.failure for one in health.parts}

    def test_nothing_is_measured_by_default(self) -> None:
        made = self.start('')

        self.assertIsNone(made.read_metrics().sweep)
        self.assertNotIn('monitoring', self.list_parts(made))

    def test_hosts_on_which_nothing_is_enabled_are_left_in_peace(self) -> None:
        group = self.make_group()

        self.start_with('')

        self.assertTrue(os.path.isdir(group))

    def test_what_measuring_has_left_behind_is_removed(self) -> None:
        """Whatever gives the resources out now."""
        for name in ('resctrl', 'rmd', 'noop'):
            group = self.make_group()

            self.start_with(f'enforcers = {name}').stop()

            self.assertFalse(os.path.isdir(group), name)

    def test_hosts_without_resctrl_have_nothing_to_remove(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())

        self.start_with('enforcers = noop')

        self.assertNotIn('monitoring is switched off', log.output)

    def make_group(self) -> str:
        group = os.path.join(self.folder, 'mon_groups', f'nova-{SERVER}')
        os.makedirs(group)
        return group

    def start_with(self, options: str) -> service.HostService:
        made = self.make(
            f'[ext_resources]\n{options}\n'
            f'[ext_resources_resctrl]\npath = {self.folder}\n'
        )
        # Once more is not too much.
        self.addCleanup(made.stop)
        made.start([])
        return made

    def test_what_cannot_be_measured_shows_in_health(self) -> None:
        made = self.start(MONITORED)

        self.wait_for(lambda: made.read_metrics().sweep is not None)

        self.assertIn('not mounted', self.list_parts(made)['monitoring'])
        self.assertEqual({}, made.read_metrics().tuning_changes)

    def test_tuning_runs_after_each_sweep(self) -> None:
        made = self.start(MONITORED + TUNED)

        self.wait_for(lambda: 'tuning' in self.list_parts(made))

        self.assertEqual('', self.list_parts(made)['tuning'])

    def test_a_round_of_tuning_that_breaks_off_shows_in_health(self) -> None:
        made = self.start(MONITORED + TUNED)
        del made.host.enforcement

        self.wait_for(
            lambda: 'AttributeError' in self.list_parts(made).get('tuning', '')
        )

    def test_tuning_by_what_nobody_measures_is_refused(self) -> None:
        made = self.make(test_service.HOST + TUNED)

        err = self.assertRaises(exception.InvalidConfiguration, made.start, [])

        self.assertIn('[ext_resources_tuning] enabled', str(err))
        self.assertIn('[ext_resources_monitoring] enabled', str(err))

    def test_what_was_done_is_written_beside_the_ledger(self) -> None:
        made = self.make(test_service.HOST)

        self.assertEqual(
            os.path.join(self.folder, 'state', 'host1-tuning.jsonl'),
            made.audit_path,
        )
