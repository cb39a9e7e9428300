# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.tuning import history
from tests import base
from tests.unit.tuning import builders

LIMITS = history.Limits()
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


class ObserveTest(base.TestCase):
    def test_the_first_measurement_after_a_change_replaces(self) -> None:
        track = observe(builders.make_track(0.9, count=0), 0.1)

        self.assertAlmostEqual(0.1, track.pressure)
        self.assertEqual(1, track.count)

    def test_later_ones_are_smoothed(self) -> None:
        track = observe(builders.make_track(0.4), 0.8)

        self.assertAlmostEqual(0.5, track.pressure)

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
        track = builders.make_track(0.5)
        for number in range(60):
            track = observe(track, 0.5 + (0.1 if number % 2 else -0.1))

        self.assertAlmostEqual(0.1, track.noise, delta=0.03)

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


class BlockTest(base.TestCase):
    def test_it_ends_with_time(self) -> None:
        track = builders.make_track(0.5)
        block = track.make_block(None, 0.5, LIMITS, 0.0)

        self.assertTrue(track.is_blocked(block, LIMITS, 599.0))
        self.assertFalse(track.is_blocked(block, LIMITS, 600.0))

    def test_it_ends_when_the_server_does_something_else(self) -> None:
        block = history.Block(until=600.0, pressure=0.5)

        self.assertFalse(
            builders.make_track(0.7).is_blocked(block, LIMITS, 0.0)
        )

    def test_noise_is_not_something_else(self) -> None:
        block = history.Block(until=600.0, pressure=0.5)

        self.assertTrue(
            builders.make_track(0.7, noise=0.06).is_blocked(block, LIMITS, 0.0)
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
        old = history.Block(until=0.0, pressure=0.1, failures=4)

        block = builders.make_track(0.5).make_block(old, 0.5, LIMITS, 0.0)

        self.assertEqual(1, block.failures)
