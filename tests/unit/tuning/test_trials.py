# SPDX-License-Identifier: Apache-2.0

import dataclasses

from nova_ext_resources.tuning import controller
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import steps
from nova_ext_resources.tuning import trials
from tests import base
from tests.unit.tuning import builders

LIMITS = history.Limits()
POOLS = {builders.WAYS: steps.Pool(capacity=8)}

A = ('a', *builders.WAYS)
B = ('b', *builders.WAYS)

#: b got one way of a, and suffered 0.8 before; a suffered 0.1.
TRIAL = history.Trial(taker=B, giver=A, units=1, before=(0.8, 0.1))


def make_state(a: float, b: float) -> history.State:
    return builders.make_state(
        {
            'a': builders.make_track(a, amount=3),
            'b': builders.make_track(b, amount=5),
        },
        TRIAL,
    )


def run_round(
    state: history.State, a: float, b: float
) -> tuple[tuple[steps.Move, ...], history.State]:
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


class TrialTest(base.TestCase):
    def test_a_step_that_helped_stays(self) -> None:
        _moves, state = run_round(make_state(0.15, 0.6), 0.15, 0.6)

        self.assertNotIn(TRIAL, state.trials)
        self.assertIsNone(state.tracks[B].futile)

    def test_what_helped_is_not_tried_away_soon(self) -> None:
        state = make_state(0.15, 0.6)
        [kept] = state.trials

        state = trials.keep(kept, state, LIMITS, 0.0)

        self.assertIsNotNone(state.tracks[B].needed)

    def test_a_step_that_did_not_help_is_undone(self) -> None:
        [move], state = run_round(make_state(0.1, 0.8), 0.1, 0.8)

        self.assertEqual(steps.Kind.UNDONE, move.kind)
        self.assertEqual(('a', 'b', 1), (move.taker, move.giver, move.units))
        self.assertEqual(trials.FUTILE, move.reason)
        self.assertEqual((), state.trials)
        self.assertIsNotNone(state.tracks[B].futile)

    def test_a_step_that_did_more_harm_is_undone(self) -> None:
        [move], state = run_round(make_state(0.9, 0.6), 0.9, 0.6)

        self.assertEqual(trials.HARMFUL, move.reason)
        self.assertIsNotNone(state.tracks[A].needed)
        self.assertIsNone(state.tracks[B].futile)

    def test_within_the_noise_nothing_has_helped(self) -> None:
        state = make_state(0.1, 0.7)
        noisy = dataclasses.replace(state.tracks[B], noise=0.06)

        [move], _state = run_round(state.replace_tracks({B: noisy}), 0.1, 0.7)

        self.assertEqual(trials.FUTILE, move.reason)

    def test_a_server_on_trial_is_not_changed(self) -> None:
        state = make_state(0.0, 0.6)
        young = dataclasses.replace(state.tracks[A], count=0)

        moves, state = run_round(state.replace_tracks({A: young}), 0.0, 0.6)

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

    def test_a_change_by_somebody_else_ends_a_trial(self) -> None:
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

    def test_no_step_is_undone_into_what_was_sold(self) -> None:
        # What was sold has changed meanwhile.
        tunables = [
            builders.make_tunable('a', amount=3),
            builders.make_tunable('b', amount=5, minimum=5),
        ]
        pressures = [
            builders.make_pressure('a', 0.1),
            builders.make_pressure('b', 0.8),
        ]

        moves, state = controller.decide(
            tunables, pressures, make_state(0.1, 0.8), POOLS, LIMITS, 0.0
        )

        self.assertNotIn(steps.Kind.UNDONE, [move.kind for move in moves])
        self.assertEqual((), state.trials)

    def test_a_change_begins_a_cool_down_of_both(self) -> None:
        pools = {builders.WAYS: steps.Pool(is_tried=False)}
        state = builders.make_state(
            {'a': builders.make_track(), 'b': builders.make_track()}
        )
        move = trials.undo(TRIAL, '', state)
        move = dataclasses.replace(move, kind=steps.Kind.WANTED)

        state = trials.note(state, [move], pools, LIMITS, 7.0)

        self.assertEqual((7.0, 5), _read(state.tracks[A]))
        self.assertEqual((7.0, 3), _read(state.tracks[B]))
        # What needs no proof is not on trial.
        self.assertEqual((), state.trials)

    def test_many_small_losses_are_noticed(self) -> None:
        futile = history.Block(until=9e9, pressure=0.5)
        track = builders.make_track(0.52, futile=futile)
        state = builders.make_state({'a': track, 'b': builders.make_track()})
        move = steps.Move(
            rp_key=builders.L3,
            resource_class=builders.WAYS[1],
            units=1,
            taker='b',
            giver='a',
            kind=steps.Kind.WANTED,
            reason=controller.NO_USE,
            pressures={},
        )

        state = trials.note(state, [move], POOLS, LIMITS, 0.0)

        self.assertEqual(0.5, state.trials[0].before[1])


def _read(track: history.Track) -> tuple[float, int]:
    return track.changed_at, track.amount
