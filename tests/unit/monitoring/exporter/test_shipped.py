# SPDX-License-Identifier: Apache-2.0

"""The dashboard and the rules that are shipped, asked of a real host."""

from collections.abc import Iterator
import datetime
import json
import pathlib
import re
from typing import Any
import urllib.request

from oslo_utils import timeutils
import yaml

from nova_ext_resources.facts import server as server_obj
from nova_ext_resources.host.service import health as health_mod
from nova_ext_resources.monitoring.exporter import application
from nova_ext_resources.monitoring.exporter import collector
from nova_ext_resources.monitoring.exporter import series
from nova_ext_resources.monitoring.exporter import server
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_health
from nova_ext_resources.objects import pool
from tests.unit.host import with_host
from tests.unit.monitoring.exporter import promql
from tests.unit.monitoring.exporter import shown

ETC = pathlib.Path(__file__).parents[4] / 'etc' / 'nova_ext_resources'

#: What Grafana puts in the place of its variables.
VARIABLES = {'$instance': '.*', '$server': '.*', '$__rate_interval': '1m'}


class ShippedTestCase(with_host.HostTestCase):
    """A host with servers, scraped over HTTP."""

    pools: tuple[pool.SharedPool, ...] = ()

    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_noop_host(reserved_ways=1)
        for number in range(3):
            self.host.claim(with_host.make_claim(f's{number}', 2))
            self.host.apply(f's{number}')
        self.host.heal()
        self.health = health_mod.Health(
            'host1', inventory_providers=['fake'], enforcers=['noop']
        )
        self.health.observe_host(self.host)
        registry = collector.make_registry(
            collector.Collector(self.read, max_servers=2)
        )
        self.server = server.MetricsServer(
            application.Application(registry, self.read),
            listen='127.0.0.1',
            port=0,
        )
        self.addCleanup(self.server.stop)
        self.server.start()

    def scrape(self, before: str = '') -> promql.Prometheus:
        return promql.Prometheus(self.read_metrics(), before=before)

    def read_metrics(self) -> str:
        with urllib.request.urlopen(f'{self.server.url}/metrics') as response:
            text: str = response.read().decode()
        return text

    def read(self) -> series.HostSnapshot:
        info = server_obj.NovaServer(flavor='gold', project_id='p1')
        return series.HostSnapshot(
            health=self.health.snapshot(),
            view=self.host.view,
            entries=self.host.entries,
            servers=dict.fromkeys(self.host.entries, info),
            sweep=shown.make_sweep(*self.host.entries),
            tuning_changes={with_host.WAYS: 3},
            pools=self.pools,
        )


class DashboardTest(ShippedTestCase):
    def setUp(self) -> None:
        super().setUp()
        text = (ETC / 'grafana-dashboard.json').read_text('utf-8')
        self.dashboard: dict[str, Any] = json.loads(text)
        self.text = text

    def list_panels(self) -> list[dict[str, Any]]:
        return [p for p in self.dashboard['panels'] if p['type'] != 'row']

    def list_targets(self) -> Iterator[tuple[str, str, str]]:
        """Give title, query and legend."""
        for panel in self.list_panels():
            for target in panel['targets']:
                query = target['expr']
                for name, value in VARIABLES.items():
                    query = query.replace(name, value)
                yield panel['title'], query, target['legendFormat']

    def test_no_query_returns_nothing(self) -> None:
        prometheus = self.scrape()

        for title, query, _legend in self.list_targets():
            with self.subTest(title=title, query=query):
                self.assertNotIn('$', query)
                self.assertTrue(prometheus.ask(query))

    def test_legends_name_labels_that_the_answer_has(self) -> None:
        prometheus = self.scrape()

        for title, query, legend in self.list_targets():
            answer = prometheus.ask(query)
            assert isinstance(answer, dict)
            wanted = set(re.findall(r'{{(\w+)}}', legend))
            with self.subTest(title=title):
                for labels in answer:
                    self.assertLessEqual(wanted, {name for name, _v in labels})

    def test_every_metric_is_on_it(self) -> None:
        names = {one.name for one in self.scrape().series}

        missing = {
            name for name in names if not re.search(rf'\b{name}\b', self.text)
        }

        self.assertEqual(set(), missing)

    def test_variables_ask_for_what_is_there(self) -> None:
        prometheus = self.scrape()

        for variable in self.dashboard['templating']['list'][1:]:
            found = re.fullmatch(
                r'label_values\((\w+)({.*})?, (\w+)\)',
                variable['query']['query'],
            )
            assert found is not None
            query = (found[1] + (found[2] or '')).replace('$instance', '.*')
            answer = prometheus.ask(query)
            assert isinstance(answer, dict)
            for labels in answer:
                self.assertIn(found[3], dict(labels))

    def test_panels_have_names_ids_and_places_of_their_own(self) -> None:
        panels = self.dashboard['panels']
        self.assertEqual(len(panels), len({one['id'] for one in panels}))
        self.assertEqual(len(panels), len({one['title'] for one in panels}))
        taken: set[tuple[int, int]] = set()
        for panel in panels:
            place = panel['gridPos']
            self.assertLessEqual(place['x'] + place['w'], 24)
            cells = {
                (x, y)
                for x in range(place['x'], place['x'] + place['w'])
                for y in range(place['y'], place['y'] + place['h'])
            }
            self.assertFalse(taken & cells, panel['title'])
            taken |= cells

    def test_each_panel_asks_the_chosen_data_source(self) -> None:
        for panel in self.list_panels():
            for one in (panel, *panel['targets']):
                self.assertEqual('${datasource}', one['datasource']['uid'])
            self.assertTrue(panel['description'].endswith('.'))

    def test_it_is_written_as_a_person_would_read_it(self) -> None:
        self.assertEqual(
            f'{json.dumps(self.dashboard, indent=2)}\n', self.text
        )


class RulesTest(ShippedTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.set_pools(hours=0)

    def set_pools(self, hours: int) -> None:
        """Have a pool that was read so long ago, and one that is not."""
        now = timeutils.utcnow(with_timezone=True)
        one = pool.SharedPool(
            name='rack1',
            resource_class='CUSTOM_RACK1_GB',
            reading=pool.Reading(
                total=1, read_at=now - datetime.timedelta(hours=hours)
            ),
        )
        other = pool.SharedPool(
            name='rack2', resource_class='CUSTOM_RACK2_GB', is_read=False
        )
        self.pools = (one, other)

    def list_firing(self, before: str = '') -> set[str]:
        (group,) = yaml.safe_load((ETC / 'alerts.yaml').read_text('utf-8'))[
            'groups'
        ]
        prometheus = self.scrape(before)
        return {
            rule['alert']
            for rule in group['rules']
            if prometheus.ask(rule['expr'])
        }

    def note_all_success(self) -> None:
        for part in (host_health.Part.LEDGER, host_health.Part.PUBLISHER):
            self.health.note(part)

    def test_none_fires_for_a_host_that_works(self) -> None:
        self.note_all_success()

        self.assertEqual(set(), self.list_firing())

    def test_each_fires_for_its_alarm_alone(self) -> None:
        self.note_all_success()
        for name in alarm.KINDS:
            self.health.report(
                'test', [alarm.Problem(alarm=name, text='It is.')]
            )
            camel = ''.join(word.capitalize() for word in name.split('_'))

            with self.subTest(name=name):
                self.assertEqual({f'ExtResources{camel}'}, self.list_firing())

    def test_former_rules_fire_too(self) -> None:
        self.note_all_success()
        for name, former in alarm.FORMER_NAMES.items():
            self.health.report(
                'test', [alarm.Problem(alarm=name, text='It is.')]
            )

            query = f'nova_ext_resources_alarm{{name="{former}"}} == 1'

            with self.subTest(name=name):
                self.assertTrue(self.scrape().ask(query))

    def test_a_part_that_never_worked_is_noticed_by_prometheus(self) -> None:
        self.assertEqual({'ExtResourcesPartNeverWorked'}, self.list_firing())

    def test_one_that_worked_long_ago_is_noticed_by_prometheus(self) -> None:
        self.note_all_success()
        long_ago = timeutils.utcnow(with_timezone=True) - datetime.timedelta(
            hours=2
        )

        self.health.note(host_health.Part.PUBLISHER, at=long_ago)

        self.assertEqual({'ExtResourcesPartSilent'}, self.list_firing())

    def test_a_pool_that_no_host_reads_is_noticed_by_prometheus(self) -> None:
        self.note_all_success()

        self.set_pools(hours=2)

        self.assertEqual({'ExtResourcesPoolSilent'}, self.list_firing())

    def test_a_pool_whose_series_is_gone_is_noticed_by_prometheus(
        self,
    ) -> None:
        """With the last host that read it."""
        self.note_all_success()
        self.set_pools(hours=2)
        before = self.read_metrics()
        self.pools = ()

        self.assertEqual({'ExtResourcesPoolSilent'}, self.list_firing(before))

    def test_a_pool_that_was_never_read(self) -> None:
        self.note_all_success()
        self.pools = (
            pool.SharedPool(name='rack1', resource_class='CUSTOM_RACK1_GB'),
        )

        self.assertEqual({'ExtResourcesPoolSilent'}, self.list_firing())


class EvaluatorTest(ShippedTestCase):
    """What would be wrong with a query is found."""

    def test_a_metric_or_label_that_nobody_has_is_noticed(self) -> None:
        prometheus = self.scrape()
        for query in (
            'nova_ext_resources_alrm',
            'nova_ext_resources_alarm{nmae="x"}',
            'sum by (provider) (nova_ext_resources_alarm)',
            'rate(nova_ext_resources_rmids[5m])',
        ):
            with self.subTest(query=query):
                self.assertRaises(promql.UnknownSeries, prometheus.ask, query)

    def test_a_query_that_matches_nothing_gives_nothing(self) -> None:
        prometheus = self.scrape()
        for query in (
            'nova_ext_resources_alarm{name="x"}',
            'nova_ext_resources_rmids > 8',
            'nova_ext_resources_rmids - nova_ext_resources_servers',
        ):
            with self.subTest(query=query):
                self.assertEqual({}, prometheus.ask(query))

    def test_numbers_come_out_right(self) -> None:
        prometheus = self.scrape()

        answer = prometheus.ask(
            'sum by (provider) (nova_ext_resources_inventory_used_units'
            '{resource_class=~".*_WAYS", provider!="L3_1"}) / 2'
        )

        self.assertEqual({frozenset({('provider', 'L3_0')}): 3.0}, answer)
