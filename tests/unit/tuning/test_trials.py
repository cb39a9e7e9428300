# SPDX-License-Identifier: Apache-2.0

import dataclasses
from typing import Any

from nova_ext_resources.tuning import controller
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import level
from nova_ext_resources.tuning import steps
from nova_ext_resources.tuning import trials
from tests import base
from tests.unit.tuning import builders

LIMITS = history.TuningLimits()
POOLS = {builders.WAYS: steps.UnitPool(capacity=8, even={'a': 4, 'b': 4})}

A = ('a', *builders.WAYS)
B = ('b', *builders.WAYS)

#: b got one way of a, and waited 0.8 before; a waited 0.1.
TRIAL = history.Trial(
    taker=B,
    giver=A,
    units=1,
    started_at=-500.0,
    before=(level.Level(waiting=0.8), level.Level(waiting=0.1)),
)


def make_state(a: float, b: float, **fields: Any) -> history.TuningState:
    return builders.make_state(
        {
            'a': builders.make_track(a, amount=3, **fields),
            'b': builders.make_track(b, amount=5, **fields),
        },
        TRIAL,
    )


def run_round(
    state: history.TuningState, a: float, b: float
) -> tuple[tuple[steps.UnitMove, ...], history.TuningState]:
    """Decide, and do what was decided."""
    tunables = [
        builders.make_tunable('a', amount=state.tracks[A].amount),
        builders.make_tunable('b', amount=state.tracks[B].amount),
    ]
    pressures = [
        builders.make_pressure('a', a),
        builders.make_pressure('b', b),
    ]
    moves, state = controller.decide(
        tunables, pressures, state, POOLS, LIMITS, 0.0
    )
    return moves, trials.note(state, moves, POOLS, LIMITS, 0.0)


class JudgeTest(base.TestCase):
    def judge(
        self, a: float, b: float, **fields: Any
    ) -> trials.TrialVerdict | None:
        return trials.judge(TRIAL, make_state(a, b, **fields), LIMITS)

    def test_a_gain_without_a_loss_stays(self) -> None:
        self.assertEqual(
            trials.TrialVerdict(helped=True), self.judge(0.1, 0.6)
        )

    def test_neither_gain_nor_loss_stays_and_is_known(self) -> None:
        self.assertEqual(
            trials.TrialVerdict(futile=True), self.judge(0.1, 0.8)
        )

    def test_a_loss_above_the_gain_is_undone(self) -> None:
        self.assertEqual(
            trials.TrialVerdict(undo=trials.HARMFUL, helped=True, harmed=True),
            self.judge(0.14, 0.794),
        )

    def test_a_small_loss_for_a_large_gain_stays(self) -> None:
        self.assertEqual(
            trials.TrialVerdict(helped=True, harmed=True),
            self.judge(0.14, 0.6),
        )

    def test_a_large_loss_is_undone_whatever_the_gain(self) -> None:
        verdict = self.judge(0.2, 0.1)

        assert verdict is not None
        self.assertEqual(trials.HARMFUL, verdict.undo)

    def test_harm_without_a_sign_of_gain_was_in_vain_too(self) -> None:
        noise = {'variance': 1e-4, 'jitter': 1e-4}

        for b, is_futile in ((0.6, False), (0.8, True)):
            verdict = self.judge(0.3, b, **noise)

            assert verdict is not None
            self.assertEqual(trials.HARMFUL, verdict.undo)
            self.assertEqual(is_futile, verdict.futile)

    def test_within_the_noise_it_waits_for_more_measurements(self) -> None:
        noise = {'variance': 0.04, 'jitter': 0.04}

        self.assertIsNone(self.judge(0.1, 0.7, **noise, count=4))
        self.assertIsNone(self.judge(0.1, 0.79, **noise, count=31))

    def test_it_does_not_wait_for_ever(self) -> None:
        noise = {'variance': 0.04, 'jitter': 0.04}

        self.assertIsNotNone(self.judge(0.1, 0.79, **noise, count=32))

    def test_if_nothing_is_sure_at_the_end_a_likely_loss_is_undone(
        self,
    ) -> None:
        noise = {'variance': 0.04, 'jitter': 0.04, 'count': 32}

        verdict = self.judge(0.16, 0.6, **noise)

        assert verdict is not None
        self.assertEqual(trials.HARMFUL, verdict.undo)

    def test_a_loss_that_may_be_large_is_no_verdict_yet(self) -> None:
        for count, undone in ((9, None), (32, '')):
            noise = {'variance': 2.3e-3, 'jitter': 2.3e-3, 'count': count}

            verdict = self.judge(0.13, 0.3, **noise)

            self.assertEqual(undone, verdict and verdict.undo)

    def test_another_load_meanwhile_shows_nothing(self) -> None:
        for turned_at, reason in ((-499.0, trials.CHANGED), (-501.0, '')):
            verdict = self.judge(0.1, 0.6, turned_at=turned_at)

            assert verdict is not None
            self.assertEqual(reason, verdict.undo)

    def test_of_free_units_only_the_gain_counts(self) -> None:
        trial = dataclasses.replace(TRIAL, giver=None)

        self.assertEqual(
            trials.TrialVerdict(helped=True),
            trials.judge(trial, make_state(0.9, 0.6), LIMITS),
        )


class TrialTest(base.TestCase):
    def test_a_step_that_helped_stays_and_is_protected(self) -> None:
        _moves, state = run_round(make_state(0.1, 0.6), 0.1, 0.6)

        self.assertNotIn(TRIAL, state.trials)
        self.assertIsNone(state.tracks[B].futile)
        self.assertIsNotNone(state.tracks[B].needed)

    def test_a_step_without_effect_stays_and_is_not_repeated(self) -> None:
        moves, state = run_round(make_state(0.1, 0.8), 0.1, 0.8)

        self.assertNotIn(steps.StepKind.UNDONE, [move.kind for move in moves])
        self.assertNotIn(TRIAL, state.trials)
        self.assertIsNotNone(state.tracks[B].futile)

    def test_a_step_that_did_harm_is_undone(self) -> None:
        [move], state = run_round(make_state(0.3, 0.6), 0.3, 0.6)

        self.assertEqual(steps.StepKind.UNDONE, move.kind)
        self.assertEqual(('a', 'b', 1), (move.taker, move.giver, move.units))
        self.assertEqual(trials.HARMFUL, move.reason)
        self.assertEqual((), state.trials)
        self.assertIsNone(state.tracks[B].futile)
        needed = state.tracks[A].needed
        assert needed is not None
        self.assertEqual((600.0, 0.1), (needed.until, needed.waiting))

    def test_who_was_harmed_again_gives_nothing_for_twice_as_long(
        self,
    ) -> None:
        state = make_state(0.3, 0.6)
        old = history.Block(until=-1.0, waiting=0.1)
        track = dataclasses.replace(state.tracks[A], needed=old)

        _moves, state = run_round(state.replace_tracks({A: track}), 0.3, 0.6)

        needed = state.tracks[A].needed
        assert needed is not None
        self.assertEqual(1200.0, needed.until)

    def test_at_its_limit_of_bandwidth_a_step_is_not_in_vain(self) -> None:
        for pressure, is_futile in ((0.7, True), (0.8, False)):
            state = make_state(0.1, 0.8)
            limited = builders.make_track(pressure)

            state = trials.learn(
                TRIAL,
                trials.TrialVerdict(futile=True),
                state.replace_tracks({('b', *builders.PERCENT): limited}),
                LIMITS,
                0.0,
            )

            self.assertEqual(is_futile, state.tracks[B].futile is not None)

    def test_a_trial_that_another_load_ended_blocks_nobody(self) -> None:
        state = make_state(0.1, 0.6, turned_at=-499.0)

        [move], state = run_round(state, 0.1, 0.6)

        self.assertEqual(trials.CHANGED, move.reason)
        self.assertIsNone(state.tracks[B].futile)
        self.assertIsNone(state.tracks[A].needed)

    def test_a_server_on_trial_is_not_changed(self) -> None:
        state = make_state(0.1, 0.6)
        young = dataclasses.replace(state.tracks[A], count=0)

        moves, state = run_round(state.replace_tracks({A: young}), 0.1, 0.6)

        self.assertEqual((), moves)
        self.assertEqual((TRIAL,), state.trials)

    def test_a_trial_ends_with_its_server(self) -> None:
        state = history.observe(
            make_state(0.1, 0.8),
            [builders.make_tunable('a', amount=3)],
            [],
            LIMITS,
            0.0,
        )

        self.assertEqual((), state.trials)

    def test_a_change_by_other_software_ends_a_trial(self) -> None:
        state = history.observe(
            make_state(0.1, 0.8),
            [
                builders.make_tunable('a', amount=3),
                builders.make_tunable('b', amount=4),
            ],
            [],
            LIMITS,
            7.0,
        )

        self.assertEqual((), state.trials)
        self.assertEqual(7.0, state.tracks[B].changed_at)

    def test_no_step_is_undone_beyond_the_limits(self) -> None:
        # The limits have changed meanwhile.
        for fields in (
            {'a': {}, 'b': {'minimum': 5}},
            {'a': {'maximum': 3}, 'b': {}},
        ):
            tunables = [
                builders.make_tunable('a', amount=3, **fields['a']),
                builders.make_tunable('b', amount=5, **fields['b']),
            ]
            pressures = [
                builders.make_pressure('a', 0.3),
                builders.make_pressure('b', 0.8),
            ]

            moves, state = controller.decide(
                tunables, pressures, make_state(0.3, 0.8), POOLS, LIMITS, 0.0
            )

            self.assertNotIn(
                steps.StepKind.UNDONE, [one.kind for one in moves]
            )
            self.assertEqual((), state.trials)


class NoteTest(base.TestCase):
    def make_move(self, **fields: Any) -> steps.UnitMove:
        return steps.UnitMove(
            rp_key=builders.L3,
            resource_class=builders.WAYS[1],
            units=1,
            taker='b',
            giver='a',
            reason=controller.NO_USE,
            pressures={},
            **{'kind': steps.StepKind.WANTED, **fields},
        )

    def make_state(self, **fields: Any) -> history.TuningState:
        return builders.make_state(
            {
                'a': builders.make_track(0.5, **fields),
                'b': builders.make_track(0.6),
            }
        )

    def test_a_change_begins_a_cool_down_of_both(self) -> None:
        pools = {builders.WAYS: steps.UnitPool(is_tried=False)}

        state = trials.note(
            self.make_state(), [self.make_move()], pools, LIMITS, 7.0
        )

        self.assertEqual((7.0, 3, 0), _read(state.tracks[A]))
        self.assertEqual((7.0, 5, 0), _read(state.tracks[B]))
        # What needs no proof is not on trial.
        self.assertEqual((), state.trials)

    def test_who_got_bandwidth_keeps_it(self) -> None:
        pools = {builders.WAYS: steps.UnitPool(is_tried=False)}

        state = trials.note(
            self.make_state(), [self.make_move()], pools, LIMITS, 0.0
        )

        self.assertIsNotNone(state.tracks[B].needed)
        self.assertIsNone(state.tracks[A].needed)

    def test_the_level_with_even_division_is_remembered(self) -> None:
        for even, expected in ((4, 0.5), (3, None)):
            pools = {builders.WAYS: steps.UnitPool(even={'a': even})}

            state = trials.note(
                self.make_state(), [self.make_move()], pools, LIMITS, 0.0
            )

            found = state.tracks[A].base
            self.assertEqual(expected, found and found.waiting)

    def test_it_is_remembered_until_the_load_changes(self) -> None:
        state = self.make_state(base=level.Level(waiting=0.48))

        state = trials.note(state, [self.make_move()], POOLS, LIMITS, 0.0)

        self.assertEqual(level.Level(waiting=0.48), state.tracks[A].base)

    def test_many_small_losses_are_noticed(self) -> None:
        state = self.make_state(base=level.Level(waiting=0.48))

        state = trials.note(state, [self.make_move()], POOLS, LIMITS, 0.0)

        self.assertEqual(0.48, state.trials[0].before[1].waiting)

    def test_who_got_units_back_without_a_trial_keeps_them(self) -> None:
        move = self.make_move(kind=steps.StepKind.UNDONE)

        state = trials.note(self.make_state(), [move], POOLS, LIMITS, 0.0)

        self.assertIsNotNone(state.tracks[B].needed)
        self.assertIsNone(state.tracks[A].needed)


def _read(track: history.Track) -> tuple[float, int, int]:
    return track.changed_at, track.amount, track.count
