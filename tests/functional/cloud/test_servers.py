# SPDX-License-Identifier: Apache-2.0

"""What is waited for of a server."""

import types
from typing import Any
from unittest import mock

from dev.cloud import servers
from tests import base


def make_answer(status: str, host: str | None) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        status=status, task_state=None, compute_host=host, fault=None
    )


class WaitTest(base.TestCase):
    def count_looks(self, status: str, *hosts: str | None) -> int:
        """Return how many answers with these hosts it takes."""
        sdk: Any = mock.Mock()
        look = sdk.compute.get_server
        look.side_effect = [make_answer(status, host) for host in hosts]
        with mock.patch('time.sleep'):
            servers.wait_for(sdk, 'vm', status)
        return int(look.call_count)

    def test_one_that_is_offloaded_has_no_host(self) -> None:
        looks = self.count_looks('SHELVED_OFFLOADED', 'node1', 'node1', None)

        self.assertEqual(3, looks)

    def test_one_with_another_status_keeps_its_host(self) -> None:
        self.assertEqual(1, self.count_looks('ACTIVE', 'node1'))
