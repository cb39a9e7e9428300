# SPDX-License-Identifier: Apache-2.0

"""Tests of what is left beside promises for the server of a slot."""

import dataclasses
from unittest import mock

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import spare as spare_mod
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation import test_promise_ledger

PLACE = test_promise_ledger.PLACES[0]


class OwnSlotTest(base.TestCase):
    """All four units that are free are promised."""

    def setUp(self) -> None:
        super().setUp()
        self.slot = test_promise_ledger.make_slot(
            'x/0', hosts.span(0, 100), {PLACE: 4}
        )
        self.promises = promise_ledger.Promises()
        request = hosts.make_request('x', self.slot.during)
        self.promises.take(request, (self.slot,))

    def fits(self, without: planned_server.PlannedServer | None) -> bool:
        spare = spare_mod.Spare(
            self.promises, lambda _place: 4, now=5, end=100, without=without
        )
        return spare.fits({PLACE[0]: {'resources': {PLACE[1]: 4}}})

    def test_where_nobody_knows_what_is_free_it_fills_nothing(self) -> None:
        for free, begin in ((None, interval.FOREVER), (3, 5)):
            spare = spare_mod.Spare(
                self.promises, mock.Mock(return_value=free), now=0, end=5
            )
            self.assertEqual(
                begin,
                spare.find_begin({PLACE[0]: {'resources': {PLACE[1]: 1}}}),
            )

    def test_a_server_has_the_room_of_its_slot(self) -> None:
        self.assertFalse(self.fits(None))
        self.assertTrue(self.fits(self.slot))

    def test_a_slot_that_is_not_known_yet_has_no_room(self) -> None:
        for fields in (
            {'key': 'new/0'},
            {'host': 'b'},
            {'during': hosts.span(0, 50)},
        ):
            other = dataclasses.replace(self.slot, **fields)
            self.assertFalse(self.fits(other))
