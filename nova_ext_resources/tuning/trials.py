# SPDX-License-Identifier: Apache-2.0

"""Whether a step was worth it, and what is remembered of it. Pure."""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses

from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import pressure as pressure_mod
from nova_ext_resources.tuning import steps

#: Why a step is undone.
FUTILE = 'goes back by a step that did not help'
HARMFUL = 'goes back by a step that did more harm than good'


def note(
    state: history.State,
    moves: Iterable[steps.Move],
    pools: Mapping[pressure_mod.PoolKey, steps.Pool],
    limits: history.Limits,
    now: float,
) -> history.State:
    """Remember that these steps were made."""
    for move in moves:
        state = _change_amounts(state, move, now)
        if move.kind is steps.Kind.UNDONE:
            state = _end_trial(state, move, limits, now)
        elif pools[move.pool].is_tried:
            state = _begin_trial(state, move)
    return state


def find_failure(
    trial: history.Trial, state: history.State, limits: history.Limits
) -> str:
    """Say why a step has not proved itself; nothing when it has."""
    taker_before, giver_before = trial.before
    taker = state.tracks[trial.taker]
    gain = max(limits.gain, 2 * taker.noise)
    if taker.pressure > taker_before - gain:
        return FUTILE
    if trial.giver is not None:
        giver = state.tracks[trial.giver]
        loss = giver.pressure - giver_before
        if (
            loss > max(limits.gain / 2, giver.noise)
            and giver.pressure > taker_before - gain
        ):
            return HARMFUL
    return ''


def keep(
    trial: history.Trial,
    state: history.State,
    limits: history.Limits,
    now: float,
) -> history.State:
    """End a trial that was of use: what was gained is not tried away soon."""
    track = state.tracks[trial.taker]
    needed = track.make_block(None, track.pressure, limits, now)
    return state.drop_trial(trial).replace_tracks(
        {trial.taker: dataclasses.replace(track, needed=needed)}
    )


def undo(
    trial: history.Trial, reason: str, state: history.State
) -> steps.Move:
    taker, rp_key, resource_class = trial.taker
    giver = trial.giver[0] if trial.giver else None
    return steps.Move(
        rp_key=rp_key,
        resource_class=resource_class,
        units=trial.units,
        taker=giver,
        giver=taker,
        kind=steps.Kind.UNDONE,
        reason=reason,
        pressures={key[0]: state.tracks[key].pressure for key in trial.keys},
    )


def _list_keys(move: steps.Move) -> Iterator[history.TunableKey]:
    for consumer_uuid in move.servers:
        yield consumer_uuid, move.rp_key, move.resource_class


def _change_amounts(
    state: history.State, move: steps.Move, now: float
) -> history.State:
    """Enter the new amounts.

    What is known of these servers in this domain does not hold any longer,
    of other resources neither: what is in the cache need not be fetched.
    """
    concerned = {key[:2] for key in _list_keys(move)}
    return state.replace_tracks(
        {
            key: dataclasses.replace(
                track,
                amount=track.amount
                + (move.find_gain(key[0]) if key[1:] == move.pool else 0),
                changed_at=now,
                count=0,
            )
            for key, track in state.tracks.items()
            if key[:2] in concerned
        }
    )


def _begin_trial(state: history.State, move: steps.Move) -> history.State:
    keys = list(_list_keys(move))
    giver = keys[1] if len(keys) > 1 else None
    trial = history.Trial(
        taker=keys[0],
        giver=giver,
        units=move.units,
        before=(
            state.tracks[keys[0]].pressure,
            _find_base(state.tracks[giver]) if giver else 0.0,
        ),
    )
    return dataclasses.replace(state, trials=(*state.trials, trial))


def _find_base(track: history.Track) -> float:
    """Give what a giver's pressure is held against.

    Of one that gives because more did not help it, that is its pressure then:
    many small losses would not be noticed one by one.
    """
    if track.futile is None:
        return track.pressure
    return min(track.pressure, track.futile.pressure)


def _end_trial(
    state: history.State,
    move: steps.Move,
    limits: history.Limits,
    now: float,
) -> history.State:
    """Forget the trial of an undone step, remember that it failed."""
    for trial in state.trials:
        if trial.taker == (move.giver, move.rp_key, move.resource_class):
            state = _blame(state.drop_trial(trial), trial, move, limits, now)
    return state


def _blame(
    state: history.State,
    trial: history.Trial,
    move: steps.Move,
    limits: history.Limits,
    now: float,
) -> history.State:
    if move.reason == HARMFUL and trial.giver is not None:
        key, before = trial.giver, trial.before[1]
        track = state.tracks[key]
        blocked = track.make_block(track.needed, before, limits, now)
        track = dataclasses.replace(track, needed=blocked)
    else:
        key, before = trial.taker, trial.before[0]
        track = state.tracks[key]
        blocked = track.make_block(track.futile, before, limits, now)
        track = dataclasses.replace(track, futile=blocked)
    return state.replace_tracks({key: track})
