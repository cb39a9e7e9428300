# SPDX-License-Identifier: Apache-2.0

import os

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.conf.drivers import resctrl
from nova_ext_resources.conf import monitoring
from nova_ext_resources import exception
from nova_ext_resources.monitoring import loading
from nova_ext_resources.monitoring import loop
from nova_ext_resources.monitoring import sample
from tests import base

SERVER = uuidsentinel.server


class LoadingTest(base.TestCase):
    """On a tree of plain files, which has what is read."""

    def setUp(self) -> None:
        super().setUp()
        self.logger = self.useFixture(fixtures.FakeLogger())
        monitoring.register_opts(self.conf)
        resctrl.register_opts(self.conf)
        self.path = self.make_folder()
        self.conf.set_override('path', self.path, 'ext_resources_resctrl')
        self.asked: list[str] = []
        self.swept: list[sample.Sweep] = []

    def load(self, **options: object) -> loop.SweepLoop | None:
        for name, value in options.items():
            self.conf.set_override(name, value, 'ext_resources_monitoring')
        return loading.from_conf(
            self.conf,
            'host1',
            list_entries=lambda: {},
            list_uuids=self.list_uuids,
            on_sweep=self.swept.append,
        )

    def list_uuids(self) -> list[str]:
        self.asked.append('uuids')
        return [SERVER]

    def write(self, path: str, text: str) -> None:
        whole = os.path.join(self.path, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, 'w') as file:
            file.write(text)

    def make_tree(self) -> None:
        self.write('info/L3_MON/mon_features', 'llc_occupancy\n')
        self.write('info/L3_MON/num_rmids', '16\n')
        for group in ('', f'nova-{SERVER}/'):
            self.write(f'{group}mon_data/mon_L3_00/llc_occupancy', '65536\n')

    def test_nothing_runs_by_default(self) -> None:
        self.assertIsNone(self.load())
        self.assertEqual('', self.logger.output)

    def test_hosts_without_resctrl_are_left_in_peace(self) -> None:
        self.conf.set_override('path', '/no/such', 'ext_resources_resctrl')

        loading.clean(self.conf, 'host1')

        self.assertEqual('', self.logger.output)

    def test_what_was_left_is_removed_where_it_is_switched_off(self) -> None:
        left = os.path.join(self.path, 'mon_groups', f'nova-{SERVER}')
        others = os.path.join(self.path, 'mon_groups', 'cron')
        os.makedirs(left)
        os.makedirs(others)

        loading.clean(self.conf, 'host1')

        self.assertFalse(os.path.exists(left))
        self.assertTrue(os.path.exists(others))

    def test_what_cannot_be_removed_is_said_and_stops_nothing(self) -> None:
        # A folder with something in it, which resctrl would not have.
        self.write(f'mon_groups/nova-{SERVER}/x/y', '')

        loading.clean(self.conf, 'host1')

        self.assertIn('could not be removed', self.logger.output)

    def test_a_host_is_swept_as_the_options_say(self) -> None:
        self.make_tree()
        sweeps = self.load(enabled=True, interval=7)
        assert sweeps is not None

        sweeps.run_once()

        self.assertEqual(7, sweeps.interval)

        one = self.swept[0].servers[SERVER]
        self.assertEqual(65536, one.caches[0].counters.occupancy)
        self.assertEqual([], self.asked)

    def test_all_servers_are_asked_for_where_all_are_wanted(self) -> None:
        self.make_tree()
        sweeps = self.load(enabled=True, servers='all')
        assert sweeps is not None

        sweeps.run_once()

        self.assertEqual(['uuids'], self.asked)

    def test_a_wrong_option_stops_the_service(self) -> None:
        path = os.path.join(self.make_folder(), 'nova.conf')
        with open(path, 'w') as file:
            file.write('[ext_resources_monitoring]\ninterval = often\n')
        self.conf(['--config-file', path], project='nova')

        err = self.assertRaises(exception.InvalidConfiguration, self.load)

        self.assertIn('interval', str(err))
