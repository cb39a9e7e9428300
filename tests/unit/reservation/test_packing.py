# SPDX-License-Identifier: Apache-2.0

"""Tests of which hosts lack least."""

from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation import packing
from tests import base


def make_short(requested: int, available: int, **fields: Any) -> Any:
    return exception.Shortfall(
        rp_uuid='',
        resource_class='VCPU',
        requested=requested,
        available=available,
        reason='busy',
        **fields,
    )


class LackTest(base.TestCase):
    def test_hosts_that_lack_least_come_first(self) -> None:
        short = {
            'half': (make_short(8, 4),),
            'all': (make_short(8, 0),),
            'twice a quarter': (make_short(8, 6), make_short(4, 3)),
            'an eighth': (make_short(8, 7),),
        }

        self.assertEqual(
            ['an eighth', 'half', 'twice a quarter', 'all'],
            packing.sort_by_lack(short),
        )

    def test_hosts_that_can_never_serve_it_are_left_out(self) -> None:
        short = {
            'never': (make_short(8, 7), make_short(8, 7, is_permanent=True)),
            'later': (make_short(8, 0),),
        }

        self.assertEqual(['later'], packing.sort_by_lack(short))
