# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping, Sequence
import dataclasses
import math
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import tunable_units
from nova_ext_resources.tuning import controller
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import level
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps
from nova_ext_resources.tuning import trials
from tests import base
from tests.unit import strategies
from tests.unit.tuning import builders

LIMITS = history.TuningLimits()

SERVERS = ('a', 'b', 'c', 'd')

values = st.one_of(
    st.floats(min_value=0, max_value=1),
    st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 5.0, None]),
)

spares = st.one_of(values, st.floats(min_value=0, max_value=100))


def decide_for(
    pressures: Mapping[str, float],
    *,
    tunables: Sequence[tunable_units.Tunable] | None = None,
    tracks: Mapping[str, history.Track] | None = None,
    capacity: int | None = 8,
    max_step: int = 1,
    now: float = 0.0,
) -> tuple[steps.UnitMove, ...]:
    """Decide on one pool of ways with servers known since long ago."""
    tunables = tunables or [builders.make_tunable(uuid) for uuid in pressures]
    state = builders.make_state(
        tracks
        or {
            one.consumer_uuid: builders.make_track(
                pressures[one.consumer_uuid], amount=one.amount
            )
            for one in tunables
        }
    )
    moves, _state = controller.decide(
        tunables,
        [builders.make_pressure(*pair) for pair in pressures.items()],
        state,
        {builders.WAYS: steps.UnitPool(capacity=capacity, max_step=max_step)},
        LIMITS,
        now,
    )
    return moves


class DecideTest(base.TestCase):
    def test_units_go_to_who_suffers_most(self) -> None:
        [move] = decide_for({'a': 0.1, 'b': 0.5, 'c': 0.8}, capacity=12)

        self.assertEqual(('c', 'a', 1), (move.taker, move.giver, move.units))

    def test_what_nobody_has_is_given_first(self) -> None:
        [move] = decide_for({'a': 0.0, 'b': 0.8}, capacity=9)

        self.assertEqual(('b', None), (move.taker, move.giver))

    def test_of_an_unknown_capacity_nothing_is_left(self) -> None:
        [move] = decide_for({'a': 0.0, 'b': 0.8}, capacity=None)

        self.assertEqual('a', move.giver)

    def test_between_the_thresholds_nothing_happens(self) -> None:
        self.assertEqual((), decide_for({'a': 0.0, 'b': 0.25}))

    def test_who_wanted_more_goes_on_down_to_the_lower_one(self) -> None:
        tracks = {
            'a': builders.make_track(0.0),
            'b': builders.make_track(0.25, wants=True),
        }

        self.assertEqual(
            1, len(decide_for({'a': 0.0, 'b': 0.25}, tracks=tracks))
        )

    def test_who_may_lose_less_is_tried_as_well(self) -> None:
        for a, reason in (
            (0.3, controller.WORSE_OFF),
            (0.45, controller.UNTRIED),
        ):
            [move] = decide_for({'a': a, 'b': 0.5})
            self.assertEqual(('b', 'a', reason), read(move))

    def test_who_waits_much_more_gives_only_what_was_of_no_use(self) -> None:
        tracks = {
            'a': builders.make_track(
                0.7, futile=history.Block(until=9.0, waiting=0.7)
            ),
            'b': builders.make_track(0.5),
        }
        pressures = {'a': 0.7, 'b': 0.5}

        [move] = decide_for(pressures, tracks=tracks)
        self.assertEqual(('b', 'a', controller.NO_USE), read(move))

        full = [
            builders.make_tunable('a', maximum=4),
            builders.make_tunable('b'),
        ]
        self.assertEqual((), decide_for(pressures, tunables=full))

    def test_what_is_unused_is_given_whatever_the_pressure(self) -> None:
        tunables = [builders.make_tunable('a'), builders.make_tunable('b')]
        state = builders.make_state(
            {
                'a': builders.make_track(0.25, unused=1.5, wants=False),
                'b': builders.make_track(0.32),
            }
        )

        [move], _state = controller.decide(
            tunables,
            [
                builders.make_pressure('a', 0.25, unused=1.5),
                builders.make_pressure('b', 0.32),
            ],
            state,
            {builders.WAYS: steps.UnitPool(capacity=8)},
            LIMITS,
            0.0,
        )

        self.assertEqual(controller.UNUSED, move.reason)

    def test_a_minimum_is_kept(self) -> None:
        tunables = [
            builders.make_tunable('a', amount=2),
            builders.make_tunable('b', amount=6),
        ]

        self.assertEqual(
            (), decide_for({'a': 0.0, 'b': 1.0}, tunables=tunables)
        )

    def test_a_long_step_ends_at_the_minimum(self) -> None:
        tunables = [
            builders.make_tunable('a', amount=3),
            builders.make_tunable('b', amount=5),
        ]

        [move] = decide_for(
            {'a': 0.0, 'b': 1.0}, tunables=tunables, max_step=4
        )

        self.assertEqual(1, move.units)

    def test_who_was_harmed_or_just_helped_gives_nothing(self) -> None:
        needed = history.Block(until=100.0, waiting=0.1)
        tracks = {
            'a': builders.make_track(0.1, needed=needed),
            'b': builders.make_track(0.9),
        }
        pressures = {'a': 0.1, 'b': 0.9}

        self.assertEqual((), decide_for(pressures, tracks=tracks, now=99.0))
        self.assertEqual(
            1, len(decide_for(pressures, tracks=tracks, now=100.0))
        )

    def test_who_was_not_helped_gets_no_more(self) -> None:
        futile = history.Block(until=100.0, waiting=0.9)
        tracks = {
            'a': builders.make_track(0.1),
            'b': builders.make_track(0.9, futile=futile),
        }
        pressures = {'a': 0.1, 'b': 0.9}

        self.assertEqual((), decide_for(pressures, tracks=tracks, now=99.0))
        self.assertEqual(
            1, len(decide_for(pressures, tracks=tracks, now=100.0))
        )

    def test_who_is_not_known_well_gives_nothing(self) -> None:
        for count, expected in ((9, 0), (10, 1)):
            tracks = {
                'a': builders.make_track(
                    0.4, count=count - 1, variance=5e-4, jitter=5e-4
                ),
                'b': builders.make_track(0.9),
            }

            moves = decide_for({'a': 0.4, 'b': 0.9}, tracks=tracks)

            self.assertEqual(expected, len(moves))

    def test_who_is_new_gives_nothing_however_still_it_seems(self) -> None:
        for seen, expected in ((8, 0), (9, 1)):
            tracks = {
                'a': builders.make_track(0.1, count=seen, seen=seen),
                'b': builders.make_track(0.9),
            }

            moves = decide_for({'a': 0.1, 'b': 0.9}, tracks=tracks)

            self.assertEqual(expected, len(moves))

    def test_what_no_trial_could_show_is_not_tried(self) -> None:
        for variance, expected in ((1e-3, 1), (2e-3, 0)):
            tracks = {
                'a': builders.make_track(
                    0.4, variance=variance, jitter=variance
                ),
                'b': builders.make_track(0.9),
            }

            moves = decide_for({'a': 0.4, 'b': 0.9}, tracks=tracks)

            self.assertEqual(expected, len(moves))

    def test_who_changes_its_load_often_is_left_alone(self) -> None:
        hold = history.Block(until=100.0)
        for held in ('a', 'b'):
            tracks = {
                uuid: builders.make_track(
                    value, hold=hold if uuid == held else None
                )
                for uuid, value in (('a', 0.1), ('b', 0.9))
            }
            pressures = {'a': 0.1, 'b': 0.9}

            self.assertEqual((), decide_for(pressures, tracks=tracks, now=99))
            self.assertEqual(
                1, len(decide_for(pressures, tracks=tracks, now=100))
            )

    def test_a_maximum_is_kept(self) -> None:
        tunables = [
            builders.make_tunable('a'),
            builders.make_tunable('b', maximum=4),
        ]

        self.assertEqual(
            (), decide_for({'a': 0.0, 'b': 1.0}, tunables=tunables)
        )

    def test_who_was_changed_just_now_is_left_alone(self) -> None:
        tracks = {
            'a': builders.make_track(0.0),
            'b': builders.make_track(0.9, changed_at=-29.0),
        }
        pressures = {'a': 0.0, 'b': 0.9}

        self.assertEqual((), decide_for(pressures, tracks=tracks))
        self.assertEqual(1, len(decide_for(pressures, tracks=tracks, now=1)))

    def test_who_is_not_measured_neither_gets_nor_gives(self) -> None:
        tunables = [builders.make_tunable('a'), builders.make_tunable('b')]
        tracks = {
            'a': builders.make_track(0.0),
            'b': builders.make_track(0.9),
        }

        for present in ({'a': 0.0}, {'b': 0.9}, {'a': 0.0, 'b': math.nan}):
            with self.subTest(present=present):
                self.assertEqual(
                    (), decide_for(present, tunables=tunables, tracks=tracks)
                )

    def test_a_pool_that_is_not_named_is_left_alone(self) -> None:
        moves, _state = controller.decide(
            [builders.make_tunable('a'), builders.make_tunable('b')],
            [
                builders.make_pressure('a', 0.0),
                builders.make_pressure('b', 1.0),
            ],
            builders.make_state(
                {
                    'a': builders.make_track(0.0),
                    'b': builders.make_track(1.0),
                }
            ),
            {},
            LIMITS,
            0.0,
        )

        self.assertEqual((), moves)

    def test_bandwidth_is_moved_in_steps_of_the_hardware(self) -> None:
        [move] = self._decide_on_bandwidth(unused=15.0)

        self.assertEqual(10, move.units)

    def test_bandwidth_that_is_used_is_not_taken(self) -> None:
        self.assertEqual((), self._decide_on_bandwidth(unused=9.0))

    def _decide_on_bandwidth(
        self, unused: float
    ) -> tuple[steps.UnitMove, ...]:
        fields = {
            'resource_class': classes.PERCENT,
            'minimum': 10,
            'maximum': 80,
            'amount': 50,
        }
        tracks = {
            'a': builders.make_track(0.0, amount=50, unused=unused),
            'b': builders.make_track(1.0, amount=50),
        }
        moves, _state = controller.decide(
            [
                builders.make_tunable('a', **fields),
                builders.make_tunable('b', **fields),
            ],
            [
                builders.make_pressure(
                    'a', 0.0, resource_class=classes.PERCENT, unused=unused
                ),
                builders.make_pressure(
                    'b', 1.0, resource_class=classes.PERCENT
                ),
            ],
            history.TuningState(
                tracks={
                    (uuid, *builders.PERCENT): track
                    for uuid, track in tracks.items()
                }
            ),
            builders.POOLS,
            LIMITS,
            0.0,
        )
        return moves


def read(move: steps.UnitMove) -> tuple[str | None, str | None, str]:
    return move.taker, move.giver, move.reason


class RestoreTest(base.TestCase):
    """Tuning does no harm: servers can always have the even division back."""

    def restore(
        self,
        a: float,
        b: float,
        waiting: float | None,
        **fields: Any,
    ) -> tuple[steps.UnitMove, ...]:
        """Decide when a has 3 of its 4 ways, and b the others.

        :param waiting: how much a waited with 4; None: not known
        """
        even = None if waiting is None else level.Level(waiting=waiting)
        tunables = [
            builders.make_tunable('a', amount=3),
            builders.make_tunable('b', amount=5),
        ]
        block = history.Block(until=999.0, waiting=b)
        moves, _state = controller.decide(
            tunables,
            [builders.make_pressure('a', a), builders.make_pressure('b', b)],
            builders.make_state(
                {
                    'a': builders.make_track(a, amount=3, base=even, **fields),
                    'b': builders.make_track(
                        b, amount=5, needed=block, futile=block
                    ),
                }
            ),
            {builders.WAYS: steps.UnitPool(capacity=8, even={'a': 4, 'b': 4})},
            LIMITS,
            0.0,
        )
        return moves

    def test_who_is_worse_off_than_before_gets_units_back(self) -> None:
        [move] = self.restore(0.5, 0.9, 0.4)

        self.assertEqual(('a', 'b', controller.RESTORED), read(move))
        self.assertEqual(steps.StepKind.UNDONE, move.kind)

    def test_a_small_loss_is_none(self) -> None:
        self.assertEqual((), self.restore(0.45, 0.9, 0.4))

    def test_noise_is_none(self) -> None:
        noise = {'variance': 0.01, 'jitter': 0.01}

        self.assertEqual((), self.restore(0.5, 0.9, 0.4, **noise))

    def test_another_load_gets_units_back_if_it_wants_them(self) -> None:
        self.assertEqual(1, len(self.restore(0.5, 0.9, None)))
        self.assertEqual((), self.restore(0.1, 0.9, None))

    def test_a_hold_does_not_prevent_it(self) -> None:
        hold = history.Block(until=999.0)

        self.assertEqual(1, len(self.restore(0.5, 0.9, None, hold=hold)))


class UnmeasuredTest(base.TestCase):
    """A server that has more than its share, and is no longer measured."""

    LONG = 20 * LIMITS.cool_down

    def decide(
        self,
        now: float,
        *,
        lack: int = 2,
        on_trial: tuple[history.Trial, ...] = (),
        count: int = 10,
    ) -> tuple[tuple[steps.UnitMove, ...], history.TuningState]:
        """Decide when a has 4 + 2 of 12 ways, and b lacks some."""
        amounts = {'a': 6, 'b': 4 - lack, 'c': 4}
        state = builders.make_state(
            {
                uuid: builders.make_track(
                    0.25,
                    amount=amount,
                    measured_at=0.0 if uuid == 'a' else now,
                    count=count,
                )
                for uuid, amount in amounts.items()
            },
            *on_trial,
        )
        return controller.decide(
            [
                builders.make_tunable(uuid, amount=amount)
                for uuid, amount in amounts.items()
            ],
            [builders.make_pressure(uuid, 0.25) for uuid in ('b', 'c')],
            state,
            {
                builders.WAYS: steps.UnitPool(
                    capacity=12, even=dict.fromkeys(amounts, 4)
                )
            },
            LIMITS,
            now,
        )

    def test_it_keeps_them_for_a_while(self) -> None:
        self.assertEqual((), self.decide(self.LONG - 1)[0])

    def test_after_long_it_gives_them_back_step_by_step(self) -> None:
        [move], _state = self.decide(self.LONG)

        self.assertEqual(('b', 'a', controller.UNMEASURED), read(move))
        self.assertEqual((1, steps.StepKind.UNDONE), (move.units, move.kind))

    def test_who_is_on_trial_gets_none_and_no_other_does(self) -> None:
        for taker, giver in (('b', 'c'), ('c', 'b')):
            trial = history.Trial(
                taker=(taker, *builders.WAYS),
                giver=(giver, *builders.WAYS),
                units=1,
                started_at=self.LONG,
                before=(level.Level(), level.Level()),
            )
            with self.subTest(taker=taker):
                moves, state = self.decide(
                    self.LONG, on_trial=(trial,), count=0
                )

                self.assertEqual(((), (trial,)), (moves, state.trials))

    def test_where_no_server_lacks_any_they_become_free(self) -> None:
        [move], state = self.decide(self.LONG, lack=0)

        self.assertEqual((None, 'a', controller.UNMEASURED), read(move))
        pools = {builders.WAYS: steps.UnitPool(capacity=12)}
        state = trials.note(state, [move], pools, LIMITS, self.LONG)
        self.assertEqual(5, state.tracks['a', *builders.WAYS].amount)

    def test_the_next_step_waits_for_the_cool_down(self) -> None:
        tunables = [
            builders.make_tunable('a', amount=6),
            builders.make_tunable('b', amount=2),
        ]
        pools = {
            builders.WAYS: steps.UnitPool(capacity=8, even={'a': 4, 'b': 4})
        }
        state = history.TuningState()
        amounts = []
        for tick in range(80):
            now = tick * 10.0
            moves, state = controller.decide(
                tunables, [], state, pools, LIMITS, now
            )
            state = trials.note(state, moves, pools, LIMITS, now)
            for move in moves:
                tunables = list(steps.apply_move(tunables, move))
                amounts.append((now, tunables[0].amount))

        self.assertEqual([(600.0, 5), (630.0, 4)], amounts)

    def test_a_trial_that_can_no_longer_be_judged_is_undone(self) -> None:
        for taker, giver in (('a', 'c'), ('c', 'a')):
            trial = history.Trial(
                taker=(taker, *builders.WAYS),
                giver=(giver, *builders.WAYS),
                units=1,
                started_at=0.0,
                before=(level.Level(waiting=0.3), level.Level(waiting=0.3)),
            )
            with self.subTest(taker=taker):
                [move], state = self.decide(self.LONG, on_trial=(trial,))

                self.assertEqual((giver, taker, trials.LAPSED), read(move))
                pools = {builders.WAYS: steps.UnitPool(capacity=12)}
                state = trials.note(state, [move], pools, LIMITS, self.LONG)
                self.assertEqual((), state.trials)


class PoolsTest(base.TestCase):
    """Several pools in one round."""

    def decide(
        self,
        servers: Mapping[str, float],
        *keys: tuple[str, str],
        trials: Sequence[history.Trial] = (),
    ) -> tuple[tuple[steps.UnitMove, ...], history.TuningState]:
        fields: list[dict[str, Any]] = [
            {
                'consumer_uuid': uuid,
                'rp_key': rp_key,
                'resource_class': resource_class,
            }
            for rp_key, resource_class in keys
            for uuid in servers
        ]
        size: dict[str, Any] = {'minimum': 10, 'maximum': 80, 'amount': 40}
        tunables = [
            builders.make_tunable(
                **one,
                **size if one['resource_class'] == classes.PERCENT else {},
            )
            for one in fields
        ]
        state = history.TuningState(
            tracks={
                history.make_key(one): builders.make_track(
                    servers[one.consumer_uuid],
                    amount=one.amount,
                    unused=0.0 if servers[one.consumer_uuid] > 0.1 else 20.0,
                )
                for one in tunables
            },
            trials=tuple(trials),
        )
        return controller.decide(
            tunables,
            [
                builders.make_pressure(
                    value=servers[one['consumer_uuid']],
                    unused=0.0
                    if servers[one['consumer_uuid']] > 0.1
                    else 20.0,
                    **one,
                )
                for one in fields
            ],
            state,
            {
                key: dataclasses.replace(
                    builders.POOLS[builders.L3, key[1]], capacity=None
                )
                for key in keys
            },
            LIMITS,
            0.0,
        )

    def test_each_domain_has_a_step_of_its_own(self) -> None:
        other = 'L3_1', classes.BURST

        moves, _state = self.decide({'a': 0.0, 'b': 1.0}, builders.WAYS, other)

        self.assertCountEqual(
            [builders.WAYS, other], [move.pool for move in moves]
        )

    def test_trials_are_judged_in_their_own_pool(self) -> None:
        other = 'L3_1', classes.BURST
        trials = [
            history.Trial(
                taker=('b', *key),
                giver=('a', *key),
                units=1,
                started_at=-500.0,
                before=(level.Level(waiting=0.6), level.Level()),
            )
            for key in (other, builders.WAYS)
        ]

        moves, _state = self.decide(
            {'a': 0.3, 'b': 0.5}, builders.WAYS, other, trials=trials
        )

        self.assertEqual(
            [steps.StepKind.UNDONE] * 2, [one.kind for one in moves]
        )
        self.assertCountEqual(
            [builders.WAYS, other], [one.pool for one in moves]
        )

    def decide_on_both(
        self, servers: Mapping[str, tuple[float, float]], even: int = 4
    ) -> list[tuple[str | None, str | None, str]]:
        """Decide for servers: (pressure on ways, on bandwidth)."""
        tunables, pressures, tracks = [], [], {}
        for uuid, values in servers.items():
            for key, value in zip(
                (builders.WAYS, builders.PERCENT), values, strict=True
            ):
                one = builders.make_tunable(
                    uuid,
                    resource_class=key[1],
                    **{'minimum': 10, 'maximum': 80, 'amount': 40}
                    if key == builders.PERCENT
                    else {},
                )
                unused = 20.0 if value < 0.2 and key == builders.PERCENT else 0
                tunables.append(one)
                pressures.append(
                    builders.make_pressure(
                        uuid, value, resource_class=key[1], unused=unused
                    )
                )
                tracks[history.make_key(one)] = builders.make_track(
                    value, amount=one.amount, unused=unused
                )
        moves, _state = controller.decide(
            tunables,
            pressures,
            history.TuningState(tracks=tracks),
            {
                builders.WAYS: steps.UnitPool(
                    even=dict.fromkeys(servers, even)
                ),
                builders.PERCENT: steps.UnitPool(
                    step=10, max_step=10, is_tried=False
                ),
            },
            LIMITS,
            0.0,
        )
        return [(one.taker, one.giver, one.resource_class) for one in moves]

    def test_bandwidth_comes_first_as_it_needs_no_trial(self) -> None:
        self.assertEqual(
            [('b', 'a', classes.PERCENT)],
            self.decide_on_both(
                {'a': (0.1, 0.0), 'b': (0.1, 0.9), 'c': (0.9, 0.19)}
            ),
        )

    def test_who_is_at_its_limit_of_bandwidth_gives_nothing(self) -> None:
        """Its traffic stays the same, whatever its ways."""
        for a, expected in ((0.7, [('b', 'a', classes.BURST)]), (0.8, [])):
            self.assertEqual(
                expected,
                self.decide_on_both({'a': (0.1, a), 'b': (0.9, 0.25)}),
            )

    def test_it_comes_after_those_whose_gain_is_seen(self) -> None:
        for b, expected in ((0.7, 'b'), (0.8, 'c')):
            [(taker, _giver, _name)] = self.decide_on_both(
                {'a': (0.1, 0.25), 'b': (0.9, b), 'c': (0.7, 0.25)}
            )

            self.assertEqual(expected, taker)

    def test_but_it_gives_what_is_above_the_even_division(self) -> None:
        self.assertEqual(
            [('b', 'a', classes.BURST)],
            self.decide_on_both({'a': (0.1, 0.8), 'b': (0.9, 0.25)}, even=3),
        )


class WorkedExampleTest(base.TestCase):
    """The example in the docstring of the controller."""

    def setUp(self) -> None:
        super().setUp()
        self.state = history.TuningState()
        self.amounts = {'a': 4, 'b': 4}
        self.now = 0.0

    def run_round(self, a: float, b: float) -> tuple[steps.UnitMove, ...]:
        tunables = [
            builders.make_tunable(uuid, amount=amount, minimum=2, maximum=6)
            for uuid, amount in self.amounts.items()
        ]
        pools = {
            builders.WAYS: steps.UnitPool(capacity=8, even={'a': 4, 'b': 4})
        }
        moves, state = controller.decide(
            tunables,
            [builders.make_pressure('a', a), builders.make_pressure('b', b)],
            self.state,
            pools,
            LIMITS,
            self.now,
        )
        self.state = trials.note(state, moves, pools, LIMITS, self.now)
        for move in moves:
            for uuid in move.servers:
                self.amounts[uuid] += move.find_gain(uuid)
        self.now += 10.0
        return moves

    def begin(self) -> None:
        while not self.run_round(0.05, 0.60):
            pass
        self.assertEqual(({'a': 3, 'b': 5}, 130.0), (self.amounts, self.now))

    def test_what_helped_is_kept(self) -> None:
        self.begin()

        for _ in range(3):
            self.assertEqual((), self.run_round(0.06, 0.50))
            self.assertEqual(1, len(self.state.trials))
        [following] = self.run_round(0.06, 0.50)

        self.assertEqual(160.0 + 10.0, self.now)
        self.assertEqual(controller.WORSE_OFF, following.reason)
        needed = self.state.tracks['b', *builders.WAYS].needed
        assert needed is not None
        self.assertEqual(160.0 + 600.0, needed.until)

    def test_what_did_harm_is_undone(self) -> None:
        self.begin()
        made: list[steps.UnitMove] = []

        while not made:
            made.extend(self.run_round(0.15, 0.50))

        self.assertEqual(trials.HARMFUL, made[0].reason)
        self.assertEqual({'a': 4, 'b': 4}, self.amounts)
        for _ in range(59):
            self.assertEqual((), self.run_round(0.05, 0.60))


@st.composite
def tunables_of_pools(draw: st.DrawFn) -> list[tunable_units.Tunable]:
    """Any tunables, within their limits."""
    made = []
    for resource_class, top in ((classes.BURST, 12), (classes.PERCENT, 100)):
        for uuid in SERVERS[: draw(st.integers(0, 4))]:
            minimum = draw(st.integers(0, top))
            maximum = draw(st.integers(minimum, top))
            made.append(
                builders.make_tunable(
                    uuid,
                    resource_class=resource_class,
                    minimum=minimum,
                    maximum=maximum,
                    amount=draw(st.integers(minimum, maximum)),
                )
            )
    return made


class BoundsTest(base.TestCase):
    """Whatever is measured, the limits hold."""

    @hypothesis.given(
        tunables=tunables_of_pools(),
        data=st.data(),
        is_done=st.booleans(),
    )
    @hypothesis.settings(max_examples=strategies.EXAMPLES)
    def test_every_step_stays_within_the_limits(
        self,
        tunables: list[tunable_units.Tunable],
        data: st.DataObject,
        is_done: bool,
    ) -> None:
        state = history.TuningState()
        for round_ in range(14):
            now = 20.0 * round_
            before = _sum_up(tunables)
            moves, state = controller.decide(
                tunables,
                self._draw_pressures(tunables, data),
                state,
                builders.POOLS,
                LIMITS,
                now,
            )
            self.assertEqual(len(moves), len({move.pool for move in moves}))
            if not is_done:
                continue
            old = tunables
            for move in moves:
                tunables = _apply(tunables, move)
            state = trials.note(state, moves, builders.POOLS, LIMITS, now)
            self._check(old, tunables, before)

    def _draw_pressures(
        self, tunables: Sequence[tunable_units.Tunable], data: st.DataObject
    ) -> list[pressure.Pressure]:
        return [
            builders.make_pressure(
                one.consumer_uuid,
                value,
                resource_class=one.resource_class,
                unused=unused,
            )
            for one in tunables
            if (value := data.draw(values)) is not None
            and (unused := data.draw(spares)) is not None
        ]

    def _check(
        self,
        old: Sequence[tunable_units.Tunable],
        new: Sequence[tunable_units.Tunable],
        before: Mapping[str, int],
    ) -> None:
        for one, other in zip(old, new, strict=True):
            step = builders.POOLS[one.rp_key, one.resource_class].max_step
            self.assertTrue(other.minimum <= other.amount <= other.maximum)
            self.assertLessEqual(abs(other.amount - one.amount), step)
        for name, total in _sum_up(new).items():
            capacity = builders.POOLS[builders.L3, name].capacity
            assert capacity is not None
            self.assertLessEqual(total, max(capacity, before[name]))


def _sum_up(tunables: Sequence[tunable_units.Tunable]) -> Mapping[str, int]:
    totals = {classes.BURST: 0, classes.PERCENT: 0}
    for one in tunables:
        totals[one.resource_class] += one.amount
    return totals


def _apply(
    tunables: Sequence[tunable_units.Tunable], move: steps.UnitMove
) -> list[tunable_units.Tunable]:
    new = {
        (one.consumer_uuid, one.resource_class): one
        for one in steps.apply_move(tunables, move)
    }
    return [
        new.get((one.consumer_uuid, one.resource_class), one)
        for one in tunables
    ]
