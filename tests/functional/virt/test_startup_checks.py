# SPDX-License-Identifier: Apache-2.0

"""Which releases of Nova nova-compute starts with."""

import fixtures
from nova import version

from nova_ext_resources import exception
from nova_ext_resources.virt.compat import releases
from nova_ext_resources.virt.compat import startup_checks
from tests import base


class StartupChecksTest(base.TestCase):
    def pretend(self, found: str) -> None:
        self.useFixture(
            fixtures.MockPatchObject(version, 'version_string', lambda: found)
        )

    def refuse(self, *, allow_untested: bool = False) -> str:
        err = self.assertRaises(
            exception.InvalidConfiguration,
            startup_checks.check_nova,
            allow_untested=allow_untested,
        )
        return str(err)

    def test_the_installed_one_is_supported(self) -> None:
        logged = self.useFixture(fixtures.FakeLogger())

        startup_checks.check_nova(allow_untested=False)

        self.assertEqual('', logged.output)

    def test_each_version_of_a_supported_release_starts(self) -> None:
        for one in releases.SUPPORTED:
            for rest in ('0.0', '0.1', '1.0.dev5', '0.0.0rc1'):
                with self.subTest(found=f'{one.major}.{rest}'):
                    self.pretend(f'{one.major}.{rest}')

                    startup_checks.check_nova(allow_untested=False)

    def test_an_older_and_a_newer_one_are_refused(self) -> None:
        for found in ('30.3.0', '340.0.0'):
            with self.subTest(found=found):
                self.pretend(found)

                words = self.refuse()

                self.assertIn(f'not tested with this Nova {found}', words)
                self.assertIn('Install Nova 32 (2025.2), 33', words)
                self.assertIn('allow_untested_nova to true', words)

    def test_an_option_only_warns_of_it(self) -> None:
        self.pretend('35.0.0')
        logged = self.useFixture(fixtures.FakeLogger())

        startup_checks.check_nova(allow_untested=True)

        self.assertIn('not with this Nova 35.0.0', logged.output)
        self.assertIn('34 (2026.2)', logged.output)

    def test_one_that_lacks_a_name_is_refused_in_any_case(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.compute.resource_tracker.ResourceTracker.resize_claim',
                fixtures.MonkeyPatch.delete,
            )
        )

        words = self.refuse(allow_untested=True)

        self.assertIn(
            'nova.compute.resource_tracker:ResourceTracker.resize_claim', words
        )
