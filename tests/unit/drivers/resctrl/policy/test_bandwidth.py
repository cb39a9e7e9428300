# SPDX-License-Identifier: Apache-2.0

import dataclasses

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import info
from nova_ext_resources.drivers.resctrl.policy import bandwidth
from tests import base

INTEL = info.BandwidthInfo(
    num_closids=8, minimum=10, granularity=10, highest=100
)
AMD = info.BandwidthInfo(
    num_closids=16, minimum=0, granularity=1, is_linear=False, highest=2048
)


def make_domain(
    given: info.BandwidthInfo, highest: int
) -> bandwidth.BandwidthOwnership:
    return bandwidth.BandwidthOwnership(
        info=dataclasses.replace(given, highest=highest),
        maximum=80_000,
        limits={'a': 40},
    )


PERCENT = make_domain(INTEL, 100)
MBPS = make_domain(INTEL, 4294967295)
EIGHTHS = make_domain(AMD, 2048)


class UnitTest(base.TestCase):
    def test_the_numbers_show_the_unit(self) -> None:
        for given, highest, unit, name in (
            (INTEL, 100, bandwidth.BandwidthUnit.PERCENT, classes.PERCENT),
            (INTEL, 50, bandwidth.BandwidthUnit.PERCENT, classes.PERCENT),
            (INTEL, 4294967295, bandwidth.BandwidthUnit.MBPS, classes.MBPS),
            (AMD, 2048, bandwidth.BandwidthUnit.EIGHTH_GBPS, classes.MBPS),
            (AMD, 80, bandwidth.BandwidthUnit.EIGHTH_GBPS, classes.MBPS),
        ):
            domain = make_domain(given, highest)

            self.assertEqual(unit, domain.unit)
            self.assertEqual(name, domain.resource_class)

    def test_percent_are_rounded_up_and_never_beyond_all(self) -> None:
        for amount, value in ((1, 10), (10, 10), (11, 20), (95, 100)):
            self.assertEqual(value, PERCENT.to_kernel(amount))

    def test_amd_gets_no_less_than_was_allocated(self) -> None:
        for amount in (1, 124, 125, 126, 5000, 5001):
            value = EIGHTHS.to_kernel(amount)

            real = EIGHTHS.to_amount(value)
            self.assertTrue(amount <= real < amount + bandwidth.AMD_UNIT)
            self.assertEqual(value, EIGHTHS.to_kernel(real))
            self.assertEqual(real, EIGHTHS.round(amount))

    def test_amd_is_asked_for_no_more_than_it_takes(self) -> None:
        for amount, highest, value in (
            (256_000, 2048, 2048),
            (300_000, 2048, 2048),
            # The host itself is limited, a server is not.
            (256_000, 80, 2048),
            (300_000, 4096, 2400),
            (600_000, 4096, 4096),
        ):
            with self.subTest(amount=amount, highest=highest):
                domain = make_domain(AMD, highest)

                self.assertEqual(value, domain.to_kernel(amount))

    def test_mbps_are_what_they_are_but_for_the_rounding_of_old_kernels(
        self,
    ) -> None:
        self.assertEqual(5010, MBPS.to_kernel(5001))
        self.assertEqual(5000, MBPS.to_amount(5000))

    def test_it_is_allocated_in_the_steps_of_the_hardware(self) -> None:
        for domain, total, least, step in (
            (PERCENT, 100, 10, 10),
            (MBPS, 80_000, 10, 1),
            (EIGHTHS, 80_000, 125, 125),
        ):
            self.assertEqual(
                (total, least, step), (domain.total, domain.least, domain.step)
            )

    def test_a_server_has_what_its_group_shows(self) -> None:
        self.assertEqual(40, PERCENT.get_amount('a'))
        self.assertEqual(5000, EIGHTHS.get_amount('a'))
        self.assertEqual(0, EIGHTHS.get_amount('b'))
