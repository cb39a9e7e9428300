# SPDX-License-Identifier: Apache-2.0

"""Whether a step was worth it, and what is remembered of it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses

from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import level as level_mod
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps

#: Why a step is undone.
HARMFUL = 'goes back, because the step did more harm than good'
CHANGED = 'goes back, because the load changed during the trial'
LAPSED = 'goes back, because a server is no longer measured'

#: The most that a server may lose by a step, see :mod:`.level`.
_MOST_LOSS = 0.07


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrialVerdict:
    """What a trial has shown.

    :ivar undo: why the step is undone; '': it stays
    :ivar helped: the taker is better off
    :ivar futile: the taker is not better off, or nothing is known
    :ivar harmed: the giver is worse off, or nothing is known
    """

    undo: str = ''
    helped: bool = False
    futile: bool = False
    harmed: bool = False


def judge(
    trial: history.Trial,
    state: history.TuningState,
    limits: history.TuningLimits,
) -> TrialVerdict | None:
    """Return what a trial has shown; None while that is open.

    A step that harms nobody stays, even if it did not help: then the taker is
    the first to give those units on.
    """
    tracks = [state.tracks[key] for key in trial.keys]
    if any(track.turned_at > trial.started_at for track in tracks):
        return TrialVerdict(undo=CHANGED)
    is_late = tracks[0].count >= history.WINDOW
    # Who looks after each measurement is misled by noise more often.
    errors = 1 if is_late else 2
    gain, doubt = level_mod.find_gain(trial.before[0], tracks[0].level)
    helped = gain > max(limits.gain, errors * doubt)
    futile = not helped and (is_late or gain + 2 * doubt < limits.gain)
    loss, fear = _find_loss(trial, tracks)
    harmed = loss > max(history.SMALL_LOSS, (errors + 1) * fear)
    is_bad = harmed and loss > min(gain, _MOST_LOSS)
    is_risky = loss + errors * fear > history.MOST_RISK
    allowed = history.SMALL_LOSS + max(gain - doubt, 0.0) / 2
    is_open = is_risky or 2 * fear > allowed or not (helped or futile)
    if is_open and not is_late and not is_bad:
        return None
    if is_bad or is_risky:
        futile = not helped and gain < doubt
        return TrialVerdict(
            undo=HARMFUL, helped=helped, futile=futile, harmed=True
        )
    return TrialVerdict(helped=helped, futile=futile, harmed=harmed)


def _find_loss(
    trial: history.Trial, tracks: Sequence[history.Track]
) -> tuple[float, float]:
    """Return what the giver has lost, and the standard error."""
    if trial.giver is None:
        return 0.0, 0.0
    return level_mod.find_loss(trial.before[1], tracks[1].level)


def learn(
    trial: history.Trial,
    verdict: TrialVerdict,
    state: history.TuningState,
    limits: history.TuningLimits,
    now: float,
) -> history.TuningState:
    """End a trial, and hold back from what it has shown to be of no use."""
    state = state.drop_trial(trial)
    for key, level in zip(trial.keys, trial.before, strict=False):
        track = state.tracks[key]
        waiting = level.waiting if verdict.undo else track.waiting
        if key != trial.taker:
            if verdict.harmed:
                block = track.make_block(track.needed, waiting, limits, now)
                track = dataclasses.replace(track, needed=block)
        elif verdict.futile and (verdict.undo or not state.is_throttled(key)):
            block = track.make_block(track.futile, waiting, limits, now)
            track = dataclasses.replace(track, futile=block)
        elif verdict.helped and not verdict.undo:
            block = track.make_block(None, waiting, limits, now)
            track = dataclasses.replace(track, futile=None, needed=block)
        state = state.replace_tracks({key: track})
    return state


def undo(
    trial: history.Trial, reason: str, state: history.TuningState
) -> steps.UnitMove:
    taker, rp_key, resource_class = trial.taker
    return steps.UnitMove(
        rp_key=rp_key,
        resource_class=resource_class,
        units=trial.units,
        taker=trial.giver[0] if trial.giver else None,
        giver=taker,
        kind=steps.StepKind.UNDONE,
        reason=reason,
        pressures={key[0]: state.tracks[key].pressure for key in trial.keys},
    )


def note(
    state: history.TuningState,
    moves: Iterable[steps.UnitMove],
    pools: Mapping[pressure.PoolKey, steps.UnitPool],
    limits: history.TuningLimits,
    now: float,
) -> history.TuningState:
    """Remember that these steps were made."""
    for move in moves:
        pool = pools[move.pool]
        started: tuple[history.Trial, ...] = ()
        if move.kind is steps.StepKind.UNDONE:
            state = _note_undone(state, move, limits, now)
        elif pool.is_tried:
            started = (_begin_trial(state, move, now),)
        else:
            state = _protect(state, move, limits, now)
        state = _change_amounts(state, move, pool, now)
        state = dataclasses.replace(state, trials=state.trials + started)
    return state


def _note_undone(
    state: history.TuningState,
    move: steps.UnitMove,
    limits: history.TuningLimits,
    now: float,
) -> history.TuningState:
    """Learn from the trial; without one, the taker needs what it gave."""
    for trial in state.trials:
        if trial.taker == (move.giver, *move.pool):
            verdict = judge(trial, state, limits) or TrialVerdict(
                undo=move.reason
            )
            return learn(trial, verdict, state, limits, now)
    return _protect(state, move, limits, now)


def _protect(
    state: history.TuningState,
    move: steps.UnitMove,
    limits: history.TuningLimits,
    now: float,
) -> history.TuningState:
    """Let the taker keep what it needs.

    Otherwise units would go to and fro between servers that are busy in turn.
    """
    if move.taker is None:
        return state
    key = move.taker, *move.pool
    track = state.tracks[key]
    block = track.make_block(track.needed, track.waiting, limits, now)
    return state.replace_tracks(
        {key: dataclasses.replace(track, needed=block)}
    )


def _list_keys(move: steps.UnitMove) -> Iterator[history.TunableKey]:
    for consumer_uuid in move.servers:
        yield consumer_uuid, *move.pool


def _begin_trial(
    state: history.TuningState, move: steps.UnitMove, now: float
) -> history.Trial:
    taker, *givers = _list_keys(move)
    return history.Trial(
        taker=taker,
        giver=givers[0] if givers else None,
        units=move.units,
        started_at=now,
        before=(
            state.tracks[taker].level,
            _find_base(state.tracks[givers[0]])
            if givers
            else level_mod.Level(),
        ),
    )


def _find_base(track: history.Track) -> level_mod.Level:
    """Return what a giver's level is compared with.

    That is the level with the even division, where it is known: many small
    losses would not be noticed one by one.
    """
    levels = [one for one in (track.level, track.base) if one is not None]
    return min(levels, key=lambda one: one.waiting)


def _change_amounts(
    state: history.TuningState,
    move: steps.UnitMove,
    pool: steps.UnitPool,
    now: float,
) -> history.TuningState:
    """Enter the new amounts.

    Measurements of these servers in this domain are no longer valid, those of
    other resources included: what is in the cache need not be fetched.
    """
    concerned = {key[:2] for key in _list_keys(move)}
    new = {}
    for key, track in state.tracks.items():
        if key[:2] in concerned:
            is_moved = key[1:] == move.pool
            base = track.base
            if is_moved and track.amount == pool.even.get(key[0]):
                base = base or track.level
            new[key] = dataclasses.replace(
                track,
                amount=track.amount + is_moved * move.find_gain(key[0]),
                changed_at=now,
                count=0,
                strays=0,
                base=base,
            )
    return state.replace_tracks(new)
