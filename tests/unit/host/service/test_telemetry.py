# SPDX-License-Identifier: Apache-2.0

"""Tests of who measures a host and tunes it."""

from collections.abc import Callable
import dataclasses
import os
import threading
import time
from typing import Any
from unittest import mock

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.noop import enforcer as enforcer_mod
from nova_ext_resources import exception
from nova_ext_resources.host.service import health as health_mod
from nova_ext_resources.host.service import server_names
from nova_ext_resources.host.service import telemetry
from nova_ext_resources.host.service import wiring
from nova_ext_resources.monitoring import loading
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import tunable_units
from nova_ext_resources.testing import resctrl
from nova_ext_resources.tuning import pressure
from tests.unit.host.service import test_wiring
from tests.unit.host import with_host
from tests.unit.monitoring.exporter import shown

PATIENCE = 60.0

SERVER: str = uuidsentinel.server

MONITORED = """
[ext_resources_monitoring]
enabled = True
interval = 1
"""

#: Its enforcer can change what servers have.
TUNABLE = test_wiring.HOST.replace('noop', 'resctrl')

TUNED = """
[ext_resources_tuning]
enabled = True
"""


class MeasuringTest(test_wiring.HostServiceTestCase):
    """On a host that counts nothing: its resctrl is an empty folder."""

    def start(
        self, text: str, host: str = test_wiring.HOST
    ) -> wiring.HostService:
        made = self.make(
            host + text + f'[ext_resources_resctrl]\npath = {self.folder}\n'
        )
        made.start()
        self.addCleanup(made.stop)
        return made

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            self.assertLess(time.monotonic(), deadline, 'it never came')
            time.sleep(0.01)

    def list_parts(self, made: wiring.HostService) -> dict[str, str]:
        health = made.metrics.read_health()
        return {str(one.part): one.failure for one in health.parts}

    def test_nothing_is_measured_by_default(self) -> None:
        made = self.start('')

        self.assertIsNone(made.metrics.read().sweep)
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

    def start_with(self, options: str) -> wiring.HostService:
        made = self.make(
            f'[ext_resources]\n{options}\n'
            f'[ext_resources_resctrl]\npath = {self.folder}\n'
        )
        # Once more is not too much.
        self.addCleanup(made.stop)
        made.start()
        return made

    def test_what_cannot_be_measured_shows_in_health(self) -> None:
        made = self.start(MONITORED)

        self.wait_for(lambda: 'monitoring' in self.list_parts(made))

        self.assertIn('not mounted', self.list_parts(made)['monitoring'])
        self.assertEqual({}, made.metrics.read().tuning_changes)

    def test_tuning_runs_after_each_sweep(self) -> None:
        made = self.start(MONITORED + TUNED, TUNABLE)

        self.wait_for(lambda: 'tuning' in self.list_parts(made))

        self.assertEqual('', self.list_parts(made)['tuning'])

    def test_a_round_of_tuning_that_breaks_off_shows_in_health(self) -> None:
        made = self.start(MONITORED + TUNED, TUNABLE)
        del made.host.enforcement

        self.wait_for(
            lambda: 'AttributeError' in self.list_parts(made).get('tuning', '')
        )

    def test_tuning_by_what_nobody_measures_is_refused(self) -> None:
        made = self.make(TUNABLE + TUNED)

        err = self.assertRaises(exception.InvalidConfiguration, made.start)

        self.assertIn('[ext_resources_tuning] enabled', str(err))
        self.assertIn('[ext_resources_monitoring] enabled', str(err))

    def test_tuning_what_nobody_can_change_is_refused(self) -> None:
        made = self.make(test_wiring.HOST + MONITORED + TUNED)

        err = self.assertRaises(exception.InvalidConfiguration, made.start)

        self.assertIn('[ext_resources_tuning] enabled', str(err))
        self.assertIn('enforcers = noop', str(err))
        self.assertIn('resctrl', str(err))

    def test_groups_stay_where_servers_are_measured(self) -> None:
        group = self.make_group()

        made = self.start(MONITORED)

        self.wait_for(lambda: made.metrics.read().sweep is not None)
        self.assertTrue(os.path.isdir(group))

    def test_its_thread_ends_with_the_service(self) -> None:
        before = set(threading.enumerate())
        made = self.start(MONITORED)
        started = set(threading.enumerate()) - before
        self.assertIn(
            'ext-resources-monitoring', {one.name for one in started}
        )

        made.stop()

        self.assertEqual([], [one for one in started if one.is_alive()])

    def test_what_is_on_is_logged_at_the_start(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        for tuned, words in (
            ('', ()),
            (TUNED, ('tuning is on, as a dry run',)),
            (f'{TUNED}dry_run = False\n', ('tuning is on and changes',)),
        ):
            with self.subTest(tuned=tuned):
                before = len(log.output)

                self.start(MONITORED + tuned, TUNABLE).stop()

                said = log.output[before:]
                self.assertIn('monitoring is on: servers = claimed', said)
                self.assertIn('every 1 s', said)
                self.assertEqual(len(words), said.count('tuning is on'))
                for word in words:
                    self.assertIn(word, said)

    def test_nothing_is_logged_of_what_is_off(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())

        self.start('')

        self.assertNotIn(' is on', log.output)

    def test_what_was_done_is_written_beside_the_ledger(self) -> None:
        made = self.make(test_wiring.HOST)

        self.assertEqual(
            os.path.join(self.folder, 'state', 'host1-tuning.jsonl'),
            made.metrics.audit_path,
        )


class Movable(enforcer_mod.NoopEnforcer):
    """A third party's, which can change what servers have."""

    def list_tunables(self) -> tuple[tunable_units.Tunable, ...]:
        return ()


class FactsTest(test_wiring.ConfTestCase, with_host.HostTestCase):
    """What tuning gets to know of a host."""

    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(resctrl.ResctrlFixture('skylake2'))
        enforcer = Movable(self.load_noop()['noop'].options, 'host1')
        self.host = with_host.make_host(
            self.load_fake(), {'movable': enforcer}, self.open_ledger()
        )
        self.host.refresh()
        self.health = health_mod.Health('host1')

    def make(self, host: Any) -> Any:
        conf = self.read(
            f'{MONITORED}{TUNED}[ext_resources_resctrl]\n'
            f'path = {self.folder}\ncpu_path = {self.machine.cpu_path}\n'
            'memory_bandwidth = 5000\n'
        )
        return telemetry.Measuring(
            conf,
            host,
            self.health,
            server_names.ServerList(dict, host='host1', interval=60),
            None,
            audit_path=os.path.join(self.folder, 'audit'),
        )

    def test_without_a_hypervisor_it_is_unknown_which_guests_run(
        self,
    ) -> None:
        with mock.patch.object(
            loading, 'from_conf', wraps=loading.from_conf
        ) as make:
            self.make(self.host)

        self.assertIsNone(make.call_args.kwargs['list_guests']())

    def test_sizes_of_caches_and_bandwidth_of_memory(self) -> None:
        made = self.make(self.host)

        domain = made._tuner._target.list_domains()['L3_0']

        self.assertEqual(25952256 / 11, domain.way_bytes)
        self.assertEqual(5000 << 20, domain.bandwidth_bytes)

    def test_how_many_cpus_a_server_has_unless_it_floats(self) -> None:
        class Host:
            host = 'host1'
            enforcement = self.host.enforcement
            entries: dict[str, assignment.Entry]

        host = Host()
        host.entries = {
            uuid: dataclasses.replace(entry, cpus=cpus)
            for (uuid, entry), cpus in zip(
                shown.make_entries('pinned', 'floating').items(),
                (frozenset({1, 2}), None),
                strict=True,
            )
        }
        made = self.make(host)
        seen: list[pressure.PressureReading] = []
        made._tuner.run_once = seen.extend

        made._tune(shown.make_sweep('pinned', 'floating'))

        self.assertEqual(
            {('pinned', 2), ('floating', None)},
            {(one.consumer_uuid, one.cpus) for one in seen},
        )
