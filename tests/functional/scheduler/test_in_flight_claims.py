# SPDX-License-Identifier: Apache-2.0

"""Which hosts Nova is let try, and in which order."""

from typing import Any

from nova_ext_resources.objects.documents import stats
from nova_ext_resources.scheduler import in_flight_claims
from tests import base
from tests.unit import builders
from tests.unit.claims.schedule import test_candidates


class HostState:
    """As much of Nova's as is looked at."""

    updated = None

    def __init__(self, host: str) -> None:
        self.host = host
        view = builders.make_view([0x00F])
        self.stats = {stats.KEY: stats.encode(view)}
        self.allocation_candidates = [{**test_candidates.ON_0}]


class OfferTest(base.TestCase):
    """Two hosts with room for one server each."""

    def setUp(self) -> None:
        super().setUp()
        self.given = in_flight_claims.InFlightClaims()
        self.hosts = [HostState('host1'), HostState('host2')]

    def try_hosts(self, server: str, *, failing: Any = ()) -> list[str]:
        """Return the hosts that Nova claims of, until one does not fail."""
        offer = in_flight_claims.Offer(
            self.given, None, test_candidates.make_judge()
        )
        hosts = [*self.hosts]
        claimed = []
        for one in hosts:
            if not offer.take(hosts, server, one.allocation_candidates[0]):
                continue
            claimed.append(one.host)
            if one.host not in failing:
                break
            offer.give_back(server)
        return claimed

    def test_each_host_is_given_once(self) -> None:
        self.assertEqual(['host1'], self.try_hosts('a'))
        self.assertEqual(['host2'], self.try_hosts('b'))

    def test_a_host_that_was_given_is_tried_when_no_other_is_left(
        self,
    ) -> None:
        self.try_hosts('a')
        found = self.try_hosts('b', failing={'host2'})
        self.assertEqual(['host2', 'host1'], found)

    def test_what_could_not_be_claimed_is_given_again(self) -> None:
        self.try_hosts('a', failing={'host1', 'host2'})
        self.assertEqual(['host1'], self.try_hosts('b'))

    def test_each_is_tried_twice_at_most(self) -> None:
        everywhere = {'host1', 'host2'}
        self.try_hosts('a')
        self.try_hosts('b')
        found = self.try_hosts('c', failing=everywhere)
        self.assertEqual(['host1', 'host2'], found)
