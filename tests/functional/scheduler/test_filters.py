# SPDX-License-Identifier: Apache-2.0

"""ExtendedResourcesFilter in Nova's own filter handler."""

import json
from typing import Any

import fixtures
from nova import exception as nova_exc
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.objects.documents import stats
from nova_ext_resources.scheduler import report
from tests.functional.scheduler import scheduling
from tests.unit import builders


class _TestCase(scheduling.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=20))
        handler = nova_filters.HostFilterHandler()
        self.filters = [
            cls()
            for cls in handler.get_matching_classes(
                ['nova_ext_resources.scheduler.filters.all_filters']
            )
            if cls.__name__ == 'ExtendedResourcesFilter'
        ]
        self.handler = handler

    def filter(self, hosts: list[Any], spec: Any, index: int = 0) -> list[Any]:
        found: list[Any] = self.handler.get_filtered_objects(
            self.filters, hosts, spec, index
        )
        return found

    def passes(self, host_state: Any, spec: Any | None = None) -> bool:
        return bool(self.filter([host_state], spec or scheduling.make_spec()))

    def count_lines(self, text: str) -> int:
        return sum(text in line for line in self.log.output.splitlines())


class FilterTestCase(_TestCase):
    def test_candidates_are_narrowed_to_what_can_be_had(self) -> None:
        host = scheduling.make_host(builders.make_view([0x777, 0x7FF]))

        self.assertTrue(self.passes(host))
        self.assertEqual([builders.L3_1], scheduling.list_domains(host))

    def test_a_refused_host_has_one_line_with_all_reasons(self) -> None:
        good = scheduling.make_host(builders.make_view(), host='good')
        bad = scheduling.make_host(
            builders.make_view([0x777, 0x001]), host='bad'
        )

        kept = self.filter([good, bad], scheduling.make_spec())

        self.assertEqual([good], kept)
        [line] = [
            line
            for line in self.log.output.splitlines()
            if 'refuses host bad' in line
        ]
        for part in (
            'node bad',
            uuidsentinel.server,
            'req-1',
            'of L3_0:',
            'not side by side',
            'of L3_1:',
            'uses the rest',
        ):
            self.assertIn(part, line)
        self.assertEqual(0, self.count_lines('refuses host good'))

    def test_many_refused_hosts_are_summed_up(self) -> None:
        hosts = [
            scheduling.make_host(builders.make_view([0, 0]), host=f'host-{n}')
            for n in range(report.MAX_EXPLAINED + 5)
        ]

        self.assertEqual([], self.filter(hosts, scheduling.make_spec()))

        self.assertEqual(
            report.MAX_EXPLAINED, self.count_lines('refuses host ')
        )
        self.assertEqual(1, self.count_lines(f'refuses {len(hosts)} hosts'))

    def test_what_is_not_understood_keeps_no_host_out(self) -> None:
        for text in (
            None,
            '',
            'garbled',
            '{"v":2,"p":{}}',
            '{"v":1,"p":[]}',
            '[' * 100000,
            f'{{"v":1,"p":{{"{builders.L3_0}":7,"{builders.L3_1}":[]}}}}',
        ):
            with self.subTest(text=text):
                host = scheduling.make_host(text=text)

                self.assertTrue(self.passes(host))
                self.assertEqual(2, len(host.allocation_candidates))

    def test_a_host_that_was_never_updated_passes(self) -> None:
        host = host_manager.HostState('new', 'new', uuidsentinel.cell)

        self.assertTrue(self.passes(host))

    def test_a_domain_whose_cpus_are_taken_is_dropped(self) -> None:
        host = scheduling.make_host(builders.make_view(), pinned=range(11))

        self.assertTrue(self.passes(host))
        self.assertEqual([builders.L3_1], scheduling.list_domains(host))

    def test_a_host_whose_ways_and_cpus_are_apart_is_refused(self) -> None:
        host = scheduling.make_host(
            builders.make_view([0x7FF, 0x001]), pinned=range(11)
        )

        self.assertFalse(self.passes(host))
        self.assertIn('free CPUs: 11 of 0-11,24-35', self.log.output)

    def test_a_floating_server_is_refused_with_what_to_do(self) -> None:
        host = scheduling.make_host(builders.make_view())

        self.assertFalse(self.passes(host, scheduling.make_spec(pinned=0)))
        self.assertIn('hw:cpu_policy=dedicated', self.log.output)

    def test_malformed_extra_specs_refuse_every_host_once(self) -> None:
        for key, value in (
            (f'resources:{builders.WAYS}', '-1'),
            (f'resources:{builders.WAYS}', 'abc'),
            (f'resources_A:{builders.WAYS}', '0'),
            (f'resource:{builders.WAYS}:colour', 'red'),
        ):
            with self.subTest(key=key, value=value):
                self.log.reset_output()
                hosts = [scheduling.make_host() for _ in range(3)]

                err = self.assertRaises(
                    nova_exc.NoValidHost,
                    self.filter,
                    hosts,
                    scheduling.make_spec({key: value}),
                )

                self.assertIn(f'{key}={value}', str(err))
                self.assertEqual(1, self.count_lines(f'{key}={value}'))

    def test_nothing_is_looked_at_when_nothing_is_asked(self) -> None:
        for specs in ({}, {'resources:VCPU': '4'}, {'hw:cpu_policy': 'mixed'}):
            with self.subTest(specs=specs):
                spec = scheduling.make_spec(specs)
                # Objects that have no attributes at all.
                hosts = [object(), object()]

                self.assertEqual(
                    hosts, self.filters[0].filter_all(hosts, spec)
                )

    def test_a_rebuild_passes_whatever_the_flavor_says(self) -> None:
        host = scheduling.make_host(builders.make_view([0, 0]), domains=())
        spec = scheduling.make_spec(
            {f'resources:{builders.WAYS}': '-1'},
            scheduler_hints={'_nova_check_type': ['rebuild']},
        )

        self.assertTrue(self.passes(host, spec))

    def test_a_host_without_candidates_is_left_to_others(self) -> None:
        host = scheduling.make_host(builders.make_view([0, 0]), domains=())

        self.assertTrue(self.passes(host))


class DriftTestCase(_TestCase):
    """What every host refuses is refused here, in one round."""

    def refuse(self, spec: Any, host: Any, reason: str) -> None:
        self.assertFalse(self.passes(host, spec))
        self.assertIn(reason, self.log.output)

    def test_a_server_of_which_some_cpus_float_is_as_one_that_floats(
        self,
    ) -> None:
        spec = scheduling.make_spec(pinned=2, shared=2)

        self.refuse(
            spec,
            scheduling.make_host(builders.make_view()),
            'hw:cpu_policy=dedicated',
        )
        follows = scheduling.make_host(builders.make_view(follows_tasks=True))
        self.assertTrue(self.passes(follows, spec))

    def test_attributes_that_the_tracker_does_not_have_are_refused(
        self,
    ) -> None:
        for name, value, reason in (
            ('max', '6', 'no attribute max'),
            ('code', '4', 'leave at least one way for data'),
        ):
            with self.subTest(name=name):
                spec = scheduling.make_spec(
                    {
                        **scheduling.ASKS_WAYS,
                        f'resource:{builders.WAYS}:{name}': value,
                    }
                )

                self.refuse(
                    spec, scheduling.make_host(builders.make_view()), reason
                )

    def test_a_provider_that_is_not_in_the_document_comes_last(self) -> None:
        host = scheduling.make_host(
            builders.make_view(),
            domains=(uuidsentinel.new_domain, builders.L3_1, builders.L3_0),
        )

        self.assertTrue(self.passes(host))

        self.assertEqual(
            [builders.L3_1, builders.L3_0], scheduling.list_domains(host)
        )
        self.assertIn(
            uuidsentinel.new_domain,
            host.allocation_candidates[-1]['allocations'],
        )

    def test_one_odd_state_does_not_let_the_others_pass(self) -> None:
        text = stats.encode(builders.make_view([0x7FF, 0x001]))
        document = json.loads(text)
        document['p'][builders.RDT][builders.CLOS]['s'] = {'c': 'odd'}

        host = scheduling.make_host(text=_write(document))

        self.assertTrue(self.passes(host))
        self.assertEqual([builders.L3_0], scheduling.list_domains(host))

    def test_what_is_odd_is_left_to_the_host_and_logged_once(self) -> None:
        document = json.loads(stats.encode(builders.make_view()))
        document['p'][builders.L3_0][builders.WAYS]['s'] = {'w': 5}
        hosts = [
            scheduling.make_host(text=_write(document), host=f'host-{n}')
            for n in range(3)
        ]

        self.assertEqual(hosts, self.filter(hosts, scheduling.make_spec()))

        # It is the better choice to go by what is known.
        self.assertEqual(
            [builders.L3_1, builders.L3_0], scheduling.list_domains(hosts[0])
        )
        self.assertEqual(1, self.count_lines('host-0'))
        self.assertEqual(1, self.count_lines('Cannot use'))


def _write(document: Any) -> str:
    return json.dumps(document, separators=(',', ':'))


class MultiCreateTestCase(_TestCase):
    def schedule(self, hosts: list[Any], spec: Any) -> list[str]:
        """Do what Nova does for the servers of one request."""
        claimed = []
        for index in range(spec.num_instances):
            hosts = self.filter(hosts, spec, index)
            if not hosts:
                break
            # Its weighers have no preference here.
            claimed.append(scheduling.list_domains(hosts[0])[0])
            hosts[0].consume_from_request(spec)
        return claimed

    def test_servers_of_one_request_use_every_domain(self) -> None:
        spec = scheduling.make_spec(num_instances=4)
        host = scheduling.make_host(builders.make_view([0x0FF, 0x0FF]))

        claimed = self.schedule([host], spec)

        self.assertEqual(
            sorted(2 * [builders.L3_0, builders.L3_1]), sorted(claimed)
        )

    def test_no_more_are_placed_than_fit(self) -> None:
        spec = scheduling.make_spec(num_instances=3)
        host = scheduling.make_host(builders.make_view([0x00F, 0x00F]))

        self.assertEqual(2, len(self.schedule([host], spec)))

    def test_classes_of_service_are_counted_too(self) -> None:
        spec = scheduling.make_spec(num_instances=3)
        host = scheduling.make_host(builders.make_view(clos=2))

        self.assertEqual(2, len(self.schedule([host], spec)))

    def test_candidates_of_a_silent_host_are_used_in_turn(self) -> None:
        spec = scheduling.make_spec(num_instances=4)

        claimed = self.schedule([scheduling.make_host()], spec)

        self.assertEqual(2 * [builders.L3_0, builders.L3_1], claimed)
