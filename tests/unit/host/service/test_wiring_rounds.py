# SPDX-License-Identifier: Apache-2.0

"""When a host looks at itself and publishes anew."""

from collections.abc import Mapping
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.facts import guest
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.placement.publish import publisher
from tests.unit.host.service import test_wiring
from tests.unit.host import with_host

SERVER = uuidsentinel.server


class RoundsTestCase(test_wiring.HostServiceTestCase):
    """The thread is not started; placement is away."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.made = self.make()
        self.made.host.refresh()

    def is_awake(self, *, publisher: bool = False) -> bool:
        """Return whether a round was asked for since the last call."""
        event = self.made.periodic._is_awake
        if publisher:
            event = self.made.publisher._is_awake
        was_set = event.is_set()
        event.clear()
        return was_set

    def fail_to_release(self) -> None:
        self.made.claim(with_host.make_claim(SERVER))
        self.is_awake()
        ledger = self.made.host._ledger
        ledger._db.execute('PRAGMA query_only = 1')
        self.assertRaises(exception.LedgerError, self.made.release, SERVER)
        ledger._db.execute('PRAGMA query_only = 0')


class AgainTest(RoundsTestCase):
    """A server that has something claims more than there is."""

    def refuse(self, running: Mapping[str, guest.Guest] | None) -> None:
        self.made.claim(with_host.make_claim(SERVER))
        self.patch(self.made._guests, 'read', lambda: running)
        self.assertRaises(
            exception.ClaimError,
            self.made.claim,
            with_host.make_claim(SERVER, 99),
        )

    def test_a_guest_that_runs_keeps_what_it_has(self) -> None:
        one = guest.Guest(name='instance-00000001', number=1)

        self.refuse({SERVER: one})

        self.assertEqual({SERVER}, {*self.made.host.entries})

    def test_so_does_one_that_may_run(self) -> None:
        self.refuse(None)

        self.assertEqual({SERVER}, {*self.made.host.entries})

    def test_of_one_that_is_off_nothing_stays(self) -> None:
        """Nova may have given its CPUs to others."""
        self.refuse({})

        self.assertEqual({}, self.made.host.entries)


class WakeTest(RoundsTestCase):
    """Placement hears at once of what changed on the host."""

    def test_a_claim_is_published_at_once(self) -> None:
        self.made.claim(with_host.make_claim(SERVER))

        self.assertTrue(self.is_awake())

    def test_a_claim_that_was_refused_changes_nothing(self) -> None:
        self.assertRaises(
            exception.ClaimError,
            self.made.claim,
            with_host.make_claim(SERVER, 99),
        )

        self.assertFalse(self.is_awake())

    def test_a_release_is_published_at_once(self) -> None:
        self.made.claim(with_host.make_claim(SERVER))
        self.is_awake()

        self.made.release(SERVER)

        self.assertTrue(self.is_awake())

    def test_a_release_that_failed_is_tried_again_at_once(self) -> None:
        self.fail_to_release()

        self.assertTrue(self.is_awake())

    def test_servers_that_hold_nothing_cause_no_rounds(self) -> None:
        self.made.release(SERVER)

        self.assertFalse(self.is_awake())


class NodeTest(RoundsTestCase):
    """Our providers wait for the one that Nova creates."""

    def test_the_first_write_of_nova_causes_a_round(self) -> None:
        self.made.notice_node()

        self.assertTrue(self.is_awake(publisher=True))

    def test_those_that_follow_do_not(self) -> None:
        self.made.notice_node()
        self.is_awake(publisher=True)

        self.made.notice_node()

        self.assertFalse(self.is_awake(publisher=True))

    def test_unless_publishing_has_failed_since(self) -> None:
        self.made.notice_node()
        self.made.publisher.run_round()
        self.is_awake(publisher=True)

        self.made.notice_node()

        self.assertTrue(self.is_awake(publisher=True))


class OldInventoryTest(RoundsTestCase):
    """What the compute node itself offers is known by a publication."""

    def test_before_one_any_of_its_resources_may_be_old(self) -> None:
        for name, is_old in ((with_host.WAYS, True), ('CUSTOM_X', False)):
            held = {with_host.NODE.uuid: {name: 4}}
            with self.subTest(name):
                self.assertEqual(is_old, self.made.is_old(held))

    def test_a_reason_is_forgotten_when_all_is_moved(self) -> None:
        self.made.old.reason = 'placement refused it'
        for doubled, reason in (
            ({with_host.WAYS}, 'placement refused it'),
            ({}, ''),
        ):
            self.made.publisher._writer.doubled = frozenset(doubled)

            self.made.publisher._source.note_doubled()

            self.assertEqual(reason, self.made.old.reason)
            self.assertTrue(self.is_awake())


class DelayTest(RoundsTestCase):
    def test_a_host_that_is_well_is_looked_at_at_its_interval(self) -> None:
        self.made.claim(with_host.make_claim(SERVER))

        self.assertGreater(self.made.periodic._find_delay(), 50)

    def test_one_with_something_to_mend_is_looked_at_soon(self) -> None:
        self.fail_to_release()

        self.assertLessEqual(
            self.made.periodic._find_delay(), publisher.FIRST_BACK_OFF
        )


class StartTest(RoundsTestCase):
    def test_it_looks_at_the_host_once_and_survives_what_that_raises(
        self,
    ) -> None:
        def look(_: object) -> None:
            looks.append('look')
            raise RuntimeError('a bug')

        looks: list[str] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.host.manager.HostManager.refresh', look
            )
        )
        # The threads would look again after a second.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.worker.Worker.start', lambda *_: None
            )
        )

        self.made.start()
        self.addCleanup(self.made.stop)

        self.assertEqual(['look'], looks)
        (alarm,) = (
            one
            for one in self.made.metrics.read_health().alarms
            if one.name == alarm_mod.AUDIT_FAILED
        )
        self.assertIn('discovery: RuntimeError: a bug', alarm.text)


class DifferenceTest(RoundsTestCase):
    """Placement has not allocated what a server holds."""

    def test_an_operator_is_told_at_once(self) -> None:
        self.made.missing_allocations._debounce._age = 0.0
        self.made.claim(with_host.make_claim(SERVER))
        placement: Any = with_host.Placement()
        self.made.missing_allocations._client = placement
        self.is_awake()

        self.made.missing_allocations.run_round()

        self.assertTrue(self.is_awake())
        self.made.periodic.run_round()
        self.assertIn(
            (alarm_mod.NOT_IN_PLACEMENT, SERVER),
            [
                (o.name, o.subject)
                for o in self.made.metrics.read_health().alarms
            ],
        )

    def test_it_is_looked_for_from_the_start_to_the_end(self) -> None:
        self.addCleanup(self.made.stop)
        self.made.start()
        thread = self.made.missing_allocations._thread
        assert thread is not None

        self.made.stop()

        self.assertFalse(thread.is_alive())
