# SPDX-License-Identifier: Apache-2.0

"""Tests of what consumers are, for people."""

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection import names
from nova_ext_resources.objects import planned_hold
from tests import base


class NamesTest(base.TestCase):
    def test_each_kind_of_consumer(self) -> None:
        found = names.Names(
            servers={uuids.server: 'web'}, moves={uuids.move: uuids.server}
        )
        held = planned_hold.make_consumer('night 1')

        self.assertEqual('web', found.describe(uuids.server))
        self.assertEqual('move of web', found.describe(uuids.move))
        self.assertEqual(f'reservation {held}', found.describe(held))
        self.assertEqual(uuids.other, found.describe(uuids.other))
