# SPDX-License-Identifier: Apache-2.0

"""The simulator answers as RMD v0.3.1 does."""

import json
import os

from tests.unit.testing import with_rmd

UUID = with_rmd.UUID

CACHE_0 = """\
{
  "cache_id": 0,
  "NumWays": 11,
  "NumSets": 28672,
  "NumPartitions": 0,
  "LineSize": 64,
  "total_size": 20185088,
  "WaySize": 1835008,
  "NumClasses": 0,
  "WayContention": 0,
  "CacheLevel": 3,
  "location_on_socket": "0",
  "location_on_node": "0",
  "share_cpu_list": "0-11,24-35",
  "available_ways": "7ff",
  "available_cpus": "1-11,24-35",
  "available_isolated_cpus": "",
  "available_policy": {
   "bronze": 10,
   "gold": 1,
   "silver": 3
  },
  "available_ways_pool": {
   "besteffort": "7-9",
   "guaranteed": "1-6",
   "os": "0",
   "shared": "10"
  }
 }"""


class FramingTest(with_rmd.SimulatorTestCase):
    def test_paths_and_methods_without_a_route(self) -> None:
        for method, path, status, text in (
            ('GET', '/', 404, '404 page not found\n'),
            ('GET', '/v1', 404, '404 page not found\n'),
            ('GET', '/v1/inventory', 404, '404 page not found\n'),
            ('GET', '/v1/pstate', 404, '404 page not found\n'),
            ('GET', '/v1/cache/l9', 404, '404: Page Not Found'),
            ('GET', '/v1/cache/l3/abc', 404, '404: Page Not Found'),
            ('GET', '/v1/cache/l3/0/x', 404, '404: Page Not Found'),
            ('PUT', '/v1/workloads', 405, '405: Method Not Allowed'),
            ('DELETE', '/v1/cache', 405, '405: Method Not Allowed'),
            ('GET', '/v1/hospitality', 405, '405: Method Not Allowed'),
            ('PURGE', '/v1/policy', 405, '405: Method Not Allowed'),
        ):
            with self.subTest(method=method, path=path):
                answer = self.send(method, path)

                self.assert_text(status, text, answer)
                self.assertEqual(
                    'text/plain; charset=utf-8',
                    answer.headers['Content-Type'],
                )

    def test_a_slash_at_the_end_and_a_query_do_not_matter(self) -> None:
        for path in ('/v1/workloads/', '/v1/workloads?limit=1'):
            with self.subTest(path=path):
                self.assert_text(200, '[]', self.send('GET', path))

    def test_content_type_is_wanted_for_what_has_a_body(self) -> None:
        for method, path in (
            ('POST', '/v1/workloads'),
            ('PATCH', '/v1/workloads/1'),
            ('POST', '/v1/hospitality'),
        ):
            for headers in ({}, {'Content-Type': 'text/plain'}):
                with self.subTest(method=method, headers=headers):
                    answer = self.session.request(
                        method,
                        self.url + path,
                        data=b'{}',
                        headers=headers,
                        timeout=60,
                    )

                    self.assert_text(
                        415, '415: Unsupported Media Type', answer
                    )

    def test_content_type_may_have_parameters(self) -> None:
        answer = self.send(
            'POST',
            '/v1/hospitality',
            '{}',
            **{'Content-Type': 'application/json; charset=utf-8'},
        )

        self.assertEqual(200, answer.status_code)

    def test_accept_must_admit_json(self) -> None:
        refused = self.send('GET', '/v1/policy', Accept='text/html')
        admitted = self.send(
            'GET', '/v1/policy', Accept='text/html, application/json;q=0.1'
        )

        self.assert_text(406, '406: Not Acceptable', refused)
        self.assertEqual(200, admitted.status_code)

    def test_json_is_indented_as_go_restful_does(self) -> None:
        answer = self.send('GET', '/v1/cache/l3/0')

        self.assertEqual(CACHE_0, answer.text)
        self.assertEqual('application/json', answer.headers['Content-Type'])
        self.assertNotIn('Server', answer.headers)


class CachePagesTest(with_rmd.SimulatorTestCase):
    def test_the_summary_names_levels_and_ids(self) -> None:
        summary = self.send('GET', '/v1/cache').json()

        caches = summary.pop('caches')
        self.assertEqual(24, caches['l2']['number'])
        self.assertEqual({'number': 2, 'caches_id': ['0', '1']}, caches['l3'])
        self.assertEqual(
            {
                'rdt': True,
                'cqm': True,
                'cdp': True,
                'cdp_enable': False,
                'cat': True,
                'cat_enable': True,
            },
            summary,
        )

    def test_the_last_level_has_two_names(self) -> None:
        level = self.send('GET', '/v1/cache/l3').json()

        self.assertEqual(level, self.send('GET', '/v1/cache/llc').json())
        self.assertEqual(['number', 'Caches'], list(level))
        self.assertEqual(json.loads(CACHE_0), level['Caches']['0'])

    def test_pools_shift_where_the_os_has_no_cpu(self) -> None:
        self.assertEqual(
            {
                'besteffort': '6-8',
                'guaranteed': '0-5',
                'os': '',
                'shared': '9',
            },
            self.pools(1),
        )

    def test_errors_are_empty_or_say_little(self) -> None:
        self.assert_text(400, '', self.send('GET', '/v1/cache/l2'))
        self.assert_text(500, '', self.send('GET', '/v1/cache/l2/0'))
        self.assert_text(
            404,
            'Cache id 7 for level 3 is not found',
            self.send('GET', '/v1/cache/l3/7'),
        )
        self.assertNotIn(
            'Content-Type', self.send('GET', '/v1/cache/l2').headers
        )

    def test_a_workload_shows_on_its_cache(self) -> None:
        self.post(core_ids=['1', '2'], policy='gold')

        cache = self.send('GET', '/v1/cache/l3/0').json()

        # 3-6 are the workload's, 0-2 what is left below for the OS group.
        self.assertEqual('780', cache['available_ways'])
        self.assertEqual('1-2', cache['available_ways_pool']['guaranteed'])
        self.assertEqual('3-11,24-35', cache['available_cpus'])
        self.assertEqual(0, cache['available_policy']['gold'])
        self.assertEqual('0-5', self.pools(1)['guaranteed'])

    def test_an_unset_pool_is_absent(self) -> None:
        self.start(pools={'os': 1, 'guarantee': 4})

        cache = self.send('GET', '/v1/cache/l3/0').json()

        self.assertEqual(
            {'guaranteed': '1-4', 'os': '0'}, cache['available_ways_pool']
        )
        self.assertEqual(
            {'bronze': 0, 'gold': 1, 'silver': 0}, cache['available_policy']
        )

    def test_a_policy_file_in_yaml_breaks_the_pages(self) -> None:
        self.start(policy_file='yaml')

        self.assert_text(400, '', self.send('GET', '/v1/cache/l3'))
        self.assert_text(500, '', self.send('GET', '/v1/cache/l3/0'))

    def test_policies_and_bandwidth(self) -> None:
        self.assertEqual(
            '{"bronze":{"cache":{"max":0,"min":0}},'
            '"gold":{"cache":{"max":4,"min":4}},'
            '"silver":{"cache":{"max":3,"min":1}}}',
            ''.join(self.send('GET', '/v1/policy').text.split()),
        )
        self.assertEqual(
            {'mba': True, 'mba_enable': True, 'mba_step': 10, 'mba_min': 10},
            self.send('GET', '/v1/mba').json(),
        )


class HospitalityTest(with_rmd.SimulatorTestCase):
    def score(self, **body: object) -> object:
        answer = self.send('POST', '/v1/hospitality', body)
        return answer.json()['score']['l3']

    def test_scores(self) -> None:
        for body, scores in (
            ({'max_cache': 2, 'min_cache': 2}, {'0': 100, '1': 100}),
            ({'max_cache': 6, 'min_cache': 1}, {'0': 50, '1': 50}),
            ({'max_cache': 7, 'min_cache': 7}, {'0': 0, '1': 0}),
            ({'max_cache': 2, 'min_cache': 2, 'cache_id': 1}, {'1': 100}),
            ({'max_cache': 2, 'min_cache': 2, 'cache_id': 9}, {}),
            ({}, {'0': 100, '1': 100}),
        ):
            with self.subTest(body=body):
                self.assertEqual(scores, self.score(**body))

    def test_errors(self) -> None:
        for body, text in (
            ({'max_cache': 1}, 'Bad request, max_cache=1, min_cache=0'),
            ({'min_cache': 1}, 'Bad request, max_cache=0, min_cache=1'),
            ({'policy': 'gold'}, 'Unknown AppError type!'),
            (
                {'policy': 'x'},
                'Can not find Policy. Details: Can not find specified '
                'policy x\n',
            ),
            ('', 'EOF'),
            (
                '{"max_cache":}',
                "invalid character '}' looking for beginning of value",
            ),
            (
                {'max_cache': '2'},
                'json: cannot unmarshal string into Go struct field '
                'Request.max_cache of type uint32',
            ),
        ):
            with self.subTest(body=body):
                answer = self.send('POST', '/v1/hospitality', body)

                self.assert_text(500, text, answer)

    def test_policies_of_a_yaml_file_work_here(self) -> None:
        self.start(policy_file='yaml')

        self.assertEqual({'0': 100, '1': 100}, self.score(policy='gold'))

    def test_panics(self) -> None:
        self.assert_dropped('POST', '/v1/hospitality', 'null')
        self.start(pools={'os': 1, 'guarantee': 6})
        self.assert_dropped('POST', '/v1/hospitality', {})


class CreateTest(with_rmd.SimulatorTestCase):
    SETTINGS = {'plugins': ('pstate',)}  # noqa: RUF012

    def test_a_policy_is_copied(self) -> None:
        answer = self.post(core_ids=['1', '2'], policy='gold', uuid=UUID)

        self.assertEqual(201, answer.status_code)
        self.assertEqual(
            '{"id":"1","core_ids":["1","2"],"policy":"gold",'
            '"status":"Successful","cos_name":"COS2",'
            '"rdt":{"cache":{"max":4,"min":4},"mba":{}},'
            f'"uuid":"{UUID}","origin":"REST"}}',
            ''.join(answer.text.split()),
        )
        self.assertEqual('0=078;1=7ff', self.schemata('COS2'))

    def test_limits_are_enforced_where_the_cores_are(self) -> None:
        answer = self.post(
            core_ids=['13'],
            rdt={'cache': {'max': 2, 'min': 2}, 'mba': {'percentage': 45}},
        )

        self.assertEqual(
            {'cache': {'max': 2, 'min': 2}, 'mba': {'percentage': 45}},
            answer.json()['rdt'],
        )
        group = self.simulator.groups['COS2']
        # The hardware rounds up to its step.
        self.assertEqual({0: 100, 1: 50}, group.bandwidth)
        self.assertEqual('0=7ff;1=030', self.schemata('COS2'))

    def test_keys_match_in_any_case_and_unknown_ones_are_ignored(
        self,
    ) -> None:
        answer = self.post(Core_IDs=['1'], POLICY='gold', Colour='blue')

        self.assertEqual(['1'], answer.json()['core_ids'])
        self.assertNotIn('Colour', answer.json())

    def test_what_the_server_decides_cannot_be_sent(self) -> None:
        answer = self.post_ways(
            '1', 1, 1, status='Failed', cos_name='COS9', origin='OPENSTACK'
        )

        self.assertEqual('Successful', answer.json()['status'])
        self.assertEqual('COS2', answer.json()['cos_name'])
        self.assertEqual('REST', answer.json()['origin'])

    def test_plugin_numbers_are_echoed_but_stored_otherwise(self) -> None:
        answer = self.post(
            core_ids=['1'],
            plugins={'pstate': {'ratio': 3.0, 'monitoring': 'on'}},
        )

        self.assertIn('"ratio": 3.0', answer.text)
        self.assertEqual('', answer.json()['cos_name'])
        listed = self.send('GET', '/v1/workloads/1').text
        self.assertIn('"ratio": 3\n', listed)

    def test_refused_requests(self) -> None:
        gold = {'core_ids': ['1'], 'policy': 'gold'}
        ways = {'max': 2, 'min': 2}
        for body, reason in (
            ({}, 'No task or core id specified'),
            ({'task_ids': ['x1']}, 'The task: x1 does not exist'),
            (
                {'core_ids': ['1'], 'rdt': {'cache': {'max': 2}}},
                'Need to provide both cache.* or none of them',
            ),
            (
                {'core_ids': ['1'], 'rdt': {'mba': {'mbps': 5}}},
                'Please provide MBA in Percentage',
            ),
            (
                {
                    'core_ids': ['1'],
                    'rdt': {
                        'cache': {'max': 3, 'min': 1},
                        'mba': {'percentage': 50},
                    },
                },
                'MBA only supported for Guaranteed Request and not for '
                'BestEffort and Shared',
            ),
            (
                {
                    'core_ids': ['1'],
                    'rdt': {'cache': ways, 'mba': {'percentage': 101}},
                },
                'MBA values in should range from 1 to 100',
            ),
            (
                {'core_ids': ['1'], 'rdt': {'mba': {'percentage': 50}}},
                'Need to provide both cache and mba for better performance',
            ),
            ({'core_ids': ['1']}, 'No RDT/Plugins params in workload'),
            (
                {'core_ids': ['1'], 'cache': ways},
                'No RDT/Plugins params in workload',
            ),
            (
                {**gold, 'policy': 'tin'},
                'Could not find the Policy. Can not find specified policy tin',
            ),
            (
                {'core_ids': ['1'], 'plugins': {'x': {'a': 1}}},
                'Trying to use module that is not loaded',
            ),
            (
                {'core_ids': ['1'], 'plugins': {'pstate': {'ratio': 3}}},
                'Invalid params received. Details: Invalid type of '
                "'ratio' input param\n",
            ),
            (
                {**gold, 'core_ids': [' 8']},
                'Workload validation in database failed. Details: wrong '
                'expression :  8\n',
            ),
        ):
            with self.subTest(body=body):
                self.assert_refused(reason, self.post(**body))

        self.assert_text(200, '[]', self.send('GET', '/v1/workloads'))

    def test_duplicates(self) -> None:
        self.post_ways('1', 1, 1, id='a', uuid=UUID)
        self.post_ways('40', 1, 1)
        prefix = 'Workload validation in database failed. Details: '

        for body, text in (
            ({'core': '2', 'id': 'a'}, 'Workload with id a already exists'),
            (
                {'core': '2', 'uuid': UUID},
                f'UUID {UUID} already exists in workload a',
            ),
            ({'core': '1'}, 'CPU list [1] has been assigned'),
            ({'core': '40'}, 'CPU list [] has been assigned'),
            ({'core': '0-3'}, 'CPU list [1] has been assigned'),
        ):
            with self.subTest(body=body):
                answer = self.post_ways(body.pop('core'), 1, 1, **body)

                self.assert_refused(f'{prefix}{text}\n', answer)

    def test_a_uuid_is_free_again_after_delete(self) -> None:
        self.post_ways('1', 1, 1, uuid=UUID)
        self.delete('1')

        answer = self.post_ways('1', 1, 1, uuid=UUID)

        self.assertEqual('2', answer.json()['id'])

    def test_enforcement_errors(self) -> None:
        for maximum, minimum, text in (
            (7, 7, 'Not enough cache left on cache_id 0'),
            (9, 4, 'Not enough cache left on cache_id 0'),
            (
                2,
                0,
                'Bad cache ways request. Details: max_cache=2, '
                "min_cache=0, doesn't support\n",
            ),
            (
                1,
                2,
                'Min cache value cannot be greater than max cache value',
            ),
        ):
            with self.subTest(maximum=maximum, minimum=minimum):
                answer = self.post_ways('1', maximum, minimum)

                self.assert_text(500, text, answer)
                self.assertEqual('text/plain', answer.headers['Content-Type'])

    def test_bodies_that_cannot_be_read(self) -> None:
        text = (
            'Failed to read request correctly. Please check request syntax '
            'and data'
        )
        for body in (
            '',
            '{',
            '[]',
            '"text"',
            '{"core_ids":["1"],"rdt":{"cache":{"max":-1,"min":1}}}',
            '{"core_ids":["1"],"rdt":{"cache":{"max":1.0,"min":1}}}',
            '{"core_ids":["1"],"rdt":{"cache":{"max":4294967296}}}',
            '{"id":1,"core_ids":["1"],"policy":"gold"}',
            '{"core_ids":[1],"policy":"gold"}',
            '{"core_ids":"1","policy":"gold"}',
            '{"core_ids":["1"],"plugins":{"pstate":3}}',
        ):
            with self.subTest(body=body):
                self.assert_text(
                    500, text, self.send('POST', '/v1/workloads', body)
                )

    def test_what_follows_the_first_value_is_ignored(self) -> None:
        answer = self.send(
            'POST',
            '/v1/workloads',
            ' {"core_ids":["1"],"policy":"gold"} and so on',
        )

        self.assertEqual(201, answer.status_code)

    def test_panics(self) -> None:
        for body in (
            'null',
            {'core_ids': ['200'], 'policy': 'gold'},
            {'core_ids': ['64'], 'policy': 'gold'},
            {'core_ids': ['eight'], 'policy': 'gold'},
            {'core_ids': ['^'], 'policy': 'gold'},
        ):
            with self.subTest(body=body):
                self.assert_dropped('POST', '/v1/workloads', body)

        self.assert_text(200, '[]', self.send('GET', '/v1/workloads'))
        self.assertEqual('COS2', self.post_ways('1', 1, 1).json()['cos_name'])

    def test_a_core_behind_the_last_takes_ways_of_all_caches(self) -> None:
        self.assertEqual(201, self.post_ways('50', 2, 2).status_code)

        self.assertEqual('0=060;1=030', self.schemata('COS2'))
        self.assertEqual(set(), self.simulator.groups['COS2'].cpus)
        # Its release fails half-way and the class is lost.
        self.assert_text(200, '', self.delete('1'))
        self.assertEqual('0=060;1=030', self.schemata('COS2'))
        self.assertEqual('COS3', self.post_ways('1', 1, 1).json()['cos_name'])

    def test_a_policy_file_in_yaml_enforces_nothing(self) -> None:
        self.start(policy_file='yaml')

        answer = self.post(core_ids=['1'], policy='gold')

        self.assertEqual(201, answer.status_code)
        self.assertEqual('', answer.json()['cos_name'])
        self.assertEqual({'cache': {}, 'mba': {}}, answer.json()['rdt'])

    def test_tasks_win_over_cores(self) -> None:
        pid = str(os.getpid())

        answer = self.post(core_ids=['3'], task_ids=[pid], policy='gold')

        self.assertEqual(201, answer.status_code)
        group = self.simulator.groups['COS2']
        self.assertEqual((set(), [pid]), (group.cpus, group.tasks))
        self.assert_refused(
            'Workload validation in database failed. Details: TaskID '
            f'{pid} already exists in workload 1\n',
            self.post(task_ids=[pid], policy='silver'),
        )


class AllocationTest(with_rmd.SimulatorTestCase):
    def test_guaranteed_ways_come_from_the_top(self) -> None:
        self.post_ways('1', 4, 4)
        self.post_ways('3', 2, 2)

        self.assertEqual('0=078;1=7ff', self.schemata('COS2'))
        self.assertEqual('0=006;1=7ff', self.schemata('COS3'))
        self.assertEqual('0=001;1=7ff', self.schemata('.'))
        self.assertEqual('', self.pools()['guaranteed'])

    def test_best_effort_takes_the_longest_run(self) -> None:
        self.post_ways('1', 2, 1)
        self.post_ways('2', 3, 1)

        self.assertEqual('0=300;1=7ff', self.schemata('COS2'))
        self.assertEqual('0=080;1=7ff', self.schemata('COS3'))
        self.assert_text(
            500,
            'Not enough cache left on cache_id 0',
            self.post_ways('3', 2, 1),
        )

    def test_shared_workloads_share_a_class(self) -> None:
        first = self.post_ways('1', 0, 0).json()
        second = self.post_ways('13', 0, 0).json()

        self.assertEqual(first['cos_name'], second['cos_name'])
        self.assertEqual({'max': 0, 'min': 0}, first['rdt']['cache'])
        self.assertEqual('0=400;1=200', self.schemata('COS2'))
        self.assertEqual('', self.pools()['shared'])
        self.delete('1')
        self.assertEqual('', self.pools()['shared'])
        self.delete('2')
        self.assertEqual('10', self.pools()['shared'])

    def test_classes_run_out_and_are_given_out_in_turn(self) -> None:
        names = [
            self.post_ways(str(core), 1, 1).json()['cos_name']
            for core in range(1, 7)
        ]
        self.assertEqual([f'COS{n}' for n in range(2, 8)], names)
        self.assert_text(
            500, 'No free CLOS available', self.post_ways('13', 1, 1)
        )
        self.assert_text(
            500,
            'No free CLOS left to create shared group',
            self.post_ways('13', 0, 0),
        )

        self.delete('3')
        self.delete('1')

        self.assertEqual(
            ['COS4', 'COS2'],
            [
                self.post_ways(core, 1, 1).json()['cos_name']
                for core in ('13', '14')
            ],
        )

    def test_a_pool_that_is_not_there(self) -> None:
        self.start(pools={'os': 1, 'guarantee': 6})

        self.assert_text(
            500,
            "Unable to read cache schemata; error doesn't support pool shared",
            self.post_ways('1', 0, 0),
        )

    def test_shared_workloads_may_have_no_bandwidth_limit(self) -> None:
        answer = self.post(
            core_ids=['1'],
            rdt={'cache': {'max': 0, 'min': 0}, 'mba': {'percentage': 100}},
        )

        self.assert_text(500, 'MBA forbidden for shared group', answer)

    def test_cores_of_both_sockets_get_ways_of_both(self) -> None:
        self.post(core_ids=['1', '13'], rdt={'cache': {'max': 2, 'min': 2}})

        self.assertEqual('0=060;1=030', self.schemata('COS2'))

    def test_foreign_groups_use_ways(self) -> None:
        self.simulator.add_foreign_group('qemu', {0: 0b11000}, [4])

        self.assertEqual('1-2,5-6', self.pools()['guaranteed'])
        self.assert_text(
            500,
            'Not enough cache left on cache_id 0',
            self.post_ways('1', 3, 3),
        )
        self.post_ways('1', 2, 2)
        self.assertEqual('0=060;1=7ff', self.schemata('COS2'))
        self.simulator.remove_foreign_group('qemu')
        self.assertEqual('1-4', self.pools()['guaranteed'])

    def test_an_infra_group_hides_ways_where_it_has_cpus(self) -> None:
        self.start(
            infra_cpus='20-23', pools={'os': 1, 'guarantee': 6, 'infra': 10}
        )

        self.assertEqual(
            {'guaranteed': '0', 'infra': '', 'os': ''}, self.pools(1)
        )
        # The pool is on the pages of all caches.
        self.assertEqual(
            {'guaranteed': '1-6', 'infra': '1-10', 'os': '0'}, self.pools(0)
        )
        self.assertEqual(201, self.post_ways('13', 2, 2).status_code)


class ReadAndDeleteTest(with_rmd.SimulatorTestCase):
    def test_workloads_are_sorted_by_id_as_text(self) -> None:
        for core in range(1, 4):
            self.post_ways(str(core), 1, 1, id=('10', '2', 'a')[core - 1])

        listed = self.send('GET', '/v1/workloads').json()

        self.assertEqual(['10', '2', 'a'], [item['id'] for item in listed])

    def test_what_is_missing(self) -> None:
        for method in ('GET', 'DELETE', 'PATCH'):
            for record_id in ('1', 'abc'):
                with self.subTest(method=method, record_id=record_id):
                    answer = self.send(
                        method,
                        f'/v1/workloads/{record_id}',
                        {} if method == 'PATCH' else None,
                    )

                    self.assert_text(
                        404, '404: Could not found workload', answer
                    )
                    self.assertEqual(
                        'text/plain', answer.headers['Content-Type']
                    )

    def test_delete_gives_everything_back(self) -> None:
        before = self.send('GET', '/v1/cache/l3').text
        self.post_ways('1', 2, 2, id=UUID)

        answer = self.delete(UUID)

        self.assert_text(200, '', answer)
        self.assertNotIn('Content-Type', answer.headers)
        self.assertEqual(before, self.send('GET', '/v1/cache/l3').text)
        self.assertEqual(set(range(48)), self.simulator.groups['.'].cpus)

    def test_ranges_of_cores_stay_behind(self) -> None:
        self.post_ways('4-6', 1, 1)
        self.delete('1')

        self.assertEqual({4, 5, 6}, self.simulator.groups['COS2'].cpus)

    def test_records_of_the_nova_listener_are_left_alone(self) -> None:
        self.simulator.add_workload({'core_ids': ['1'], 'policy': 'gold'})

        deleted = self.delete('1')
        patched = self.send_patch('1', {'policy': 'silver'})

        self.assert_text(
            200,
            '200: You only have permission to delete REST origin workloads',
            deleted,
        )
        self.assert_text(
            200,
            '200: You only have permission to modify REST origin workloads',
            patched,
        )
        self.assertEqual(
            'OPENSTACK',
            self.send('GET', '/v1/workloads/1').json()['origin'],
        )

    def test_a_generated_id_overwrites_a_chosen_one(self) -> None:
        self.post_ways('1', 1, 1, id='1')
        self.post_ways('2', 1, 1)

        listed = self.send('GET', '/v1/workloads').json()

        self.assertEqual([['2']], [item['core_ids'] for item in listed])
