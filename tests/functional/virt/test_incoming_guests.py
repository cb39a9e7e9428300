# SPDX-License-Identifier: Apache-2.0

"""What is done when the process of a guest that comes has started."""

import threading
import types
from typing import Any

import fixtures
from nova.virt import driver as nova_driver
from nova.virt import event as virtevent
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.driver import incoming_guests
from nova_ext_resources.virt.driver import libvirt
from tests import base

Purpose = assignment.Purpose

WAIT = 60

COMES, RUNS = uuidsentinel.comes, uuidsentinel.runs


class FakeHost:
    """Its entries are there; to apply one takes until the test allows it."""

    host = 'host1'

    def __init__(self) -> None:
        self.purposes = {COMES: Purpose.MIGRATION_DEST, RUNS: Purpose.OWN}
        self.prepared: list[str] = []
        self.error: Exception | None = None
        self.began, self.may_end = threading.Event(), threading.Event()

    def find_entry(self, uuid: str) -> Any:
        purpose = self.purposes.get(uuid)
        return purpose and types.SimpleNamespace(purpose=purpose)

    def holds(self, uuid: str) -> bool:
        return uuid in self.purposes

    def prepare(self, uuid: str) -> None:
        self.began.set()
        self.may_end.wait(WAIT)
        self.prepared.append(uuid)
        if self.error is not None:
            raise self.error


class IncomingGuestsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        host: Any = FakeHost()
        self.host: FakeHost = host
        self.admission = incoming_guests.IncomingGuests(host)

    def test_an_event_does_not_wait(self) -> None:
        """Nova has one thread for the events of all guests."""
        driver: Any = object.__new__(libvirt.LibvirtDriver)
        driver._ext = types.SimpleNamespace(host=self.host)
        driver._ext_incoming = self.admission
        seen: list[Any] = []
        self.useFixture(
            fixtures.MockPatchObject(
                nova_driver.ComputeDriver,
                'emit_event',
                lambda _driver, event: seen.append(event),
            )
        )
        self.admission.start()
        self.addCleanup(self.admission.stop, WAIT)
        self.addCleanup(self.host.may_end.set)
        started = virtevent.EVENT_LIFECYCLE_STARTED
        events = [
            virtevent.LifecycleEvent(uuid, started) for uuid in (COMES, RUNS)
        ]

        sender = threading.Thread(
            target=lambda: [driver.emit_event(one) for one in events],
            daemon=True,
        )
        sender.start()

        self.assertTrue(self.host.began.wait(WAIT))
        sender.join(5)
        self.assertEqual([], self.host.prepared)
        self.assertEqual(events, seen)
        self.host.may_end.set()
        self.admission.stop(WAIT)
        self.assertEqual([COMES], self.host.prepared)

    def test_only_what_comes_is_applied(self) -> None:
        self.host.may_end.set()
        for uuid in (RUNS, uuidsentinel.other, COMES):
            self.admission.notice(uuid)

        self.admission.do_round()

        self.assertEqual([COMES], self.host.prepared)

    def test_what_was_released_meanwhile_is_left_alone(self) -> None:
        self.admission.notice(COMES)
        del self.host.purposes[COMES]

        self.admission.do_round()

        self.assertEqual([], self.host.prepared)

    def test_an_error_is_logged(self) -> None:
        self.host.may_end.set()
        for error in (
            exception.LedgerError(path='x', reason='it is full'),
            KeyError('plugin'),
        ):
            log = self.useFixture(fixtures.FakeLogger())
            self.host.error = error
            self.admission.notice(COMES)

            self.admission.do_round()

            self.assertIn('Host host1: could not apply', log.output)
            self.assertIn(COMES, log.output)
