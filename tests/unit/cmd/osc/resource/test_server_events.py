# SPDX-License-Identifier: Apache-2.0

"""Tests of what is read of a server as Nova shows it."""

from nova_ext_resources.cmd.osc.resource import server_events
from tests import base

_ZONE = 'OS-EXT-AZ:availability_zone'
_PINNED = 'pinned_availability_zone'


class ZoneTest(base.TestCase):
    def test_the_zone_that_was_requested(self) -> None:
        """Of a server on a host, ``OS-EXT-AZ`` is the zone of the host."""
        for server, wanted in (
            ({_ZONE: 'z', _PINNED: 'z', 'hostId': ''}, 'z'),
            ({_ZONE: 'z', _PINNED: None, 'hostId': ''}, 'z'),
            ({_ZONE: 'z', _PINNED: None, 'hostId': 'h'}, ''),
            ({_ZONE: 'z1', _PINNED: 'z', 'hostId': 'h'}, 'z'),
            ({_ZONE: '', _PINNED: None, 'hostId': ''}, ''),
            ({'hostId': ''}, ''),
        ):
            record = server_events.ServerRecord(
                server=server, actions=[], move={}, migrations=[], hidden=[]
            )

            self.assertEqual(wanted, record.zone)
