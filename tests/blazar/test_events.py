# SPDX-License-Identifier: Apache-2.0

"""Blazar's events come late, fail, or are broken off: the promise holds."""

from collections.abc import Callable
from concurrent import futures
import math
import threading
import time
from typing import Any

from blazar import context
from blazar.db import api as db_api
from blazar.manager import service
import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation.blazar import plugin
from nova_ext_resources.reservation import state
from tests.blazar import base
from tests.unit.reservation import sites

HOUR = sites.HOUR


class EventsTestCase(base.BlazarTestCase):
    def find_event(self, lease: Any, name: str) -> Any:
        [found] = [
            one
            for one in db_api.lease_get(lease['id'])['events']
            if one['event_type'] == name
        ]
        return found

    def list_statuses(self, lease: Any) -> tuple[str, ...]:
        """Return those of the lease, its reservation and its two events."""
        found = self.show(lease)
        return (
            found['status'],
            found['reservations'][0]['status'],
            self.find_event(lease, 'start_lease')['status'],
            self.find_event(lease, 'end_lease')['status'],
        )


class LifeTest(EventsTestCase):
    def test_the_life_of_a_lease(self) -> None:
        lease = self.make('night', 1, 2)
        self.pass_time(1)
        self.play_events()
        started = self.list_statuses(lease)
        self.pass_time(1)
        self.play_events()

        self.assertEqual(('ACTIVE', 'active', 'DONE', 'UNDONE'), started)
        self.assertEqual(
            ('TERMINATED', 'deleted', 'DONE', 'DONE'),
            self.list_statuses(lease),
        )
        self.assertEqual('ended', self.read(lease).state)

    def test_what_nobody_uses_expires_and_its_lease_is_degraded(
        self,
    ) -> None:
        lease = self.make('night', 1, 9, expires_after='30m')
        self.assertEqual(1800, self.read(lease).request.expires_after)
        self.pass_time(1)
        self.play_events()
        # As the manager of reservations does it then.
        store = self.open_store()
        store._survey.find_changing().change(
            lease['reservations'][0]['id'],
            state.State.EXPIRED,
            now=int(self.now()),
            reason='no server has taken it',
        )

        self.play_monitor()

        self.assertTrue(self.show(lease)['degraded'])
        self.assertIn('expired: no server has taken it', self.log.output)

    def test_a_start_is_not_waited_for(self) -> None:
        lease = self.make('night', 1, 2)
        self.pass_time(1)

        self.assertEqual('PENDING', self.show(lease)['status'])
        self.assertEqual('active', self.read(lease).state)

    def test_an_end_is_not_waited_for(self) -> None:
        lease = self.make('first', 1, 2, amount=4)
        self.pass_time(1)
        self.play_events()
        self.pass_time(1)

        self.assertEqual('ACTIVE', self.show(lease)['status'])
        self.assertEqual('ended', self.read(lease).state)
        self.make('second', 2, 3, amount=4)
        # Nor does it look like something that is broken.
        self.play_monitor()
        self.assertFalse(self.show(lease)['degraded'])

    def test_a_clock_that_was_set_ends_nothing(self) -> None:
        lease = self.make('night', 1, 20)
        self.pass_time(30)
        for _pass in range(2):
            self.play_events()
        self.pass_time(-28)

        self.assertEqual('TERMINATED', self.show(lease)['status'])
        self.assertEqual('active', self.read(lease).state)

    def test_a_store_that_is_away_stops_no_event(self) -> None:
        def fail(*args: object, **kwargs: object) -> Any:
            raise exception.StoreUnavailable(reason='away')

        lease = self.make('night', 1, 2)
        with self.plugin._keeper.use() as opened:
            for name in ('get', 'cancel'):
                self.patch(opened, name, fail)
        for _hour in range(2):
            self.pass_time(1)
            self.play_events()

        self.assertEqual('TERMINATED', self.show(lease)['status'])


class KeystoneAwayTest(EventsTestCase):
    """Blazar gives up a lease whose event cannot get a token."""

    def test_at_the_start(self) -> None:
        lease = self.make('night', 1, 3)
        self.pass_time(1)
        self.keystone.answers = 0
        self.play_events()
        given_up = self.list_statuses(lease)
        # Blazar alone would leave it at that for ever.
        self.keystone.answers = math.inf
        self.play_events()
        self.assertEqual(given_up, self.list_statuses(lease))

        self.assertEqual(('ERROR', 'pending', 'ERROR', 'UNDONE'), given_up)
        self.assertEqual('active', self.read(lease).state)
        self.play_monitor()
        self.play_events()
        self.assertEqual(
            ('ACTIVE', 'active', 'DONE', 'UNDONE'), self.list_statuses(lease)
        )
        self.assertIn('was left in status ERROR', self.log.output)

    def test_for_the_whole_of_a_lease(self) -> None:
        lease = self.make('night', 1, 2)
        self.keystone.answers = 0
        for _number in range(3):
            self.pass_time(1)
            self.play_events()
            self.play_monitor()
        self.keystone.answers = math.inf

        self.play_events()

        self.assertEqual(
            ('TERMINATED', 'deleted', 'DONE', 'DONE'),
            self.list_statuses(lease),
        )

    def test_at_the_end(self) -> None:
        lease = self.make('night', 1, 2)
        self.pass_time(1)
        self.play_events()
        self.pass_time(1)
        self.keystone.answers = 0
        self.play_events()
        self.keystone.answers = math.inf
        self.assertEqual('ERROR', self.show(lease)['status'])

        self.play_monitor()
        self.play_events()

        self.assertEqual('TERMINATED', self.show(lease)['status'])

    def test_after_an_update(self) -> None:
        # Blazar has changed all, and needs a token to say so.
        lease = self.make('night', 1, 2)
        self.keystone.answers = 1
        answer = self.update(lease, end_date=self.date(3))
        self.keystone.answers = math.inf
        self.assertEqual(500, answer.status)
        self.assertEqual('ERROR', self.show(lease)['status'])

        self.play_monitor()

        found = self.show(lease)
        self.assertEqual('PENDING', found['status'])
        self.assertEqual('2030-01-01T03:00:00.000000', found['end_date'])
        self.assertEqual(sites.NOW + 3 * HOUR, self.read(lease).during.end)


class Killed(BaseException):
    """What nothing of Blazar catches, as the end of its process."""


class KilledTest(EventsTestCase):
    """The worker of Blazar's manager is killed while it does something.

    It has done its part in our store then.
    """

    def kill_after(self, action: str, call: Callable[[], object]) -> None:
        """Let the manager be killed when the plugin has done something."""
        done = getattr(self.plugin, action)

        def do_and_die(*args: Any, **kwargs: Any) -> None:
            done(*args, **kwargs)
            raise Killed

        actions = self.manager.resource_actions[base.TYPE]
        before = {**actions}
        with fixtures.MonkeyPatch(
            f'{plugin.__name__}.ExtendedInstance.{action}',
            lambda _self, *args, **kwargs: do_and_die(*args, **kwargs),
        ):
            if action in actions:
                actions[action] = do_and_die
            with context.BlazarContext(service_catalog=base.CATALOGUE):
                self.assertRaises(Killed, call)
        actions.update(before)

    def test_in_a_start(self) -> None:
        lease = self.make('night', 1, 3)
        self.pass_time(1)
        self.kill_after('on_start', self.play_events)
        self.assertEqual(
            ('STARTING', 'pending', 'IN_PROGRESS', 'UNDONE'),
            self.list_statuses(lease),
        )
        # It might still be going on in another manager.
        self.play_monitor()
        self.assertEqual('STARTING', self.show(lease)['status'])
        self.pass_time(0.1)

        self.play_monitor()
        self.play_events()

        self.assertEqual(
            ('ACTIVE', 'active', 'DONE', 'UNDONE'), self.list_statuses(lease)
        )

    def test_in_a_start_that_was_noted(self) -> None:
        lease = self.make('night', 1, 3)
        self.pass_time(1)
        self.kill_after('on_start', self.play_events)
        key = lease['reservations'][0]['id']
        db_api.reservation_update(key, {'status': 'active'})
        self.pass_time(0.1)

        self.play_monitor()
        self.play_events()

        self.assertEqual(
            ('ACTIVE', 'active', 'DONE', 'UNDONE'), self.list_statuses(lease)
        )

    def test_in_an_end(self) -> None:
        lease = self.make('night', 1, 2)
        self.pass_time(1)
        self.play_events()
        self.pass_time(1)
        self.kill_after('on_end', self.play_events)
        # Blazar alone would leave it at that for ever.
        self.assertEqual(500, self.delete(lease).status)
        self.pass_time(0.1)

        self.play_monitor()
        self.play_events()

        self.assertEqual('TERMINATED', self.show(lease)['status'])
        self.assertEqual(204, self.delete(lease).status)

    def test_in_an_update(self) -> None:
        lease = self.make('night', 1, 2)
        self.kill_after(
            'update_reservation',
            lambda: self.manager.update_lease(
                lease_id=lease['id'], values={'end_date': self.date(3)}
            ),
        )
        # It might still be going on in another manager.
        self.play_monitor()
        self.assertEqual('UPDATING', self.show(lease)['status'])
        self.assertEqual(sites.NOW + 3 * HOUR, self.read(lease).during.end)
        self.pass_time(0.1)

        self.play_monitor()

        # The lease is what its owner sees.
        self.assertEqual('PENDING', self.show(lease)['status'])
        self.assertEqual(sites.NOW + 2 * HOUR, self.read(lease).during.end)
        answer = self.update(lease, end_date=self.date(3))
        self.assertEqual(200, answer.status, answer.text)

    def test_in_a_deletion(self) -> None:
        lease = self.make('night', 1, 2)
        self.kill_after(
            'on_end', lambda: self.manager.delete_lease(lease_id=lease['id'])
        )
        self.assertEqual(500, self.delete(lease).status)
        self.pass_time(0.1)

        self.play_monitor()

        self.assertEqual(204, self.delete(lease).status)

    def test_in_a_creation(self) -> None:
        self.kill_after(
            'reserve_resource',
            lambda: self.manager.create_lease(
                {
                    'name': 'night',
                    'user_id': 'user',
                    'trust_id': 'trust',
                    'start_date': self.date(1),
                    'end_date': self.date(2),
                    'reservations': [
                        {
                            'resource_type': base.TYPE,
                            'flavor': 'large',
                            'amount': 4,
                        }
                    ],
                }
            ),
        )
        self.assertEqual(1, len(self.list_states()))
        self.pass_time(0.1)

        self.play_monitor()

        self.assertEqual([], self.ask('GET', '/leases').body['leases'])
        self.assertEqual({}, self.list_states())
        self.make('again', 1, 2, amount=4)


class TwoManagersTest(EventsTestCase):
    def test_two_take_the_same_events(self) -> None:
        # Who takes an event first is not exact in Blazar.
        other = service.ManagerService()
        lease = self.make('night', 1, 3)
        self.pass_time(1)
        both = threading.Barrier(2)
        take = db_api.event_get_all_sorted_by_filters

        def take_together(*args: Any, **kwargs: Any) -> Any:
            found = take(*args, **kwargs)
            both.wait(10)
            return found

        self.patch(db_api, take.__name__, take_together)
        with futures.ThreadPoolExecutor(2) as pool:
            list(
                pool.map(
                    lambda one: one._process_events(), (self.manager, other)
                )
            )
        self.patch(db_api, take.__name__, take)
        self.pass_time(0.1)
        self.play_monitor()
        self.play_events()

        self.assertEqual('ACTIVE', self.show(lease)['status'])
        self.assertEqual(1, len(self.list_states()))


class ServiceTest(EventsTestCase):
    """The manager with its own timers."""

    def start_manager(self) -> service.ManagerService:
        manager = service.ManagerService()
        self.addCleanup(self.stop_manager, manager)
        return manager

    def stop_manager(self, manager: service.ManagerService) -> None:
        manager.tg.stop()
        for monitor in manager.monitors:
            monitor.tg.stop()
        super().stop_manager(manager)

    def test_events_and_monitor_are_played(self) -> None:
        self.manager.start()
        lease = self.make('now', 0, 2)
        asked = self.site.asked

        for _attempt in range(150):
            if self.show(lease)['status'] == 'ACTIVE':
                break
            time.sleep(0.1)

        self.assertEqual('ACTIVE', self.show(lease)['status'])
        self.assertLess(0, asked)
