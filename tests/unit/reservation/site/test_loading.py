# SPDX-License-Identifier: Apache-2.0

"""Tests of how a store is opened."""

import pathlib
import threading
import time
from typing import Any

import fixtures
from keystoneauth1 import fixture as ks_fixture
from oslo_config import cfg
import requests
from requests_mock.contrib import fixture as mock_fixture

from nova_ext_resources import exception
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation.manager import notifying as notifying_mod
from nova_ext_resources.reservation.manager import turn as turn_mod
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation.site import loading
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation import sites


#: Of keystone.
_ROOT = 'http://identity'


class MakeTurnTest(base.TestCase):
    def make_turn(self, *lines: str) -> turn_mod.Turn:
        path = pathlib.Path(self.make_folder(), 'nova.conf')
        path.write_text('\n'.join(lines))
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(path)], default_config_dirs=[])
        return loading.make_turn(conf)

    def list_chores(self, *lines: str) -> list[str]:
        turn = self.make_turn(
            '[ext_resources_reservation]',
            f'connection = sqlite:///{self.make_folder()}/x.db',
            *lines,
        )
        return [type(one).__name__ for one in turn._chores]

    def test_servers_wait_only_where_room_is_held(self) -> None:
        self.assertNotIn('Waking', self.list_chores())

        self.assertIn('Waking', self.list_chores('blocking_seconds = -1'))

    def test_not_beside_the_filter(self) -> None:
        lines = (
            'blocking_seconds = 600',
            '[filter_scheduler]',
            'enabled_filters = ComputeFilter,ReservationFilter',
        )

        err = self.assertRaises(
            exception.InvalidConfiguration, self.list_chores, *lines
        )

        self.assertIn('remove the filter', str(err))


class ProjectTest(base.TestCase):
    """Whether there is a project, as keystone answers."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=30))
        make: Any = mock_fixture.Fixture
        self.mock: Any = self.useFixture(make())
        token = ks_fixture.V3Token(project_id='own')
        # Without its version, as many clouds have it.
        token.add_service('identity').add_standard_endpoints(internal=_ROOT)
        root = ks_fixture.DiscoveryList(_ROOT, v2=False)
        self.mock.get(_ROOT, json=root, status_code=300)
        self.mock.get(f'{_ROOT}/v3', json={'version': root.versions[0]})
        self.mock.post(
            f'{_ROOT}/v3/auth/tokens',
            json=token,
            headers={'X-Subject-Token': 'x'},
        )
        path = pathlib.Path(self.make_folder(), 'nova.conf')
        path.write_text(
            '[ext_resources_placement]\nauth_type = v3password\n'
            f'auth_url = {_ROOT}/v3\nusername = nova\npassword = x\n'
            'user_domain_id = default\nproject_id = own\n'
        )
        self.site = self.load('--config-file', str(path))

    def load(self, *arguments: str) -> loading.Site:
        conf = cfg.ConfigOpts()
        conf(arguments, default_config_files=[], default_config_dirs=[])
        return loading.Site(conf)

    def answer(self, **fields: Any) -> None:
        self.mock.get(f'{_ROOT}/v3/projects/a%2Fb', **fields)

    def test_one_that_is_there(self) -> None:
        self.answer(json={'project': {'id': 'a/b'}})

        self.site.check_project('a/b')

        self.assertEqual('', self.log.output)

    def test_one_that_is_not(self) -> None:
        self.answer(status_code=404)

        err = self.assertRaises(
            errors.InvalidLimits, self.site.check_project, 'a/b'
        )

        self.assertEqual(
            'The limits of project a/b cannot be set: keystone has no such '
            'project; write its id, not its name.',
            str(err),
        )

    def test_where_keystone_does_not_say_the_log_does(self) -> None:
        for fields in (
            {'status_code': 403},
            {'status_code': 503},
            {'exc': requests.ConnectionError},
        ):
            with self.subTest(**fields):
                self.answer(**fields)

                self.site.check_project('a/b')

                self.assertIn(
                    'Project id a/b is used without a check, because keystone '
                    'does not say whether the project exists: ',
                    self.log.output,
                )
                self.log.reset_output()
        self.load().check_project('a/b')
        self.assertIn('does not say', self.log.output)


class FromConfTest(base.TestCase):
    def fail_with(self, url: str) -> str:
        """Return what is said of the URL of a database."""
        path = pathlib.Path(self.make_folder(), 'nova.conf')
        path.write_text(f'[ext_resources_reservation]\nconnection = {url}\n')
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(path)], default_config_dirs=[])
        err = self.assertRaises(
            exception.InvalidConfiguration, loading.from_conf, conf
        )
        return str(err)

    def test_urls_that_are_none(self) -> None:
        for url, wanted in (
            ('nova', 'not a database URL'),
            ('mysql+pymysql://nova:s3cret@[::1/x', 'not a database URL'),
            ('mysql+pymysql://nova:s3cret@host:s3cret/x', 'not a'),
            ('nosuch://nova:s3cret@host/x', 'nosuch; correct what is'),
            ('mysql+nosuch://nova:s3cret@host/x', 'nosuch; correct what is'),
        ):
            with self.subTest(url=url):
                text = self.fail_with(url)

                self.assertIn('[ext_resources_reservation] connection', text)
                self.assertIn(wanted, text)
                self.assertNotIn('s3cret', text)

    def test_options_of_notifications(self) -> None:
        path = pathlib.Path(self.make_folder(), 'nova.conf')
        for line in (
            'webhook_urls = example.org',
            'webhook_urls = https://user@example.org',
            'webhook_networks = 10.0.0.1/8',
            'webhook_networks = example.org',
            'webhook_cafile = /nowhere/ca.pem',
            f'webhook_cafile = {__file__}',
            'webhook_timeout = 60',
        ):
            path.write_text(
                '[ext_resources_reservation]\n'
                f'connection = sqlite:////nowhere/x.db\n{line}\n'
            )
            conf = cfg.ConfigOpts()
            conf(['--config-file', str(path)], default_config_dirs=[])
            err = self.assertRaises(
                exception.InvalidConfiguration, loading.make_turn, conf
            )
            self.assertIn(line.partition(' ')[0], str(err))

    def test_a_driver_that_is_not_installed(self) -> None:
        text = self.fail_with('mssql+pymssql://nova:s3cret@host/x')

        self.assertIn('pymssql', text)
        self.assertIn('install the driver', text)
        self.assertNotIn('s3cret', text)


class NotifyingTest(base.TestCase):
    """What is available is read of the cloud, for subscriptions."""

    def setUp(self) -> None:
        super().setUp()
        self.site = sites.FixedSite([hosts.make_host('a', 'north', VCPU=8)])
        self.patch(loading, 'Site', lambda _conf: self.site)
        folder = self.make_folder()
        path = pathlib.Path(folder, 'nova.conf')
        path.write_text(
            '[ext_resources_reservation]\n'
            f'connection = sqlite:///{folder}/reservations.db\n'
            'webhook_networks = 127.0.0.0/8\n'
            'project_subscriptions = 1\n'
        )
        self.options = cfg.ConfigOpts()
        self.options(['--config-file', str(path)], default_config_dirs=[])
        self.reservations = loading.from_conf(self.options)
        self.database = self.reservations._database
        for threshold in (8, 9):
            self.reservations.subscriptions.create(
                {
                    # Nothing listens there.
                    'url': 'https://127.0.0.1:1/',
                    'zone': 'north',
                    'resource_class': 'VCPU',
                    'threshold': threshold,
                }
            )

    def test_how_many_a_project_may_have(self) -> None:
        create = self.reservations.subscriptions.create
        document = {'url': 'https://127.0.0.1:1/'}
        create(document, project='red')

        self.assertRaises(
            errors.TooManySubscriptions, create, document, project='red'
        )

    def test_a_manager_ends_its_thread_and_keeps_no_connection(self) -> None:
        """Not only its passes: it is made anew with each SIGHUP."""
        before = threading.active_count()
        turn = loading.make_turn(self.options)
        (made,) = (
            one
            for one in turn._chores
            if isinstance(one, notifying_mod.Notifying)
        )
        sends = made._courier
        database = sends._deliveries._database
        self.assertIsNot(self.database, database)
        self.assertTrue(sends.run())
        self.assertEqual(before + 1, threading.active_count())
        end = time.monotonic() + 20
        while not database.engine.pool.checkedin():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

        turn.close(5.0)

        self.assertEqual(before, threading.active_count())
        self.assertEqual(0, database.engine.pool.checkedin())

    def run_once(self) -> bool:
        notifying = loading.make_notifying(
            self.options, self.database, is_once=True
        )
        return notifying.run(
            watch.Reading(now=sites.NOW, is_right=True, is_steady=True)
        )

    def list_thresholds(self) -> list[int]:
        return [
            one.subscription.watched.threshold
            for one in self.reservations.subscriptions.list_subscriptions()
            if one.is_low and one.subscription.watched is not None
        ]

    def test_what_the_hosts_have(self) -> None:
        self.assertTrue(self.run_once())

        self.assertEqual([9], self.list_thresholds())

    def test_without_zones_nothing_is_known(self) -> None:
        self.site.has_zones = False

        self.assertFalse(self.run_once())

        self.assertEqual([], self.list_thresholds())


class MetricsTest(base.TestCase):
    """What is reserved is written for Prometheus."""

    def setUp(self) -> None:
        super().setUp()
        self.site = sites.FixedSite([hosts.make_host('a', 'north', VCPU=8)])
        self.patch(loading, 'Site', lambda _conf: self.site)
        self.folder = pathlib.Path(self.make_folder())
        self.file = self.folder / 'reservations.prom'

    def run_once(self, path: object) -> bool:
        config = self.folder / 'nova.conf'
        config.write_text(
            '[ext_resources_reservation]\n'
            f'connection = sqlite:///{self.folder}/reservations.db\n'
            f'metrics_file = {path}\n'
        )
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(config)], default_config_dirs=[])
        reservations = loading.from_conf(conf)
        notifying = loading.make_notifying(
            conf, reservations._database, is_once=True
        )
        return notifying.run(
            watch.Reading(now=sites.NOW, is_right=True, is_steady=True)
        )

    def test_without_any_subscription(self) -> None:
        self.assertTrue(self.run_once(self.file))

        self.assertIn(
            'nova_ext_resources_reservation_total_units'
            '{resource_class="VCPU",zone="north"} 8.0',
            self.file.read_text(),
        )

    def test_what_is_unknown_leaves_what_was_known(self) -> None:
        self.run_once(self.file)
        before = self.file.read_text()

        self.site.has_zones = False
        self.assertFalse(self.run_once(self.file))
        self.site.has_zones, self.site.hosts = True, []
        self.run_once(self.file)

        self.assertEqual(before, self.file.read_text())

    def test_a_file_that_cannot_be_written(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())

        self.assertTrue(self.run_once('/nowhere/x.prom'))

        self.assertIn('metrics of reservations to /nowhere/x.prom', log.output)
        self.assertIn('metrics_file', log.output)

    def test_none_is_written_where_none_is_named(self) -> None:
        self.run_once('')

        self.assertEqual(0, self.site.asked)
