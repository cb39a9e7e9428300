# SPDX-License-Identifier: Apache-2.0

from typing import Any

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import pending_changes
from nova_ext_resources.testing import fake_clock
from tests import base

FACTS: dict[str, Any] = {
    'url': 'http://rmd:8081',
    'action': 'POST',
    'reason': '?',
}


class MayBePendingTest(base.TestCase):
    def test_after_a_timeout_rmd_may_go_on(self) -> None:
        sent = errors.RmdTimeout(was_sent=True, **FACTS)

        self.assertTrue(pending_changes.may_be_pending(sent))

    def test_a_proxy_may_have_given_up_too(self) -> None:
        self.assertTrue(
            pending_changes.may_be_pending(
                errors.RmdUnavailable(status=504, **FACTS)
            )
        )

    def test_what_was_not_sent_or_is_over_is_not_late(self) -> None:
        for err in (
            errors.RmdTimeout(was_sent=False, **FACTS),
            errors.ConnectionDropped(was_sent=True, **FACTS),
            errors.RmdUnavailable(status=503, **FACTS),
            errors.MalformedResponse(status=200, **FACTS),
        ):
            with self.subTest(err=repr(err)):
                self.assertFalse(pending_changes.may_be_pending(err))


class PendingChangesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.now = 100.0
        self.pending = pending_changes.PendingChanges(
            10.0, clock=fake_clock.FakeClock(lambda: self.now)
        )

    def test_what_is_not_there_is_gone(self) -> None:
        self.assertTrue(self.pending.see_absent('a'))

    def test_after_a_timeout_two_readings_are_needed(self) -> None:
        self.pending.expect('a')
        self.now += 1000

        self.assertFalse(self.pending.see_absent('a'))
        self.now += 9.9
        self.assertFalse(self.pending.see_absent('a'))
        self.assertTrue(self.pending.is_expected('a'))
        self.now += 0.1
        self.assertTrue(self.pending.see_absent('a'))
        self.assertFalse(self.pending.is_expected('a'))

    def test_another_timeout_begins_anew(self) -> None:
        self.pending.expect('a')
        self.pending.see_absent('a')
        self.now += 10
        self.pending.expect('a')

        self.assertFalse(self.pending.see_absent('a'))

    def test_what_was_carried_out_is_not_awaited(self) -> None:
        self.pending.expect('a')
        self.pending.forget('a')
        self.pending.forget('unknown')

        self.assertTrue(self.pending.see_absent('a'))

    def test_each_workload_is_on_its_own(self) -> None:
        self.pending.expect('a')

        self.assertTrue(self.pending.see_absent('b'))
