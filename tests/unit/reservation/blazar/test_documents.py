# SPDX-License-Identifier: Apache-2.0

"""Tests of answers of Blazar's API."""

from nova_ext_resources.reservation.blazar import documents
from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation import subscription
from tests import base
from tests.unit.reservation import hosts

Cause = cause_mod.Cause

SECRET = 'compute-7'


class ReasonTest(base.TestCase):
    def list_reasons(
        self, cause: Cause | None, *, has_hosts: bool
    ) -> set[str]:
        change = states.Change(
            state=state.State.DEGRADED,
            changed_at=1,
            reason=f'x has left host {SECRET}',
            cause=cause,
        )
        during = hosts.span(1, 2)
        record = records.Record(
            request=hosts.make_request('lease', during),
            during=during,
            last=change,
            state=change.state,
            servers=(),
        )
        found = documents.describe(record, has_hosts=has_hosts)
        (listed,) = documents.describe_changes([change], has_hosts=has_hosts)
        return {found['reason'], listed['reason']}

    def test_tenants_see_no_hosts(self) -> None:
        for cause in Cause:
            found = self.list_reasons(cause, has_hosts=False)

            self.assertEqual({cause.words}, found)

    def test_operators_see_all(self) -> None:
        for cause in (None, *Cause):
            (found,) = self.list_reasons(cause, has_hosts=True)

            self.assertIn(SECRET, found)

    def test_words_of_people_are_shown(self) -> None:
        (found,) = self.list_reasons(None, has_hosts=False)

        self.assertIn(SECRET, found)


class SubscriptionTest(base.TestCase):
    def test_no_secret_and_no_token(self) -> None:
        found = documents.describe_subscription(
            followers.Follower(
                subscription=subscription.make_subscription(
                    {'url': 'https://example.org/token'},
                    uuid='1',
                    project='red',
                    now=1,
                ),
                position=1,
            )
        )

        self.assertEqual('https://example.org/...', found['url'])
        self.assertNotIn('whsec', str(found))
