# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping, Sequence
import dataclasses
import errno
import json
import os
import pathlib
from typing import Any

import fixtures

from nova_ext_resources.conf import tuning
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources import exception
from nova_ext_resources.objects import tunable_units
from nova_ext_resources.testing import fake_clock
from nova_ext_resources.tuning import audit
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import loop
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps
from tests import base
from tests.unit.tuning import builders

WAY = 1 << 21

#: Traffic that is none, and much of it.
CALM, BUSY = 0.0, 20e9


class Host:
    """Two servers, and what was set."""

    def __init__(self) -> None:
        self.tunables: tuple[tunable_units.Tunable, ...] = (
            builders.make_tunable('a'),
            builders.make_tunable('b'),
        )
        self.error: Exception | None = None
        self.is_blind = False
        #: Ways below which server a moves much to and from memory.
        self.working_set = 0
        self.calls: list[Sequence[tunable_units.Tunable]] = []

    def list_tunables(self) -> Sequence[tunable_units.Tunable]:
        if self.is_blind:
            raise self.make_error()
        return self.tunables

    def make_error(self) -> exception.EnforcementFailed:
        return exception.EnforcementFailed(
            host='cn1', enforcer='resctrl', consumer_uuid='', reason='EBUSY'
        )

    def list_domains(self) -> Mapping[str, pressure.CacheDomain]:
        return {
            builders.L3: pressure.CacheDomain(
                capacities={classes.BURST: 8}, way_bytes=WAY
            )
        }

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        self.calls.append(tunables)
        if self.error:
            raise self.error
        self.tunables = tuple(tunables)

    @property
    def traffic(self) -> tuple[float, float]:
        is_calm = self.tunables[0].amount >= self.working_set
        return CALM if is_calm else BUSY, BUSY

    @property
    def amounts(self) -> tuple[int, ...]:
        return tuple(one.amount for one in self.tunables)


class TunerTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.make_folder(), 'trail.jsonl')
        self.host = Host()
        self.now = 0.0

    def make_tuner(self, **fields: Any) -> loop.Tuner:
        return loop.Tuner(
            self.host,
            settings=loop.Settings(**fields),
            audit=audit.AuditTrail(str(self.path), host='cn1'),
            host='cn1',
            clock=fake_clock.FakeClock(lambda: self.now),
        )

    def run_for(
        self, tuner: loop.Tuner, rounds: int, age: float = 0.0
    ) -> list[steps.UnitMove]:
        made: list[steps.UnitMove] = []
        for _ in range(rounds):
            readings = [
                pressure.PressureReading(
                    consumer_uuid=uuid,
                    rp_key=builders.L3,
                    llc_bytes=held * WAY,
                    memory_bytes=traffic,
                    taken_at=self.now - age,
                    cpus=4,
                )
                for uuid, held, traffic in zip(
                    'ab', self.host.amounts, self.host.traffic, strict=True
                )
            ]
            made.extend(tuner.run_once(readings))
            self.now += 10.0
        return made

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(one) for one in self.path.read_text().splitlines()]

    def test_a_way_goes_to_who_suffers(self) -> None:
        self.run_for(self.make_tuner(), 13)

        self.assertEqual((3, 5), self.host.amounts)
        self.assertEqual(
            [('b', 'applied'), ('a', 'applied')],
            [(one['server'], one['outcome']) for one in self.read()],
        )

    def test_changes_are_counted(self) -> None:
        tuner = self.make_tuner()

        self.run_for(tuner, 18)

        self.assertEqual({classes.BURST: 2}, tuner.changes)

    def test_who_cannot_be_asked_is_a_problem(self) -> None:
        tuner = self.make_tuner()
        self.host.is_blind = True

        self.assertEqual([], self.run_for(tuner, 1))
        self.assertIn('EBUSY', tuner.problems[0])
        self.host.is_blind = False
        self.run_for(tuner, 1)
        self.assertEqual((), tuner.problems)

    def test_all_shares_of_the_pool_are_set_together(self) -> None:
        self.run_for(self.make_tuner(), 13)

        self.assertEqual(
            ['a', 'b'], [s.consumer_uuid for s in self.host.calls[0]]
        )

    def test_what_did_harm_is_undone(self) -> None:
        self.host.working_set = 4
        tuner = self.make_tuner()

        self.run_for(tuner, 13)
        self.assertEqual((3, 5), self.host.amounts)
        self.run_for(tuner, 5)

        self.assertEqual((4, 4), self.host.amounts)

    def test_what_did_no_harm_stays(self) -> None:
        self.run_for(self.make_tuner(), 18)

        self.assertEqual((2, 6), self.host.amounts)

    def test_a_dry_run_changes_nothing(self) -> None:
        made = self.run_for(self.make_tuner(is_dry_run=True), 60)

        self.assertEqual([], self.host.calls)
        self.assertEqual(1, len(made))

    def test_a_dry_run_says_the_same_thing_once(self) -> None:
        self.run_for(self.make_tuner(is_dry_run=True), 60)

        self.assertEqual(
            ['dry run'] * 2, [one['outcome'] for one in self.read()]
        )

    def test_a_round_too_soon_is_none(self) -> None:
        tuner = self.make_tuner(interval=1000.0)

        self.run_for(tuner, 50)

        self.assertEqual([], self.host.calls)

    def test_old_measurements_count_as_missing(self) -> None:
        self.run_for(self.make_tuner(), 50, age=26.0)

        self.assertEqual([], self.host.calls)

    def test_a_failure_is_told_and_backed_off_from(self) -> None:
        tuner = self.make_tuner()
        self.host.error = self.host.make_error()

        times = []
        for _ in range(40):
            now, before = self.now, len(self.host.calls)
            self.run_for(tuner, 1)
            times += [now] * (len(self.host.calls) - before)

        # Right after pauses of 60 and 120 seconds; then there is one of 240.
        self.assertEqual([120.0, 180.0, 300.0], times)
        [problem] = tuner.problems
        self.assertIn('EBUSY', problem)
        self.assertIn('L3_0', problem)
        self.assertEqual('failed', self.read()[-1]['outcome'])
        self.assertEqual({}, tuner.changes)

    def test_after_a_failure_it_goes_on(self) -> None:
        tuner = self.make_tuner()
        self.host.error = OSError('EIO')
        self.run_for(tuner, 14)
        self.host.error = None

        self.run_for(tuner, 6)

        self.assertEqual((3, 5), self.host.amounts)
        self.assertEqual((), tuner.problems)

    def test_a_failure_of_a_pool_that_is_gone_is_forgotten(self) -> None:
        tuner = self.make_tuner()
        self.host.error = OSError('EIO')
        self.run_for(tuner, 14)

        self.host.tunables = ()
        tuner.run_once([])

        self.assertEqual((), tuner.problems)

    def test_an_audit_trail_that_fails_is_a_problem_only(self) -> None:
        self.path.mkdir()
        tuner = self.make_tuner()

        self.run_for(tuner, 13)

        self.assertEqual((3, 5), self.host.amounts)
        self.assertIn(str(self.path), tuner.problems[0])


class MakePoolTest(base.TestCase):
    def test_bandwidth_moves_in_percent_of_the_domain(self) -> None:
        domain = pressure.CacheDomain(capacities={classes.MBPS: 40000})
        key = builders.L3, classes.MBPS

        pool = loop.make_pool(key, [], domain, loop.Settings())

        self.assertEqual(4000, pool.max_step)
        self.assertFalse(pool.is_tried)

    def test_of_an_unknown_capacity_in_percent_of_what_is_held(self) -> None:
        tunables = [builders.make_tunable(amount=500)]
        key = builders.L3, classes.MBPS

        pool = loop.make_pool(
            key, tunables, pressure.CacheDomain(), loop.Settings()
        )

        self.assertEqual((None, 50), (pool.capacity, pool.max_step))

    def test_it_knows_the_even_division(self) -> None:
        tunables = [
            builders.make_tunable('a', amount=7),
            builders.make_tunable('b', amount=2, maximum=3),
        ]
        domain = pressure.CacheDomain(capacities={classes.BURST: 10})

        pool = loop.make_pool(builders.WAYS, tunables, domain, loop.Settings())

        self.assertEqual({'a': 7, 'b': 3}, pool.even)

    def test_it_is_unknown_if_the_minimums_do_not_fit(self) -> None:
        tunables = [builders.make_tunable(minimum=9)]
        domain = pressure.CacheDomain(capacities={classes.BURST: 8})

        pool = loop.make_pool(builders.WAYS, tunables, domain, loop.Settings())

        self.assertEqual({}, pool.even)

    def test_it_moves_what_the_host_can_count(self) -> None:
        """With mba_MBps, the kernel may count in tens."""
        key = builders.L3, classes.MBPS
        tunables = [builders.make_tunable(step=10)]
        for allocated, expected in ((1, 10), (20, 20)):
            domain = pressure.CacheDomain(steps={classes.MBPS: allocated})

            pool = loop.make_pool(key, tunables, domain, loop.Settings())

            self.assertEqual(expected, pool.step)


class FromConfTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        tuning.register_opts(self.conf)
        self.folder = self.useFixture(fixtures.TempDir()).path

    def override(self, **values: object) -> None:
        for name, value in values.items():
            self.conf.set_override(name, value, 'ext_resources_tuning')

    def load(self) -> loop.Tuner | None:
        return loop.from_conf(
            self.conf,
            Host(),
            host='cn1',
            audit_path=os.path.join(self.folder, 'new', 'trail'),
        )

    def test_it_is_off_by_default(self) -> None:
        self.assertIsNone(self.load())

    def test_it_is_a_dry_run_by_default(self) -> None:
        self.override(enabled=True)

        self.assertIsNotNone(self.load())
        self.assertTrue(loop.Settings.from_conf(self.conf).is_dry_run)

    def test_the_options_have_the_defaults_of_the_code(self) -> None:
        settings = loop.Settings.from_conf(self.conf)

        self.assertEqual(
            loop.Settings(is_dry_run=True, limits=history.TuningLimits()),
            settings,
        )

    def test_what_is_off_has_no_wrong_options(self) -> None:
        self.override(give_below=0.3)

        self.assertIsNone(self.load())

    def test_the_thresholds_must_be_apart(self) -> None:
        self.override(enabled=True, give_below=0.3)

        error = self.assertRaises(exception.InvalidConfiguration, self.load)

        self.assertIn('want_above', str(error))

    def test_an_audit_trail_that_cannot_be_written_stops_the_start(
        self,
    ) -> None:
        for path, reason in (
            (self.folder, 'Is a directory'),
            (os.path.join('/dev/null', 'trail'), 'File exists'),
        ):
            self.override(enabled=True, audit_path=path)
            with self.subTest(path=path):
                error = self.assertRaises(
                    exception.InvalidConfiguration, self.load
                )

                for word in ('audit_path', path, reason):
                    self.assertIn(word, str(error))

    def test_a_disk_that_is_full_does_not(self) -> None:
        self.override(enabled=True)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.tuning.audit.AuditTrail.check',
                self.fail_to_write,
            )
        )

        self.assertIsNotNone(self.load())

    @staticmethod
    def fail_to_write(_trail: object) -> None:
        raise OSError(errno.ENOSPC, 'No space left on device')

    def test_every_value_is_used(self) -> None:
        self.override(
            dry_run=False,
            interval=20.0,
            want_above=0.5,
            give_below=0.4,
            cool_down=60.0,
            max_ways=2,
            max_bandwidth=20,
        )

        settings = loop.Settings.from_conf(self.conf)

        self.assertEqual(
            loop.Settings(
                limits=history.TuningLimits(
                    want_above=0.5, give_below=0.4, cool_down=60.0
                ),
                interval=20.0,
                max_ways=2,
                max_bandwidth=20,
            ),
            settings,
        )
        self.assertEqual(
            len(dataclasses.fields(settings)) + 4,
            len(tuning.OPTS),
        )
