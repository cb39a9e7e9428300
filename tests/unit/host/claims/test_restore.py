# SPDX-License-Identifier: Apache-2.0

"""A lost entry is made again, and placement follows a new claim."""

import types
from typing import Any
from unittest import mock

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.host.claims import allocation_writer
from nova_ext_resources import worker
from tests import base
from tests.unit import builders
from tests.unit.host import with_host


class RestoreTest(base.TestCase):
    def restore(self, *, is_applied: bool, is_made: bool = True) -> Any:
        """Return what was followed, and whether the loops were woken."""
        request = with_host.make_claim(uuidsentinel.server)
        entry = request.make_entry((builders.make_assignment(),))
        host: Any = types.SimpleNamespace(
            host='host1',
            restore=lambda _request, is_applied: entry if is_made else None,
        )
        client: Any = None
        loops = mock.Mock(spec=worker.WorkerGroup)
        writer = allocation_writer.AllocationWriter(
            host, with_host.COMPUTE, client, loops=loops
        )
        with mock.patch.object(writer, 'follow') as follow:
            found = writer.restore(request, is_applied=is_applied)
        self.assertEqual(entry if is_made else None, found)
        return follow.call_count, loops.wake_soon.call_count

    def test_placement_is_not_asked_to_follow_what_is_applied(self) -> None:
        self.assertEqual((0, 1), self.restore(is_applied=True))

    def test_placement_follows_a_new_claim(self) -> None:
        self.assertEqual((1, 0), self.restore(is_applied=False))

    def test_nothing_follows_where_nothing_was_made(self) -> None:
        for is_applied in (True, False):
            self.assertEqual(
                (0, 0), self.restore(is_applied=is_applied, is_made=False)
            )
