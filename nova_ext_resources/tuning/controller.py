# SPDX-License-Identifier: Apache-2.0

"""Decides which units go from one server to another.

A pool is one resource class of one domain. In each pool, a round makes at
most one step: free units, or units of the server that loses least, go to the
server that waits most for memory. A server always keeps its minimum.

Nothing tells beforehand what fewer ways of a cache do to a server. So a step
of ways is a trial, which is judged after the cool-down. It stays if the giver
lost nothing, or less than the taker gained; otherwise it is undone, and not
tried again for a while. A giver is compared with what it had with the even
division, so that many small losses cannot add up. A server that varies so
much that a trial could not show its loss gives nothing. One that has not been
measured for twenty cool-downs loses what it has above the even division, step
by step.

An example: servers a and b have 4 ways each, the even division of 8, and may
have 2 to 6. A round is 10 s, the cool-down is 30 s.

* Rounds at 0 to 120 s: a waits 0.05 of its time for memory, b 0.60. At 120 s,
  it is known how much a varies. b wants more than 0.3, and a is better off by
  more than 0.1: one way goes from a to b.
* Rounds at 130 to 150 s: the cache fills, then there are too few measurements;
  both servers are left alone.
* Round at 160 s: a waits 0.06 now and b 0.50. The likely time of b was
  1 / (1 - 0.60) = 2.5 and is 1 / (1 - 0.50) = 2.0, 22 percent less (as a
  difference of logarithms); the time of a is at most 1.2 percent longer. The
  step is kept, and b need not give that way back for twenty cool-downs.
* If a waited 0.15 instead, it could be 14 percent slower. That is more than a
  giver may lose (7 percent): the step is undone, and a gives nothing for
  twenty cool-downs, then for forty, and at most for 640.

All of this is pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
import dataclasses

from nova_ext_resources.objects import tunable_units
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import pressure as pressure_mod
from nova_ext_resources.tuning import steps
from nova_ext_resources.tuning import trials

#: Why a server gets more.
FREE = 'gets units that no server has'
UNUSED = 'gets units that the other server does not use'
NO_USE = 'gets units that did not help the other server'
WORSE_OFF = 'waits more for memory than the other server'
UNTRIED = 'may gain more from the units than the other server loses'
RESTORED = 'goes back towards the even division'
UNMEASURED = (
    'goes back towards the even division, because a server is no longer '
    'measured'
)

#: Loss against the even division from which on a server gets units back.
_MOST_LOSS = 0.1


def decide(
    tunables: Sequence[tunable_units.Tunable],
    pressures: Iterable[pressure_mod.Pressure],
    state: history.TuningState,
    pools: Mapping[pressure_mod.PoolKey, steps.UnitPool],
    limits: history.TuningLimits,
    now: float,
) -> tuple[tuple[steps.UnitMove, ...], history.TuningState]:
    """Return at most one step for each pool, and what to remember.

    The steps are not part of what to remember: :func:`.trials.note` adds
    those that were made.

    :param pools: tunables of a pool that is missing here are left alone
    :param now: seconds of any clock that does not go backwards
    """
    state = history.observe(state, tunables, pressures, limits, now)
    moves = []
    busy: set[tuple[str, str]] = set()
    grouped = pressure_mod.group_by_pool(tunables)
    # A server on trial is not changed: what needs no trial comes first.
    for key in sorted(
        grouped.keys() & pools.keys(),
        key=lambda one: (pools[one].is_tried, one),
    ):
        round_ = _Round(
            pool=pools[key],
            tunables=grouped[key],
            state=state,
            limits=limits,
            now=now,
        )
        undone, state = round_.judge()
        move = undone or round_.find_step(state, busy)
        if move is not None:
            moves.append(move)
            busy.update((one, key[0]) for one in move.servers)
    return tuple(moves), state


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """One pool in one round."""

    pool: steps.UnitPool
    tunables: tuple[tunable_units.Tunable, ...]
    state: history.TuningState
    limits: history.TuningLimits
    now: float

    def judge(self) -> tuple[steps.UnitMove | None, history.TuningState]:
        """Undo one step that did harm, keep those that did not.

        A step that is to be undone stays on trial until that is done.
        """
        state = self.state
        own = {history.make_key(one) for one in self.tunables}
        for trial in self.state.trials:
            if trial.taker not in own:
                continue
            verdict = self._find_verdict(trial)
            if verdict is None:
                continue
            if verdict.undo and self._can_undo(trial):
                return trials.undo(trial, verdict.undo, state), state
            state = trials.learn(trial, verdict, state, self.limits, self.now)
        return None, state

    def _find_verdict(
        self, trial: history.Trial
    ) -> trials.TrialVerdict | None:
        tracks = [self.state.tracks[key] for key in trial.keys]
        if any(one.is_lapsed(self.now, self.limits) for one in tracks):
            return trials.TrialVerdict(undo=trials.LAPSED)
        if not self._is_ripe(trial):
            return None
        return trials.judge(trial, self.state, self.limits)

    def _is_ripe(self, trial: history.Trial) -> bool:
        return all(
            self.state.tracks[key].is_ready(self.now, self.limits)
            for key in trial.keys
        )

    def _can_undo(self, trial: history.Trial) -> bool:
        """Whether both stay within their limits, which may have changed."""
        for one in self.tunables:
            key = history.make_key(one)
            if key == trial.taker and one.amount - trial.units < one.minimum:
                return False
            if key == trial.giver and one.amount + trial.units > one.maximum:
                return False
        return True

    def find_step(
        self, state: history.TuningState, busy: Set[tuple[str, str]]
    ) -> steps.UnitMove | None:
        """Return the best step that may be made now.

        :param busy: (server, domain) that another step of this round changes;
            of two changes at once, nothing tells which one helped
        """
        excluded = busy | {key[:2] for key in state.tried}
        ready = [
            one
            for one in self.tunables
            if _name(one) not in excluded
            and self._track(one).is_ready(self.now, self.limits)
        ]
        restored = self._restore(ready) or self._take_back(excluded)
        if restored is not None:
            return restored
        calm = [
            one for one in ready if not self._track(one).is_on_hold(self.now)
        ]
        for taker in self._list_takers(calm):
            units = self._find_units(taker, self._free)
            if units:
                return self._make_move(taker, None, units, FREE)
            for giver, most, reason in self._list_givers(taker, calm):
                units = self._find_units(
                    taker, min(giver.amount - giver.minimum, most)
                )
                if units:
                    return self._make_move(taker, giver, units, reason)
        return None

    def _track(self, one: tunable_units.Tunable) -> history.Track:
        return self.state.tracks[history.make_key(one)]

    @property
    def _free(self) -> int:
        """Units that no server has."""
        if self.pool.capacity is None:
            return 0
        return self.pool.capacity - sum(one.amount for one in self.tunables)

    def _find_units(self, taker: tunable_units.Tunable, available: int) -> int:
        """Return how many may go to a server; only steps that have effect."""
        return self._bound(min(taker.maximum - taker.amount, available))

    def _bound(self, units: int) -> int:
        units = min(max(self.pool.max_step, self.pool.step), units)
        return max(units - units % self.pool.step, 0)

    # -- back to the even division ---------------------------------------

    def _find_surplus(self, one: tunable_units.Tunable) -> int:
        """Return by how much a server has more than with even division."""
        return one.amount - self.pool.even.get(one.consumer_uuid, one.amount)

    def _restore(
        self, ready: Sequence[tunable_units.Tunable]
    ) -> steps.UnitMove | None:
        """Return a step to a server that is worse off than with even division.

        That needs no trial, and also ends a hold.
        """
        for taker in ready:
            if self._find_surplus(taker) < 0 and self._is_worse_off(taker):
                for giver in ready:
                    surplus = min(
                        self._find_surplus(giver), -self._find_surplus(taker)
                    )
                    units = self._find_units(taker, surplus)
                    if units:
                        return self._make_move(
                            taker,
                            giver,
                            units,
                            RESTORED,
                            steps.StepKind.UNDONE,
                        )
        return None

    def _take_back(
        self, excluded: Set[tuple[str, str]]
    ) -> steps.UnitMove | None:
        """Return a step from a server that is no longer measured.

        Nothing shows what it does with more than it has with even division.
        The units go to the server that lacks most, or become free. While that
        one is on trial, they wait: its level would show their effect too.
        """
        poorest = min(self.tunables, key=self._find_surplus, default=None)
        lack = 0 if poorest is None else -self._find_surplus(poorest)
        taker = poorest if lack > 0 else None
        if taker is not None and _name(taker) in excluded:
            return None
        for giver in self.tunables:
            surplus = self._find_surplus(giver)
            if (
                surplus > 0
                and _name(giver) not in excluded
                and self._track(giver).is_lapsed(self.now, self.limits)
            ):
                units = self._bound(min(surplus, lack) if taker else surplus)
                if units:
                    return self._make_move(
                        taker, giver, units, UNMEASURED, steps.StepKind.UNDONE
                    )
        return None

    def _is_worse_off(self, one: tunable_units.Tunable) -> bool:
        track = self._track(one)
        if not track.wants or track.base is None:
            return track.wants
        loss = track.level.time - track.base.time
        return loss > _MOST_LOSS + 2 * track.level.time_error

    # -- takers and givers -----------------------------------------------

    def _list_takers(
        self, ready: Iterable[tunable_units.Tunable]
    ) -> list[tunable_units.Tunable]:
        """Return those that want more: highest pressure, then fewest units."""
        return sorted(
            (
                one
                for one in ready
                if self._track(one).wants
                and one.amount < one.maximum
                and not self._is_futile(one)
            ),
            key=lambda one: (
                self._is_throttled(one),
                -round(self._track(one).pressure, 1),
                (one.amount - one.minimum) / max(one.maximum - one.minimum, 1),
                -self._track(one).pressure,
                one.consumer_uuid,
            ),
        )

    def _is_futile(self, one: tunable_units.Tunable) -> bool:
        track = self._track(one)
        return track.is_blocked(track.futile, self.limits, self.now)

    def _is_throttled(self, one: tunable_units.Tunable) -> bool:
        """Whether a trial would show nothing: traffic is at its limit.

        Such a server gets what nobody misses, after all others.
        """
        return self.pool.is_tried and self.state.is_throttled(
            history.make_key(one)
        )

    def _list_givers(
        self,
        taker: tunable_units.Tunable,
        ready: Iterable[tunable_units.Tunable],
    ) -> Iterator[tuple[tunable_units.Tunable, int, str]]:
        """Return givers, how much each can spare, and why; best one first."""
        others = [
            one
            for one in ready
            if one.consumer_uuid != taker.consumer_uuid
            and one.amount > one.minimum
            and self._may_give(one)
        ]
        yield from (
            (one, int(self._track(one).unused), UNUSED)
            for one in sorted(others, key=lambda o: -self._track(o).unused)
            if not self._track(one).wants
        )
        if self.pool.is_tried:
            yield from (
                (one, one.amount, reason)
                for one, reason in self._list_losers(taker, others)
            )

    def _may_give(self, one: tunable_units.Tunable) -> bool:
        track = self._track(one)
        if track.is_blocked(track.needed, self.limits, self.now):
            return False
        return not self.pool.is_tried or (
            track.is_precise
            and (self._find_surplus(one) > 0 or not self._is_throttled(one))
        )

    def _list_losers(
        self,
        taker: tunable_units.Tunable,
        others: Iterable[tunable_units.Tunable],
    ) -> Iterator[tuple[tunable_units.Tunable, str]]:
        able = sorted(others, key=lambda one: self._track(one).pressure)
        yield from ((one, NO_USE) for one in able if self._is_futile(one))
        wanted, margin = self._track(taker).pressure, self.limits.margin
        for one in able:
            pressure = self._track(one).pressure
            if pressure < wanted + margin:
                is_better = pressure < wanted - margin
                yield one, WORSE_OFF if is_better else UNTRIED

    def _make_move(
        self,
        taker: tunable_units.Tunable | None,
        giver: tunable_units.Tunable | None,
        units: int,
        reason: str,
        kind: steps.StepKind = steps.StepKind.WANTED,
    ) -> steps.UnitMove:
        concerned = [one for one in (taker, giver) if one is not None]
        return steps.UnitMove(
            rp_key=concerned[0].rp_key,
            resource_class=concerned[0].resource_class,
            units=units,
            taker=taker.consumer_uuid if taker else None,
            giver=giver.consumer_uuid if giver else None,
            kind=kind,
            reason=reason,
            pressures={
                one.consumer_uuid: self._track(one).pressure
                for one in concerned
            },
        )


def _name(one: tunable_units.Tunable) -> tuple[str, str]:
    """Return what excludes a server from steps: itself and its provider."""
    return one.consumer_uuid, one.rp_key
