# SPDX-License-Identifier: Apache-2.0

"""Tests of what is short where, and which hosts lack least."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation import shortfalls
from tests import base
from tests.unit.reservation import hosts


def make_short(requested: int, available: int, **fields: Any) -> Any:
    return exception.Shortfall(
        rp_uuid='',
        resource_class='VCPU',
        requested=requested,
        available=available,
        reason='busy',
        **fields,
    )


def make_number(requested: int, available: int) -> shortfalls.Short:
    return shortfalls.Short('VCPU', requested, ('it', 'VCPU'), available)


def make_shortfalls(
    short: Mapping[str, list[shortfalls.Short]],
    **decided: tuple[exception.Shortfall, ...],
) -> shortfalls.Shortfalls:
    return shortfalls.Shortfalls(
        [(hosts.make_host(name), found) for name, found in short.items()],
        decided,
    )


class LackTest(base.TestCase):
    def test_hosts_that_lack_least_come_first(self) -> None:
        found = make_shortfalls(
            {
                'half': [make_number(8, 4)],
                'all': [make_number(8, 0)],
                'twice a quarter': [make_number(8, 6), make_number(4, 3)],
            },
            eighth=(make_short(8, 7),),
        )

        self.assertEqual(
            ['eighth', 'half', 'twice a quarter', 'all'], found.nearest
        )

    def test_hosts_that_can_never_serve_it_are_left_out(self) -> None:
        found = make_shortfalls(
            {
                'later': [make_number(8, 0)],
                'without': [
                    make_number(8, 7),
                    shortfalls.Short('CUSTOM_SEAT', 1, None, 0),
                ],
            },
            never=(make_short(8, 7), make_short(8, 7, is_permanent=True)),
        )

        self.assertEqual(['later'], found.nearest)
        self.assertEqual({'later', 'without', 'never'}, {*found})
        self.assertEqual(3, len(found))
        self.assertEqual(
            [False, True], [one.is_permanent for one in found['without']]
        )

    def test_what_was_decided_is_told_as_it_is(self) -> None:
        why = (make_short(8, 7),)

        found = make_shortfalls({}, one=why)

        self.assertEqual({'one': why}, found)
        self.assertRaises(KeyError, found.__getitem__, 'two')
