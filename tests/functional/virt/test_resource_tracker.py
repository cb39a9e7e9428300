# SPDX-License-Identifier: Apache-2.0

"""Claims of Nova for a move, together with those of this package."""

from typing import Any
from unittest import mock

import fixtures
from nova.compute import claims
from nova import exception as nova_exc

from nova_ext_resources.virt.hooks import resource_tracker
from tests import base

REFUSED = nova_exc.InstanceFaultRollback()


class TrackerTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.made = claims.NopClaim()
        self.abort = mock.Mock()
        self.patch(self.made, 'abort', self.abort)
        self.tracker = mock.Mock()
        self.tracker.resize_claim = lambda *_args: self.made
        self.claim = mock.Mock()
        self.release = mock.Mock()
        self.instance = mock.Mock()
        resource_tracker.watch(self.tracker, self.claim, self.release)

    def resize_claim(self) -> Any:
        return self.tracker.resize_claim(
            'context', self.instance, 'flavor', 'node', 'migration', {}
        )

    def assert_taken_back(self, error: type[Exception]) -> None:
        self.assertRaises(error, self.resize_claim)

        self.abort.assert_called_once_with()
        self.instance.drop_migration_context.assert_called_once_with()

    def test_one_that_is_refused_takes_novas_back(self) -> None:
        self.claim.side_effect = REFUSED

        self.assert_taken_back(nova_exc.InstanceFaultRollback)
        self.assertEqual('', self.log.output)

    def test_so_does_a_server_that_cannot_be_described(self) -> None:
        self.instance.obj_clone.side_effect = ZeroDivisionError

        self.assert_taken_back(ZeroDivisionError)

    def test_nova_hears_the_reason_when_its_own_fails_then(self) -> None:
        self.claim.side_effect = REFUSED
        self.abort.side_effect = RuntimeError('no conductor')

        self.assert_taken_back(nova_exc.InstanceFaultRollback)
        self.assertIn('no conductor', self.log.output)

    def fail_to_tell_the_source(self) -> None:
        """Do what Nova does with its claim; the message bus is down."""
        with self.resize_claim() as claim:
            self.assertIs(self.made, claim)
            raise OSError

    def test_an_abort_takes_both_back(self) -> None:
        self.assertRaises(OSError, self.fail_to_tell_the_source)

        self.release.assert_called_once_with('migration')
        self.abort.assert_called_once_with()

    def test_so_it_does_when_ours_fails(self) -> None:
        self.release.side_effect = ZeroDivisionError

        self.assertRaises(ZeroDivisionError, self.fail_to_tell_the_source)

        self.abort.assert_called_once_with()

    def test_without_a_failure_both_stay(self) -> None:
        with self.resize_claim():
            pass

        self.release.assert_not_called()
        self.abort.assert_not_called()
