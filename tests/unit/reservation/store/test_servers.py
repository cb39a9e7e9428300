# SPDX-License-Identifier: Apache-2.0

"""Tests of the rows of planned servers."""

from nova_ext_resources.objects import assignment
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores


class ListProvidersTest(stores.StoreTestCase):
    """Two servers are planned on a host, on a device each."""

    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.admit(stores.make_admission(self.url), 'lease', hosts.span(5, 9))
        with self.database.transaction() as connection:
            servers.replace_servers(
                connection,
                'lease',
                servers.read_servers(connection, ['lease'], 0)['lease'],
                [self.make(key) for key in ('1', '2')],
                shards.Revisions(shards.read_revisions(connection)[0]),
            )

    def make(self, key: str) -> planned_server.PlannedServer:
        one = assignment.Assignment(
            rp_key='device',
            rp_uuid=f'device {key}',
            resource_class='CUSTOM_FPGA',
            amount=1,
        )
        return planned_server.PlannedServer(
            key=key, host='a', during=hosts.span(5, 9), assignments=(one,)
        )

    def list_providers(self) -> list[tuple[str, str, frozenset[str]]]:
        with self.database.transaction() as connection:
            return servers.list_providers(connection, 0)

    def test_those_of_all_servers_count(self) -> None:
        both = frozenset({'device 1', 'device 2'})

        self.assertEqual([('lease', 'a', both)], self.list_providers())

    def test_those_of_a_server_that_is_there_do_not(self) -> None:
        slots.take(self.database, 'lease', 'x', lambda held: held[0], now=0)

        self.assertEqual(
            [('lease', 'a', frozenset({'device 2'}))], self.list_providers()
        )
