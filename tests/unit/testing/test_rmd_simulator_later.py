# SPDX-License-Identifier: Apache-2.0

"""Traps 17 to 34 of RMD, as its simulator has them.

Trap 25, that RMD's groups stay in the kernel, is in the tests of hand-overs
(``tests.unit.host.handover.test_one_kernel``).
"""

from nova_ext_resources.testing.rmd_simulator import classes
from tests.unit.testing import with_rmd


class LaterTest(with_rmd.SimulatorTestCase):
    def list_free(self) -> list[str]:
        return self.simulator.daemon.enforcement.classes.free

    def test_trap_17_a_post_that_has_no_effect_costs_a_class(self) -> None:
        self.simulator.lie()

        answer = self.post_ways('1', 2, 2, id='a')

        self.assertEqual(
            (201, 'Successful'), (answer.status_code, answer.json()['status'])
        )
        self.assertEqual('0=7ff;1=7ff', self.schemata('COS2'))
        self.assertEqual(200, self.delete('a').status_code)
        self.assertEqual([f'COS{n}' for n in range(3, 8)], self.list_free())

    def test_trap_17_tries_take_all_classes_until_a_restart(self) -> None:
        self.simulator.lie()
        for _ in range(6):
            self.assertEqual(
                201, self.post_ways('1', 2, 2, id='a').status_code
            )
            self.delete('a')
        self.simulator.lie(False)

        answer = self.post_ways('1', 2, 2)

        self.assert_text(500, 'No free CLOS available', answer)
        self.simulator.restart()
        self.assertEqual(201, self.post_ways('1', 2, 2).status_code)

    def test_trap_17_the_pages_tell_no_cache_from_the_wrong_one(self) -> None:
        unchanged = [self.pools(cache_id) for cache_id in (0, 1)]
        self.simulator.lie()
        self.post_ways('1', 2, 2)
        self.assertEqual(
            unchanged, [self.pools(cache_id) for cache_id in (0, 1)]
        )

        self.start(has_cache_mixup=True, mixup_odds=0.0)
        self.post_ways('1', 2, 2)

        self.assertEqual(unchanged[0], self.pools(0))
        self.assertNotEqual(unchanged[1], self.pools(1))

    def test_trap_18_odds_stay_as_they_are_until_the_next_start(self) -> None:
        self.start(has_cache_mixup=True, mixup_odds=None)
        drawn = dict(self.simulator.daemon.resctrl.drawn)

        for _ in range(50):
            self.post_ways('1', 2, 2, id='a')
            self.delete('a')

        self.assertEqual(drawn, self.simulator.daemon.resctrl.drawn)

    def test_trap_18_odds_are_drawn_for_each_pool_at_a_start(self) -> None:
        self.start(has_cache_mixup=True, mixup_odds=None)
        seen: list[float] = []
        for _ in range(100):
            seen += self.simulator.daemon.resctrl.drawn.values()
            self.simulator.restart()

        self.assertEqual({0.72, 0.27}, set(seen))
        self.assertTrue(20 < seen.count(0.27) < 80, seen.count(0.27))
        right = 0
        odds = self.simulator.daemon.resctrl.drawn['guarantee']
        for _ in range(100):
            self.post_ways('1', 2, 2, id='a')
            right += self.simulator.ways_of('a')[0] != 0x7FF
            self.delete('a')
        self.assertTrue(abs(right - 100 * odds) < 20, right)

    def test_trap_19_records_outlive_what_the_kernel_has(self) -> None:
        self.post_ways('1', 2, 2, id='a')

        self.simulator.restart(keep_groups=False)

        (record,) = self.send('GET', '/v1/workloads').json()
        self.assertEqual('Successful', record['status'])
        self.assertEqual('0=7ff;1=7ff', self.schemata(record['cos_name']))
        self.assertEqual('1-6', self.pools()['guaranteed'])
        self.delete('a')
        self.assertEqual(6, len(self.list_free()))

    def test_trap_28_after_a_mount_its_groups_are_gone(self) -> None:
        self.post_ways('1', 2, 2, id='a')
        self.post_ways('2', 0, 0, id='shared')

        self.simulator.remount()

        self.assertEqual(['.'], list(self.simulator.groups))
        self.assertEqual(2, len(self.send('GET', '/v1/workloads').json()))
        self.assertEqual('1-6', self.pools()['guaranteed'])
        for record_id in ('a', 'shared'):
            self.assert_text(200, '', self.delete(record_id))
        answer = self.post_ways('3', 2, 2, id='b')
        self.assertEqual('Successful', answer.json()['status'])
        self.assertEqual(['.'], list(self.simulator.groups))
        self.assertEqual(48, len(self.simulator.groups['.'].cpus))
        self.assert_text(200, '', self.delete('b'))
        # Each of them has cost a class, until RMD is restarted.
        self.assertEqual(3, len(self.list_free()))
        self.assertRaises(classes.StartFailed, self.simulator.restart)
        self.simulator.restart()
        self.assertEqual(6, len(self.list_free()))
        self.post_ways('3', 2, 2, id='b')
        self.assertEqual('0=060;1=7ff', self.schemata('COS2'))

    def test_single_calls_of_libpqos_fail(self) -> None:
        free = [f'COS{n}' for n in range(3, 8)]
        for call, posted, left in (
            ('mask', ('7ff', set(), 100), ('7ff', set(), [*free, 'COS2'])),
            ('cpus', ('060', set(), 100), ('7ff', set(), [*free, 'COS2'])),
            ('bandwidth', ('060', {1}, 100), ('7ff', set(), [*free, 'COS2'])),
            ('free_cpus', ('060', {1}, 50), ('060', {1}, free)),
            ('free_mask', ('060', {1}, 50), ('060', set(), free)),
        ):
            with self.subTest(call=call):
                self.start()
                self.send('POST', '/-/lie', {'calls': [call]})

                answer = self.post_ways('1', 2, 2, id='a', mba=50)

                self.assertEqual(201, answer.status_code)
                group = self.simulator.groups['COS2']
                self.assertEqual(
                    posted,
                    (f'{group.ways[0]:03x}', group.cpus, group.bandwidth[0]),
                )
                self.assert_text(200, '', self.delete('a'))
                self.assertEqual(
                    left,
                    (f'{group.ways[0]:03x}', group.cpus, self.list_free()),
                )
        answer = self.send('POST', '/-/lie', {'calls': ['poem']})
        self.assertEqual(400, answer.status_code)

    def test_trap_30_a_restart_does_not_free_the_group(self) -> None:
        self.post_ways('1', 2, 2, id='a')
        self.simulator.lie()
        self.delete('a')
        self.simulator.lie(False)

        self.simulator.restart()
        self.post_ways('2', 2, 2, id='b')

        self.assertEqual({1, 2}, self.simulator.group_of('b').cpus)

    def test_trap_33_a_percentage_is_rounded_to_the_nearest_step(self) -> None:
        for wanted, found in ((83, 80), (85, 90), (1, 10), (100, 100)):
            with self.subTest(wanted=wanted):
                self.post_ways('1', 2, 2, id='a', mba=wanted)

                self.assertEqual(
                    found, self.simulator.group_of('a').bandwidth[0]
                )
                self.delete('a')

    def test_trap_33_a_patch_applies_the_limit_of_another_workload(
        self,
    ) -> None:
        self.post_ways('1', 2, 2, id='a', mba=20)
        self.post_ways('2', 2, 2, id='b', mba=80)

        answer = self.send_patch('a', {'rdt': {'cache': {'max': 1, 'min': 1}}})

        self.assertEqual({'percentage': 20}, answer.json()['rdt']['mba'])
        self.assertEqual(80, self.simulator.group_of('a').bandwidth[0])

    def test_trap_34_words(self) -> None:
        for method in ('GET', 'DELETE'):
            self.assert_text(
                404,
                '404: Could not found workload',
                self.send(method, '/v1/workloads/a/b'),
            )
        self.assert_text(
            405,
            '405: Method Not Allowed',
            self.send('PUT', '/v1/workloads/a/b'),
        )
        self.assert_text(
            404,
            'Cache id 9999999999 for level 3 is not found',
            self.send('GET', '/v1/cache/l3/9999999999'),
        )
        answer = self.send('PUT', '/v1//workloads')
        self.assert_text(301, '', answer)
        self.assertNotIn('Content-Type', answer.headers)
        self.post_ways('1', 2, 2, id='a')
        self.assert_text(
            500,
            'wrong expression : 3 ',
            self.send_patch('a', {'core_ids': ['3 '], 'policy': 'gold'}),
        )

    def test_trap_20_a_plugin_that_fails_leaves_all_taken(self) -> None:
        self.start(plugins=('pstate',))
        self.simulator.break_plugins()

        answer = self.post_ways('1', 2, 2, plugins={'pstate': {'ratio': 1.5}})

        self.assertEqual(500, answer.status_code)
        self.assertEqual([], self.send('GET', '/v1/workloads').json())
        self.assertEqual('0=060;1=7ff', self.schemata('COS2'))
        self.assertEqual({1}, self.simulator.groups['COS2'].cpus)
        self.assertNotIn('COS2', self.list_free())

    def test_trap_20_three_failures_leave_three_classes(self) -> None:
        self.start(plugins=('pstate',))
        plugins = {'pstate': {'ratio': 1.5}}
        self.simulator.break_plugins()
        for core in ('1', '2', '3'):
            answer = self.post_ways(core, 1, 1, plugins=plugins)
            self.assertEqual(500, answer.status_code)
        self.simulator.break_plugins(False)

        codes = [
            self.post_ways(str(core), 1, 1).status_code for core in range(4, 8)
        ]

        self.assertEqual([201, 201, 201, 500], codes)

    def test_trap_20_the_next_server_on_the_core_is_in_that_class(
        self,
    ) -> None:
        self.start(plugins=('pstate',))
        self.simulator.break_plugins()
        self.post_ways('1', 2, 2, plugins={'pstate': {'ratio': 1.5}})

        self.simulator.restart()

        self.assertIn('COS2', self.list_free())
        self.assertEqual({1}, self.simulator.groups['COS2'].cpus)

    def test_trap_21_a_delete_without_effect_answers_200(self) -> None:
        self.post_ways('1', 2, 2, id='a')
        self.simulator.lie()

        self.assertEqual(200, self.delete('a').status_code)

        self.assertEqual('0=060;1=7ff', self.schemata('COS2'))
        self.assertEqual({1}, self.simulator.groups['COS2'].cpus)
        self.assertEqual('1-4', self.pools()['guaranteed'])
        self.assertNotIn('COS2', self.list_free())

    def test_trap_22_who_may_read_may_not_delete_what_is_not_there(
        self,
    ) -> None:
        self.start(users={'user': 'secret'})
        self.session.auth = ('user', 'secret')

        self.assertEqual(200, self.send('GET', '/v1/workloads').status_code)
        for answer in (
            self.delete('a'),
            self.post_ways('1', 2, 2),
            self.send_patch('a', {}),
        ):
            self.assertEqual(403, answer.status_code)
            self.assertIn('is not authorized', answer.text)

    def test_trap_23_the_shared_pool_is_free_and_cannot_be_had(self) -> None:
        for core in range(1, 7):
            self.post_ways(str(core), 1, 1)

        answer = self.post_ways('7', 0, 0)

        self.assertEqual('10', self.pools()['shared'])
        self.assert_text(
            500, 'No free CLOS left to create shared group', answer
        )

    def test_trap_24_without_a_mode_bandwidth_is_there_all_the_same(
        self,
    ) -> None:
        self.start(mba_mode='none')

        self.assertIs(True, self.send('GET', '/v1/mba').json()['mba'])
        answer = self.post(
            core_ids=['1'],
            rdt={
                'cache': {'max': 2, 'min': 2},
                'mba': {'percentage': 25},
            },
        )
        self.assertEqual(201, answer.status_code)
        self.assertEqual(30, self.simulator.groups['COS2'].bandwidth[0])
        # RMD compares what it has stored with the mode when it starts.
        err = self.assertRaises(classes.StartFailed, self.simulator.restart)
        self.assertIn('current configuration (none)', str(err))

    def test_trap_26_the_first_start_without_its_groups_fails(self) -> None:
        self.post_ways('1', 2, 2)
        self.simulator.refuse_connections()
        self.simulator.remove_groups()
        self.assertEqual(48, len(self.simulator.groups['.'].cpus))

        err = self.assertRaises(classes.StartFailed, self.simulator.restart)

        self.assertEqual('No free group', str(err))
        self.simulator.restart()
        self.assertEqual(200, self.send('GET', '/v1/workloads').status_code)

    def test_trap_27_a_policy_may_name_a_plugin_that_is_not_loaded(
        self,
    ) -> None:
        self.start(policy_plugins={'gold': ('pstate',)})

        self.assert_text(
            500,
            "Plugin 'pstate' is not loaded",
            self.post(core_ids=['1'], policy='gold'),
        )

    def test_trap_27_a_limit_in_another_unit_keeps_rmd_from_starting(
        self,
    ) -> None:
        for mode, unit in (
            ('percentage', 'mbps'),
            ('mbps', 'percentage'),
            ('none', 'percentage'),
        ):
            with self.subTest(mode=mode):
                self.start(mba_mode=mode)

                # Beside a policy it is not validated, and not enforced.
                answer = self.post(
                    core_ids=['1'], policy='gold', rdt={'mba': {unit: 50}}
                )

                self.assertEqual(201, answer.status_code)
                (record,) = self.send('GET', '/v1/workloads').json()
                self.assertEqual({unit: 50}, record['rdt']['mba'])
                group = self.simulator.groups['COS2']
                self.assertEqual(
                    {self.simulator.settings.mba_maximum},
                    set(group.bandwidth.values()),
                )
                err = self.assertRaises(
                    classes.StartFailed, self.simulator.restart
                )
                self.assertEqual(
                    'Workload in database contains MBA setting (percentage) '
                    f'not compatible with current configuration ({mode})',
                    str(err),
                )
                self.simulator.restart(keep_database=False)
                self.assertEqual([], self.send('GET', '/v1/workloads').json())

    def test_a_limit_in_the_unit_of_the_mode_does_not(self) -> None:
        for mode in ('percentage', 'mbps'):
            with self.subTest(mode=mode):
                self.start(mba_mode=mode)
                self.post(
                    core_ids=['1'], policy='gold', rdt={'mba': {mode: 50}}
                )

                self.simulator.restart()

                answer = self.send('GET', '/v1/workloads')
                self.assertEqual(200, answer.status_code)
