# SPDX-License-Identifier: Apache-2.0

"""Servers come and go while the host is looked at, or healed, or fails."""

from collections.abc import Callable
import dataclasses
import threading
from typing import Any
from unittest import mock

import fixtures
from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers import base
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.host.reconcile.rules import drift
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource
from nova_ext_resources import plugins
from tests.unit import builders
from tests.unit.host import with_host

SEATS = builders.SEATS
WAYS = with_host.WAYS
DOMAINS = with_host.DOMAINS

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

#: Seconds that a thread gets to do what it must not do yet.
PAUSE = 0.2

#: Seconds after which a thread hangs.
WAIT = 60.0

LICENCES = host_provider.make_rp_uuid(with_host.NODE.uuid, 'LICENCES')


class ActingEnforcer(base.Enforcer):
    """A host in memory, during whose calls something may happen, once.

    :ivar acts: what happens in the next call of a method: after it has put
        into force, before it takes out of force, after it has looked
    :ivar faults: server -> what it still lacks after it was applied
    """

    RESOURCE_CLASSES = None

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        super().__init__(options, host)
        self.in_force: set[str] = set()
        self.calls: list[tuple[str, str]] = []
        self.acts: dict[str, Callable[[], object]] = {}
        self.masks: dict[str, str] = {}
        self.faults: dict[str, str] = {}
        self.is_failing = False

    def note(self, method: str, entry: assignment.Entry) -> None:
        self.calls.append((method, entry.consumer_uuid))
        if self.is_failing:
            raise OSError('no such device')

    def act(self, method: str) -> None:
        self.acts.pop(method, lambda: None)()

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        self.note('apply', entry)
        self.in_force.add(entry.consumer_uuid)
        self.act('apply')
        mask = self.masks.get(entry.consumer_uuid)
        if mask is None:
            return entry.assignments
        ways, *others = entry.assignments
        return dataclasses.replace(ways, units={'mask': mask}), *others

    def release(self, entry: assignment.Entry) -> None:
        self.note('release', entry)
        self.act('release')
        self.in_force.discard(entry.consumer_uuid)

    def find_entry_problem(self, entry: assignment.Entry) -> str:
        return self.faults.get(entry.consumer_uuid, '')

    def list_applied(self) -> frozenset[str]:
        seen = frozenset(self.in_force)
        self.act('list_applied')
        return seen


class SeatsInUse(base.InventoryProvider):
    """Ten seats, one of which is in use for each server in force."""

    in_force: set[str]
    before: Callable[[], object] | None = None

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (builders.make_definition(),)

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        act, self.before = self.before, None
        if act is not None:
            act()
        free = 10 - len(self.in_force)
        return (
            builders.make_host_provider(
                inventories={SEATS: builders.make_inventory(10)},
                units={SEATS: {'free': free}},
            ),
        )


class ActingHostTestCase(with_host.HostTestCase):
    """A host in memory with cache ways."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        options = plugins.register_opts(self.conf, 'acting', ())
        self.enforcer = ActingEnforcer(options, 'host1')
        self.host = self.make_host()

    def make_host(self) -> manager.HostManager:
        host = with_host.make_host(
            self.load_inventory(),
            {'acting': self.enforcer},
            self.open_ledger(),
            **self.load_options(),
        )
        host.refresh()
        return host

    def load_inventory(self) -> dict[str, Any]:
        return self.load_fake()

    def load_options(self) -> dict[str, bool]:
        return {}

    def start(self, uuid: str = SERVER, cpu: int = 1) -> None:
        self.host.claim(with_host.make_claim(uuid, cpus=frozenset({cpu})))
        self.host.apply(uuid)

    def run_in_thread(self, *acts: Callable[[], object]) -> Callable[[], None]:
        """Return what runs them and waits only so long for their end."""

        def run() -> None:
            for act in acts:
                act()

        def begin() -> None:
            thread = threading.Thread(target=run)
            thread.start()
            self.addCleanup(thread.join)
            self.threads.append(thread)
            thread.join(PAUSE)

        self.threads: list[threading.Thread] = []
        return begin

    def wait_for_threads(self) -> None:
        for thread in self.threads:
            thread.join(WAIT)
            self.assertFalse(thread.is_alive())

    def write_protect(self, is_on: bool = True) -> None:
        """Let nobody write the ledger, as on a full disk."""
        self.host._ledger._db.execute(f'PRAGMA query_only = {is_on:d}')


class HalfStartedTest(ActingHostTestCase):
    """A look at the host shows what has been done of a start so far."""

    def load_inventory(self) -> dict[str, Any]:
        options = plugins.register_opts(self.conf, 'seats', ())
        self.plugin = SeatsInUse(options, 'host1')
        self.plugin.in_force = self.enforcer.in_force
        return {'seats': self.plugin}

    def claim(self) -> None:
        self.host.claim(
            with_host.make_claim(
                SERVER, allocations={LICENCES: {SEATS: 1}}, cpus=None
            )
        )

    def assert_only_server(self) -> None:
        """All but what our server holds can be sold."""
        (published,) = self.host.providers()
        self.assertEqual(0, published.inventories[SEATS].reserved)
        self.assertEqual(1, self.host.view.tracked[LICENCES, SEATS].state.used)

    def test_one_that_ends_meanwhile_is_not_taken_for_the_use_of_others(
        self,
    ) -> None:
        self.claim()
        self.plugin.before = lambda: self.host.apply(SERVER)

        self.host.refresh()

        self.assert_only_server()

    def test_one_under_way_is_not_taken_for_the_use_of_others(self) -> None:
        half, whole = threading.Event(), threading.Event()

        def wait() -> None:
            half.set()
            whole.wait(WAIT)

        self.addCleanup(whole.set)
        self.claim()
        self.enforcer.acts['apply'] = wait
        self.run_in_thread(lambda: self.host.apply(SERVER))()
        self.assertTrue(half.wait(WAIT))
        timer = threading.Timer(PAUSE, whole.set)
        self.addCleanup(timer.join)
        timer.start()

        self.host.refresh()

        self.wait_for_threads()
        self.assert_only_server()


class OneAfterTheOtherTest(ActingHostTestCase):
    """Healing and the life of one server do not overlap."""

    def assert_in_force(self, *uuids: str) -> None:
        self.assertEqual(set(uuids), self.enforcer.in_force)
        self.assertEqual(set(uuids), set(self.host.entries))
        self.assert_consistent(self.host)

    def test_who_is_being_started_is_not_gone(self) -> None:
        self.start(SERVER)
        self.start(OTHER, cpu=2)

        with self.host.starting(SERVER):
            self.host.reconcile([])

        self.assertEqual([SERVER], [*self.host.entries])
        self.assert_in_force(SERVER)
        (line,) = [
            one for one in self.log.output.splitlines() if 'keep their' in one
        ]
        self.assertIn(SERVER, line)
        self.assertNotIn(OTHER, line)

    def test_who_goes_while_it_is_restored_is_gone(self) -> None:
        self.start()
        self.enforcer.in_force.clear()
        self.enforcer.acts['apply'] = self.run_in_thread(
            lambda: self.host.release(SERVER)
        )

        self.host.heal()

        self.wait_for_threads()
        self.assert_in_force()

    def test_who_goes_while_others_are_restored_is_gone(self) -> None:
        self.start(SERVER)
        self.start(OTHER, cpu=2)
        self.enforcer.in_force.clear()
        first, second = (
            one.consumer_uuid
            for one in drift.compare(
                drift.Observation(
                    before=self.host.entries,
                    entries=self.host.entries,
                    applied={},
                    lost={SERVER, OTHER},
                )
            )
        )
        self.enforcer.acts['apply'] = lambda: self.host.release(second)

        self.host.heal()

        self.assertEqual((), self.host.problems)
        self.assert_in_force(first)

    def test_who_comes_back_while_its_leftovers_go_has_what_it_claimed(
        self,
    ) -> None:
        self.start()
        self.host.release(SERVER)
        self.enforcer.in_force.add(SERVER)
        self.enforcer.acts['release'] = self.run_in_thread(self.start)

        self.host.heal()

        self.wait_for_threads()
        self.assert_in_force(SERVER)

    def test_who_has_come_back_before_its_leftovers_go_keeps_them(
        self,
    ) -> None:
        self.start(SERVER)
        self.start(OTHER, cpu=2)
        for uuid in (SERVER, OTHER):
            self.host.release(uuid)
            self.enforcer.in_force.add(uuid)
        # Leftovers go in the order of their uuids.
        second = max(SERVER, OTHER)
        self.enforcer.acts['release'] = lambda: self.start(second, cpu=2)

        self.host.heal()

        self.assert_in_force(second)
        self.assertEqual((), self.host.problems)


class UnwritableTest(ActingHostTestCase):
    """The ledger cannot be written for a while."""

    def test_units_that_changed_are_written_down_later(self) -> None:
        self.start()
        self.enforcer.masks[SERVER] = '300'
        self.write_protect()
        self.assertRaises(exception.LedgerError, self.host.apply, SERVER)
        self.assertEqual(
            with_host.masks_of(self.host._ledger.list_entries()),
            with_host.masks_of(self.host.entries),
        )

        self.write_protect(False)
        self.host.apply(SERVER)

        written = self.host._ledger.list_entries()
        self.assertEqual({DOMAINS[0]: [0x300]}, with_host.masks_of(written))
        self.assert_consistent(self.host)

    def test_a_server_is_started_again_as_it_was(self) -> None:
        self.start()
        self.write_protect()

        self.host.apply(SERVER)

        self.assertEqual({SERVER: 'applied'}, self.read_rows())

    def test_a_server_that_is_out_of_force_is_forgotten_later(self) -> None:
        self.start()
        self.enforcer.acts['release'] = self.write_protect
        self.assertRaises(exception.LedgerError, self.host.release, SERVER)
        self.assert_consistent(self.host)

        self.write_protect(False)
        self.host.heal()

        self.assertEqual({}, self.read_rows())
        self.assert_consistent(self.host)

    def test_nothing_is_published_that_cannot_be_remembered(self) -> None:
        self.write_protect()
        for _ in range(2):
            self.assertRaises(exception.LedgerError, self.host.providers)

        self.write_protect(False)
        made = self.host.providers()

        self.assertEqual(
            {one.rp_uuid for one in made},
            set(self.host._ledger.list_published()),
        )


class SettledTest(ActingHostTestCase):
    """Whether the host is looked after again soon."""

    def test_a_host_on_which_all_is_well_is_settled(self) -> None:
        self.start()

        self.assertTrue(self.host.is_settled)

    def test_one_with_a_release_under_way_is_not(self) -> None:
        self.start()
        self.enforcer.is_failing = True
        self.assertRaises(
            exception.EnforcementFailed, self.host.release, SERVER
        )

        self.assertEqual((), self.host.problems)
        self.assertFalse(self.host.is_settled)
        self.enforcer.is_failing = False
        self.host.heal()
        self.assertTrue(self.host.is_settled)

    def test_one_on_which_something_is_out_of_force_is_not(self) -> None:
        self.start()
        self.enforcer.in_force.clear()
        self.enforcer.is_failing = True

        self.host.heal()

        (problem,) = self.host.problems
        self.assertEqual(alarm.NOT_APPLIED, problem.alarm)
        self.assertFalse(self.host.is_settled)
        self.enforcer.is_failing = False
        self.host.heal()
        self.assertTrue(self.host.is_settled)

    def test_one_that_cannot_be_discovered_is_not(self) -> None:
        away = mock.Mock(side_effect=RuntimeError('away'))
        with mock.patch.object(self.enforcer, 'check_ready', away):
            self.host.refresh()

        self.assertFalse(self.host.is_settled)
        self.host.refresh()
        self.assertTrue(self.host.is_settled)

    def test_a_server_that_cannot_be_started_again_keeps_its_claim(
        self,
    ) -> None:
        self.start()
        self.enforcer.is_failing = True

        self.assertRaises(exception.EnforcementFailed, self.host.apply, SERVER)

        self.assertEqual({SERVER: 'applied'}, self.read_rows())
        self.assert_consistent(self.host)


class TakenOutTest(ActingHostTestCase):
    def test_what_was_published_once_is_not_booted_without(self) -> None:
        self.host.providers()
        self.host.close()
        again = with_host.make_host(
            {}, {'acting': self.enforcer}, self.open_ledger()
        )
        again.refresh()

        err = self.assertRaises(
            exception.CapacityExceeded,
            again.claim,
            with_host.make_claim(SERVER),
        )

        self.assertIn('no longer offers this resource', str(err))
