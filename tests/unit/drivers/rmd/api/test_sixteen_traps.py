# SPDX-License-Identifier: Apache-2.0

"""RMD v0.3.1 has sixteen traps for its clients: one test or more each.

Each test lets the simulator show that the trap is there, or names what
keeps the client out of it.

==  ==================================  =====================================
 #  Where it is handled                 Tests, here or where they say
==  ==================================  =====================================
 1  response                            trap_01_*, test_errors
 2  transport                           trap_02_*
 3  request                             trap_03_*, PluginTest of the enforcer
 4  request                             trap_04_*
 5  request                             trap_05_*
 6  writer_lock                         trap_06_*
 7  verify                              trap_07_*, test_verify
 8  verify                              trap_08_*, MixedUpTest and
                                        MixedUpSharedTest of the enforcer
 9  client (no PATCH)                   trap_09_*
10  response, client                    trap_10_*
11  request                             trap_11_*
12  inventory, response                 trap_12_*, test_inventory
13  workload, request                   trap_13_*, BandwidthTest and MbpsTest
                                        of the enforcer
14  request (no tasks)                  trap_14_*
15  shared_pool, the host's repair      trap_15_*, SharedTest of the
                                        enforcer, host.test_with_rmd
16  verify                              trap_16_*
==  ==================================  =====================================
"""

import concurrent.futures
import json
import os

import requests

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import verify
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import classes
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit.drivers.rmd.api import with_simulator

HALF = values.MbaLimit(unit='percentage', value=50)


class SixteenTrapsTest(with_simulator.RmdTestCase):
    SETTINGS = {'plugins': ('pstate',)}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.uuid = with_simulator.make_uuid()

    def post(self, **body: object) -> requests.Response:
        """Send what the client would not."""
        return requests.post(
            f'{self.fixture.url}/v1/workloads', json=body, timeout=60
        )

    def get_records(self) -> list[dict[str, object]]:
        answer = requests.get(f'{self.fixture.url}/v1/workloads', timeout=60)
        records: list[dict[str, object]] = answer.json()
        return records

    def create(self, uuid: str, *core_ids: int, ways: int = 1) -> None:
        self.client.create_workload(
            with_simulator.make_request(uuid, *core_ids, ways=ways)
        )

    def test_trap_01_errors_are_told_apart_by_their_text(self) -> None:
        self.create(self.uuid, 1)

        other = with_simulator.make_uuid()
        self.assertRaises(errors.WorkloadExists, self.create, self.uuid, 2)
        in_use = self.assertRaises(errors.CpusInUse, self.create, other, 1)
        too_much = self.assertRaises(
            errors.NotEnoughCache, self.create, other, 2, ways=7
        )

        self.assertEqual(400, in_use.status)
        self.assertIn('CPU list [1]', str(in_use))
        # Both would be 400 if RMD did what it means to.
        self.assertEqual(500, too_much.status)
        self.assertIn('cache_id 0', str(too_much))

    def test_trap_01_an_empty_error_is_told_by_what_was_asked(self) -> None:
        self.useFixture(
            fixture := rmd_simulator.RmdSimulatorFixture(policy_file='yaml')
        )
        client = self.make_client(fixture.url)

        err = self.assertRaises(errors.CachesUnreadable, client.list_caches)

        self.assertEqual(400, err.status)
        self.assertIn('policy file', str(err))

    def test_trap_02_a_post_without_content_type_is_refused(self) -> None:
        answer = requests.post(
            f'{self.fixture.url}/v1/workloads', data='{}', timeout=60
        )
        self.assertEqual(415, answer.status_code)

        self.create(self.uuid, 1)

    def test_trap_03_ids_are_strings_and_amounts_are_integers(self) -> None:
        refused = self.post(core_ids=[1], rdt={'cache': {'max': 1, 'min': 1}})
        self.assertIn('Failed to read request', refused.text)

        body = with_simulator.make_request(self.uuid, 2, 1, mba=HALF).to_body()

        self.assertEqual(
            {
                'id': self.uuid,
                'uuid': self.uuid,
                'core_ids': ['1', '2'],
                'rdt': {
                    'cache': {'max': 2, 'min': 2},
                    'mba': {'percentage': 50},
                },
            },
            body,
        )

    def test_trap_03_plugins_get_floats(self) -> None:
        refused = self.post(core_ids=['1'], plugins={'pstate': {'ratio': 3}})
        self.assertIn('Invalid type', refused.text)

        self.client.create_workload(
            with_simulator.make_request(
                self.uuid,
                1,
                plugins={'pstate': {'ratio': 3, 'monitoring': 'on'}},
            )
        )

        # What comes back must not be sent again.
        found = self.client.find_workload(self.uuid)
        assert found is not None
        self.assertEqual('3', json.dumps(found.plugins['pstate']['ratio']))

    def test_trap_04_every_core_is_a_string_of_its_own(self) -> None:
        self.post(
            id='x', core_ids=['4-6'], rdt={'cache': {'max': 1, 'min': 1}}
        )
        requests.delete(f'{self.fixture.url}/v1/workloads/x', timeout=60)
        self.assertEqual({4, 5, 6}, self.simulator.groups['COS2'].cpus)

        self.create(self.uuid, 7, 8, 9)
        self.client.delete_workload(self.uuid)

        self.assertEqual(set(), self.simulator.groups['COS3'].cpus)

    def test_trap_05_impossible_cores_are_not_sent(self) -> None:
        for core in (200, 64, 50, -1, True, 'eight'):
            with self.subTest(core=core):
                self.assertRaises(
                    errors.InvalidWorkload, self.create, self.uuid, core
                )

        self.assertEqual([], self.changes())
        # What RMD does with two of them.
        self.assertRaises(
            requests.ConnectionError,
            self.post,
            core_ids=['200'],
            rdt={'cache': {'max': 1, 'min': 1}},
        )
        accepted = self.post(
            core_ids=['50'], rdt={'cache': {'max': 1, 'min': 1}}
        )
        self.assertEqual(201, accepted.status_code)

    def test_trap_06_writes_go_one_after_the_other(self) -> None:
        self.useFixture(
            fixture := rmd_simulator.RmdSimulatorFixture(has_races=True)
        )
        # Two clients of one process, as inventory and enforcer have.
        clients = [
            self.make_client(fixture.url),
            self.make_client(fixture.url.replace('127.0.0.1', 'localhost')),
        ]
        limits = {0: 20, 1: 80}
        uuids = [with_simulator.make_uuid() for _ in clients]

        def create(index: int) -> None:
            limit = values.MbaLimit(unit='percentage', value=limits[index])
            clients[index].create_workload(
                with_simulator.make_request(uuids[index], index + 1, mba=limit)
            )

        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(create, (0, 1)))

        for index, uuid in enumerate(uuids):
            group = fixture.simulator.group_of(uuid)
            self.assertEqual(limits[index], group.bandwidth[0])

    def test_trap_06_parallel_writes_would_mix(self) -> None:
        self.useFixture(
            fixture := rmd_simulator.RmdSimulatorFixture(has_races=True)
        )

        def create(uuid: str) -> int:
            return requests.post(
                f'{fixture.url}/v1/workloads',
                json={'core_ids': ['1'], 'uuid': uuid, 'policy': 'gold'},
                timeout=60,
            ).status_code

        def race(number: int) -> list[int]:
            uuid = f'server-{number}'
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                statuses = sorted(pool.map(create, (uuid, uuid)))
            url = f'{fixture.url}/v1/workloads'
            for workload in requests.get(url, timeout=60).json():
                requests.delete(f'{url}/{workload["id"]}', timeout=60)
            return statuses

        # On a busy machine two requests may well come one after the other.
        found = next(
            (s for s in map(race, range(50)) if s != [201, 400]), None
        )

        # The second one fits no more; it was not refused for its core.
        self.assertEqual([201, 500], found)

    def test_trap_07_a_lie_is_found_out_and_taken_back(self) -> None:
        self.fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(sockets=1, cpus=24)
        )
        self.simulator = self.fixture.simulator
        self.client = self.make_client()
        self.simulator.lie()

        err = self.assertRaises(
            errors.NotEnforced,
            verify.place_workload,
            self.client,
            with_simulator.make_request(self.uuid, 1),
        )

        self.assertIn('cache 0 gave ways 0x0', str(err))
        self.assertIn('libpqos', str(err))
        self.assertEqual([], self.get_records())
        self.assertEqual(['POST', 'DELETE'], self.changes())

    def test_trap_07_a_workload_without_a_class_is_taken_back(self) -> None:
        body = {
            'id': self.uuid,
            'status': 'Successful',
            'cos_name': '',
            'rdt': {'cache': {'max': 1, 'min': 1}, 'mba': {}},
            'uuid': self.uuid,
            'origin': 'REST',
        }
        self.simulator.faults.add(
            faults.Fault(
                kind='status',
                when='after',
                status=201,
                body=json.dumps(body),
                methods=('POST',),
            )
        )

        self.assertRaises(errors.NotEnforced, self.create, self.uuid, 1)

        self.assertEqual([], self.get_records())

    def test_trap_08_ways_on_the_wrong_cache_are_moved(self) -> None:
        for seed in range(6):
            with self.subTest(seed=seed):
                fixture = rmd_simulator.RmdSimulatorFixture(
                    has_cache_mixup=True, seed=seed
                )
                self.useFixture(fixture)
                client = self.make_client(fixture.url)

                placed = {}
                for core in (1, 13, 2, 14):
                    uuid = with_simulator.make_uuid()
                    placed[uuid] = verify.place_workload(
                        client, with_simulator.make_request(uuid, core)
                    )

                self.assertEqual(
                    [{0: 0x60}, {1: 0x30}, {0: 0x18}, {1: 0x0C}],
                    list(placed.values()),
                )
                for uuid, masks in placed.items():
                    truth = fixture.simulator.ways_of(uuid)
                    for cache_id, mask in truth.items():
                        self.assertEqual(masks.get(cache_id, 0x7FF), mask)

    def test_trap_08_a_mask_is_missed_where_its_ways_were_taken(self) -> None:
        for seed in range(6):
            with self.subTest(seed=seed):
                fixture = rmd_simulator.RmdSimulatorFixture(
                    has_cache_mixup=True, seed=seed
                )
                self.useFixture(fixture)
                fixture.simulator.add_foreign_group('db', {1: 0x7FE})
                client = self.make_client(fixture.url)

                placed = verify.place_workload(
                    client, with_simulator.make_request(self.uuid, 1)
                )

                self.assertEqual({0: 0x60}, placed)

    def test_trap_09_a_change_is_delete_and_post(self) -> None:
        self.create(self.uuid, 1, ways=2)

        self.client.delete_workload(self.uuid)
        masks = verify.place_workload(
            self.client, with_simulator.make_request(self.uuid, 1, 2, ways=3)
        )

        self.assertEqual(['POST', 'DELETE', 'POST'], self.changes())
        self.assertEqual({0: 0x70}, masks)

    def test_trap_10_deleting_what_is_gone_is_a_success(self) -> None:
        self.client.delete_workload(self.uuid)

        self.assertEqual(['DELETE'], self.changes())

    def test_trap_10_a_text_says_that_nothing_was_deleted(self) -> None:
        self.simulator.add_workload(
            {'id': self.uuid, 'core_ids': ['1'], 'policy': 'gold'}
        )

        err = self.assertRaises(
            errors.ForeignWorkload, self.client.delete_workload, self.uuid
        )

        self.assertIn('openstackenable', str(err))
        self.assertEqual(200, err.status)

    def test_trap_11_the_id_is_the_servers_uuid(self) -> None:
        self.create(self.uuid, 1)

        found = self.client.find_workload(self.uuid)

        assert found is not None
        self.assertEqual(self.uuid, found.workload_id)
        self.assertEqual(self.uuid, found.uuid)
        self.assertEqual('REST', self.get_records()[0]['origin'])

    def test_trap_11_a_decimal_id_is_never_chosen(self) -> None:
        for uuid in ('1', '12345678901234567890123456789012', '../mba', ''):
            with self.subTest(uuid=uuid):
                self.assertRaises(errors.InvalidWorkload, self.create, uuid, 1)
                self.assertRaises(
                    errors.InvalidWorkload, self.client.delete_workload, uuid
                )

        self.assertEqual([], self.changes())

    def test_trap_11_another_ones_record_of_the_server_is_found(
        self,
    ) -> None:
        self.post(core_ids=['1'], policy='gold', uuid=self.uuid)

        found = self.client.find_workload(self.uuid)
        assert found is not None
        self.client.delete_workload(self.uuid)

        self.assertEqual('1', found.workload_id)
        self.assertEqual([], self.get_records())

    def test_trap_12_classes_of_service_run_out(self) -> None:
        for core in range(1, 7):
            self.create(with_simulator.make_uuid(), core)

        err = self.assertRaises(errors.NoFreeClos, self.create, self.uuid, 12)

        self.assertEqual(self.client.num_closids - 2, 6)
        self.assertIn('delete a workload', str(err))
        # RMD's scores ignore it, so they are not used.
        answer = requests.post(
            f'{self.fixture.url}/v1/hospitality',
            json={'max_cache': 1, 'min_cache': 1},
            timeout=60,
        )
        self.assertEqual(100, answer.json()['score']['l3']['1'])

    def test_trap_12_an_infra_group_hides_the_ways(self) -> None:
        self.useFixture(
            fixture := rmd_simulator.RmdSimulatorFixture(
                infra_cpus='20-23',
                pools={'os': 1, 'guarantee': 6, 'infra': 10},
            )
        )
        client = self.make_client(fixture.url)
        # Its pages are the same of all caches, wherever it has CPUs.
        for core in (1, 13):
            err = self.assertRaises(
                errors.InfraGroupPresent,
                verify.place_workload,
                client,
                with_simulator.make_request(self.uuid, core),
            )

        self.assertIn('[InfraGroup] from rmd.toml', str(err))

    def test_trap_13_bandwidth_goes_with_guaranteed_ways(self) -> None:
        mbps = values.MbaLimit(unit='mbps', value=500)
        for limit, maximum, minimum in (
            (HALF, 3, 1),
            (mbps, 2, 2),
            (values.MbaLimit(unit='percentage', value=0), 2, 2),
            (values.MbaLimit(unit='percentage', value=101), 2, 2),
        ):
            with self.subTest(limit=limit, maximum=maximum):
                self.assertRaises(
                    errors.InvalidWorkload,
                    self.client.create_workload,
                    with_simulator.make_request(
                        self.uuid,
                        1,
                        max_ways=maximum,
                        min_ways=minimum,
                        mba=limit,
                    ),
                )
        self.assertEqual([], self.changes())

        self.client.create_workload(
            with_simulator.make_request(self.uuid, 1, mba=HALF)
        )

        group = self.simulator.group_of(self.uuid)
        self.assertEqual({0: 50, 1: 100}, group.bandwidth)

    def test_trap_13_a_wrong_mba_mode_is_named(self) -> None:
        client = self.make_client(mba_mode='mbps')

        err = self.assertRaises(
            errors.MbaRefused,
            client.create_workload,
            with_simulator.make_request(
                self.uuid, 1, mba=values.MbaLimit(unit='mbps', value=500)
            ),
        )

        self.assertIn('mba_mode', str(err))

    def test_trap_13_no_policy_is_ever_sent(self) -> None:
        # RMD enforces no bandwidth of a policy, nor beside one.
        self.post(
            core_ids=['1'],
            policy='gold',
            uuid=self.uuid,
            rdt={'mba': {'percentage': 50}},
        )

        group = self.simulator.group_of(self.uuid)
        self.assertEqual({0: 100, 1: 100}, group.bandwidth)
        body = with_simulator.make_request(self.uuid, 1).to_body()
        self.assertNotIn('policy', body)

    def test_trap_14_cores_are_left_out_beside_tasks(self) -> None:
        self.post(
            id=self.uuid,
            core_ids=['1'],
            task_ids=[str(os.getpid())],
            rdt={'cache': {'max': 1, 'min': 1}},
        )

        group = self.simulator.group_of(self.uuid)
        self.assertEqual(
            (set(), [str(os.getpid())]), (group.cpus, group.tasks)
        )
        # So no tasks are ever sent, and no workload without cores.
        body = with_simulator.make_request(self.uuid, 1).to_body()
        self.assertNotIn('task_ids', body)
        self.assertRaises(errors.InvalidWorkload, self.create, self.uuid)

    def test_trap_14_rmd_forgets_tasks_that_ended(self) -> None:
        self.post(
            id=self.uuid,
            task_ids=[str(os.getpid())],
            rdt={'cache': {'max': 1, 'min': 1}},
        )
        record = self.simulator.daemon.get_record(self.uuid)
        record.task_ids = ['4194305']  # above the kernel's largest pid
        self.simulator.daemon._records[self.uuid] = record
        self.simulator.daemon.forget_ended_tasks()

        self.client.delete_workload(self.uuid)

        self.assertIsNone(self.client.find_workload(self.uuid))

    def test_trap_15_shared_ways_are_not_offered(self) -> None:
        self.assertRaises(
            errors.InvalidWorkload, self.create, self.uuid, 1, ways=0
        )
        self.assertEqual([], self.changes())

    def test_trap_15_two_shared_workloads_keep_rmd_from_starting(
        self,
    ) -> None:
        for core in ('1', '2'):
            self.post(core_ids=[core], policy='bronze')

        err = self.assertRaises(classes.StartFailed, self.simulator.restart)

        self.assertIn('COS2 not found on available list', str(err))
        self.assertRaises(errors.RmdUnavailable, self.client.list_caches)

    def test_trap_15_workloads_survive_a_restart_but_not_a_reboot(
        self,
    ) -> None:
        self.create(self.uuid, 1, ways=2)

        self.simulator.restart()
        self.assertIsNotNone(self.client.find_workload(self.uuid))
        self.simulator.restart(keep_database=False)

        self.assertIsNone(self.client.find_workload(self.uuid))
        self.assertEqual(
            0b1111110, self.client.list_caches()[0].free['guaranteed']
        )

    def test_trap_16_ways_of_somebody_else_are_not_accepted(self) -> None:
        self.useFixture(
            fixture := rmd_simulator.RmdSimulatorFixture(has_shrink=True)
        )
        client = self.make_client(fixture.url)
        first = with_simulator.make_uuid()
        verify.place_workload(
            client,
            with_simulator.make_request(first, 1, max_ways=3, min_ways=1),
        )

        self.assertRaises(
            errors.NotEnforced,
            verify.place_workload,
            client,
            with_simulator.make_request(self.uuid, 2, max_ways=3, min_ways=1),
        )

        self.assertEqual([first], [w.uuid for w in client.list_workloads()])
