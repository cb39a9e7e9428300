# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping, Sequence
import math

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import tunable
from nova_ext_resources.tuning import controller
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps
from nova_ext_resources.tuning import trials
from tests import base
from tests.unit import strategies
from tests.unit.tuning import builders

LIMITS = history.Limits()

SERVERS = ('a', 'b', 'c', 'd')

values = st.one_of(
    st.floats(min_value=0, max_value=1),
    st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 5.0, None]),
)

spares = st.one_of(values, st.floats(min_value=0, max_value=100))


def decide_for(
    pressures: Mapping[str, float],
    *,
    tunables: Sequence[tunable.Tunable] | None = None,
    tracks: Mapping[str, history.Track] | None = None,
    capacity: int | None = 8,
    max_step: int = 1,
    now: float = 0.0,
) -> tuple[steps.Move, ...]:
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
        {builders.WAYS: steps.Pool(capacity=capacity, max_step=max_step)},
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

    def test_who_is_hardly_better_off_gives_nothing(self) -> None:
        self.assertEqual((), decide_for({'a': 0.45, 'b': 0.5}))

    def test_what_is_unused_is_given_whatever_the_pressure(self) -> None:
        tunables = [builders.make_tunable('a'), builders.make_tunable('b')]
        state = builders.make_state(
            {
                'a': builders.make_track(0.25, spare=1.5, wants=False),
                'b': builders.make_track(0.32),
            }
        )

        [move], _state = controller.decide(
            tunables,
            [
                builders.make_pressure('a', 0.25, spare=1.5),
                builders.make_pressure('b', 0.32),
            ],
            state,
            {builders.WAYS: steps.Pool(capacity=8)},
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

    def test_who_wants_more_gives_nothing_that_it_does_not_use(self) -> None:
        tracks = {
            'a': builders.make_track(0.9, spare=3.0),
            'b': builders.make_track(0.95),
        }

        self.assertEqual((), decide_for({'a': 0.9, 'b': 0.95}, tracks=tracks))

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
        [move] = self._decide_on_bandwidth(spare=15.0)

        self.assertEqual(10, move.units)

    def test_bandwidth_that_is_used_is_not_taken(self) -> None:
        self.assertEqual((), self._decide_on_bandwidth(spare=9.0))

    def _decide_on_bandwidth(self, spare: float) -> tuple[steps.Move, ...]:
        fields = {
            'resource_class': classes.PERCENT,
            'minimum': 10,
            'maximum': 80,
            'amount': 50,
        }
        tracks = {
            'a': builders.make_track(0.0, amount=50, spare=spare),
            'b': builders.make_track(1.0, amount=50),
        }
        moves, _state = controller.decide(
            [
                builders.make_tunable('a', **fields),
                builders.make_tunable('b', **fields),
            ],
            [
                builders.make_pressure(
                    'a', 0.0, resource_class=classes.PERCENT, spare=spare
                ),
                builders.make_pressure(
                    'b', 1.0, resource_class=classes.PERCENT
                ),
            ],
            history.State(
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

    def test_one_server_is_changed_in_one_way_at_a_time(self) -> None:
        tunables = [
            builders.make_tunable('a'),
            builders.make_tunable('b'),
            builders.make_tunable(
                'b', resource_class=classes.PERCENT, minimum=10, maximum=90
            ),
        ]
        key = ('b', *builders.PERCENT)
        state = builders.make_state(
            {'a': builders.make_track(0.0), 'b': builders.make_track(1.0)}
        ).replace_tracks({key: builders.make_track(1.0)})

        moves, _state = controller.decide(
            tunables,
            [
                builders.make_pressure('a', 0.0),
                builders.make_pressure('b', 1.0),
                builders.make_pressure(
                    'b', 1.0, resource_class=classes.PERCENT
                ),
            ],
            state,
            builders.POOLS,
            LIMITS,
            0.0,
        )

        self.assertEqual(
            [classes.BURST], [one.resource_class for one in moves]
        )


@st.composite
def tunables_of_pools(draw: st.DrawFn) -> list[tunable.Tunable]:
    """Any tunables, of which some may be outside of what was sold."""
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
    """Whatever is measured, what was sold is held."""

    @hypothesis.given(
        tunables=tunables_of_pools(),
        data=st.data(),
        is_done=st.booleans(),
    )
    @hypothesis.settings(max_examples=strategies.EXAMPLES)
    def test_every_step_stays_within_what_was_sold(
        self,
        tunables: list[tunable.Tunable],
        data: st.DataObject,
        is_done: bool,
    ) -> None:
        state = history.State()
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
        self, tunables: Sequence[tunable.Tunable], data: st.DataObject
    ) -> list[pressure.Pressure]:
        return [
            builders.make_pressure(
                one.consumer_uuid,
                value,
                resource_class=one.resource_class,
                spare=spare,
            )
            for one in tunables
            if (value := data.draw(values)) is not None
            and (spare := data.draw(spares)) is not None
        ]

    def _check(
        self,
        old: Sequence[tunable.Tunable],
        new: Sequence[tunable.Tunable],
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


def _sum_up(tunables: Sequence[tunable.Tunable]) -> Mapping[str, int]:
    totals = {classes.BURST: 0, classes.PERCENT: 0}
    for one in tunables:
        totals[one.resource_class] += one.amount
    return totals


def _apply(
    tunables: Sequence[tunable.Tunable], move: steps.Move
) -> list[tunable.Tunable]:
    new = {
        (one.consumer_uuid, one.resource_class): one
        for one in steps.apply_move(tunables, move)
    }
    return [
        new.get((one.consumer_uuid, one.resource_class), one)
        for one in tunables
    ]
