# SPDX-License-Identifier: Apache-2.0

import dataclasses
from typing import Any

import prometheus_client
from prometheus_client import parser

from nova_ext_resources.drivers.resctrl.kernel import counters as counters_mod
from nova_ext_resources.facts import server as server_obj
from nova_ext_resources.monitoring.exporter import catalogue
from nova_ext_resources.monitoring.exporter import collector
from nova_ext_resources.monitoring.exporter import series
from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_health
from nova_ext_resources.objects import pool
from tests import base
from tests.unit import builders
from tests.unit.host import with_host
from tests.unit.monitoring.exporter import shown

PREFIX = catalogue.PREFIX


class ScrapeTestCase(base.TestCase):
    def scrape(
        self, snapshot: series.HostSnapshot, max_servers: int = 0
    ) -> dict[str, dict[tuple[str, ...], float]]:
        """Return name without prefix -> values of labels, sorted -> value."""
        registry = collector.make_registry(
            collector.Collector(lambda: snapshot, max_servers)
        )
        text = prometheus_client.generate_latest(registry).decode()
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for metric in parser.text_string_to_metric_families(text):
            for one in metric.samples:
                self.assertTrue(one.name.startswith(PREFIX), one.name)
                key = tuple(v for _k, v in sorted(one.labels.items()))
                series = found.setdefault(one.name.removeprefix(PREFIX), {})
                self.assertNotIn(key, series, 'Prometheus would refuse it')
                series[key] = one.value
        return found


class InventoryTest(with_host.HostTestCase, ScrapeTestCase):
    def test_what_a_host_has_and_gives_out_is_shown(self) -> None:
        host = self.make_noop_host(reserved_ways=1)
        host.claim(with_host.make_claim('s1', 3))

        found = self.scrape(
            shown.make_snapshot(view=host.view, entries=host.entries)
        )

        place = 'L3_0', with_host.WAYS
        self.assertEqual(
            [11, 1, 3, 7, 7],
            [
                found[f'inventory_{name}'][place]
                for name in (
                    'units',
                    'reserved_units',
                    'used_units',
                    'free_units',
                    'largest_units',
                )
            ],
        )
        self.assertEqual(
            {'claimed': 1, 'applied': 0, 'held': 0, 'releasing': 0},
            {state: value for (state,), value in found['servers'].items()},
        )

    def test_no_server_could_get_more_than_is_given_at_once(self) -> None:
        host = self.make_noop_host()

        found = self.scrape(shown.make_snapshot(view=host.view))

        place = 'RDT', with_host.CLOS
        self.assertEqual(6, found['inventory_free_units'][place])
        self.assertEqual(1, found['inventory_largest_units'][place])

    def test_what_is_left_in_pieces_is_larger_than_its_largest(self) -> None:
        host = self.make_noop_host()
        for uuid in ('a', 'b', 'c'):
            host.claim(with_host.make_claim(uuid, 3))
        host.release('a')

        found = self.scrape(shown.make_snapshot(view=host.view))

        place = 'L3_0', with_host.WAYS
        self.assertEqual(5, found['inventory_free_units'][place])
        self.assertGreater(5, found['inventory_largest_units'][place])


class ServersTest(ScrapeTestCase):
    def test_what_a_server_holds_is_shown_with_whose_it_is(self) -> None:
        found = self.scrape(shown.make_snapshot('s1'))

        self.assertEqual(
            {('gold', 'p1', 'L3_0', builders.WAYS, 's1'): 2},
            found['assigned_units'],
        )
        self.assertEqual({(): 0}, found['servers_left_out'])

    def test_one_of_whom_nova_says_nothing_is_shown_all_the_same(self) -> None:
        found = self.scrape(shown.make_snapshot('s1', servers={}))

        self.assertEqual(
            {('', '', 'L3_0', builders.WAYS, 's1'): 2},
            found['assigned_units'],
        )

    def test_the_same_class_of_one_provider_twice_is_summed_up(self) -> None:
        (entry,) = shown.make_entries('s1').values()
        entry = dataclasses.replace(entry, assignments=2 * entry.assignments)

        found = self.scrape(shown.make_snapshot('s1', entries={'s1': entry}))

        self.assertEqual([4], list(found['assigned_units'].values()))

    def test_all_states_are_there(self) -> None:
        found = self.scrape(shown.make_snapshot('a', 'b'))

        self.assertEqual(
            {
                ('claimed',): 0,
                ('applied',): 2,
                ('held',): 0,
                ('releasing',): 0,
            },
            found['servers'],
        )


class BoundTest(ScrapeTestCase):
    def test_those_that_came_first_keep_their_series(self) -> None:
        sweep = shown.make_sweep('z', 'a', 'b', 'm')

        found = self.scrape(
            shown.make_snapshot('z', 'a', 'b', sweep=sweep), max_servers=2
        )

        self.assertEqual(
            {'z': 2, 'a': 2, 'other': 2},
            {key[-1]: v for key, v in found['assigned_units'].items()},
        )
        self.assertEqual({(): 2}, found['servers_left_out'])
        self.assertEqual(
            {'z': 100, 'a': 100, 'other': 200},
            {key[-1]: v for key, v in found['llc_occupancy_bytes'].items()},
        )
        for name in (
            'memory_bandwidth_bytes_total',
            'memory_bandwidth_local_bytes_total',
            'cpu_frequency_hertz',
        ):
            with self.subTest(name=name):
                self.assertEqual({'z', 'a'}, {key[-1] for key in found[name]})

    def test_the_others_have_neither_flavor_nor_project(self) -> None:
        found = self.scrape(shown.make_snapshot('a', 'b'), max_servers=1)

        self.assertIn(
            ('', '', 'L3_0', builders.WAYS, 'other'), found['assigned_units']
        )

    def test_the_number_of_series_does_not_grow_with_servers(self) -> None:
        def count(number: int) -> int:
            uuids = [f's{n}' for n in range(number)]
            snapshot = shown.make_snapshot(
                *uuids, sweep=shown.make_sweep(*uuids)
            )
            found = self.scrape(snapshot, max_servers=8)
            return sum(map(len, found.values()))

        self.assertEqual(count(9), count(200))

    def test_who_has_series_keeps_them_whoever_comes(self) -> None:
        snapshots = [
            shown.make_snapshot(*held, sweep=shown.make_sweep(*measured))
            for held, measured in (
                ((), 'fbd'),
                # In another order, and with some that would come before.
                ('xy', 'cdafb'),
                ('xy', 'acd'),
            )
        ]
        made = collector.Collector(lambda: snapshots.pop(0), 3)

        found = [self.list_shown(made) for _ in range(3)]

        # The place of who has gone is for one that holds something.
        self.assertEqual(
            [{'b', 'd', 'f'}, {'b', 'd', 'f'}, {'d', 'x', 'y'}], found
        )

    def list_shown(self, made: collector.Collector) -> set[str]:
        return {
            sample_.labels['server']
            for metric in made.collect()
            for sample_ in metric.samples
            if 'server' in sample_.labels
        } - {series.OTHER}

    def test_without_a_bound_all_are_shown(self) -> None:
        found = self.scrape(shown.make_snapshot(*map(str, range(600))))

        self.assertEqual(600, len(found['assigned_units']))
        self.assertEqual({(): 0}, found['servers_left_out'])


class LabelsTest(ScrapeTestCase):
    def find_flavor(self, name: Any) -> str:
        info = server_obj.NovaServer(flavor=name)
        found = self.scrape(shown.make_snapshot('s1', servers={'s1': info}))
        ((flavor, *_others),) = found['assigned_units']
        return flavor

    def test_any_text_is_a_label_in_the_end(self) -> None:
        for text, label in (
            ('m1 "gold" \\ ü', 'm1 "gold" \\ ü'),
            ('a\nb\x00c', 'a?b?c'),
            ('half \ud800', 'half ?'),
            ('x' * 500, 'x' * 128),
            ('', ''),
            (None, 'None'),
        ):
            with self.subTest(text=repr(text)):
                self.assertEqual(label, self.find_flavor(text))

    def test_what_becomes_the_same_label_is_one_series(self) -> None:
        entries = {
            uuid: dataclasses.replace(entry, consumer_uuid=uuid)
            for uuid, entry in shown.make_entries('a\0', 'a\1').items()
        }

        found = self.scrape(shown.make_snapshot(entries=entries))

        self.assertEqual([4], list(found['assigned_units'].values()))


class MeasuredTest(ScrapeTestCase):
    def test_without_a_sweep_nothing_is_measured(self) -> None:
        found = self.scrape(shown.make_snapshot('s1'))

        self.assertNotIn('llc_occupancy_bytes', found)
        self.assertNotIn('sweep_duration_seconds', found)

    def test_each_cache_is_shown_and_its_parts_are_not(self) -> None:
        found = self.scrape(
            shown.make_snapshot('s1', sweep=shown.make_sweep('s1'))
        )

        key = 'gold', 'p1', 'L3_0', 's1'
        self.assertEqual({key: 100}, found['llc_occupancy_bytes'])
        self.assertEqual({key: 1000}, found['memory_bandwidth_bytes_total'])
        self.assertEqual(
            {key: 600}, found['memory_bandwidth_local_bytes_total']
        )
        self.assertEqual(
            {('gold', 'p1', 's1'): 2e9}, found['cpu_frequency_hertz']
        )
        self.assertEqual({(): 0.25}, found['sweep_duration_seconds'])
        self.assertEqual({(): 8}, found['rmids'])
        self.assertEqual({(): 3}, found['rmids_used'])
        self.assertEqual({(): 0}, found['unmeasured_servers'])

    def test_what_is_not_known_is_not_shown_as_nothing(self) -> None:
        counters = counters_mod.Counters(occupancy=0, total=7)
        server = sample.ServerSample(
            consumer_uuid='s1', domains=(shown.make_domain(0, None, counters),)
        )
        sweep = sample.Sweep(
            finished_at=1.0,
            duration=0.1,
            servers={'s1': server},
            problems={'s2': 'no id left'},
        )

        found = self.scrape(shown.make_snapshot('s1', sweep=sweep))

        self.assertEqual([0], list(found['llc_occupancy_bytes'].values()))
        for name in ('memory_bandwidth_local_bytes_total', 'rmids'):
            self.assertNotIn(name, found)
        self.assertNotIn('cpu_frequency_hertz', found)
        self.assertEqual({(): 1}, found['unmeasured_servers'])

    def test_caches_that_a_server_never_was_in_are_not_shown(self) -> None:
        """Also where the CPU counts not everything."""
        for lacking in ('occupancy', 'total', 'local'):
            counters = dataclasses.replace(
                counters_mod.Counters(occupancy=0, total=0, local=0),
                **{lacking: None},
            )
            server = sample.ServerSample(
                consumer_uuid='s1',
                domains=(shown.make_domain(0, None, counters),),
            )
            sweep = sample.Sweep(
                finished_at=1.0, duration=0.1, servers={'s1': server}
            )

            found = self.scrape(shown.make_snapshot('s1', sweep=sweep))

            for name in (
                'llc_occupancy_bytes',
                'memory_bandwidth_bytes_total',
            ):
                self.assertNotIn(name, found)

    def test_a_server_that_holds_nothing_is_measured_too(self) -> None:
        found = self.scrape(
            shown.make_snapshot(sweep=shown.make_sweep('s9')), max_servers=1
        )

        self.assertIn(('', '', 'L3_0', 's9'), found['llc_occupancy_bytes'])

    def test_changes_of_tuning_are_counted(self) -> None:
        found = self.scrape(
            shown.make_snapshot(tuning_changes={'CUSTOM_X': 4})
        )

        self.assertEqual({('CUSTOM_X',): 4}, found['tuning_changes_total'])


class HealthTest(ScrapeTestCase):
    def test_parts_tell_when_they_worked_and_whether_they_do(self) -> None:
        found = self.scrape(shown.make_snapshot())

        self.assertEqual(
            {
                ('enforcer', 'rmd'): shown.AT.timestamp(),
                ('ledger', ''): shown.AT.timestamp(),
                ('publisher', ''): 0,
            },
            found['part_last_success_timestamp_seconds'],
        )
        self.assertEqual(
            {
                ('enforcer', 'rmd'): 1,
                ('ledger', ''): 0,
                ('publisher', ''): 0,
            },
            found['part_failing'],
        )

    def test_pools_tell_when_they_were_read(self) -> None:
        reading = pool.Reading(total=1, read_at=shown.AT)
        pools = tuple(
            pool.SharedPool(
                name=name, resource_class=f'CUSTOM_{name}', reading=one
            )
            for name, one in (('READ', reading), ('UNREAD', None))
        )

        found = self.scrape(shown.make_snapshot(pools=pools))

        self.assertEqual(
            {('READ',): shown.AT.timestamp(), ('UNREAD',): 0},
            found['pool_read_timestamp_seconds'],
        )

    def test_one_status_is_true(self) -> None:
        health = shown.make_health(status=host_health.HealthStatus.DEGRADED)

        found = self.scrape(shown.make_snapshot(health=health))

        self.assertEqual(
            {('ok',): 0, ('degraded',): 1, ('failing',): 0}, found['status']
        )

    def test_every_alarm_is_always_there(self) -> None:
        health = shown.make_health(
            alarm.NOT_APPLIED, alarm.NOT_APPLIED, alarm.STATS_CUT
        )

        found = self.scrape(shown.make_snapshot(health=health))

        self.assertEqual(
            {
                *((one.name, one.severity) for one in alarm.KINDS.values()),
                *((former, 'alias') for former in alarm.FORMER_NAMES.values()),
            },
            set(found['alarm']),
        )
        self.assertEqual(
            {
                (alarm.NOT_APPLIED, 'critical'): (1, 2),
                ('not_in_force', 'alias'): (1, 2),
                (alarm.STATS_CUT, 'warning'): (1, 1),
            },
            {
                key: (value, found['alarm_subjects'][key])
                for key, value in found['alarm'].items()
                if value
            },
        )


class ConventionsTest(ScrapeTestCase):
    """Prometheus, "Metric and label naming"."""

    def test_what_grows_ends_in_total_and_nothing_else_does(self) -> None:
        snapshot = shown.make_snapshot('s1', sweep=shown.make_sweep('s1'))
        for one in series.list_families(snapshot, ['s1']):
            self.assertTrue(one.documentation.endswith('.'), one.name)
            for each in one.samples:
                self.assertIs(
                    each.name.endswith('_total'), one.type == 'counter'
                )

    def test_the_registry_is_none_of_the_process(self) -> None:
        snapshot = shown.make_snapshot()

        collector.make_registry(collector.Collector(lambda: snapshot))

        text = prometheus_client.generate_latest().decode()
        self.assertNotIn(PREFIX, text)

    def test_a_registry_is_made_without_asking_the_host(self) -> None:
        def read() -> series.HostSnapshot:
            raise AssertionError('nobody has scraped')

        collector.make_registry(collector.Collector(read))

    def test_states_of_entries_are_those_of_the_ledger(self) -> None:
        found = self.scrape(shown.make_snapshot())

        self.assertEqual(
            {one.value for one in assignment.State},
            {state for (state,) in found['servers']},
        )
