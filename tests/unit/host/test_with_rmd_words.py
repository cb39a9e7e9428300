# SPDX-License-Identifier: Apache-2.0

"""What an operator reads when RMD refuses: host, resource, reason, remedy."""

from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources import exception
from nova_ext_resources.objects import requirements
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit.host import with_host

SERVER = uuidsentinel.server
OTHERS = [f'00000000-0000-4000-8000-{number:012}' for number in range(6)]

#: Makes a terminal forget the line above.
FORGED = '\x1b[1A\x1b[2KAll is well\u202e'


class WordsTestCase(with_host.RmdHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_rmd_host(shared_servers=2)

    def refuse(
        self, error: type[exception.ExtResourcesError], *words: str
    ) -> str:
        err = self.assertRaises(error, self.start, self.host, SERVER, 2)
        for word in ('host1', SERVER, *words):
            self.assertIn(word, str(err))
        return str(err)


class EscapedTest(WordsTestCase):
    def answer(self, body: str, status: int, **fields: Any) -> None:
        self.simulator.faults.add(
            faults.Fault(kind='status', status=status, body=body, **fields)
        )

    def assert_escaped(self, text: str) -> None:
        for written in (text, self.log.output):
            self.assertNotIn('\x1b', written)
            self.assertNotIn('\u202e', written)
        self.assertIn('\\x1b[1A\\x1b[2KAll is well\\u202e', text)

    def test_errors_of_a_start(self) -> None:
        for status, body in (
            (500, FORGED),
            (400, f'Failed to validate workload. Reason: {FORGED}'),
            (403, f'User "{FORGED}" is not authorized'),
            (400, f'Workload with id {FORGED.split()[0]} already exists'),
        ):
            with self.subTest(body=body):
                self.simulator.faults.clear()
                self.answer(body, status, methods=('POST',))

                text = self.refuse(exception.EnforcementFailed)

                self.assertNotIn('\x1b', text + self.log.output)
                self.assertIn('\\x1b', text)

    def test_errors_of_a_discovery_and_an_audit(self) -> None:
        self.answer(FORGED, 500)

        self.host.refresh()
        self.host.heal()

        self.assert_escaped(' '.join(map(str, self.host.problems)))
        self.assertIn('\\x1b', self.log.output)

    def test_names_in_records(self) -> None:
        self.answer(
            '[{"id":"\\u001b[2K","cos_name":"\\u001b[2K","uuid":"\\u001b",'
            '"rdt":{"cache":{"max":0,"min":0}},"core_ids":["9"]}]',
            200,
            path='/v1/workloads',
        )
        # It is where the one workload of the shared pool would be.
        err = self.assertRaises(
            exception.ExtResourcesError,
            self.start,
            self.host,
            SERVER,
            allocations={with_host.DOMAINS[0]: {classes.SHARED: 1}},
            requirement=requirements.Requirement(),
        )

        self.assertNotIn('\x1b', str(err) + self.log.output)
        self.assertIn('\\x1b[2K', str(err))


class ReaderTest(WordsTestCase):
    """Trap 22: the credentials are for reading only."""

    def test_a_server_is_refused_and_needs_no_release(self) -> None:
        self.simulator.faults.add(
            faults.Fault(
                kind='status',
                status=403,
                body='User "nova" is not authorized to access this resource\n',
                methods=('POST', 'DELETE'),
            )
        )

        text = self.refuse(
            exception.EnforcementFailed,
            'rmd',
            self.fixture.url,
            'User "nova" is not authorized',
            'policy.csv',
        )

        self.assertIn('Add a line for this identity', text)
        self.assertEqual({}, self.read_rows())


class NoClassTest(WordsTestCase):
    """Trap 23: the pool has room, and no class of service is left for it."""

    def start_in_pool(self) -> str:
        err = self.assertRaises(
            exception.CapacityExceeded,
            self.start,
            self.host,
            SERVER,
            cpus=frozenset({9}),
            allocations={with_host.DOMAINS[0]: {classes.SHARED: 1}},
            requirement=requirements.Requirement(),
        )
        return str(err)

    def fill(self) -> None:
        for number, uuid in enumerate(OTHERS):
            domain = number % 2
            cpu = 1 + number + 12 * domain
            self.start(
                self.host, uuid, 2, domain=domain, cpus=frozenset({cpu})
            )

    def test_no_place_is_offered_and_the_log_says_why(self) -> None:
        self.fill()
        self.host.refresh()

        text = self.start_in_pool()

        for words in ('host1', SERVER, classes.SHARED, '0 available'):
            self.assertIn(words, text)
        for words in ('host1', 'no class of service left', 'delete a server'):
            self.assertIn(words, self.log.output)
        self.assertEqual(set(OTHERS), set(self.read_rows()))

    def test_where_the_host_has_not_looked_since_it_is_refused_too(
        self,
    ) -> None:
        self.fill()

        text = self.start_in_pool()

        for words in ('host1', SERVER, classes.SHARED, 'No free CLOS left'):
            self.assertIn(words, text)
        self.assertIn('delete a workload', text)
        self.assertEqual(set(OTHERS), set(self.read_rows()))
