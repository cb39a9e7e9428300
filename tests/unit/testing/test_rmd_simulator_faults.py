# SPDX-License-Identifier: Apache-2.0

"""The simulator fails when it is told to, and shows what is in force."""

import concurrent.futures
import json
import pathlib
import socket
import threading
import time
from urllib import parse

import requests

from nova_ext_resources.testing.rmd_simulator import classes
from nova_ext_resources.testing.rmd_simulator import faults
from nova_ext_resources.testing.rmd_simulator import simulator
from tests import base
from tests.unit.testing import with_rmd


class FaultTest(base.TestCase):
    def test_faults_are_used_up_in_turn(self) -> None:
        waiting = faults.Faults()
        waiting.add(faults.Fault(kind='drop', methods=('POST',), count=2))
        waiting.add(faults.Fault(kind='hang', path='/v1/cache'))

        self.assertIsNone(waiting.take('GET', '/v1/mba'))
        kinds = [
            fault.kind if fault else None
            for fault in (
                waiting.take('POST', '/v1/workloads'),
                waiting.take('POST', '/v1/workloads'),
                waiting.take('POST', '/v1/workloads'),
                waiting.take('GET', '/v1/cache/l3'),
                waiting.take('GET', '/v1/cache'),
            )
        ]

        self.assertEqual(['drop', 'drop', None, 'hang', 'hang'], kinds)

    def test_what_is_no_fault_is_refused(self) -> None:
        for data in (
            {},
            {'kind': 'explode'},
            {'kind': 'drop', 'when': 'never'},
            {'kind': 'drop', 'count': 0},
            {'kind': 'garbage', 'body': 'poem'},
            {'kind': 'drop', 'colour': 'blue'},
        ):
            with self.subTest(data=data):
                self.assertRaises(ValueError, faults.from_dict, data)


class ControlTest(with_rmd.SimulatorTestCase):
    def test_groups_show_what_is_in_force(self) -> None:
        self.post(core_ids=['1', '2'], policy='gold', uuid=with_rmd.UUID)

        groups = self.send('GET', '/-/groups').json()

        self.assertEqual(
            {
                'name': 'COS2',
                'is_foreign': False,
                'schemata': {
                    'L3': {'0': '078', '1': '7ff'},
                    'MB': {'0': 100, '1': 100},
                },
                'cpus': '1-2',
                'tasks': [],
                'workloads': [with_rmd.UUID],
            },
            groups[2],
        )

    def test_a_mount_empties_the_groups_and_rmd_knows_nothing(self) -> None:
        self.post(core_ids=['1', '2'], policy='gold', uuid=with_rmd.UUID)

        self.send('POST', '/-/remount')

        self.assertEqual('1-6', self.pools()['guaranteed'])
        self.assertEqual(set(range(48)), self.simulator.groups['.'].cpus)
        (record,) = self.send('GET', '/v1/workloads').json()
        self.assertEqual('Successful', record['status'])

    def test_foreign_groups_come_and_go(self) -> None:
        added = self.send(
            'POST',
            '/-/groups',
            {'name': 'qemu', 'ways': {'0': '1-2'}, 'cpus': '5'},
        )
        self.assertEqual(200, added.status_code)
        self.assertEqual('3-6', self.pools()['guaranteed'])

        self.send('DELETE', '/-/groups/qemu')

        self.assertEqual('1-6', self.pools()['guaranteed'])
        self.assertEqual(set(range(48)), self.simulator.groups['.'].cpus)

    def test_mistakes_are_answered_with_a_sentence(self) -> None:
        for method, path, body in (
            ('POST', '/-/groups', {'name': 'x', 'ways': {'7': '1'}}),
            ('POST', '/-/groups', {'name': 'x', 'ways': {'0': '40'}}),
            ('POST', '/-/groups', {'name': 'COS2', 'ways': {}}),
            ('POST', '/-/groups', {'ways': {}}),
            ('POST', '/-/groups', '[]'),
            ('DELETE', '/-/groups/COS2', None),
            ('POST', '/-/faults', {'kind': 'explode'}),
            ('POST', '/-/workloads', {}),
        ):
            with self.subTest(path=path, body=body):
                answer = self.send(method, path, body)

                self.assertEqual(400, answer.status_code)
                self.assertTrue(answer.text)
        self.assertEqual(404, self.send('GET', '/-/nonsense').status_code)

    def test_faults_are_set_and_cleared(self) -> None:
        self.send('POST', '/-/faults', {'kind': 'status', 'status': 503})
        self.send('POST', '/-/lie', {'lie': True})
        self.assertEqual(503, self.send('GET', '/v1/mba').status_code)
        self.assertEqual(
            'status', self.send('GET', '/-/faults').json()[0]['kind']
        )

        self.send('DELETE', '/-/faults')

        self.assertEqual(200, self.send('GET', '/v1/mba').status_code)
        self.assertFalse(self.simulator.daemon.enforcement.failing)

    def test_a_lie_leaves_the_groups_alone(self) -> None:
        self.send('POST', '/-/lie')

        answer = self.post(core_ids=['1'], policy='gold')

        self.assertEqual(201, answer.status_code)
        self.assertEqual('COS2', answer.json()['cos_name'])
        self.assertEqual('0=7ff;1=7ff', self.schemata('COS2'))

    def test_requests_are_remembered(self) -> None:
        self.send('GET', '/v1/mba')

        self.assertEqual(
            [['GET', '/v1/mba']], self.send('GET', '/-/requests').json()
        )

    def test_a_restart_over_http_keeps_the_address(self) -> None:
        self.post(core_ids=['1'], policy='gold')

        self.send('POST', '/-/restart', {'keep_database': False})

        deadline = time.monotonic() + 60
        listed = 'nothing'
        while listed != '[]' and time.monotonic() < deadline:
            time.sleep(0.02)
            try:
                listed = self.send('GET', '/v1/workloads').text
            except requests.ConnectionError:
                continue
        self.assertEqual('[]', listed)

    def test_the_nova_listener_can_be_played(self) -> None:
        self.send(
            'POST', '/-/workloads', {'core_ids': ['1'], 'policy': 'gold'}
        )

        listed = self.send('GET', '/v1/workloads').json()
        self.assertEqual('OPENSTACK', listed[0]['origin'])


class LifeTest(with_rmd.SimulatorTestCase):
    def test_a_restart_forgets_the_shared_class(self) -> None:
        first = self.post_ways('1', 0, 0).json()
        self.simulator.restart()

        second = self.post_ways('2', 0, 0).json()

        self.assertNotEqual(first['cos_name'], second['cos_name'])

    def test_a_restart_drops_records_of_plugins_alone(self) -> None:
        self.start(plugins=('pstate',))
        self.post(core_ids=['1'], plugins={'pstate': {'ratio': 1.5}})
        self.post(core_ids=['2'], policy='gold')

        self.simulator.restart()

        listed = self.send('GET', '/v1/workloads').json()
        self.assertEqual(['2'], [item['id'] for item in listed])
        self.assertEqual('3', self.post_ways('3', 1, 1).json()['id'])

    def test_two_records_of_one_class_keep_it_from_starting(self) -> None:
        self.post_ways('1', 0, 0)
        self.post_ways('2', 0, 0)

        err = self.assertRaises(classes.StartFailed, self.simulator.restart)

        self.assertEqual(
            'Problem with CLOS of workload from database: CLOS COS2 not '
            'found on available list',
            str(err),
        )

    def test_a_process_that_ends_leaves_its_database(self) -> None:
        path = f'{self.make_folder()}/rmd.json'
        self.start(database=path)
        self.post(core_ids=['1'], policy='gold', uuid=with_rmd.UUID)
        before = self.send('GET', '/v1/workloads').text
        self.simulator.stop()
        self.assertIn(with_rmd.UUID, pathlib.Path(path).read_text())

        self.start(database=path)

        self.assertEqual(before, self.send('GET', '/v1/workloads').text)
        self.assertEqual('0=078;1=7ff', self.schemata('COS2'))
        self.assertEqual(
            {0: 0x78, 1: 0x7FF}, self.simulator.ways_of(with_rmd.UUID)
        )

    def test_nothing_is_left_of_a_simulator_that_hangs(self) -> None:
        before = set(threading.enumerate())
        held = simulator.Simulator()
        held.start()
        held.faults.add(faults.Fault(kind='hang', count=1))
        address = parse.urlsplit(held.url)
        idle = socket.create_connection(
            (str(address.hostname), address.port or 0)
        )
        self.addCleanup(idle.close)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(requests.get, f'{held.url}/v1/mba')
            while held.faults.list_faults():
                time.sleep(0.01)
            held.stop()
            self.assertIsInstance(
                answer.exception(60), requests.ConnectionError
            )

        self.assertEqual(set(), set(threading.enumerate()) - before)

    def test_it_can_be_stopped_twice_and_never_started(self) -> None:
        held = simulator.Simulator()

        held.stop()
        held.stop()

    def test_the_port_is_the_same_after_being_away(self) -> None:
        self.simulator.refuse_connections()
        self.assertRaises(
            requests.ConnectionError, self.send, 'GET', '/v1/mba'
        )

        self.simulator.accept_connections()

        self.assertEqual(200, self.send('GET', '/v1/mba').status_code)

    def test_parallel_requests_are_all_counted(self) -> None:
        def create(core: int) -> str:
            answer = requests.post(
                f'{self.url}/v1/workloads',
                json={
                    'core_ids': [str(core)],
                    'rdt': {'cache': {'max': 1, 'min': 1}},
                },
                timeout=60,
            )
            return str(json.loads(answer.text)['cos_name'])

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            names = set(pool.map(create, range(1, 7)))

        self.assertEqual({f'COS{n}' for n in range(2, 8)}, names)
        self.assertEqual('', self.pools()['guaranteed'])
