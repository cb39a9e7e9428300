# SPDX-License-Identifier: Apache-2.0

"""A host offers nothing that its enforcer may not apply."""

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.host import manager
from nova_ext_resources import plugins
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

SERVER = uuidsentinel.server


class TrialTest(with_resctrl.ResctrlHostTestCase):
    def list_made(self) -> list[str]:
        return [
            path
            for name, path in self.kernel.list_operations()
            if name == 'mkdir'
        ]

    def assert_offers_nothing(
        self, host: manager.HostManager, reason: str
    ) -> None:
        self.assertEqual((), host.found.providers)
        self.assertEqual({'resctrl'}, host.found.missing)
        self.assertIn(reason, host.found.failures['resctrl'])

    def test_what_may_not_be_applied_is_not_offered(self) -> None:
        for error, reason in (
            ('EACCES', 'CAP_DAC_OVERRIDE'),
            ('EPERM', 'about privileges'),
            ('EROFS', 'read-only'),
        ):
            with self.subTest(error=error):
                self.kernel.fail(operation='mkdir', error=error, count=None)

                host = self.make_resctrl_host()
                host.refresh()

                self.assert_offers_nothing(host, reason)
                self.kernel.stop_failing()
                host.refresh()
                self.assertEqual({}, host.found.failures)
                self.assertNotEqual((), host.found.providers)
                host.close()

    def test_it_is_tried_once_for_each_mount(self) -> None:
        host = self.make_resctrl_host()
        host.refresh()
        once = self.list_made()
        self.kernel.remount()
        host.refresh()
        host.refresh()

        self.assertEqual([groups.TRIAL], once)
        self.assertEqual([groups.TRIAL] * 2, self.list_made())
        self.assertEqual([''], list(self.kernel.list_groups()))

    def test_a_mount_that_changes_keeps_what_was_published(self) -> None:
        host = self.make_resctrl_host()
        self.kernel.remount()
        self.kernel.fail(operation='mkdir', error='EROFS', count=None)

        host.refresh()

        self.assertIn('read-only', host.found.failures['resctrl'])
        self.assertNotEqual((), host.found.providers)

    def test_one_that_cannot_be_removed_again_is_a_failure(self) -> None:
        self.kernel.fail(operation='rmdir', error='EACCES', skip=1, count=1)

        host = self.make_resctrl_host()

        self.assert_offers_nothing(host, 'CAP_DAC_OVERRIDE')
        host.refresh()
        self.assertEqual({}, host.found.failures)
        self.assertEqual([''], list(self.kernel.list_groups()))

    def test_what_a_crash_has_left_is_not_counted_and_removed(self) -> None:
        expected = self.make_resctrl_host()
        before = expected.found
        expected.close()
        self.kernel.add_group(groups.TRIAL, 'L3:0=7ff;1=7ff\n')

        host = self.make_resctrl_host()

        self.assertEqual(before, host.found)
        self.assertEqual([''], list(self.kernel.list_groups()))

    def test_a_host_whose_classes_are_all_used_is_published(self) -> None:
        for number in range(7):
            self.kernel.add_group(f'db{number}', 'L3:0=400;1=400\n')

        host = self.make_resctrl_host()

        self.assertEqual({}, host.found.failures)
        self.assertNotEqual((), host.found.providers)
        self.assertEqual([groups.TRIAL], self.list_made())

    def test_a_host_without_monitoring_ids_is_published(self) -> None:
        self.kernel.fail(operation='mkdir', error='EBUSY', count=None)

        host = self.make_resctrl_host()

        self.assertEqual({}, host.found.failures)

    def test_servers_of_before_are_left_alone(self) -> None:
        host = self.make_resctrl_host()
        self.start(host, SERVER, 2, cpus=frozenset({1}))
        before = self.kernel.list_groups()
        host.close()

        again = self.make_resctrl_host()

        self.assertEqual(before, self.kernel.list_groups())
        self.assert_agreement(again)

    def test_what_is_only_counted_needs_no_group(self) -> None:
        host = with_host.make_host(
            self.load_resctrl(plugins.INVENTORY_PROVIDERS),
            self.load_noop(),
            self.open_ledger(),
        )

        host.refresh()

        self.assertNotEqual((), host.found.providers)
        self.assertEqual([], self.list_made())
