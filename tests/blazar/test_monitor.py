# SPDX-License-Identifier: Apache-2.0

"""Leases and reservations are kept the same, and hosts are read anew."""

from typing import Any

from blazar.db import api as db_api
from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources.reservation.blazar import plugin
from nova_ext_resources.reservation.blazar import repair
from nova_ext_resources.reservation.blazar import rows
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge
from tests.blazar import base
from tests.unit.reservation import hosts
from tests.unit.reservation import sites


class HostsTest(base.BlazarTestCase):
    def test_a_host_that_is_new_is_used(self) -> None:
        self.make('first', 1, 2, amount=4)
        self.site.hosts = [*self.site.hosts, hosts.make_host('c')]
        refused = self.lease('second', 1, 2, amount=2)

        self.play_monitor()
        made = self.lease('second', 1, 2, amount=2)

        self.assertEqual((409, 201), (refused.status, made.status))

    def test_while_placement_is_away_the_hosts_known_before_do(self) -> None:
        self.make('first', 1, 2)

        def fail(*_args: object) -> Any:
            raise exception.PlacementUnavailable(action='list', detail='away')

        self.patch(self.site, 'list_hosts', fail)
        self.play_monitor()

        self.make('second', 1, 2)
        self.assertIn('Could not read the hosts again', self.log.output)

    def test_connections_are_closed(self) -> None:
        closed: list[object] = []
        close = databases.Database.close

        def note(one: databases.Database) -> None:
            closed.append(one)
            close(one)

        self.patch(databases.Database, 'close', note)
        for _poll in range(3):
            self.play_monitor()

        self.assertEqual(2, len(closed))


class OrphansTest(base.BlazarTestCase):
    """Reservations of leases that there are not any more."""

    def test_what_is_left_of_a_refused_lease_is_released(self) -> None:
        # Another plugin refuses its part: Blazar tells ours nothing.
        other = self.make('other', 3, 4)
        lease = self.make('night', 1, 2, amount=4)
        db_api.lease_destroy(lease['id'])

        self.play_monitor()

        self.assert_left(other)
        self.assertIn('gone', self.read(lease).last.reason)

    def assert_left(self, lease: Any) -> None:
        key = lease['reservations'][0]['id']
        self.assertEqual([key], [*self.list_states()])

    def test_what_others_have_reserved_stays(self) -> None:
        store = self.open_store()
        for name in ('by-hand', 'b9a9ff4e-0f5f-4c3c-8d43-6f0ce6c9d3a1'):
            store.create({'name': name, 'flavor': 'large'})

        self.play_monitor()

        self.assertEqual(2, len(self.list_states()))

    def test_leases_that_are_over_are_no_orphans(self) -> None:
        lease = self.make('night', 1, 2)
        key = lease['reservations'][0]['id']
        db_api.lease_update(lease['id'], {'status': 'TERMINATED'})

        self.play_monitor()

        self.assertEqual([key], [*self.list_states()])

    def test_with_a_wrong_database_nothing_is_released(self) -> None:
        for number in range(4):
            lease = self.make(str(number), 1, 2)
            db_api.lease_destroy(lease['id'])

            # An empty one has none of few, too.
            self.play_monitor()

            self.assertEqual(number + 1, len(self.list_states()))
            self.assertEqual(
                number + 1, self.log.output.count('No reservation is released')
            )
            self.assertIn(lease['reservations'][0]['id'], self.log.output)
        self.make('last', 3, 4)

        self.play_monitor()

        self.assertEqual(5, len(self.list_states()))

    def test_what_could_not_be_released_is_tried_again(self) -> None:
        other = self.make('other', 3, 4)
        lease = self.make('night', 1, 2)

        def fail(*args: object, **kwargs: object) -> Any:
            raise exception.StoreUnavailable(reason='away')

        with self.plugin._keeper.use() as opened:
            self.patch(opened, 'cancel', fail)
        answer = self.delete(lease)
        self.assertEqual(204, answer.status)
        self.assertEqual(2, len(self.list_states()))

        self.play_monitor()

        self.assert_left(other)


class DatesTest(base.BlazarTestCase):
    def test_the_dates_of_the_lease_count(self) -> None:
        lease = self.make('night', 1, 2)
        key = lease['reservations'][0]['id']
        self.open_store().update(key, {'ends_at': '2030-01-01T05:00Z'})

        self.play_monitor()

        found = self.read(lease)
        self.assertEqual(sites.NOW + 2 * sites.HOUR, found.during.end)
        self.assertEqual('its lease has other dates', found.last.reason)

    def test_if_they_do_not_fit_the_lease_is_degraded(self) -> None:
        lease = self.make('night', 1, 4, amount=4)
        key = lease['reservations'][0]['id']
        store = self.open_store()
        store.update(key, {'ends_at': '2030-01-01T02:00Z'})
        self.make('other', 2, 4)

        self.play_monitor()

        found = self.show(lease)
        self.assertTrue(found['degraded'])
        self.assertTrue(found['reservations'][0]['missing_resources'])
        self.assertIn(
            f'Reservation {key} does not fulfil lease', self.log.output
        )

    def test_what_has_started_within_a_minute_is_the_same(self) -> None:
        self.clock.advance_time_seconds(30)
        lease = self.make('now', 0, 1)

        self.play_monitor()

        key = lease['reservations'][0]['id']
        self.assertEqual(1, len(self.open_store().list_changes(key)))


class BrokenTest(base.BlazarTestCase):
    """A promise that cannot be kept is told to whoever has the lease."""

    def setUp(self) -> None:
        super().setUp()
        self.made = self.make('night', 1, 2)
        self.key = self.made['reservations'][0]['id']

    def assert_degraded(self, reason: str) -> None:
        self.play_monitor()
        self.play_monitor()

        lease = self.show(self.made)
        self.assertTrue(lease['degraded'])
        self.assertTrue(lease['reservations'][0]['missing_resources'])
        self.assertEqual(1, self.log.output.count('does not fulfil lease'))
        self.assertIn(reason, self.log.output)

    def test_what_was_cancelled_by_an_operator(self) -> None:
        self.open_store().cancel(self.key, reason='the hall is on fire')

        self.assert_degraded('cancelled: the hall is on fire')

    def test_what_has_lost_capacity(self) -> None:
        store = self.open_store()
        store._survey.find_changing().change(
            self.key,
            state_mod.State.DEGRADED,
            now=sites.NOW,
            reason='host a is gone',
        )

        self.assert_degraded('host a is gone')

    def test_what_is_not_in_the_store(self) -> None:
        self.open_store().cancel(self.key)
        purge.purge(
            databases.Database(f'sqlite:///{self.folder}/reservations.db'),
            sites.NOW,
        )

        self.assert_degraded(f'There is no reservation {self.key}')
        answer = self.update(self.made, end_date=self.date(3))
        self.assertEqual(409, answer.status)
        self.assertIn('There is no reservation', answer.text)
        self.assertEqual(204, self.delete(self.made).status)

    def test_what_is_as_it_should_be(self) -> None:
        self.play_monitor()

        lease = self.show(self.made)
        self.assertFalse(lease['degraded'])
        self.assertFalse(lease['reservations'][0]['missing_resources'])


class RestoredTest(base.BlazarTestCase):
    """A promise that is kept again is told, too, and a second outage."""

    def setUp(self) -> None:
        super().setUp()
        answer = self.lease(
            'night', 1, 2, {'flavor': 'large'}, {'flavor': 'large'}
        )
        self.made = answer.body['lease']
        self.first, self.second = (
            one['id'] for one in self.made['reservations']
        )

    def become(self, key: str, state: state_mod.State) -> None:
        self.open_store()._survey.find_changing().change(
            key, state, now=sites.NOW, reason=f'host a makes it {state}'
        )

    def show_flags(self) -> tuple[bool, set[str]]:
        """Return whether the lease is degraded, and what lacks something."""
        self.play_monitor()
        lease = self.show(self.made)
        return lease['degraded'], {
            one['id']
            for one in lease['reservations']
            if one['missing_resources']
        }

    def test_the_flags_go_and_a_second_outage_sets_them_again(self) -> None:
        seen = []
        for _outage in range(2):
            self.become(self.first, state_mod.State.DEGRADED)
            seen.append(self.show_flags())
            self.become(self.first, state_mod.State.PENDING)
            seen.append(self.show_flags())

        self.assertEqual([(True, {self.first}), (False, set())] * 2, seen)
        self.assertEqual(2, self.log.output.count('does not fulfil lease'))
        self.assertEqual(2, self.log.output.count(' fulfils lease '))

    def test_while_another_one_lacks_something_the_lease_does(self) -> None:
        for key in (self.first, self.second):
            self.become(key, state_mod.State.DEGRADED)
        self.assertEqual((True, {self.first, self.second}), self.show_flags())

        self.become(self.first, state_mod.State.PENDING)
        self.assertEqual((True, {self.second}), self.show_flags())

        self.become(self.second, state_mod.State.PENDING)
        self.assertEqual((False, set()), self.show_flags())

    def test_what_other_plugins_have_flagged_stays(self) -> None:
        self.become(self.first, state_mod.State.DEGRADED)
        self.show_flags()
        db_api.reservation_update(self.second, {'resources_changed': True})

        self.become(self.first, state_mod.State.PENDING)

        self.assertEqual((True, set()), self.show_flags())

    def test_other_leases_stay_degraded(self) -> None:
        other = self.make('other', 3, 4)
        key = other['reservations'][0]['id']
        for one in (key, self.first):
            self.become(one, state_mod.State.DEGRADED)
        self.play_monitor()

        self.become(self.first, state_mod.State.PENDING)

        self.assertEqual((False, set()), self.show_flags())
        self.assertTrue(self.show(other)['degraded'])

    def test_what_has_no_record_that_goes_on_stays_flagged(self) -> None:
        self.open_store().cancel(self.first, reason='the hall is on fire')

        self.assertEqual((True, {self.first}), self.show_flags())
        self.assertEqual((True, {self.first}), self.show_flags())


class RaceTest(base.BlazarTestCase):
    def test_a_lease_that_is_made_while_both_sides_are_read(self) -> None:
        made: list[Any] = []
        list_leases = rows.list_leases

        def make_first() -> list[repair.Lease]:
            # The first question is of what sets leases right.
            if asked and not made:
                made.append(self.make('young', 1, 2))
            asked.append(True)
            return list_leases()

        asked: list[bool] = []
        self.patch(rows, 'list_leases', make_first)
        self.play_monitor()

        lease = self.show(made[0])
        self.assertFalse(lease['degraded'])
        self.assertFalse(lease['reservations'][0]['missing_resources'])
        self.assertNotIn('does not fulfil lease', self.log.output)


class MixedTest(base.BlazarTestCase):
    """A lease with reservations of another plugin, too."""

    plugins = 'extended.instance.plugin,dummy.vm.plugin'

    def test_it_is_not_set_right(self) -> None:
        # To start those of the other plugin twice might do harm.
        lease = self.make('night', 1, 2)
        db_api.reservation_create(
            {
                'lease_id': lease['id'],
                'resource_type': 'virtual:instance',
                'status': 'pending',
            }
        )
        db_api.lease_update(lease['id'], {'status': 'ERROR'})

        self.play_monitor()

        self.assertEqual('ERROR', self.show(lease)['status'])


class SetupTest(base.BlazarTestCase):
    def test_a_wrong_configuration_is_told_at_the_start(self) -> None:
        path = f'{self.folder}/wrong.conf'
        for text, reason in (
            ('[ext_resources_reservation]\nconection = x', 'conection'),
            ('', 'the option is empty in the configuration of this service'),
            # The commands would keep a file of their own there.
            (f'[DEFAULT]\nstate_path = {self.folder}', 'of this service'),
            ('no section', 'wrong.conf'),
        ):
            with self.subTest(reason):
                with open(path, 'w') as file:
                    file.write(text)
                cfg.CONF.set_override('config_file', [path], group=base.TYPE)

                err = self.assertRaises(
                    exception.InvalidConfiguration,
                    plugin.ExtendedInstance().setup,
                    None,
                )

                self.assertIn(reason, str(err))
                self.assertRaises(
                    exception.InvalidConfiguration, plugin.open_store
                )

    def test_nothing_is_opened_before_blazar_forks(self) -> None:
        made = plugin.ExtendedInstance()
        made.setup(None)

        self.assertIsNone(made._keeper._opened)

    def test_other_files_can_be_named(self) -> None:
        path = f'{self.folder}/nova.conf'
        with open(path, 'w') as file:
            file.write(
                '[ext_resources_reservation]\n'
                f'connection = sqlite:///{self.folder}/other.db\n'
            )
        cfg.CONF.set_override('config_file', [path], group=base.TYPE)

        lease = self.make('night', 1, 2)

        self.assertEqual('pending', self.read(lease).state)
        url = f'sqlite:///{self.folder}/reservations.db'
        self.assertEqual({}, self.count(url))

    def count(self, url: str) -> dict[str, int]:
        with databases.Database(url).transaction() as connection:
            names = connection.exec_driver_sql(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
            return {name: 1 for (name,) in names}
