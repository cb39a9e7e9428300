# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import counters
from nova_ext_resources.monitoring import sample
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import target
from tests import base
from tests.unit.tuning import builders

WAY = 1 << 21

DOMAINS: Mapping[str, pressure.CacheDomain] = {
    builders.L3: pressure.CacheDomain(way_bytes=WAY, bandwidth_bytes=50e9)
}


def make_reading(**fields: Any) -> pressure.PressureReading:
    given: dict[str, Any] = {
        'consumer_uuid': 'a',
        'rp_key': builders.L3,
        'llc_bytes': 4.0 * WAY,
        'memory_bytes': 4e9,
        'cpus': 4,
    }
    return pressure.PressureReading(**{**given, **fields})


def press(
    resource_class: str = classes.BURST, amount: int = 4, **fields: Any
) -> pressure.Pressure:
    share = builders.make_tunable(resource_class=resource_class, amount=amount)
    [one] = pressure.list_pressures([share], [make_reading(**fields)], DOMAINS)
    return one


class WaysTest(base.TestCase):
    def test_full_ways_and_much_traffic_want_ways(self) -> None:
        self.assertGreater(press(memory_bytes=9e9).value, 0.7)

    def test_little_traffic_wants_nothing(self) -> None:
        self.assertLess(press(memory_bytes=0.1e9).value, 0.05)

    def test_of_empty_ways_more_are_of_no_use(self) -> None:
        one = press(llc_bytes=0.5 * WAY)

        self.assertLess(one.value, 0.1)
        self.assertGreater(one.unused, 3)

    def test_waiting_does_not_depend_on_unused_ways(self) -> None:
        full, empty = press(), press(llc_bytes=0.5 * WAY)

        self.assertEqual(full.waiting, empty.waiting)
        self.assertEqual(full.value, full.waiting)

    def test_full_ways_are_not_spare(self) -> None:
        self.assertEqual(0.0, press().unused)

    def test_the_same_traffic_of_more_cpus_is_less_pressure(self) -> None:
        self.assertLess(press(cpus=16).value, press(cpus=2).value)

    def test_who_is_held_back_by_bandwidth_wants_ways(self) -> None:
        tunables = [
            builders.make_tunable(),
            builders.make_tunable(resource_class=classes.PERCENT, amount=2),
        ]

        ways = next(
            one
            for one in pressure.list_pressures(
                tunables, [make_reading(memory_bytes=1e9, cpus=16)], DOMAINS
            )
            if one.resource_class == classes.BURST
        )

        self.assertEqual(1.0, ways.value)


class BandwidthTest(base.TestCase):
    def test_traffic_at_the_limit_wants_more(self) -> None:
        one = press(classes.PERCENT, 10, memory_bytes=5e9)

        self.assertEqual((1.0, 0.0), (one.value, one.unused))

    def test_traffic_far_below_leaves_some_to_spare(self) -> None:
        one = press(classes.PERCENT, 20, memory_bytes=1e9)

        self.assertEqual(0.0, one.value)
        self.assertGreater(one.unused, 10)

    def test_a_megabyte_is_the_kernels(self) -> None:
        one = press(classes.MBPS, 1000, memory_bytes=0.8 * 1000 * (1 << 20))

        self.assertAlmostEqual(0.5, one.value)

    def test_percent_of_something_unknown_say_nothing(self) -> None:
        share = builders.make_tunable(resource_class=classes.PERCENT)

        found = pressure.list_pressures(
            [share], [make_reading()], {builders.L3: pressure.CacheDomain()}
        )

        self.assertEqual((), found)


class MissingTest(base.TestCase):
    def test_what_was_not_measured_has_no_pressure(self) -> None:
        for fields in (
            {'llc_bytes': None},
            {'memory_bytes': None},
            {'memory_bytes': float('nan')},
            {'llc_bytes': -1.0},
            {'rp_key': 'L3_1'},
            {'consumer_uuid': 'b'},
        ):
            with self.subTest(fields=fields):
                found = pressure.list_pressures(
                    [builders.make_tunable()],
                    [make_reading(**fields)],
                    DOMAINS,
                )

                self.assertEqual((), found)

    def test_the_other_servers_have_theirs(self) -> None:
        """One server without data, and the one after it."""
        tunables = [builders.make_tunable(uuid) for uuid in ('b', 'a')]

        [one] = pressure.list_pressures(tunables, [make_reading()], DOMAINS)

        self.assertEqual('a', one.consumer_uuid)

    def test_traffic_without_occupancy_counts_for_bandwidth(self) -> None:
        tunables = [
            builders.make_tunable(),
            builders.make_tunable(resource_class=classes.PERCENT),
        ]

        [one] = pressure.list_pressures(
            tunables, [make_reading(llc_bytes=None)], DOMAINS
        )

        self.assertEqual(classes.PERCENT, one.resource_class)

    def test_of_a_domain_that_is_not_known_neither(self) -> None:
        self.assertEqual(
            (),
            pressure.list_pressures(
                [builders.make_tunable()], [make_reading()], {}
            ),
        )


class ReadingsTest(base.TestCase):
    def test_whole_caches_are_read_from_a_sweep(self) -> None:
        domains = tuple(
            sample.DomainSample(
                domain=domain,
                counters=counters.Counters(occupancy=occupancy),
                total_rate=rate,
            )
            for domain, occupancy, rate in (
                (counters.Domain(cache=0), 70, 5.0),
                (counters.Domain(cache=0, node=1), 30, 2.0),
                (counters.Domain(cache=1), None, None),
            )
        )
        sweep = sample.Sweep(
            finished_at=11.0,
            duration=1.0,
            servers={
                'a': sample.ServerSample(consumer_uuid='a', domains=domains)
            },
        )

        found = target.list_readings(sweep, {'a': 8})

        self.assertEqual(
            (
                pressure.PressureReading(
                    consumer_uuid='a',
                    rp_key='L3_0',
                    llc_bytes=70,
                    memory_bytes=5.0,
                    taken_at=11.0,
                    cpus=8,
                ),
                pressure.PressureReading(
                    consumer_uuid='a', rp_key='L3_1', taken_at=11.0, cpus=8
                ),
            ),
            found,
        )
