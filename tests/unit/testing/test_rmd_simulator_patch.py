# SPDX-License-Identifier: Apache-2.0

"""PATCH has more traps than any other method; the simulator has them too."""

from tests.unit.testing import with_rmd

_EXISTS = (
    'Failed to validate workload. Details: Workload validation in database '
    'failed. Details: Workload with id 1 already exists\n\n'
)


class PatchTest(with_rmd.SimulatorTestCase):
    SETTINGS = {'plugins': ('pstate',)}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.post_ways('1', 2, 2, uuid=with_rmd.UUID)

    def get(self) -> dict[str, object]:
        record: dict[str, object] = self.send('GET', '/v1/workloads/1').json()
        return record

    def test_ways_are_merged_and_the_class_changes(self) -> None:
        answer = self.send_patch('1', {'rdt': {'cache': {'max': 3, 'min': 3}}})

        self.assertEqual(200, answer.status_code)
        self.assertEqual('COS3', answer.json()['cos_name'])
        self.assertEqual('0=070;1=7ff', self.schemata('COS3'))
        self.assertEqual('0=7ff;1=7ff', self.schemata('COS2'))
        self.assertEqual(answer.json(), self.get())

    def test_one_limit_may_come_alone(self) -> None:
        answer = self.send_patch('1', {'rdt': {'cache': {'max': 3}}})

        self.assertEqual({'max': 3, 'min': 2}, answer.json()['rdt']['cache'])
        self.assertEqual('0=380;1=7ff', self.schemata('COS3'))

    def test_a_policy_wins_over_ways(self) -> None:
        answer = self.send_patch(
            '1', {'policy': 'gold', 'rdt': {'cache': {'max': 1, 'min': 1}}}
        )

        self.assertEqual('gold', answer.json()['policy'])
        self.assertEqual({'max': 4, 'min': 4}, answer.json()['rdt']['cache'])

    def test_ways_drop_the_policy(self) -> None:
        self.send_patch('1', {'policy': 'gold'})

        answer = self.send_patch('1', {'rdt': {'cache': {'max': 1, 'min': 1}}})

        self.assertNotIn('policy', answer.json())

    def test_cores_alone_never_work(self) -> None:
        self.assert_text(
            500,
            'Failed to validate workload. Details: No RDT/Plugins params in '
            'workload\n',
            self.send_patch('1', {'core_ids': ['5']}),
        )
        self.assert_text(
            500,
            _EXISTS,
            self.send_patch(
                '1',
                {
                    'core_ids': ['5'],
                    'rdt': {'cache': {'max': 2, 'min': 2}},
                },
            ),
        )

    def test_cores_beside_new_ways_are_not_checked(self) -> None:
        self.post_ways('5', 1, 1)

        answer = self.send_patch(
            '1', {'core_ids': ['5'], 'rdt': {'cache': {'max': 1, 'min': 1}}}
        )

        self.assertEqual(200, answer.status_code)
        self.assertEqual(['5'], answer.json()['core_ids'])

    def test_no_body_counts_as_an_empty_one(self) -> None:
        for body in ('{}', '{', ''):
            with self.subTest(body=body):
                self.assert_text(
                    500,
                    'Failed to validate workload. Details: No task or core '
                    'id specified\n',
                    self.send_patch('1', body),
                )

    def test_what_identifies_it_is_ignored(self) -> None:
        answer = self.send_patch(
            '1',
            {
                'id': '7',
                'uuid': 'x',
                'origin': 'y',
                'rdt': {'cache': {'max': 1, 'min': 1}},
            },
        )

        self.assertEqual('1', answer.json()['id'])
        self.assertEqual(with_rmd.UUID, answer.json()['uuid'])
        self.assertEqual('REST', answer.json()['origin'])

    def test_bandwidth_is_checked_in_other_words(self) -> None:
        for mba, text in (
            ({'percentage': 0}, 'MBA values range only from 1 to 100'),
            ({'mbps': 5}, 'Please provide MBA in Percentage'),
        ):
            with self.subTest(mba=mba):
                self.assert_text(
                    500, text, self.send_patch('1', {'rdt': {'mba': mba}})
                )

        self.send_patch('1', {'rdt': {'mba': {'percentage': 30}}})
        self.assertEqual(30, self.simulator.groups['COS3'].bandwidth[0])

    def test_plugins_that_are_left_out_are_dropped(self) -> None:
        self.send_patch('1', {'plugins': {'pstate': {'ratio': 2.5}}})
        self.assertEqual({'pstate': {'ratio': 2.5}}, self.get()['plugins'])

        answer = self.send_patch('1', {'rdt': {'cache': {'max': 1, 'min': 1}}})

        self.assertNotIn('plugins', answer.json())

    def test_a_failure_is_not_rolled_back(self) -> None:
        answer = self.send_patch('1', {'rdt': {'cache': {'max': 9, 'min': 9}}})

        self.assert_text(500, 'Not enough cache left on cache_id 0', answer)
        self.assertEqual('Successful', self.get()['status'])
        self.assertEqual('COS2', self.get()['cos_name'])
        self.assertEqual('0=7ff;1=7ff', self.schemata('COS2'))

    def test_the_stale_record_harms_the_next_owner(self) -> None:
        self.send_patch('1', {'rdt': {'cache': {'max': 9, 'min': 9}}})
        for core in range(2, 8):
            self.post_ways(str(core), 1, 1)
        names = [
            item['cos_name']
            for item in self.send('GET', '/v1/workloads').json()
        ]
        self.assertEqual(2, names.count('COS2'))

        self.delete('1')

        # The other one has lost its way, and its class is free for more.
        self.assertEqual('0=7ff;1=7ff', self.schemata('COS2'))
        self.assertEqual('COS2', self.post_ways('9', 1, 1).json()['cos_name'])

    def test_an_unknown_policy_is_found_out_too_late(self) -> None:
        answer = self.send_patch('1', {'policy': 'tin'})

        self.assert_text(
            500,
            'Could not find the Policy.. Details: Can not find specified '
            'policy tin\n',
            answer,
        )
        self.assertEqual('0=7ff;1=7ff', self.schemata('COS2'))

    def test_null_panics(self) -> None:
        self.assert_dropped('PATCH', '/v1/workloads/1', 'null')
