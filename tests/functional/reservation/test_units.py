# SPDX-License-Identifier: Apache-2.0

"""Reservations of units that a host publishes, with a real placement."""

import dataclasses
from typing import Any

from oslo_config import cfg
from oslo_utils import fixture as utils_fixture
from oslo_utils.fixture import uuidsentinel as uuids
from oslo_utils import timeutils

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.conf import reservation
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import slots
from tests.functional import base
from tests.unit import builders
from tests.unit.reservation.store import migrated

WAYS, CLOS = builders.WAYS, builders.CLOS

TRACKERS = builders.make_trackers()

_CONF = """
[DEFAULT]
state_path = {folder}
[placement]
auth_type = admin_token
token = admin
endpoint = {endpoint}
"""


class UnitsTest(base.PlacementTestCase):
    """A host of one cache: of eight ways a server has the fourth and fifth.

    :ivar view: what the host publishes
    :ivar entries: what its servers hold
    """

    def setUp(self) -> None:
        super().setUp()
        for name in (WAYS, CLOS):
            self.client.ensure_resource_class(name)
        self.make_root(uuids.root, 'host')
        self.client.ensure_provider(uuids.rdt, 'host_RDT', uuids.root)
        self.client.ensure_provider(uuids.l3, 'host_L3_0', uuids.rdt)
        self.view = host_view.HostView(
            tracked={
                (uuids.l3, WAYS): host_view.Tracked(
                    tracker='cache_ways',
                    state=cache_ways.CacheWaysState(0xFF),
                    implied=(uuids.rdt, CLOS),
                    cpus='0-7',
                    follows_tasks=True,
                ),
                (uuids.rdt, CLOS): builders.make_count(4),
            }
        )
        self.entries: list[assignment.Entry] = []
        self.take(uuids.server, 0b00011000)
        path = self.make_folder()
        conf_path = f'{path}/nova.conf'
        with open(conf_path, 'w', encoding='utf-8') as file:
            file.write(_CONF.format(folder=path, endpoint=self.endpoint))
        self.conf = cfg.ConfigOpts()
        self.conf(['--config-file', conf_path], project='nova')
        self.database = loading.open_database(
            reservation.find_connection(self.conf)
        )
        migrated.make_tables(self.database)
        self.useFixture(utils_fixture.TimeFixture())

    def take(self, consumer: str, mask: int) -> None:
        """Let a server have ways, in placement and on the host."""
        count = mask.bit_count()
        units = {'mask': f'{mask:x}'}
        for place, amount, taken in (
            ((uuids.l3, WAYS), count, units),
            ((uuids.rdt, CLOS), 1, {}),
        ):
            tracked = self.view.tracked[place]
            state, _ = TRACKERS[tracked.tracker].allocate(
                tracked.state, amount, taken
            )
            self.view = self.view.with_state(place, state)
        made = {
            'rp_uuid': uuids.l3,
            'resource_class': WAYS,
            'amount': count,
            'units': units,
        }
        implied = {
            'rp_uuid': uuids.rdt,
            'resource_class': CLOS,
            'amount': 1,
            'units': {},
            'is_allocated': False,
        }
        self.entries.append(
            assignment.Entry(
                consumer_uuid=consumer,
                assignments=tuple(
                    builders.make_assignment(**one) for one in (made, implied)
                ),
            )
        )
        self.set_inventories(
            uuids.root, VCPU=class_inventory.Inventory(total=8)
        )
        self.set_inventories(
            uuids.rdt,
            **{
                CLOS: class_inventory.Inventory(
                    total=4, reserved=len(self.entries)
                )
            },
        )
        self.set_inventories(
            uuids.l3, **{WAYS: class_inventory.Inventory(total=8)}
        )
        self.allocate(consumer, {uuids.l3: {WAYS: count}})

    def set_inventories(
        self, rp_uuid: str, **inventories: class_inventory.Inventory
    ) -> None:
        generation = self.client.get_provider(rp_uuid).generation or 0
        self.client.set_inventories(rp_uuid, inventories, generation)

    def allocate(self, consumer: str, resources: Any) -> None:
        held = self.client.get_allocations(consumer)
        self.client.put_allocations(
            dataclasses.replace(
                held,
                resources=resources,
                project_id=uuids.project,
                user_id=uuids.user,
            )
        )

    def note(self, **changes: str) -> None:
        """Note what the host publishes, as nova-scheduler does."""
        told = publication.Publication(
            host='host',
            document=stats.encode(self.view),
            holders=holders.encode(self.entries, 60_000),
        )
        now = int(timeutils.utcnow_ts())
        self.assertTrue(publications.begin_round(self.database, now, 50))
        publications.write(
            self.database, [dataclasses.replace(told, **changes)]
        )
        publications.end_round(self.database, ['host'], now)

    def load(self) -> api.Reservations:
        """Read all hosts, as each command does."""
        found = loading.from_conf(self.conf)
        self.addCleanup(found.close)
        return found

    def create(self, name: str, ways: int, **fields: Any) -> Any:
        return self.load().create(
            {
                'name': name,
                'resources': {'VCPU': 1, WAYS: ways},
                'duration': '2h',
                **fields,
            }
        )

    def find_masks(self, name: str) -> list[str]:
        return [
            f'{int(one.units["mask"], 16):08b}'
            for server in self.load().get(name).servers
            for one in server.assignments
            if one.resource_class == WAYS
        ]

    def test_enough_ways_are_free_and_lie_apart(self) -> None:
        # By amounts, six are free.
        made = self.create('counted', 4, starts_at='+9h')
        self.assertEqual(1, len(made.servers))
        self.load().cancel('counted')
        self.note()

        err = self.assertRaises(
            exception.ReservationRefused,
            self.create,
            'lease',
            4,
            starts_at='+9h',
        )

        self.assertIn('4 requested, 3 available', str(err))
        self.assertIn('6 units are free, but not side by side', str(err))
        self.assertIn('host_L3_0', str(err))
        self.create('smaller', 3, servers=2)
        self.assertEqual(
            {'00000111', '11100000'}, {*self.find_masks('smaller')}
        )

    def test_each_server_needs_a_class_of_service(self) -> None:
        self.note()

        err = self.assertRaises(
            exception.ReservationRefused, self.create, 'lease', 1, servers=4
        )

        self.assertIn(CLOS, str(err))
        self.create('lease', 1, servers=3)

    def test_what_a_server_has_of_its_slot_counts_once(self) -> None:
        self.note()
        self.create('first', 3)
        now = int(timeutils.utcnow_ts())
        slots.take(
            self.database, 'first', uuids.mine, lambda held: held[0], now=now
        )
        # Not the ways of the plan: the others.
        [planned] = self.find_masks('first')
        self.take(uuids.mine, 0b11111111 ^ 0b00011000 ^ int(planned, 2))
        timeutils.advance_time_seconds(60)
        self.note()

        self.assertRaises(
            exception.ReservationRefused, self.create, 'lease', 4
        )
        self.create('second', 3)

        self.assertEqual([planned], self.find_masks('second'))
        during = self.load().get('second').during
        amounts = [
            (one.used, one.reserved, one.available)
            for one in self.load().list_amounts(during)
            if one.resource_class == WAYS
        ]
        # In the last minute, the first one is over.
        self.assertEqual([(2, 6, 0), (2, 3, 3)], amounts)

    def test_attributes_are_those_of_the_host(self) -> None:
        code = {f'resource:{WAYS}:code': '1'}
        self.assertRaises(
            exception.ReservationRefused,
            self.create,
            'lease',
            3,
            extra_specs=code,
        )
        self.note()

        made = self.create('lease', 3, extra_specs=code)

        self.assertEqual(1, self.find_units(made)['code'])

    def test_what_is_not_believed_is_counted(self) -> None:
        text = stats.encode(self.view)
        for changes in (
            {'document': text.replace('"v":1', '"v":2')},
            {'holders': ''},
            # A server has come, and the host has not said so yet.
            {'holders': holders.encode([], 60_000)},
        ):
            timeutils.advance_time_seconds(60)
            self.note(**changes)

            made = self.create('lease', 4, starts_at='+9h')

            self.assertEqual({}, self.find_units(made))
            self.load().cancel('lease')
            self.forget()

    def find_units(self, made: Any) -> dict[str, Any]:
        [units] = [
            one.units
            for one in made.servers[0].assignments
            if one.resource_class == WAYS
        ]
        return dict(units)

    def forget(self) -> None:
        """Let the name be used again."""
        purge.purge(self.database, int(timeutils.utcnow_ts()) + 1_000_000)

    def test_what_was_noted_long_ago_is_not_believed(self) -> None:
        self.note()
        timeutils.advance_time_seconds(publications.MAX_AGE_SECONDS + 1)

        made = self.create('lease', 4)

        self.assertEqual({}, self.find_units(made))
