# SPDX-License-Identifier: Apache-2.0

"""Decides what goes from one server to another.

A pool is one resource class of one domain. Of each pool at most one step is
made in a round: from what nobody has, or from the server that can best do
without, to the one that suffers most. A server keeps its minimum, which was
sold to it, whatever is measured.

Where it cannot be foreseen what a step does (ways of a cache), it is on trial:
after the cool-down it stays if the one that got it is better off and the
other one not worse than that one was; otherwise it is undone and not tried
again for a while. Each step that stays makes the worst of the two better off,
so that under a steady load the steps come to an end.

All of this is pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
import dataclasses

from nova_ext_resources.objects import tunable
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import pressure as pressure_mod
from nova_ext_resources.tuning import steps
from nova_ext_resources.tuning import trials

#: Why a server gets more.
UNHELD = 'gets what nobody has'
UNUSED = 'gets what the other one does not use'
NO_USE = 'gets what was of no use to the other one'
WORSE_OFF = 'suffers more than the other one'


def decide(
    tunables: Sequence[tunable.Tunable],
    pressures: Iterable[pressure_mod.Pressure],
    state: history.State,
    pools: Mapping[pressure_mod.PoolKey, steps.Pool],
    limits: history.Limits,
    now: float,
) -> tuple[tuple[steps.Move, ...], history.State]:
    """Give at most one step for each pool, and what to remember.

    What is to be remembered does not hold the steps: :func:`.trials.note`
    adds those that were made.

    :param pools: tunables of a pool that is missing here are left alone
    :param now: seconds of any clock that does not go backwards
    """
    state = history.observe(state, tunables, pressures, limits, now)
    moves = []
    busy: set[tuple[str, str]] = set()
    for key, members in pressure_mod.group_by_pool(tunables).items():
        if key in pools:
            round_ = _Round(
                pool=pools[key],
                tunables=members,
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

    pool: steps.Pool
    tunables: tuple[tunable.Tunable, ...]
    state: history.State
    limits: history.Limits
    now: float

    def judge(self) -> tuple[steps.Move | None, history.State]:
        """Undo one step that has not proved itself, keep those that have.

        A step that is to be undone stays on trial until that is done.
        """
        state = self.state
        own = {history.make_key(one) for one in self.tunables}
        for trial in self.state.trials:
            if trial.taker not in own or not self._is_ripe(trial):
                continue
            reason = trials.find_failure(trial, state, self.limits)
            if reason and self._can_undo(trial):
                return trials.undo(trial, reason, state), state
            state = trials.keep(trial, state, self.limits, self.now)
        return None, state

    def _is_ripe(self, trial: history.Trial) -> bool:
        return all(
            self.state.tracks[key].is_ready(self.now, self.limits)
            for key in trial.keys
        )

    def _can_undo(self, trial: history.Trial) -> bool:
        """Whether both stay within what was sold, which may have changed."""
        for one in self.tunables:
            key = history.make_key(one)
            if key == trial.taker and one.amount - trial.units < (one.minimum):
                return False
            if key == trial.giver and one.amount + trial.units > (one.maximum):
                return False
        return True

    def find_step(
        self, state: history.State, busy: Set[tuple[str, str]]
    ) -> steps.Move | None:
        """Give the best step that may be made now.

        :param busy: (server, domain) that another step of this round changes;
            of two changes at once nobody could tell which one helped
        """
        excluded = busy | {key[:2] for key in state.tried}
        ready = [
            one
            for one in self.tunables
            if (one.consumer_uuid, one.rp_key) not in excluded
            and self._track(one).is_ready(self.now, self.limits)
        ]
        for taker in self._list_takers(ready):
            rest = self._find_units(taker, self._rest)
            if rest:
                return self._make_move(taker, None, rest, UNHELD)
            for giver, most, reason in self._list_givers(taker, ready):
                units = self._find_units(
                    taker, min(giver.amount - giver.minimum, most)
                )
                if units:
                    return self._make_move(taker, giver, units, reason)
        return None

    def _track(self, one: tunable.Tunable) -> history.Track:
        return self.state.tracks[history.make_key(one)]

    @property
    def _rest(self) -> int:
        """Units that nobody has."""
        if self.pool.capacity is None:
            return 0
        return self.pool.capacity - sum(one.amount for one in self.tunables)

    def _find_units(self, taker: tunable.Tunable, available: int) -> int:
        """Give how many may go to a server; only steps that have effect."""
        units = min(
            max(self.pool.max_step, self.pool.step),
            taker.maximum - taker.amount,
            available,
        )
        return max(units - units % self.pool.step, 0)

    def _list_takers(
        self, ready: Iterable[tunable.Tunable]
    ) -> list[tunable.Tunable]:
        """Give who wants more: who suffers most, then who has least."""
        return sorted(
            (
                one
                for one in ready
                if self._track(one).wants
                and one.amount < one.maximum
                and not self._is_futile(one)
            ),
            key=lambda one: (
                -round(self._track(one).pressure, 1),
                (one.amount - one.minimum) / max(one.maximum - one.minimum, 1),
                -self._track(one).pressure,
                one.consumer_uuid,
            ),
        )

    def _is_futile(self, one: tunable.Tunable) -> bool:
        track = self._track(one)
        return track.is_blocked(track.futile, self.limits, self.now)

    def _list_givers(
        self, taker: tunable.Tunable, ready: Iterable[tunable.Tunable]
    ) -> Iterator[tuple[tunable.Tunable, int, str]]:
        """Give who can do without, of how much, and why; best one first."""
        others = [
            one
            for one in ready
            if one.consumer_uuid != taker.consumer_uuid
            and one.amount > one.minimum
            and not self._is_needed(one)
        ]
        yield from (
            (one, int(self._track(one).spare), UNUSED)
            for one in sorted(others, key=lambda o: -self._track(o).spare)
            if not self._track(one).wants
        )
        if self.pool.is_tried:
            yield from (
                (one, one.amount, reason)
                for one, reason in self._list_losers(taker, others)
            )

    def _list_losers(
        self, taker: tunable.Tunable, others: Iterable[tunable.Tunable]
    ) -> Iterator[tuple[tunable.Tunable, str]]:
        able = sorted(others, key=lambda one: self._track(one).pressure)
        yield from ((one, NO_USE) for one in able if self._is_futile(one))
        limit = self._track(taker).pressure - self.limits.margin
        yield from (
            (one, WORSE_OFF)
            for one in able
            if self._track(one).pressure < limit
        )

    def _is_needed(self, one: tunable.Tunable) -> bool:
        track = self._track(one)
        return track.is_blocked(track.needed, self.limits, self.now)

    def _make_move(
        self,
        taker: tunable.Tunable,
        giver: tunable.Tunable | None,
        units: int,
        reason: str,
    ) -> steps.Move:
        concerned = [taker] if giver is None else [taker, giver]
        return steps.Move(
            rp_key=taker.rp_key,
            resource_class=taker.resource_class,
            units=units,
            taker=taker.consumer_uuid,
            giver=giver.consumer_uuid if giver else None,
            kind=steps.Kind.WANTED,
            reason=reason,
            pressures={
                one.consumer_uuid: self._track(one).pressure
                for one in concerned
            },
        )
