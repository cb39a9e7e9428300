# SPDX-License-Identifier: Apache-2.0

import dataclasses
import datetime
import threading

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers import base as plugins_base
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.host.service import health
from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_health
from nova_ext_resources.placement.publish import diff
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources.testing import fake_clock
from nova_ext_resources import worker
from tests import base
from tests.unit.host import with_host
from tests.unit import test_worker

Part = host_health.Part
Status = host_health.HealthStatus

SERVER = uuidsentinel.server
START = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START
        self.uptime = 1000.0

    def __call__(self) -> datetime.datetime:
        return self.now

    def forward(self, seconds: float) -> datetime.datetime:
        self.uptime += seconds
        return self.step(seconds)

    def step(self, seconds: float) -> datetime.datetime:
        """Be set to another time, as by NTP."""
        self.now += datetime.timedelta(seconds=seconds)
        return self.now


class HealthTestCase(with_host.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()
        self.health = health.Health(
            'host1',
            inventory_providers=['fake'],
            enforcers=['noop'],
            stale_after=60.0,
            clock=fake_clock.FakeClock(lambda: self.clock.uptime, self.clock),
        )

    def find(self, part: Part, name: str = '') -> host_health.PartHealth:
        (found,) = (
            one
            for one in self.health.snapshot().parts
            if (one.part, one.name) == (part, name)
        )
        return found

    def list_alarms(self) -> list[tuple[str, str]]:
        return [(a.name, a.subject) for a in self.health.snapshot().alarms]


class PartsTest(HealthTestCase):
    def test_what_is_enabled_is_there_before_it_has_worked(self) -> None:
        snapshot = self.health.snapshot()

        self.assertEqual(
            [
                (Part.INVENTORY_PROVIDER, 'fake'),
                (Part.ENFORCER, 'noop'),
                (Part.HEALING, ''),
                (Part.LEDGER, ''),
                (Part.PUBLISHER, ''),
            ],
            [(one.part, one.name) for one in snapshot.parts],
        )
        self.assertEqual({None}, {o.last_success_at for o in snapshot.parts})
        self.assertEqual(Status.OK, snapshot.status)
        self.assertEqual(('host1', START), (snapshot.host, snapshot.at))

    def test_one_that_fails_tells_since_when_and_why(self) -> None:
        worked = self.clock.forward(1)
        self.health.note(Part.ENFORCER, 'noop')
        failed = self.clock.forward(1)

        for reason in ('first', 'second'):
            self.health.note(Part.ENFORCER, 'noop', failure=reason)
            self.clock.forward(1)

        found = self.find(Part.ENFORCER, 'noop')
        self.assertEqual(worked, found.last_success_at)
        self.assertEqual(failed, found.failing_since)
        self.assertEqual('second', found.failure)
        (alarm,) = self.health.snapshot().alarms
        self.assertEqual(
            (alarm_mod.ENFORCER_FAILED, 'noop', 'second', failed),
            (alarm.name, alarm.subject, alarm.text, alarm.since),
        )

    def test_one_that_works_again_has_no_failure(self) -> None:
        self.health.note(Part.TUNING, failure='no')

        self.health.note(Part.TUNING)

        found = self.find(Part.TUNING)
        self.assertEqual((None, ''), (found.failing_since, found.failure))
        self.assertEqual([], self.list_alarms())

    def test_where_nobody_is_known_to_hold_anything_nothing_fails(
        self,
    ) -> None:
        self.health.note(Part.ENFORCER, 'noop', failure='no')

        self.assertEqual(Status.DEGRADED, self.health.snapshot().status)

    def test_every_part_has_an_alarm(self) -> None:
        self.assertEqual(set(Part), set(health.ALARMS))
        for part in Part:
            self.health.note(part, failure='no')

        raised = {name for name, _subject in self.list_alarms()}

        self.assertEqual(set(health.ALARMS.values()), raised)

    def test_threads_do_not_get_into_each_others_way(self) -> None:
        def work(number: int) -> None:
            for _ in range(200):
                self.health.note(Part.ENFORCER, f'e{number}')
                self.health.report(f's{number}', [])
                self.health.snapshot()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

        self.assertEqual(9, len(self.health.snapshot().parts))


class ReportTest(HealthTestCase):
    def make_problem(
        self, alarm: str, subject: str = '', text: str = 'it is so'
    ) -> alarm_mod.Problem:
        return alarm_mod.Problem(alarm=alarm, subject=subject, text=text)

    def test_alarms_that_stay_keep_their_time_and_others_go(self) -> None:
        first = self.make_problem(alarm_mod.NOT_APPLIED, 'a', 'before')
        self.health.report(
            'x', [first, self.make_problem(alarm_mod.STATS_CUT)]
        )
        later = self.clock.forward(5)

        self.health.report(
            'x',
            [
                self.make_problem(alarm_mod.RELEASE_PENDING, 'b'),
                self.make_problem(alarm_mod.NOT_APPLIED, 'a', 'after'),
            ],
        )

        self.assertEqual(
            [
                (alarm_mod.NOT_APPLIED, 'a', 'after', START),
                (alarm_mod.RELEASE_PENDING, 'b', 'it is so', later),
            ],
            [
                (one.name, one.subject, one.text, one.since)
                for one in self.health.snapshot().alarms
            ],
        )

    def test_sources_do_not_take_alarms_from_each_other(self) -> None:
        self.health.report('x', [self.make_problem(alarm_mod.STATS_CUT)])
        self.health.report('y', [self.make_problem(alarm_mod.NOT_MONITORED)])

        self.health.report('x', [])

        self.assertEqual([(alarm_mod.NOT_MONITORED, '')], self.list_alarms())

    def test_what_two_sources_report_is_there_once(self) -> None:
        for source in 'xy':
            self.health.report(
                source, [self.make_problem(alarm_mod.STATS_CUT)]
            )

        self.assertEqual([(alarm_mod.STATS_CUT, '')], self.list_alarms())

    def test_the_worst_come_first(self) -> None:
        self.health.report(
            'x',
            [
                self.make_problem(alarm_mod.STATS_CUT),
                self.make_problem(alarm_mod.NOT_APPLIED, 'b'),
                self.make_problem(alarm_mod.NOT_APPLIED, 'a'),
            ],
        )

        self.assertEqual(
            [
                (alarm_mod.NOT_APPLIED, 'a'),
                (alarm_mod.NOT_APPLIED, 'b'),
                (alarm_mod.STATS_CUT, ''),
            ],
            self.list_alarms(),
        )


class ObservedHostTest(HealthTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.failure_file = f'{self.make_folder()}/failure'
        self.providers = self.load_fake(failure_file=self.failure_file)
        self.ledger = self.open_ledger()
        self.enforcers: dict[str, plugins_base.Enforcer] = self.load_noop()
        self.host = with_host.make_host(
            self.providers, self.enforcers, self.ledger
        )
        self.look()

    def look(self, failure: str = '') -> host_health.HostHealth:
        self.host.refresh()
        self.host.heal()
        self.health.observe_host(self.host, failure=failure)
        return self.health.snapshot()

    def start_server(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        self.host.apply(SERVER)

    def fail_discovery(self, reason: str) -> None:
        with open(self.failure_file, 'w', encoding='utf-8') as file:
            file.write(reason)

    def break_enforcer(self, method: str) -> None:
        def fail(*args: object) -> None:
            raise exception.EnforcementFailed(
                host='host1',
                enforcer='noop',
                consumer_uuid=SERVER,
                reason='it is gone',
            )

        self.patch(self.enforcers['noop'], method, fail)

    def test_a_host_that_works_is_ok_in_all_its_parts(self) -> None:
        self.start_server()
        now = self.clock.forward(5)

        snapshot = self.look()

        self.assertEqual(Status.OK, snapshot.status)
        self.assertEqual((), snapshot.alarms)
        for part, name in (
            (Part.INVENTORY_PROVIDER, 'fake'),
            (Part.ENFORCER, 'noop'),
            (Part.HEALING, ''),
        ):
            self.assertEqual(now, self.find(part, name).last_success_at)
        self.assertEqual(
            self.ledger.status.last_success_at,
            self.find(Part.LEDGER).last_success_at,
        )

    def test_a_failed_discovery_degrades_the_host(self) -> None:
        self.start_server()
        self.clock.forward(5)
        self.fail_discovery('no such device')

        snapshot = self.look()

        self.assertEqual(Status.DEGRADED, snapshot.status)
        (alarm,) = snapshot.alarms
        self.assertEqual(
            (alarm_mod.DISCOVERY_FAILED, 'fake'), (alarm.name, alarm.subject)
        )
        self.assertIn('no such device', alarm.text)
        self.assertEqual(
            START, self.find(Part.INVENTORY_PROVIDER, 'fake').last_success_at
        )

    def test_something_sold_that_is_not_in_force_fails_the_host(self) -> None:
        self.start_server()
        self.patch(self.enforcers['noop'], 'list_applied', lambda: frozenset())
        self.break_enforcer('apply')

        snapshot = self.look()

        self.assertEqual(Status.FAILING, snapshot.status)
        self.assertEqual([(alarm_mod.NOT_APPLIED, SERVER)], self.list_alarms())
        self.assertIsNone(self.find(Part.ENFORCER, 'noop').failing_since)

    def test_an_enforcer_that_cannot_tell_fails_a_host_with_servers(
        self,
    ) -> None:
        self.break_enforcer('list_applied')

        self.assertEqual(Status.DEGRADED, self.look().status)
        self.start_server()
        self.assertEqual(Status.FAILING, self.look().status)
        self.assertEqual(
            [(alarm_mod.ENFORCER_FAILED, 'noop')], self.list_alarms()
        )
        self.assertIn('it is gone', self.find(Part.ENFORCER, 'noop').failure)

    def test_an_enforcer_without_its_file_system_says_so(self) -> None:
        def fail() -> None:
            raise errors.ResctrlMissing(action='look', reason='not mounted')

        self.patch(self.enforcers['noop'], 'list_applied', fail)

        self.look()

        self.assertEqual(
            [(alarm_mod.RESCTRL_MISSING, 'noop')], self.list_alarms()
        )

    def test_a_release_that_is_stuck_degrades_the_host(self) -> None:
        self.start_server()
        self.break_enforcer('release')
        self.assertRaises(
            exception.EnforcementFailed, self.host.release, SERVER
        )

        snapshot = self.look()

        self.assertEqual(Status.DEGRADED, snapshot.status)
        self.assertEqual(
            [(alarm_mod.RELEASE_PENDING, SERVER)], self.list_alarms()
        )

    def test_healing_that_breaks_off_leaves_what_was_known(self) -> None:
        self.break_enforcer('list_applied')
        self.look()

        snapshot = self.look('RuntimeError: a bug')

        self.assertEqual(
            [
                (alarm_mod.ENFORCER_FAILED, 'noop'),
                (alarm_mod.AUDIT_FAILED, ''),
            ],
            self.list_alarms(),
        )
        self.assertEqual('RuntimeError: a bug', snapshot.alarms[1].text)

    def test_a_ledger_that_cannot_be_written_is_an_alarm_until_it_can(
        self,
    ) -> None:
        self.ledger._db.execute('PRAGMA query_only = 1')
        self.assertRaises(
            exception.LedgerError,
            self.host.claim,
            with_host.make_claim(SERVER),
        )

        self.assertEqual(Status.DEGRADED, self.look().status)
        self.assertEqual([(alarm_mod.LEDGER_FAILED, '')], self.list_alarms())
        self.assertIsNotNone(self.find(Part.LEDGER).last_success_at)
        self.ledger._db.execute('PRAGMA query_only = 0')
        self.assertEqual(Status.OK, self.look().status)

    def test_a_server_of_whom_nothing_can_be_written_is_no_loss(self) -> None:
        self.start_server()
        self.patch(self.enforcers['noop'], 'list_applied', lambda: frozenset())
        self.patch(self.enforcers['noop'], 'apply', self.move_away)
        self.ledger._db.execute('PRAGMA query_only = 1')

        self.look()

        self.assertEqual(
            [(alarm_mod.LEDGER_FAILED, ''), (alarm_mod.LEDGER_FAILED, SERVER)],
            self.list_alarms(),
        )

    def move_away(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        return tuple(
            dataclasses.replace(one, units={'mask': '700'})
            if one.resource_class == with_host.WAYS
            else one
            for one in entry.assignments
        )

    def test_what_a_plugin_leaves_out_is_an_alarm(self) -> None:
        self.patch(
            type(self.providers['fake']), 'left_out', frozenset({'CUSTOM_X'})
        )

        self.look()

        self.assertEqual(
            [(alarm_mod.RESOURCES_LEFT_OUT, 'CUSTOM_X')], self.list_alarms()
        )

    def test_stats_that_are_cut_are_an_alarm(self) -> None:
        self.patch(self.host, '_has_cut_stats', True)

        self.look()

        self.assertEqual([(alarm_mod.STATS_CUT, '')], self.list_alarms())

    def test_a_host_at_which_nobody_looks_is_not_believed(self) -> None:
        self.start_server()
        self.look()
        stale_at = self.clock.forward(60)
        self.assertEqual(Status.OK, self.health.snapshot().status)

        self.clock.forward(1)

        snapshot = self.health.snapshot()
        self.assertEqual(Status.FAILING, snapshot.status)
        (alarm,) = snapshot.alarms
        self.assertEqual(
            (alarm_mod.STALLED, stale_at), (alarm.name, alarm.since)
        )
        self.assertIn('2026-01-02 03:04:05', alarm.text)

    def test_a_clock_that_is_set_makes_nothing_older_or_younger(self) -> None:
        self.start_server()
        for step in (86400, -2 * 86400):
            self.look()

            self.clock.step(step)

            self.assertEqual(Status.OK, self.health.snapshot().status)
            self.clock.forward(61)
            self.assertEqual([(alarm_mod.STALLED, '')], self.list_alarms())


class ObservedOthersTest(HealthTestCase):
    def test_publishing_that_fails_and_works_again(self) -> None:
        before = START - datetime.timedelta(seconds=9)
        status = publisher.PublisherStatus(
            last_success_at=before, failure='HTTP 503'
        )

        self.health.observe_publisher(status)

        found = self.find(Part.PUBLISHER)
        self.assertEqual(
            (before, START), (found.last_success_at, found.failing_since)
        )
        self.assertEqual([(alarm_mod.PUBLISH_FAILED, '')], self.list_alarms())
        self.health.observe_publisher(
            publisher.PublisherStatus(last_success_at=self.clock.forward(1))
        )
        self.assertEqual([], self.list_alarms())

    def test_before_the_first_round_publishing_is_unknown(self) -> None:
        self.health.observe_publisher(publisher.PublisherStatus())

        found = self.find(Part.PUBLISHER)
        self.assertEqual(
            (None, None), (found.last_success_at, found.failing_since)
        )

    def test_nor_is_it_known_while_providers_are_only_believed(self) -> None:
        """Whatever a round before has met."""
        self.health.observe_publisher(
            publisher.PublisherStatus(failure='HTTP 503')
        )

        self.health.observe_publisher(publisher.PublisherStatus(believed=3))

        found = self.find(Part.PUBLISHER)
        self.assertEqual(
            (None, None, ''),
            (found.last_success_at, found.failing_since, found.failure),
        )
        self.assertEqual([], self.list_alarms())

    def test_what_cannot_leave_placement_is_an_alarm_each(self) -> None:
        held = tuple(
            diff.UndeletedProvider(
                name='host1_L3_0',
                rp_uuid='x',
                resource_class=name,
                consumers=(SERVER,),
            )
            for name in ('', 'CUSTOM_A')
        )

        self.health.observe_publisher(
            publisher.PublisherStatus(undeleted=held)
        )

        self.assertEqual(
            [
                (alarm_mod.PROVIDER_IN_USE, 'host1_L3_0'),
                (alarm_mod.PROVIDER_IN_USE, 'host1_L3_0 CUSTOM_A'),
            ],
            self.list_alarms(),
        )
        self.assertIn(SERVER, self.health.snapshot().alarms[1].text)

        self.health.observe_publisher(
            publisher.PublisherStatus(undeleted=held),
            lambda uuid: f'web ({uuid})',
        )

        self.assertIn(f'web ({SERVER})', self.health.snapshot().alarms[1].text)

    def test_what_is_wrong_with_pools_and_nodes_is_an_alarm(self) -> None:
        problem = alarm_mod.Problem(
            alarm=alarm_mod.POOL_DIFFERS, subject='rack1', text='differs'
        )

        self.health.observe_publisher(
            publisher.PublisherStatus(problems=(problem,))
        )

        self.assertEqual(
            [(alarm_mod.POOL_DIFFERS, 'rack1')], self.list_alarms()
        )

    def test_a_ledger_is_seen_with_its_own_times(self) -> None:
        before = START - datetime.timedelta(seconds=9)

        self.health.observe_ledger(ledger.LedgerStatus(last_success_at=before))

        self.assertEqual(before, self.find(Part.LEDGER).last_success_at)

    def test_servers_that_are_not_measured_are_alarms(self) -> None:
        self.health.observe_sweep(
            sample.Sweep(
                finished_at=1.0, duration=0.1, problems={SERVER: 'no id left'}
            )
        )

        (alarm,) = self.health.snapshot().alarms
        self.assertEqual(
            (alarm_mod.NOT_MONITORED, SERVER), (alarm.name, alarm.subject)
        )
        self.assertIn('no id left', alarm.text)
        self.assertEqual(START, self.find(Part.MONITORING).last_success_at)

    def test_measuring_that_fails_and_works_again(self) -> None:
        for problem, raised in (
            ('EIO', [(alarm_mod.MONITORING_FAILED, '')]),
            ('', []),
        ):
            self.health.observe_sweep(
                sample.Sweep(finished_at=1.0, duration=0.1, problem=problem)
            )

            self.assertEqual(raised, self.list_alarms())

    def test_a_thread_whose_rounds_fail_is_an_alarm(self) -> None:
        working, failing = (test_worker.Counter() for _ in range(2))
        self.health.watch(working)
        self.health.watch(failing)
        failing.failed = worker.Failed(rounds=3, reason='oops', since=START)

        snapshot = self.health.snapshot()

        (one,) = snapshot.alarms
        self.assertEqual(
            (alarm_mod.THREAD_FAILED, 'counter', START),
            (one.name, one.subject, one.since),
        )
        self.assertIn('the last 3 rounds of thread counter', one.text)
        self.assertIn('oops', one.text)
        self.assertIs(Status.DEGRADED, snapshot.status)

    def test_tuning_that_fails_and_works_again(self) -> None:
        self.health.observe_tuning(['a', 'b'])

        (alarm,) = self.health.snapshot().alarms
        self.assertEqual(
            (alarm_mod.TUNING_FAILED, 'a; b'), (alarm.name, alarm.text)
        )
        self.health.observe_tuning([])
        self.assertEqual([], self.list_alarms())
        self.assertEqual(START, self.find(Part.TUNING).last_success_at)


class ClockTest(base.TestCase):
    def test_the_real_clock_is_aware(self) -> None:
        at = health.Health('host1').snapshot().at

        self.assertEqual(datetime.timedelta(0), at.utcoffset())
