# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
import math

from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import level
from tests import base
from tests.unit.tuning import builders

LIMITS = history.TuningLimits()
KEY = ('a', *builders.WAYS)


def observe(
    track: history.Track, value: float, now: float = 0.0
) -> history.Track:
    state = history.observe(
        builders.make_state({'a': track}),
        [builders.make_tunable(amount=track.amount)],
        [builders.make_pressure('a', value)],
        LIMITS,
        now,
    )
    return state.tracks[KEY]


def observe_all(values: Sequence[float]) -> history.Track:
    track = builders.make_track(values[0], count=0, seen=0)
    for value in values:
        track = observe(track, value)
    return track


class ObserveTest(base.TestCase):
    def test_the_first_measurement_after_a_change_replaces(self) -> None:
        track = observe(builders.make_track(0.9, count=0), 0.1)

        self.assertAlmostEqual(0.1, track.pressure)
        self.assertEqual(1, track.count)

    def test_later_ones_count_for_the_mean(self) -> None:
        track = observe(builders.make_track(0.4, count=3), 0.8)

        self.assertAlmostEqual(0.5, track.pressure)
        self.assertAlmostEqual(0.5, track.waiting)

    def test_a_mean_forgets_old_measurements(self) -> None:
        track = observe(builders.make_track(0.4, count=1000), 0.8)

        self.assertAlmostEqual(0.4 + 0.4 / 32, track.pressure)

    def test_while_the_cache_fills_nothing_is_measured(self) -> None:
        young = builders.make_track(0.4, changed_at=0.0, count=0)

        self.assertEqual(0, observe(young, 0.8, now=14.0).count)
        self.assertEqual(1, observe(young, 0.8, now=15.0).count)

    def test_nonsense_counts_as_missing(self) -> None:
        known = builders.make_track(0.4)
        for value in (float('nan'), float('inf'), -0.1):
            with self.subTest(value=value):
                track = observe(known, value)

                self.assertEqual(0.4, track.pressure)
                self.assertFalse(track.is_fresh)

    def test_what_is_off_the_scale_is_its_end(self) -> None:
        self.assertEqual(1.0, observe(builders.make_track(1.0), 7.0).pressure)

    def test_noise_is_learned(self) -> None:
        track = observe_all([0.4, 0.5, 0.6, 0.5] * 30)

        self.assertAlmostEqual(0.005, track.variance, delta=0.001)
        # The mean forgets: it is as exact as that of 63 measurements.
        self.assertAlmostEqual(0.07, track.level.error * 63**0.5, delta=0.01)

    def test_slow_changes_leave_more_doubt_than_noise(self) -> None:
        quick = observe_all([0.47, 0.53] * 32)
        slow = observe_all(([0.47] * 8 + [0.53] * 8) * 4)

        self.assertAlmostEqual(quick.variance, slow.variance, delta=0.0005)
        self.assertGreater(slow.level.error, 2 * quick.level.error)

    def test_spare_units_fall_at_once_and_rise_slowly(self) -> None:
        def observe_spare(old: float, new: float) -> float:
            state = history.observe(
                builders.make_state({'a': builders.make_track(unused=old)}),
                [builders.make_tunable()],
                [builders.make_pressure('a', unused=new)],
                LIMITS,
                0.0,
            )
            return state.tracks[KEY].unused

        self.assertEqual(0.5, observe_spare(3.0, 0.5))
        self.assertAlmostEqual(0.5 + 2.5 / 11, observe_spare(0.5, 3.0))
        # No more than it has.
        self.assertEqual(4, observe_spare(4.0, 100.0))

    def test_wanting_has_two_thresholds(self) -> None:
        calm = builders.make_track(0.25, wants=False)
        eager = builders.make_track(0.25, wants=True)

        self.assertFalse(observe(calm, 0.25).wants)
        self.assertTrue(observe(eager, 0.25).wants)
        self.assertFalse(
            observe(builders.make_track(0.1, wants=True), 0.1).wants
        )

    def test_who_is_gone_is_forgotten(self) -> None:
        state = history.observe(
            builders.make_state({'a': builders.make_track()}),
            [],
            [],
            LIMITS,
            0.0,
        )

        self.assertEqual({}, state.tracks)


class TurnTest(base.TestCase):
    """Another load: what was learned does not hold for it."""

    def test_three_far_measurements_are_another_load(self) -> None:
        base = level.Level(waiting=0.2)
        track = builders.make_track(0.2, base=base, jitter=1e-6)
        for _ in range(2):
            track = observe(track, 0.6)
            self.assertEqual(base, track.base)

        track = observe(track, 0.6, now=7.0)

        self.assertEqual(
            (None, 7.0, 1), (track.base, track.turned_at, track.count)
        )
        self.assertAlmostEqual(0.6, track.waiting)

    def test_single_ones_are_not(self) -> None:
        track = builders.make_track(0.2)
        for value in (0.6, 0.6, 0.2) * 3:
            track = observe(track, value)

        self.assertEqual(-math.inf, track.turned_at)

    def test_one_change_begins_no_hold(self) -> None:
        track = builders.make_track().turn(LIMITS, 100.0)

        self.assertFalse(track.is_on_hold(100.0))

    def test_changes_that_follow_each_other_begin_ever_longer_holds(
        self,
    ) -> None:
        track = builders.make_track()
        lengths = []
        now = 0.0
        for _ in range(9):
            track = track.turn(LIMITS, now)
            assert track.hold is not None
            lengths.append(track.hold.until - now)
            now = track.hold.until + 1

        self.assertEqual([0.0, 150.0, 450.0, 1050.0], lengths[:4])
        self.assertEqual(150.0 * 31, lengths[-1])

    def test_after_a_long_time_a_change_is_the_first_one_again(self) -> None:
        track = builders.make_track()
        # 150 seconds of hold from 10, and another 600 without a change.
        self.assertTrue(track_turns(0.0, 10.0, 759.0).is_on_hold(760.0))
        self.assertFalse(track_turns(0.0, 10.0, 761.0).is_on_hold(762.0))
        for now in (0.0, 10.0, 10000.0):
            track = track.turn(LIMITS, now)

        self.assertFalse(track.is_on_hold(10000.0))


def track_turns(*times: float) -> history.Track:
    track = builders.make_track()
    for now in times:
        track = track.turn(LIMITS, now)
    return track


class BlockTest(base.TestCase):
    def test_it_ends_with_time(self) -> None:
        track = builders.make_track(0.5)
        block = track.make_block(None, 0.5, LIMITS, 0.0)

        self.assertTrue(track.is_blocked(block, LIMITS, 599.0))
        self.assertFalse(track.is_blocked(block, LIMITS, 600.0))

    def test_it_ends_when_the_server_does_something_else(self) -> None:
        block = history.Block(until=600.0, waiting=0.5)

        self.assertFalse(
            builders.make_track(0.7).is_blocked(block, LIMITS, 0.0)
        )

    def test_noise_is_not_something_else(self) -> None:
        block = history.Block(until=600.0, waiting=0.5)

        self.assertTrue(
            builders.make_track(0.7, variance=0.06**2).is_blocked(
                block, LIMITS, 0.0
            )
        )

    def test_it_is_longer_each_time_up_to_a_bound(self) -> None:
        track = builders.make_track(0.5)
        block = None
        lengths = []
        for _ in range(9):
            block = track.make_block(block, 0.5, LIMITS, 0.0)
            lengths.append(block.until)

        self.assertEqual([600.0, 1200.0, 2400.0], lengths[:3])
        self.assertEqual(600.0 * 32, lengths[-1])

    def test_of_another_phase_it_begins_anew(self) -> None:
        old = history.Block(until=0.0, waiting=0.1, failures=4)

        block = builders.make_track(0.5).make_block(old, 0.5, LIMITS, 0.0)

        self.assertEqual(1, block.failures)
