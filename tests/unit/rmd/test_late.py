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

from typing import Any

from nova_ext_resources.rmd import errors
from nova_ext_resources.rmd import late
from tests import base

FACTS: dict[str, Any] = {
    'url': 'http://rmd:8081',
    'action': 'POST',
    'reason': '?',
}


class MayBeLateTest(base.TestCase):
    def test_after_a_timeout_rmd_may_go_on(self) -> None:
        sent = errors.RmdTimeout(was_sent=True, **FACTS)

        self.assertTrue(late.may_be_late(sent))

    def test_a_proxy_may_have_given_up_too(self) -> None:
        self.assertTrue(
            late.may_be_late(errors.RmdUnavailable(status=504, **FACTS))
        )

    def test_what_was_not_sent_or_is_over_is_not_late(self) -> None:
        for err in (
            errors.RmdTimeout(was_sent=False, **FACTS),
            errors.ConnectionDropped(was_sent=True, **FACTS),
            errors.RmdUnavailable(status=503, **FACTS),
            errors.MalformedAnswer(status=200, **FACTS),
        ):
            with self.subTest(err=repr(err)):
                self.assertFalse(late.may_be_late(err))


class LateChangesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.now = 100.0
        self.late = late.LateChanges(10.0, clock=lambda: self.now)

    def test_what_is_not_there_is_gone(self) -> None:
        self.assertTrue(self.late.see_absent('a'))

    def test_after_a_timeout_two_looks_are_needed(self) -> None:
        self.late.expect('a')
        self.now += 1000

        self.assertFalse(self.late.see_absent('a'))
        self.now += 9.9
        self.assertFalse(self.late.see_absent('a'))
        self.assertTrue(self.late.is_expected('a'))
        self.now += 0.1
        self.assertTrue(self.late.see_absent('a'))
        self.assertFalse(self.late.is_expected('a'))

    def test_another_timeout_begins_anew(self) -> None:
        self.late.expect('a')
        self.late.see_absent('a')
        self.now += 10
        self.late.expect('a')

        self.assertFalse(self.late.see_absent('a'))

    def test_what_was_carried_out_is_not_awaited(self) -> None:
        self.late.expect('a')
        self.late.forget('a')
        self.late.forget('unknown')

        self.assertTrue(self.late.see_absent('a'))

    def test_each_workload_is_on_its_own(self) -> None:
        self.late.expect('a')

        self.assertTrue(self.late.see_absent('b'))
