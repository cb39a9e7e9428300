# SPDX-License-Identifier: Apache-2.0

"""The client against a simulator that fails in all ways."""

from concurrent import futures
import logging
import threading
import time
from typing import Any

import fixtures
import requests
from requests import adapters
import urllib3

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import verify
from nova_ext_resources import exception
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit.drivers.rmd.api import late
from tests.unit.drivers.rmd.api import with_simulator


class StalledAdapter(adapters.BaseAdapter):
    """Answers 200, with a body of which no byte comes in time."""

    def send(self, *_args: Any, **_kwargs: Any) -> requests.Response:
        response = requests.Response()
        response.status_code = 200
        response.raw = self
        return response

    def read1(self, _size: int) -> bytes:
        raise urllib3.exceptions.ReadTimeoutError(
            urllib3.HTTPConnectionPool('rmd'), '/', 'Read timed out.'
        )

    def close(self) -> None:
        """Nothing is open."""


#: Every call that reads, by name.
READS = ('list_caches', 'list_policies', 'get_mba', 'list_workloads')


class ReadingTest(with_simulator.RmdTestCase):
    def test_caches_come_with_cpus_ways_and_free_runs(self) -> None:
        caches = self.client.list_caches()

        self.assertEqual([0, 1], list(caches))
        self.assertEqual(11, caches[0].ways)
        self.assertEqual({*range(12, 24), *range(36, 48)}, caches[1].cpus)
        self.assertEqual(
            {
                'guaranteed': 0b0001111110,
                'besteffort': 0b1110000000,
                'shared': 1 << 10,
                'os': 1,
            },
            caches[0].free,
        )
        # Without CPUs of the OS group the pools begin at way 0.
        self.assertEqual(0b111111, caches[1].free['guaranteed'])

    def test_policies_and_bandwidth_are_read(self) -> None:
        policies = self.client.list_policies()
        mba = self.client.get_mba()

        self.assertEqual({'gold', 'silver', 'bronze'}, set(policies))
        self.assertEqual(
            (3, 1), (policies['silver'].max_ways, policies['silver'].min_ways)
        )
        self.assertEqual(values.MbaSupport(step=10, minimum=10), mba)

    def test_reads_are_repeated(self) -> None:
        for kind in ('drop', 'status'):
            with self.subTest(kind=kind):
                self.simulator.requests.clear()
                self.simulator.faults.add(
                    faults.Fault(kind=kind, when='after', count=2)
                )

                self.assertEqual((), self.client.list_workloads())

                self.assertEqual(3, len(self.simulator.requests))

    def test_reads_are_not_repeated_for_ever(self) -> None:
        client = self.make_client(retries=1)
        self.simulator.faults.add(faults.Fault(kind='drop', when='after'))

        self.assertRaises(errors.ConnectionDropped, client.list_workloads)

        self.assertEqual(2, len(self.simulator.requests))

    def test_a_hung_rmd_is_given_up_after_the_timeout(self) -> None:
        # It hangs until the simulator ends.
        client = self.make_client(timeout=0.2)
        self.simulator.faults.add(faults.Fault(kind='hang'))

        err = self.assertRaises(errors.RmdTimeout, client.list_caches)

        self.assertIsInstance(err, exception.Retriable)
        self.assertIn('does not respond', str(err))
        self.assertIn(self.fixture.url, str(err))

    def test_an_answer_that_does_not_end_is_cut_off(self) -> None:
        client = self.make_client(timeout=0.3)
        self.simulator.faults.add(faults.Fault(kind='garbage', body='endless'))

        self.assertRaises(errors.RmdTimeout, client.list_caches)

    def test_an_answer_that_breaks_off_is_a_dropped_connection(self) -> None:
        client = self.make_client(retries=0)
        self.simulator.faults.add(faults.Fault(kind='garbage', body='broken'))

        err = self.assertRaises(errors.ConnectionDropped, client.list_caches)

        self.assertIn('broke off', str(err))
        self.assertTrue(err.was_sent)

    def test_an_answer_that_stops_half_way_is_a_timeout(self) -> None:
        client = self.make_client(retries=0)
        client._transport.session.mount('http://', StalledAdapter())

        err = self.assertRaises(errors.RmdTimeout, client.list_caches)

        self.assertTrue(err.was_sent)

    def test_an_answer_in_chunks_is_read(self) -> None:
        fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(sockets=16, cpus=64)
        )
        client = self.make_client(fixture.url)

        self.assertEqual(list(range(16)), list(client.list_caches()))

    def test_a_slow_rmd_is_waited_for(self) -> None:
        self.simulator.faults.add(faults.Fault(kind='slow', seconds=0.1))

        self.assertEqual(2, len(self.client.list_caches()))

    def test_garbage_is_named_as_such(self) -> None:
        for body in ('html', 'json', 'cut', 'binary', 'no-http'):
            for read in READS:
                if body == 'json' and read == 'list_policies':
                    continue  # looks like policies without ways
                with self.subTest(body=body, read=read):
                    self.simulator.faults.clear()
                    self.simulator.faults.add(
                        faults.Fault(kind='garbage', body=body)
                    )

                    err = self.assertRaises(
                        errors.MalformedResponse, getattr(self.client, read)
                    )

                    self.assertIn(self.fixture.url, str(err))
                    self.assertLess(len(str(err)), 700)

    def test_an_rmd_that_is_gone_is_named(self) -> None:
        client = self.make_client(retries=0)
        self.simulator.refuse_connections()

        err = self.assertRaises(errors.RmdUnavailable, client.list_caches)
        self.simulator.accept_connections()

        self.assertIn('Start RMD', str(err))
        self.assertEqual(2, len(client.list_caches()))

    def test_the_web_server_of_somebody_else_is_named(self) -> None:
        self.simulator.faults.add(
            faults.Fault(kind='status', status=404, body='not found')
        )

        err = self.assertRaises(
            errors.MalformedResponse, self.client.list_caches
        )

        self.assertIn('no other server', str(err))

    def test_a_proxy_of_the_environment_is_not_used(self) -> None:
        for name, value in (
            ('http_proxy', 'http://127.0.0.1:1'),
            ('no_proxy', None),
            ('NO_PROXY', None),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))

        self.assertEqual(2, len(self.client.list_caches()))

    def test_redirects_are_not_followed(self) -> None:
        self.simulator.faults.add(
            faults.Fault(kind='status', status=302, body='elsewhere')
        )

        self.assertRaises(errors.MalformedResponse, self.client.list_caches)

        self.assertEqual([], self.simulator.requests)


class WritingTest(with_simulator.RmdTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.uuid = with_simulator.make_uuid()

    def create(self) -> object:
        return self.client.create_workload(
            with_simulator.make_request(self.uuid, 1, 2)
        )

    def spoil(self, kind: faults.Kind, **fields: object) -> None:
        fields.setdefault('count', 1)
        self.simulator.faults.add(faults.from_dict({'kind': kind, **fields}))

    def test_a_post_that_was_done_is_not_repeated(self) -> None:
        for kind in ('drop', 'garbage', 'status'):
            with self.subTest(kind=kind):
                self.simulator.requests.clear()
                self.spoil(kind, when='after', methods=['POST'])

                workload = self.create()

                self.assertEqual(['POST'], self.changes())
                self.assertEqual(
                    self.client.find_workload(self.uuid), workload
                )
                self.client.delete_workload(self.uuid)

    def test_a_post_that_was_not_done_is_not_repeated_either(self) -> None:
        self.spoil('drop', methods=['POST'])

        self.assertRaises(errors.ConnectionDropped, self.create)

        self.assertEqual([], self.changes())
        self.assertIsNone(self.client.find_workload(self.uuid))

    def test_a_post_to_a_hung_rmd_says_what_is_known(self) -> None:
        impatient = late.LateRequests(self.client, count=1)

        self.assertRaises(errors.RmdTimeout, self.create)

        self.assertTrue(self.client.may_change(self.uuid))
        impatient.arrive()
        self.client.delete_workload(self.uuid)
        self.assertFalse(self.client.may_change(self.uuid))
        self.assertEqual((), self.client.list_workloads())

    def test_a_timeout_begins_when_the_workload_was_absent(self) -> None:
        impatient = late.LateRequests(self.client, count=1)
        self.assertRaises(errors.RmdTimeout, self.create)
        self.assertRaises(
            errors.OutcomeUnknown, self.client.delete_workload, self.uuid
        )

        impatient.pass_timeout()

        self.client.delete_workload(self.uuid)

    def test_one_reading_after_the_timeout_is_enough(self) -> None:
        impatient = late.LateRequests(self.client, count=1)
        self.assertRaises(errors.RmdTimeout, self.create)

        impatient.pass_timeout()

        self.client.delete_workload(self.uuid)

    def test_what_rmd_would_mishandle_is_not_sent(self) -> None:
        for ways, word in (
            ({'ways': 12}, '12 ways are requested, but a cache has 11'),
            ({'max_ways': 1, 'min_ways': 2}, 'max not below min'),
            ({'max_ways': 2, 'min_ways': 0}, 'both must be at least 1'),
        ):
            with self.subTest(ways=ways):
                err = self.assertRaises(
                    errors.InvalidWorkload,
                    self.client.create_workload,
                    with_simulator.make_request(self.uuid, 1, **ways),
                )

                self.assertIn(word, str(err))
        self.assertEqual([], self.changes())

    def test_a_record_with_an_id_unsafe_in_a_path_is_left(self) -> None:
        self.simulator.add_workload(
            {
                'id': '../policy',
                'core_ids': ['1'],
                'policy': 'gold',
                'uuid': self.uuid,
            }
        )

        err = self.assertRaises(
            errors.InvalidWorkload, self.client.delete_workload, self.uuid
        )

        self.assertIn('by hand', str(err))

    def test_a_post_to_a_hung_rmd_that_did_it_succeeds(self) -> None:
        impatient = late.LateRequests(self.client, count=1)
        self.interrupt('find_workload', impatient.arrive)

        self.assertEqual(self.create(), self.client.find_workload(self.uuid))

        self.assertFalse(self.client.may_change(self.uuid))

    def test_a_body_that_breaks_off_does_not_repeat_the_post(self) -> None:
        self.spoil('garbage', body='broken', when='after', methods=['POST'])

        self.assertEqual(self.create(), self.client.find_workload(self.uuid))

        self.assertEqual(['POST'], self.changes())

    def test_what_cannot_be_looked_up_is_unknown(self) -> None:
        self.client = self.make_client(retries=0)
        self.client.list_caches()
        self.spoil('drop', when='after', methods=['POST'])
        self.spoil('drop', methods=['GET'])

        err = self.assertRaises(errors.OutcomeUnknown, self.create)

        self.assertEqual(self.uuid, err.uuid)
        self.assertIn('Delete the workload', str(err))

    def test_nothing_is_unknown_when_nothing_was_sent(self) -> None:
        self.client.list_caches()
        self.simulator.refuse_connections()

        err = self.assertRaises(errors.RmdUnavailable, self.create)

        self.assertFalse(err.was_sent)

    def test_another_workload_in_its_place_is_not_taken_for_it(self) -> None:
        self.client.create_workload(with_simulator.make_request(self.uuid, 3))
        self.spoil('drop', methods=['POST'])

        err = self.assertRaises(errors.WorkloadExists, self.create)

        self.assertEqual(self.uuid, err.workload_id)

    def test_a_delete_that_was_done_is_a_success(self) -> None:
        self.create()
        self.spoil('drop', when='after', methods=['DELETE'])

        self.client.delete_workload(self.uuid)

        self.assertEqual(['POST', 'DELETE'], self.changes())

    def test_a_delete_that_was_not_done_fails(self) -> None:
        self.create()
        self.spoil('drop', methods=['DELETE'])

        self.assertRaises(
            errors.ConnectionDropped, self.client.delete_workload, self.uuid
        )

        self.assertIsNotNone(self.client.find_workload(self.uuid))

    def test_ways_that_cannot_be_seen_are_given_back(self) -> None:
        self.client = self.make_client(retries=0)
        self.client.list_caches()
        self.spoil('slow', seconds=0.0, methods=['GET'])  # the look before
        self.spoil('garbage', methods=['GET'])

        self.assertRaises(
            errors.MalformedResponse,
            verify.place_workload,
            self.client,
            with_simulator.make_request(self.uuid, 1),
        )

        self.assertEqual((), self.client.list_workloads())

    def test_foreign_use_of_ways_is_a_lack_of_ways(self) -> None:
        self.simulator.add_foreign_group('qemu', {0: 0b0111110})

        err = self.assertRaises(errors.NotEnoughCache, self.create)

        self.assertIn('cache_id 0', str(err))
        self.assertEqual(
            0b1000000, self.client.list_caches()[0].free['guaranteed']
        )

    def test_cores_of_two_caches_get_ways_of_both(self) -> None:
        masks = verify.place_workload(
            self.client, with_simulator.make_request(self.uuid, 1, 13)
        )

        self.assertEqual({0: 0b1100000, 1: 0b110000}, masks)
        self.assertEqual(masks, self.simulator.ways_of(self.uuid))

    def test_best_effort_gets_what_is_there(self) -> None:
        self.simulator.add_foreign_group('other', {0: 0b1000000000})

        masks = verify.place_workload(
            self.client,
            with_simulator.make_request(self.uuid, 1, max_ways=3, min_ways=1),
        )

        self.assertEqual({0: 0b0110000000}, masks)

    def test_the_lock_is_held_while_rmd_works(self) -> None:
        self.client.list_caches()
        thread = threading.Thread(target=self.create)
        with self.simulator.daemon.locked():
            thread.start()
            while thread.is_alive() and not self.changes():
                time.sleep(0.01)
            is_written = self.is_written()
        thread.join()

        self.assertTrue(is_written)
        self.assertFalse(self.is_written())

    def test_the_lock_is_held_from_the_first_reading_to_the_last(
        self,
    ) -> None:
        held: list[bool] = []
        with futures.ThreadPoolExecutor(1) as pool:
            # In a thread of its own: ours may take the lock again.
            self.interrupt(
                'list_caches',
                lambda: held.append(pool.submit(self.is_written).result()),
            )
            verify.place_workload(
                self.client, with_simulator.make_request(self.uuid, 1)
            )

        # Before, for the check of the CPUs, and after.
        self.assertEqual([True] * len(held), held)
        self.assertGreaterEqual(len(held), 2)


class OptionsTest(with_simulator.RmdTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))

    def test_http_to_another_host_is_warned_of_once(self) -> None:
        for _ in range(2):
            self.make_client('http://192.0.2.1:8081')

        self.assertEqual(1, self.log.output.count('plain http'))

    def test_a_password_over_http_to_another_host_is_refused(self) -> None:
        err = self.assertRaises(
            exception.InvalidConfiguration,
            self.make_client,
            'http://192.0.2.1:8081',
            username='nova',
            password='s3cret',
        )

        self.assertIn('https', str(err))
        self.assertNotIn('s3cret', str(err))

    def test_a_url_with_a_path_or_credentials_is_refused(self) -> None:
        for url in (
            'localhost:8081',
            'http://user:pw@localhost:8081',
            'http://localhost:8081/v1',
            'ftp://localhost',
        ):
            with self.subTest(url=url):
                self.assertRaises(
                    exception.InvalidConfiguration, self.make_client, url
                )

    def test_files_that_cannot_be_read_are_named(self) -> None:
        for option in ('ca_file', 'cert_file'):
            with self.subTest(option=option):
                err = self.assertRaises(
                    exception.InvalidConfiguration,
                    self.make_client,
                    'https://127.0.0.1:8443',
                    **{option: '/nowhere/at.all'},
                )

                self.assertIn(option, str(err))
                self.assertIn('/nowhere/at.all', str(err))
                self.conf.clear_override(option, 'ext_resources_rmd')

    def test_no_mba_mode_means_no_limits(self) -> None:
        self.assertIsNone(self.make_client(mba_mode='none').mba_mode)

    def test_passwords_are_in_no_log(self) -> None:
        client = self.make_client(username='admin', password='s3cret')

        client.list_workloads()
        self.conf.log_opt_values(logging.getLogger(__name__), 10)

        self.assertIn('GET /v1/workloads', self.log.output)
        self.assertIn('ext_resources_rmd.password', self.log.output)
        self.assertNotIn('s3cret', self.log.output)
        self.assertNotIn('YWRtaW46', self.log.output)
