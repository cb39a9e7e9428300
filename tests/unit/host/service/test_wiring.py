# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable, Mapping
import dataclasses
import json
import os
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any
from unittest import mock
import urllib.request

import fixtures
from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.conf import reader
from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.facts import guest
from nova_ext_resources.facts import server
from nova_ext_resources.host.service import wiring
from nova_ext_resources import plugins
from tests import base
from tests import ports
from tests.unit.host import with_host
from tests.unit import installed

WAYS = with_host.WAYS

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

#: Seconds for what takes no time unless something is wrong.
WAIT = 60

#: Nobody listens there.
NO_PLACEMENT = """
[ext_resources_placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
"""

HOST = """
[ext_resources]
inventory_providers = fake
enforcers = noop
"""

#: An enforcer for which all that runs is applied.
_CURIOUS = """
from nova_ext_resources.drivers.noop import enforcer

class Curious(enforcer.NoopEnforcer):
    def list_applied(self):
        return frozenset(self.list_guests())
"""


class ConfTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.useFixture(
            fixtures.TempDir(rootdir=with_host.MEMORY)
        ).path

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(textwrap.dedent(text))
        return path

    def read(self, text: str = '', host: str = 'host1') -> cfg.ConfigOpts:
        return reader.read_conf([self.write('nova.conf', text)], [], host)


class ReadConfTest(ConfTestCase):
    def write_hosts(self) -> str:
        hosts = os.path.join(self.folder, 'hosts')
        self.write('hosts/host1.conf', '[ext_resources]\nenforcers = noop')
        self.write('hosts/host2.conf', '')
        return f"""
            [DEFAULT]
            compute_driver = ext_resources.LibvirtDriver
            [ext_resources]
            enforcers = rmd
            inventory_providers = rmd, fake
            host_config_dir = {hosts}
        """

    def test_options_come_from_novas_files(self) -> None:
        conf = self.read('[ext_resources]\ninventory_providers = rmd,fake')

        self.assertEqual(
            ['rmd', 'fake'], conf.ext_resources.inventory_providers
        )

    def test_nothing_is_enabled_by_default(self) -> None:
        conf = self.read()

        self.assertEqual([], conf.ext_resources.inventory_providers)
        self.assertEqual([], conf.ext_resources.enforcers)

    def test_a_file_of_the_host_comes_last(self) -> None:
        conf = self.read(self.write_hosts())

        self.assertEqual(['noop'], conf.ext_resources.enforcers)
        self.assertEqual(
            ['rmd', 'fake'], conf.ext_resources.inventory_providers
        )

    def test_it_also_comes_after_the_files_of_a_folder(self) -> None:
        path = self.write('nova.conf', self.write_hosts())
        self.write('nova.conf.d/10.conf', '[ext_resources]\nenforcers = x')

        conf = reader.read_conf(
            [path], [os.path.join(self.folder, 'nova.conf.d')], 'host1'
        )

        self.assertEqual(['noop'], conf.ext_resources.enforcers)

    def test_an_empty_file_changes_nothing(self) -> None:
        conf = self.read(self.write_hosts(), 'host2')

        self.assertEqual(['rmd'], conf.ext_resources.enforcers)

    def test_a_host_without_its_file_is_refused(self) -> None:
        err = self.assertRaises(
            exception.InvalidConfiguration,
            self.read,
            self.write_hosts(),
            'host3',
        )

        for words in ('host_config_dir', 'host3.conf', 'empty if'):
            self.assertIn(words, str(err))

    def test_a_value_that_an_option_does_not_take_is_refused(self) -> None:
        err = self.assertRaises(
            exception.InvalidConfiguration,
            self.read,
            '[ext_resources]\nrefresh_interval = 0\n',
        )

        self.assertEqual(
            '[ext_resources] refresh_interval = 0 cannot be used: Should be '
            'greater than or equal to 1 '
            f'(in {os.path.join(self.folder, "nova.conf")})',
            str(err),
        )

    def test_an_address_that_is_none_is_named(self) -> None:
        for listen in ('localhost', '300.1.1.1', '::g', ''):
            with self.subTest(listen=listen):
                err = self.assertRaises(
                    exception.InvalidConfiguration,
                    self.read,
                    f'[ext_resources_metrics]\nlisten = {listen}\n',
                )

                self.assertIn('[ext_resources_metrics] listen', str(err))
                self.assertIn('IP', str(err))

    def test_a_file_that_cannot_be_read_is_refused(self) -> None:
        path = self.write('nova.conf', '[ext_resources]\nSECRET\n')
        missing = os.path.join(self.folder, 'missing')
        for files, folders, words in (
            ([path], [], f'{path}:2, No'),
            ([missing], [], missing),
            ([], [missing], missing),
        ):
            err = self.assertRaises(
                exception.InvalidConfiguration,
                reader.read_conf,
                files,
                folders,
                'host1',
            )
            self.assertIn(words, str(err))
            self.assertNotIn('SECRET', str(err))

    def test_a_name_of_a_host_never_climbs_in_the_path(self) -> None:
        for name, file_name in (
            ('compute-1.example.org', 'compute-1.example.org'),
            ('../../etc/passwd', '_.._etc_passwd'),
            ('..', '_'),
            ('', '_'),
            ('a b\0c/d', 'a_b_c_d'),
            ('é', '_'),
        ):
            self.assertEqual(file_name, reader.make_file_name(name))

    def test_two_parsers_know_nothing_of_each_other(self) -> None:
        first = self.read('[ext_resources]\nenforcers = noop')
        first.set_override('refresh_interval', 5, 'ext_resources')

        second = self.read()

        self.assertEqual([], second.ext_resources.enforcers)
        self.assertEqual(60, second.ext_resources.refresh_interval)


class HostServiceTestCase(ConfTestCase):
    def make(
        self, text: str = HOST, host: str = 'host1', **answers: Any
    ) -> wiring.HostService:
        """Make one.

        :param answers: of nova-compute
        """
        conf = self.read(text + NO_PLACEMENT)
        made = wiring.HostService(
            conf,
            host=host,
            node=with_host.NODE,
            state_path=os.path.join(self.folder, 'state'),
            compute=dataclasses.replace(with_host.COMPUTE, **answers),
        )
        self.addCleanup(made.host.close)
        return made

    def assert_refused(
        self, error: type[Exception], text: str, *words: str
    ) -> None:
        err = self.assertRaises(error, self.make, text)
        for word in words:
            self.assertIn(word, str(err))
        # Nothing was started and nothing is left locked.
        self.make().host.close()


class ThreadsTest(HostServiceTestCase):
    def test_health_has_all_of_them(self) -> None:
        port = self.useFixture(ports.Port()).number
        made = self.make(f'{HOST}[ext_resources_metrics]\nport = {port}\n')
        before = {*threading.enumerate()}
        self.addCleanup(made.stop)

        made.start()

        self.assertEqual(
            {one.name for one in {*threading.enumerate()} - before},
            {one.THREAD for one in made.health._workers},
        )


class FollowTest(HostServiceTestCase):
    def test_placement_follows_by_the_uuid_of_the_consumer(self) -> None:
        made = self.make()
        move = self.useFixture(
            fixtures.MockPatch(
                'nova_ext_resources.placement.allocations.move_allocations'
            )
        ).mock

        made.missing_allocations._writer.move(
            OTHER, [(WAYS, 'here', 'there')], frozenset()
        )

        move.assert_called_once_with(
            mock.ANY,
            OTHER,
            from_rp_uuid='here',
            to_rp_uuid='there',
            resource_classes={WAYS},
            find_partner=mock.ANY,
        )


class OrphansTest(HostServiceTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())

    def test_they_are_not_repaired_unless_an_option_says_so(self) -> None:
        for text, expected in (
            ('', False),
            ('release_orphaned_entries = True', True),
        ):
            made = self.make(f'{HOST}{text}\n')
            self.assertIs(expected, made.orphaned_entries._is_repairing)
            made.host.close()

    def test_the_age_is_that_of_the_option(self) -> None:
        made = self.make(f'{HOST}orphaned_entry_age = 1800\n')

        self.assertEqual(1800, made.orphaned_entries._age)
        self.assertNotIn('orphaned_entry_age', self.log.output)

    def test_it_is_longer_if_nova_or_the_comparison_takes_longer(
        self,
    ) -> None:
        for timeout, interval, expected in (
            (9000, 60, 9000),
            (60, 3600, 7200),
        ):
            made = self.make(
                f'{HOST}orphaned_entry_age = 1800\n'
                f'refresh_interval = {interval}\n',
                long_call_timeout=timeout,
            )
            self.assertEqual(expected, made.orphaned_entries._age)
            self.assertIn(f'{expected} is used', self.log.output)
            made.host.close()

    def test_answers_as_far_apart_as_rounds_are_late_are_in_a_row(
        self,
    ) -> None:
        for interval in (60, 300, 545, 600, 665, 3600):
            made = self.make(f'{HOST}refresh_interval = {interval}\n')
            # Nova is asked in the first round after ten minutes, and one may
            # have been just before.
            is_before = 0.9 * interval < 600
            gap = (600 if is_before else 0) + 1.1 * interval
            with self.subTest(interval=interval, gap=gap):
                self.assertGreater(made.orphaned_entries._max_gap, gap)
                # Two answers that were missed are noticed.
                self.assertLess(made.orphaned_entries._max_gap, 4 * gap)
            made.host.close()

    def test_a_release_is_published(self) -> None:
        made = self.make()

        made.orphaned_entries._loops.wake_soon()

        self.assertTrue(made.periodic._is_awake.is_set())
        # Placement hears of it before the host is looked at again.
        self.assertTrue(made.publisher._is_awake.is_set())


class LoadTest(HostServiceTestCase):
    def test_the_ledger_is_below_the_state_path(self) -> None:
        self.make()

        path = os.path.join(self.folder, 'state', 'host1.sqlite')
        self.assertTrue(os.path.exists(path))

    def test_the_ledger_may_be_elsewhere(self) -> None:
        path = os.path.join(self.folder, 'else', 'where')

        self.make(f'{HOST}ledger_path = {path}\n')

        self.assertTrue(os.path.exists(path))

    def test_a_host_with_nothing_enabled_does_nothing(self) -> None:
        made = self.make('')
        made.host.refresh()

        self.assertEqual((), made.host.providers())
        self.assertEqual({}, dict(made.host.view.tracked))

    def test_an_unknown_name_stops_the_service(self) -> None:
        for option, *installed_names in (
            ('inventory_providers', 'fake', 'static'),
            ('enforcers', 'noop', 'rmd'),
            ('claim_tests', 'cache_affinity', 'capacity'),
        ):
            with self.subTest(option=option):
                self.assert_refused(
                    exception.PluginNotFound,
                    f'[ext_resources]\n{option} = rmdd\n',
                    "'rmdd'",
                    option,
                    *installed_names,
                )

    def test_a_name_that_is_there_twice_stops_the_service(self) -> None:
        self.assert_refused(
            exception.PluginLoadFailed,
            '[ext_resources]\nenforcers = noop, noop\n',
            'named twice',
        )

    def test_ways_without_an_enforcer_stop_the_service(self) -> None:
        self.assert_refused(
            exception.InvalidConfiguration,
            '[ext_resources]\ninventory_providers = fake\n',
            '[ext_resources] enforcers',
            WAYS,
        )

    def test_a_plugin_that_raises_stops_the_service(self) -> None:
        folder = os.path.join(self.folder, 'packages')
        self.write('packages/broken.py', "raise OSError('no such device')")
        installed.write_entry_points(
            folder, 'broken', plugins.ENFORCERS, {'broken': 'broken:Broken'}
        )
        self.useFixture(installed.InstalledPackage(folder))

        err = self.assertRaises(
            exception.PluginLoadFailed,
            self.make,
            '[ext_resources]\nenforcers = broken\n',
        )

        for words in ("'broken'", 'OSError: no such device', 'remove it from'):
            self.assertIn(words, str(err))

    def test_enforcers_are_told_which_guests_run(self) -> None:
        folder = os.path.join(self.folder, 'packages')
        self.write('packages/curious.py', _CURIOUS)
        installed.write_entry_points(
            folder,
            'curious',
            plugins.ENFORCERS,
            {'curious': 'curious:Curious'},
        )
        self.useFixture(installed.InstalledPackage(folder))
        one = guest.Guest(name='instance-00000001', number=1)

        made = self.make(
            '[ext_resources]\nenforcers = curious\n',
            list_guests=lambda: {SERVER: one},
        )

        applied, _problems = made.host.enforcement.list_applied()
        self.assertEqual({'curious': {SERVER}}, applied)

    def test_a_wrong_file_of_definitions_does_not_stop_the_service(
        self,
    ) -> None:
        for what, text in (
            ('no YAML', 'resources: ['),
            ('no definitions', 'licences: 7'),
            ('empty', ''),
        ):
            path = self.write('definitions.yaml', text)
            with self.subTest(what=what):
                made = self.make(
                    '[ext_resources]\n'
                    'inventory_providers = static\n'
                    '[ext_resources_static]\n'
                    f'definitions_file = {path}\n',
                )
                made.host.refresh()

                self.assertEqual({path}, made.host.found.left_out)
                self.assertFalse(made.host.found.is_complete)
                made.host.close()

    def test_a_missing_file_of_definitions_stops_the_service(self) -> None:
        self.assert_refused(
            exception.InvalidConfiguration,
            '[ext_resources]\n'
            'inventory_providers = static\n'
            '[ext_resources_static]\n'
            'definitions_file = /no/such/definitions.yaml\n',
            '/no/such/definitions.yaml',
            'No such file',
        )

    def test_an_address_that_is_none_stops_the_service(self) -> None:
        err = self.assertRaises(
            exception.InvalidConfiguration,
            self.make,
            '[ext_resources]\nenforcers = rmd\n'
            '[ext_resources_rmd]\nurl = rmd.example.org\n',
        )

        self.assertIn('[ext_resources_rmd] url = rmd.example.org', str(err))
        self.assertIn('https://127.0.0.1:8443', str(err))

    def test_a_wrong_value_for_a_plugin_stops_the_service(self) -> None:
        for text, words in (
            ('retries = many', '[ext_resources_rmd] retries = many cannot'),
            ('retries = many', 'a whole number is needed (in /'),
            ('timeout = long', 'a number is needed (in /'),
            ('timeout = 0', '[ext_resources_rmd] timeout = 0 cannot'),
            ('mba_mode = x', "found 'x' (in /"),
            ('url = $SECRET', 'write a literal $ as $$'),
        ):
            with self.subTest(text=text):
                err = self.assertRaises(
                    exception.InvalidConfiguration,
                    self.make,
                    '[ext_resources]\nenforcers = rmd\n'
                    f'[ext_resources_rmd]\n{text}\n',
                )

                self.assertIn(words, str(err))
                self.assertNotIn('LocationInfo', str(err))

    def test_a_wrong_secret_is_not_told(self) -> None:
        err = self.assertRaises(
            exception.InvalidConfiguration,
            self.make,
            '[ext_resources]\nenforcers = rmd\n'
            '[ext_resources_rmd]\nusername = u\npassword = $SECRET\n',
        )

        self.assertIn('[ext_resources_rmd] password = ***', str(err))
        self.assertNotIn('SECRET', str(err))

    def test_a_wrong_value_for_placement_stops_the_service(self) -> None:
        conf = self.read(
            f'{HOST}{NO_PLACEMENT}timeout = soon\nauth_section = x\n'
        )

        err = self.assertRaises(
            exception.InvalidConfiguration,
            wiring.HostService,
            conf,
            host='host1',
            node=with_host.NODE,
            state_path=self.folder,
            compute=with_host.COMPUTE,
        )

        self.assertIn(
            '[ext_resources_placement] timeout = soon cannot', str(err)
        )

    def test_a_used_ledger_stops_the_service(self) -> None:
        self.make()

        err = self.assertRaises(exception.LedgerError, self.make)

        self.assertIn('another process', str(err))

    def test_an_unreadable_ledger_stops_the_service(self) -> None:
        self.make().host.close()
        path = os.path.join(self.folder, 'state', 'host1.sqlite')
        with sqlite3.connect(path) as db:
            db.execute(
                'INSERT INTO entry (consumer_uuid, state, enforcers) '
                "VALUES ('x', 'sold', '{}')"
            )

        for _ in range(2):
            err = self.assertRaises(exception.LedgerError, self.make)
            self.assertIn(path, str(err))
            self.assertIn("'sold' is not a valid State", str(err))


class LifeTest(HostServiceTestCase):
    """Placement is away all the time: the host goes on without it."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.made = self.make()
        self.made.start()
        self.addCleanup(self.made.stop)

    def test_a_claim_where_placement_put_it_needs_no_placement(self) -> None:
        self.made.claim(with_host.make_claim(SERVER))
        self.made.host.apply(SERVER)
        self.made.release(SERVER)

        self.assertEqual({}, self.made.host.entries)

    def test_what_cannot_be_moved_in_placement_is_given_back(self) -> None:
        before = self.made.host.view

        self.assertRaises(
            exception.PlacementUnavailable,
            self.made.claim,
            with_host.make_claim(SERVER, cpus=frozenset({13})),
        )

        self.assertEqual({}, self.made.host.entries)
        self.assertEqual(before, self.made.host.view)

    def test_what_is_not_held_is_released_in_peace(self) -> None:
        self.made.release(SERVER)

    def test_what_servers_hold_stays_in_force_when_it_stops(self) -> None:
        self.made.claim(with_host.make_claim(SERVER))
        self.made.host.apply(SERVER)
        self.made.stop()

        again = self.make()
        again.start()
        self.addCleanup(again.stop)

        self.assertEqual({SERVER}, set(again.host.entries))

    def restart(
        self, list_roles: Callable[[object], Mapping[str, consumer_role.Role]]
    ) -> wiring.HostService:
        self.made.claim(with_host.make_claim(SERVER))
        self.made.stop()
        again = self.make(list_roles=list_roles)
        again.start()
        self.addCleanup(again.stop)
        return again

    def wait_for_release(self, made: wiring.HostService) -> None:
        self.wait_until(lambda: not made.host.entries)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_servers_that_are_gone_are_released_after_novas_checks(
        self,
    ) -> None:
        again = self.restart(lambda _entries: {})
        again.periodic.run_round()
        self.assertEqual({SERVER}, set(again.host.entries))

        again.periodic.accept_host()

        self.wait_for_release(again)

    def test_nothing_is_released_while_nova_does_not_answer(self) -> None:
        answers = iter([OSError('no message bus'), OSError('no database')])

        def list_roles(_entries: object) -> dict[str, consumer_role.Role]:
            asked.append(dict(again.host.entries))
            for err in answers:
                raise err
            return {}

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.placement.publish.publisher.FIRST_BACK_OFF',
                0.01,
            )
        )
        asked: list[dict[str, object]] = []
        again = self.restart(list_roles)

        again.periodic.accept_host()

        self.wait_for_release(again)
        self.assertEqual([{SERVER}] * 3, [set(one) for one in asked])
        self.assertIn('no message bus', self.log.output)

    def test_what_is_claimed_before_nova_answers_again_is_kept(self) -> None:
        answers = iter([OSError('no message bus')])

        def list_roles(_entries: object) -> dict[str, consumer_role.Role]:
            for err in answers:
                again.claim(with_host.make_claim(OTHER, cpus=frozenset({3})))
                raise err
            return {}

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.placement.publish.publisher.FIRST_BACK_OFF',
                0.01,
            )
        )
        again = self.restart(list_roles)

        again.periodic.accept_host()

        self.wait_until(lambda: SERVER not in again.host.entries)
        self.assertEqual({OTHER}, set(again.host.entries))

    def test_what_is_claimed_while_nova_answers_is_kept(self) -> None:
        def list_roles(_entries: object) -> dict[str, consumer_role.Role]:
            again.claim(with_host.make_claim(OTHER, cpus=frozenset({3})))
            return {}

        again = self.restart(list_roles)

        again.periodic.accept_host()

        self.wait_until(lambda: SERVER not in again.host.entries)
        self.assertEqual({OTHER}, set(again.host.entries))


class BrokenHealingTest(HostServiceTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.made = self.make()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.host.manager.HostManager.heal',
                self.fail_to_heal,
            )
        )

    @staticmethod
    def fail_to_heal(*args: object, **fields: object) -> None:
        raise RuntimeError('a bug')

    def test_nova_compute_starts_and_publishing_goes_on(self) -> None:
        self.made.start()
        self.addCleanup(self.made.stop)

        self.assertIn('RuntimeError: a bug', self.log.output)
        self.assertNotEqual((), self.made.host.providers())

    def test_it_is_logged_once_and_each_round_goes_on_to_placement(
        self,
    ) -> None:
        for _ in range(3):
            self.made.periodic.run_round()
            self.made.publisher.run_round()

        self.assertEqual(1, self.log.output.count('the audit failed'))
        self.assertIn('Placement', self.made.publisher.status.failure)


class MetricsTest(HostServiceTestCase):
    """Metrics and health of a host whose placement is away."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.port = self.useFixture(ports.Port()).number

    def start(self, host: str = 'host1', **answers: Any) -> wiring.HostService:
        made = self.make(
            f'{HOST}[ext_resources_metrics]\nport = {self.port}\n',
            host,
            **answers,
        )
        made.start()
        self.addCleanup(made.stop)
        return made

    def ask(self, path: str) -> str:
        url = f'http://127.0.0.1:{self.port}{path}'
        with urllib.request.urlopen(url, timeout=60) as response:
            text: str = response.read().decode()
            return text

    def test_a_host_without_a_port_does_not_even_load_it(self) -> None:
        code = (
            'import sys; import nova_ext_resources.host.service.wiring; '
            'print({"prometheus_client", "wsgiref"} & sys.modules.keys())'
        )

        done = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )

        self.assertEqual('set()', done.stdout.strip())

    def test_a_host_without_a_port_listens_nowhere(self) -> None:
        made = self.make()
        made.start()
        self.addCleanup(made.stop)

        self.assertRaises(OSError, self.ask, '/health')

    def test_what_servers_hold_is_shown_with_what_nova_says(self) -> None:
        info = server.NovaServer(flavor='gold', project_id='p1')
        made = self.start(list_servers=lambda: {SERVER: info})
        made.claim(with_host.make_claim(SERVER))
        made.host.apply(SERVER)
        made.metrics.servers.list_uuids(WAIT)

        text = self.ask('/metrics')

        for words in (
            f'server="{SERVER}"',
            'flavor="gold"',
            'nova_ext_resources_servers{state="applied"} 1.0',
            'nova_ext_resources_part_failing{part="publisher",plugin=""} 1.0',
            'nova_ext_resources_part_failing{part="enforcer",plugin="noop"} 0',
        ):
            self.assertIn(words, text)

    def test_what_a_consumer_is(self) -> None:
        """A server may have an empty name."""
        named = server.NovaServer(name='db')
        made = self.make(
            list_servers=lambda: {SERVER: named, 'b': server.NovaServer()}
        )
        self.addCleanup(made.stop)
        made.metrics.servers.run_once()

        self.assertEqual(
            [f'db ({SERVER})', 'b', 'c'],
            [
                made.metrics.describe_consumer(one)
                for one in (SERVER, 'b', 'c')
            ],
        )

    def test_health_says_what_is_wrong(self) -> None:
        self.start()

        told = json.loads(self.ask('/health'))

        self.assertEqual('degraded', told['status'])
        (alarm,) = told['alarms']
        self.assertEqual('publish_failed', alarm['name'])
        self.assertIn('Placement', alarm['text'])

    def test_healing_that_breaks_off_is_an_alarm_until_it_works(self) -> None:
        made = self.start()
        with fixtures.MonkeyPatch(
            'nova_ext_resources.host.manager.HostManager.heal',
            BrokenHealingTest.fail_to_heal,
        ):
            made.periodic.run_round()
            made.publisher.run_round()

        self.assertIn('audit_failed', self.list_alarms(made))
        made.periodic.run_round()
        made.publisher.run_round()
        self.assertNotIn('audit_failed', self.list_alarms(made))

    def list_alarms(self, made: wiring.HostService) -> list[str]:
        return [one.name for one in made.metrics.read_health().alarms]

    def test_publishing_goes_on_while_nova_tells_nothing_of_servers(
        self,
    ) -> None:
        is_over = threading.Event()
        self.addCleanup(is_over.set)

        def hang() -> Mapping[str, server.NovaServer]:
            is_over.wait(60)
            return {}

        made = self.start(list_servers=hang)

        self.assertFalse(is_over.is_set())
        self.assertIn('Placement', made.publisher.status.failure)

    def test_publishing_goes_on_when_health_breaks(self) -> None:
        made = self.make()
        with fixtures.MonkeyPatch(
            'nova_ext_resources.host.service.health.Health.observe_ledger',
            None,
        ):
            made.start()
        self.addCleanup(made.stop)

        self.assertIn('cannot report the health', self.log.output)
        self.assertIn('Placement', made.publisher.status.failure)

    def test_nova_is_not_asked_while_nobody_listens(self) -> None:
        def fail() -> Mapping[str, server.NovaServer]:
            raise AssertionError('it was asked')

        made = self.make(list_servers=fail)
        made.start()
        self.addCleanup(made.stop)

        self.assertNotIn('it was asked', self.log.output)

    def test_clients_that_do_not_read_delay_nothing(self) -> None:
        made = self.start()
        for _ in range(3):
            client = socket.create_connection(('127.0.0.1', self.port))
            self.addCleanup(client.close)
            client.sendall(b'GET /metrics HTTP/1.0\r\n')
        made.host.claim(with_host.make_claim(SERVER))

        made.periodic.run_round()

        self.assertIn('"status"', self.ask('/health'))

    def test_a_port_that_is_taken_does_not_stop_the_service(self) -> None:
        self.start()

        other = self.start(host='host2')

        self.assertIn(f'port {self.port} failed: ', self.log.output)
        self.assertIn('Placement', other.publisher.status.failure)

    def test_a_wrong_value_stops_the_service(self) -> None:
        err = self.assertRaises(
            exception.InvalidConfiguration,
            self.read,
            '[ext_resources_metrics]\nport = many\n',
        )

        self.assertIn('[ext_resources_metrics] port = many', str(err))
