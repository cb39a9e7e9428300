# SPDX-License-Identifier: Apache-2.0

"""What Nova's unified limits do with the classes of this package.

Keystone is a double that Nova's own tests use.
"""

import math
from typing import Any

from nova.limit import local
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client

from tests.functional.virt import backends

_SEAT = 'class:CUSTOM_SEAT'
_SEATS = 4

#: What Nova asks for, whatever a server requests.
_UNLIMITED = (
    'servers',
    'class:VCPU',
    'class:MEMORY_MB',
    local.SERVER_METADATA_ITEMS,
    local.INJECTED_FILES,
    local.INJECTED_FILES_CONTENT,
    local.INJECTED_FILES_PATH,
)
_ENOUGH = 1_000_000


class QuotaTest(backends.Static):
    """A project may have four of the twelve seats of two hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.limits = self.useFixture(nova_fixtures.UnifiedLimitsFixture())
        self.flags(driver='nova.quota.UnifiedLimitsDriver', group='quota')
        for name in _UNLIMITED:
            self.limits.create_registered_limit(
                resource_name=name, default_limit=_ENOUGH
            )
        self.flavor = self.make_own_flavor(3)

    def limit(self, seats: int = _SEATS) -> None:
        self.limits.create_registered_limit(
            resource_name=_SEAT, default_limit=seats
        )

    def assert_refused(self, function: Any, *args: Any, usage: int) -> None:
        """Nova's API says what is over which limit."""
        error = self.assertRaises(
            client.OpenStackApiException, function, *args
        )

        self.assertEqual(403, error.response.status_code)
        self.assertIn(
            f'{_SEAT} is over limit of {_SEATS} due to current usage '
            f'{usage} and delta 3',
            str(error),
        )

    def test_no_server_above_the_limit(self) -> None:
        self.limit()
        first = self.boot(self.flavor)

        self.assert_refused(self.boot, self.flavor, usage=3)

        self._delete_server(first)
        self.boot(self.flavor)

    def test_fewer_servers_of_a_request_that_allows_it(self) -> None:
        self.limit()
        body = self._build_server(flavor_id=self.flavor, networks='none')
        body.update(min_count=1, max_count=3)

        made = self.admin_api.post_server({'server': body})

        self._wait_for_state_change(made, 'ACTIVE')
        self.assertEqual(1, len(self.admin_api.get_servers()))

    def test_a_resize_counts_the_former_flavor_too(self) -> None:
        """As placement does, until it is confirmed."""
        self.limit()
        small = self.make_own_flavor(1)
        server = self.boot(small)
        self.boot(small)

        self.assert_refused(self.resize, server, self.flavor, usage=2)

    def test_an_offloaded_server_stays_so_above_the_limit(self) -> None:
        """Nova's API accepts it, and its conductor counts again."""
        self.limit()
        first = self.boot(self.flavor)
        self._shelve_server(first)
        second = self.boot(self.flavor)

        self.act(first, 'unshelve')

        self._wait_for_server_parameter(
            first,
            {'status': 'SHELVED_OFFLOADED', 'OS-EXT-STS:task_state': None},
        )
        self.assert_refused(self.boot, self.flavor, usage=3)
        self._delete_server(second)
        self._unshelve_server(first)

    def test_a_class_without_a_limit_is_free(self) -> None:
        for _ in range(math.ceil(_SEATS / 3) + 1):
            self.boot(self.flavor)

    def test_a_class_that_must_have_one(self) -> None:
        self.flags(
            unified_limits_resource_list=['servers', _SEAT], group='quota'
        )

        error = self.assertRaises(
            client.OpenStackApiException, self.boot, self.flavor
        )

        self.assertIn('over limit of 0', str(error))
        self.boot(self.make_flavor())
