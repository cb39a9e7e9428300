# SPDX-License-Identifier: Apache-2.0

"""What becomes of a claim, and of a host, when Nova's part fails."""

import contextlib
import sqlite3
import time
from typing import Any

import fixtures
from nova import exception as nova_exc
from nova.virt import fake as nova_fake

from nova_ext_resources import exception
from nova_ext_resources.host.service import wiring
from nova_ext_resources.virt.driver import claims
from nova_ext_resources.virt.driver import fake
from tests.functional.virt import base

_SECONDS = 60.0

_DEFINITIONS = """
resources:
  - name: CUSTOM_SEAT
    provider: {key}
    units: seats
    description: Seats of a licence.
    inventory: {{total: 1}}
"""


class BrokenGuest(fixtures.Fixture):
    """No guest can be started by Nova's driver."""

    def _setUp(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.fake.FakeDriver.spawn', self.refuse
            )
        )

    @staticmethod
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError('no room for the disk')


class BuildTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')
        self.host = self.service.driver._ext.host

    def test_a_build_that_fails_after_its_claim_gives_it_back(self) -> None:
        with BrokenGuest():
            self.boot(self.make_pinned_flavor(4), state='ERROR')

        self.assertEqual({}, self.host.entries)
        self.assertEqual([], self.list_workloads('host1'))

    def test_a_server_that_asks_for_nothing_has_no_events_of_ours(
        self,
    ) -> None:
        server = self.boot(self.make_flavor())

        self.assertEqual([], self.list_reasons(server, 'ext_resources'))

    def test_a_flavor_that_is_malformed_is_named_and_not_passed_on(
        self,
    ) -> None:
        self.disable_filter()
        self.admin_api.microversion = '2.85'
        flavor = self.make_flavor(resources__CUSTOM_LLC_WAYS='-1')
        self.admin_api.microversion = 'latest'

        message = self.read_fault(flavor)

        self.assertIn('resources:CUSTOM_LLC_WAYS', message)
        self.assertEqual({}, self.host.entries)

    def test_an_attribute_without_its_amount_is_named(self) -> None:
        """The API sees one extra spec at a time, and lets it through."""
        flavor = self.make_flavor(resource__CUSTOM_LLC_WAYS_BURST__max=6)

        for refuses in ('filter', 'host'):
            with self.subTest(refuses):
                message = self.read_fault(flavor)

                self.assertIn(
                    'Extra spec resource:CUSTOM_LLC_WAYS_BURST:max=6 is '
                    'refused: the flavor does not request the resource of '
                    'the attribute; '
                    'add resources:CUSTOM_LLC_WAYS_BURST=AMOUNT',
                    message,
                )
            self.disable_filter()
        self.assertEqual({}, self.host.entries)

    def disable_filter(self) -> None:
        self.flags(enabled_filters=['ComputeFilter'], group='filter_scheduler')
        self.scheduler_service.stop()
        self.scheduler_service = self.start_service('scheduler')

    def read_fault(self, flavor: str) -> str:
        """Boot, and return what the owner of the server reads."""
        server = self.boot(flavor, state='ERROR')
        return str(self.api.get_server(server['id'])['fault']['message'])


class BrokenReport(fixtures.Fixture):
    """The host cannot report a claim once it has made it."""

    def _setUp(self) -> None:
        claim = claims.Claims.claim

        def claim_and_fail(*args: Any, **kwargs: Any) -> None:
            claim(*args, **kwargs)
            raise TimeoutError('the conductor does not answer')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.driver.claims.Claims.claim',
                claim_and_fail,
            )
        )


class EvacuationTest(base.NovaTestCase):
    """Nova does not destroy what has failed to come to the new host."""

    def assert_nothing_is_left_after(self, broken: fixtures.Fixture) -> None:
        services = {h: self.start_host(h) for h in ('host1', 'host2')}
        server = self.boot(self.make_pinned_flavor(4))
        old = server['OS-EXT-SRV-ATTR:host']
        (new,) = services.keys() - {old}
        self.stop_compute(services[old])
        self.admin_api.put_service_force_down(
            services[old].service_ref.uuid, True
        )

        with broken:
            self._evacuate_server(
                server,
                expected_host=old,
                expected_state='ERROR',
                expected_migration_status='failed',
            )

        self.assertEqual({}, services[new].driver._ext.host.entries)
        self.assertEqual([], self.list_workloads(new))

    def test_a_guest_that_does_not_start(self) -> None:
        self.assert_nothing_is_left_after(BrokenGuest())

    def test_a_claim_that_cannot_be_reported(self) -> None:
        self.assert_nothing_is_left_after(BrokenReport())


class StartTest(base.NovaTestCase):
    def test_our_providers_follow_at_once_when_nova_has_made_its_own(
        self,
    ) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.placement.publish.publisher.FIRST_BACK_OFF',
                3600.0,
            )
        )
        # The publisher is not asked for a round by the test.
        self.useFixture(
            fixtures.MonkeyPatch(
                'tests.functional.virt.base.NovaTestCase.publish',
                lambda *_: None,
            )
        )

        self.start_host('host1')

        self.wait_for_providers(4)

    def wait_for_providers(self, count: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while len(self._get_all_providers()) < count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def test_a_nova_that_is_too_old_does_not_start(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('nova.version.version_string', lambda: '30.0')
        )

        err = self.assertRaises(
            exception.InvalidConfiguration, self.start_host, 'host1'
        )

        self.assertIn('this Nova 30.0', str(err))
        self.assertIn('Host host1: ', str(err))

    def test_nor_does_one_whose_claims_for_moves_are_elsewhere(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.compute.resource_tracker.ResourceTracker.resize_claim',
                fixtures.MonkeyPatch.delete,
            )
        )

        err = self.assertRaises(
            exception.InvalidConfiguration, self.start_host, 'host1'
        )

        self.assertIn('lacks functions that this package uses', str(err))
        self.assertIn(':ResourceTracker.resize_claim(context, ', str(err))

    def test_nor_does_one_that_passes_them_something_else(self) -> None:
        self.useFixture(
            fixtures.MockPatch(
                'nova.compute.resource_tracker.ResourceTracker.resize_claim',
                lambda _tracker, _context, _server: None,
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.objects.MigrationList.get_in_progress_by_host_and_node',
                fixtures.MonkeyPatch.delete,
            )
        )

        err = self.assertRaises(
            exception.InvalidConfiguration, self.start_host, 'host1'
        )

        self.assertIn(':ResourceTracker.resize_claim(context, ', str(err))
        self.assertIn(':MigrationList.get_in_progress_by_host', str(err))

    def test_nor_does_one_that_checks_a_live_migration_differently(
        self,
    ) -> None:
        name = 'check_source_migrate_data_at_dest'
        target = f'nova.virt.driver.ComputeDriver.{name}'
        for changed in (
            fixtures.MonkeyPatch(target, fixtures.MonkeyPatch.delete),
            fixtures.MockPatch(target, lambda _driver, _context, _server: 0),
        ):
            with changed:
                err = self.assertRaises(
                    exception.InvalidConfiguration, self.start_host, 'host1'
                )
            self.assertIn(f'ComputeDriver.{name}', str(err))

    def test_a_driver_that_finds_no_tracker_says_so(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.driver.mixin.ExtResourcesMixin.'
                '_find_tracker',
                lambda _driver: None,
            )
        )

        self.start_host('host1')

        self.assertIn('Host host1: the driver finds no resource', log.output)

    def test_what_is_wrong_is_known_before_nova_starts_anything(self) -> None:
        """Nova's libvirt driver starts threads that keep the process."""
        started: list[str] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.fake.FakeDriver.init_host',
                lambda _driver, host: started.append(host),
            )
        )
        newer = self.folder / 'newer.sqlite'
        with contextlib.closing(sqlite3.connect(newer)) as ledger:
            ledger.execute('PRAGMA user_version = 99')
        for options, words in (
            ('[ext_resources]\nenforcers = rmdd\n', "Plugin 'rmdd' is not"),
            ('[ext_resources]\nclaim_tests = luck\n', "Plugin 'luck' is not"),
            ('[ext_resources]\nenforcers = noop, rmd, noop\n', 'twice'),
            ('[ext_resources]\nrefresh_interval = 0\n', 'refresh_interval'),
            ('[ext_resources_rmd]\ntimeout = soon\n', 'timeout = soon'),
            (f'[ext_resources]\nledger_path = {newer}\n', 'version 99'),
            ('[ext_resources_placement]\nauth_type = x\n', 'auth_type'),
            ('[ext_resources_metrics]\nport = many\n', 'port = many'),
            ('[ext_resources_monitoring]\ninterval = 0\n', 'interval = 0'),
            (
                '[ext_resources_tuning]\nenabled = True\n'
                # Nova's tests allow nobody to read the real one.
                '[ext_resources_resctrl]\ncpu_path = /nowhere\n',
                'monitoring',
            ),
        ):
            self.host_options = options
            with self.subTest(options=options):
                err = self.assertRaises(
                    exception.ExtResourcesError, self.start_host, 'host1'
                )

                self.assertIn('host1', str(err))
                self.assertIn(words, str(err))
                self.assertEqual([], started)

    def test_nothing_is_locked_after_a_start_that_nova_refuses(self) -> None:
        def fail(*_: Any) -> None:
            raise nova_exc.InternalError('libvirt is too old')

        with fixtures.MonkeyPatch('nova.virt.fake.FakeDriver.init_host', fail):
            self.assertRaises(nova_exc.InternalError, self.start_host, 'host1')

        self.start_host('host1')

    def test_a_host_that_did_not_start_is_cleaned_up_in_peace(self) -> None:
        made = fake.FakeDriver(nova_fake.FakeVirtAPI())

        made.cleanup_host('host1')


class IdentityTest(base.NovaTestCase):
    """Nova keeps the identity of a compute node in a file."""

    # Nova's own fixtures leave it out.
    STUB_COMPUTE_ID = False

    def test_a_fake_host_can_be_started_again(self) -> None:
        service = self.start_host('host1')
        before = service.driver.get_nodenames_by_uuid()

        self.stop_compute(service)
        service = self._start_compute('host1')
        self.addCleanup(service.driver._ext.stop)

        self.assertEqual(before, service.driver.get_nodenames_by_uuid())


class WrongHostTest(base.NovaTestCase):
    """[DEFAULT] host was changed while servers run."""

    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')
        self.server = self.boot(self.make_pinned_flavor(4))
        # They run on when nova-compute ends, unlike those of the double.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.fake.FakeDriver.list_instance_uuids',
                lambda _: [self.server['id']],
            )
        )
        self.before = self.list_workloads('host1')
        self.stop_compute(self.service)

    def rename(self) -> None:
        text = (self.folder / 'host1.conf').read_text()
        (self.folder / 'host2.conf').write_text(text)
        start = wiring.HostService.start
        self.made: Any = None

        def start_and_stop(made: wiring.HostService) -> None:
            self.made = made
            self.addCleanup(made.stop)
            start(made)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.host.service.wiring.HostService.start',
                start_and_stop,
            )
        )

    def test_it_does_not_start_and_servers_keep_what_they_have(self) -> None:
        self.rename()

        err = self.assertRaises(
            nova_exc.InvalidConfiguration, self._start_compute, 'host2'
        )

        self.assertIn('existing instances', str(err))
        self.assertIsNone(self.made)
        self.assertNotEqual([], self.before)
        self.assertEqual(self.before, self.list_workloads('host1'))

    def test_what_the_hypervisor_lists_is_kept_though_nova_has_it_not(
        self,
    ) -> None:
        self.rename()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.compute.manager.ComputeManager._sanity_check_new_host',
                lambda _: None,
            )
        )

        self._start_compute('host2')

        deadline = time.monotonic() + _SECONDS
        while self.made.periodic._answer is None and not self.is_compared():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.made.periodic.run_round()
        self.assertEqual(self.before, self.list_workloads('host1'))

    def is_compared(self) -> bool:
        is_compared: bool = self.made.host._repair._is_compared
        return is_compared


class DeletedProviderTest(base.NovaTestCase):
    """Nova knows a provider that its publisher deletes."""

    plugins = 'static'
    enforcers = ''

    def define(self, key: str) -> None:
        self.definitions.write_text(_DEFINITIONS.format(key=key))

    def list_names(self) -> set[str]:
        return {one['name'] for one in self._get_all_providers()}

    def test_nova_reads_its_tree_anew_and_builds(self) -> None:
        self.definitions = self.folder / 'definitions.yaml'
        self.define('FORMER')
        with (self.folder / 'ext.conf').open('a') as conf:
            conf.write(
                '[ext_resources_static]\n'
                f'definitions_file = {self.definitions}\n'
            )
        service = self.start_host('host1')
        client = service.manager.rt.reportclient
        client.clear_provider_cache()
        self._run_periodics()
        self.assertTrue(client._provider_tree.exists('host1_FORMER'))

        self.define('LATTER')
        service.driver._ext.periodic.run_round()
        service.driver._ext.publisher.run_round()

        self.assertEqual({'host1', 'host1_LATTER'}, self.list_names())
        self.assertFalse(client._provider_tree.exists('host1_FORMER'))
        self.boot(self.make_flavor(resources__CUSTOM_SEAT=1))
