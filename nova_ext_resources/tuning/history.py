# SPDX-License-Identifier: Apache-2.0

"""What the controller remembers from one round to the next.

Values: each round makes a new one. Nothing of it is kept over a restart, for
all of it is learned again within minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import math
from typing import TypeAlias

from nova_ext_resources.objects import tunable
from nova_ext_resources.tuning import pressure as pressure_mod

#: (server, provider's key, resource class)
TunableKey: TypeAlias = tuple[str, str, str]

#: How much the newest measurement counts at least.
_WEIGHT = 0.25

#: The same for how far measurements are from each other.
_NOISE_WEIGHT = 0.1

#: Difference of pressures that means another phase, at least.
_LEAST_CHANGE = 0.05

#: Measurements after a change that it takes to judge.
_ENOUGH = 3

#: Cool-downs for which a server is left alone whom a step did not help; twice
#: as long each time, until it behaves differently.
_BLOCK = 20
_MAX_DOUBLINGS = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When something is moved, and how often.

    :ivar want_above: pressure from which on a server wants more
    :ivar give_below: pressure below which it has ceased to
    :ivar cool_down: seconds for which a server is left as it is after a
        change, and in which the change must prove itself
    :ivar gain: by how much a change must lower the pressure
    """

    want_above: float = 0.3
    give_below: float = 0.2
    cool_down: float = 30.0
    gain: float = 0.01

    @property
    def margin(self) -> float:
        """How much better off a server must be that is to give."""
        return self.want_above - self.give_below


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A step did not do: it is not tried again for a while.

    :ivar pressure: that of the server then; when it is another one, it does
        something else and may be tried again
    """

    until: float
    pressure: float
    failures: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One tunable, over time.

    :ivar amount: what it has, or should have after our last change
    :ivar changed_at: since when
    :ivar pressure: smoothed, since the last change
    :ivar noise: how far single measurements are from that, smoothed
    :ivar count: of measurements since the last change
    :ivar is_fresh: whether there was one in this round
    :ivar wants: whether it wants more
    :ivar futile: more of it was of no use
    :ivar needed: less of it did harm
    """

    amount: int
    changed_at: float
    pressure: float = 0.0
    spare: float = 0.0
    noise: float = 0.0
    count: int = 0
    is_fresh: bool = False
    wants: bool = False
    futile: Block | None = None
    needed: Block | None = None

    def is_ready(self, now: float, limits: Limits) -> bool:
        """Whether enough is known of it since its last change."""
        return (
            self.is_fresh
            and self.count >= _ENOUGH
            and now - self.changed_at >= limits.cool_down
        )

    def is_blocked(
        self, block: Block | None, limits: Limits, now: float
    ) -> bool:
        return (
            block is not None
            and now < block.until
            and not self.has_changed(block, limits)
        )

    def has_changed(self, block: Block, limits: Limits) -> bool:
        """Whether it does something else now; noise does not count."""
        distance = max(limits.margin, _LEAST_CHANGE) + 2 * self.noise
        return abs(self.pressure - block.pressure) > distance

    def make_block(
        self,
        old: Block | None,
        pressure: float,
        limits: Limits,
        now: float,
    ) -> Block:
        """Leave it alone, for longer when that was so before.

        :param pressure: its pressure before what failed
        """
        failures = 1
        if old is not None and not self.has_changed(old, limits):
            failures = min(old.failures + 1, _MAX_DOUBLINGS + 1)
        length = limits.cool_down * _BLOCK * 2 ** (failures - 1)
        return Block(until=now + length, pressure=pressure, failures=failures)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A step that has still to show that it does more good than harm.

    :ivar giver: None: it came from what nobody had
    :ivar before: pressures before it: of who takes, of who gives
    """

    taker: TunableKey
    giver: TunableKey | None
    units: int
    before: tuple[float, float]

    @property
    def keys(self) -> tuple[TunableKey, ...]:
        return (
            (self.taker,) if self.giver is None else (self.taker, self.giver)
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that is remembered."""

    tracks: Mapping[TunableKey, Track] = dataclasses.field(
        default_factory=dict
    )
    trials: tuple[Trial, ...] = ()

    @property
    def tried(self) -> frozenset[TunableKey]:
        return frozenset(key for trial in self.trials for key in trial.keys)

    def replace_tracks(self, new: Mapping[TunableKey, Track]) -> 'State':
        return dataclasses.replace(self, tracks={**self.tracks, **new})

    def drop_trial(self, trial: Trial) -> 'State':
        left = tuple(one for one in self.trials if one != trial)
        return dataclasses.replace(self, trials=left)


def make_key(one: tunable.Tunable | pressure_mod.Pressure) -> TunableKey:
    return one.consumer_uuid, one.rp_key, one.resource_class


def observe(
    state: State,
    tunables: Sequence[tunable.Tunable],
    pressures: Iterable[pressure_mod.Pressure],
    limits: Limits,
    now: float,
) -> State:
    """Take in one round of measurements.

    Who has no measurement keeps what is known, and is not fresh. Who has
    another amount than expected was changed by somebody else (or our change
    was refused): all about it is learned anew.
    """
    measured = {make_key(one): one for one in pressures if _is_sound(one)}
    tracks = {}
    changed = set()
    for one in tunables:
        key = make_key(one)
        track = state.tracks.get(key)
        if track is None or track.amount != one.amount:
            changed.add(key)
            track = Track(amount=one.amount, changed_at=now)
        tracks[key] = _measure(track, measured.get(key), limits, now)
    trials = tuple(
        trial
        for trial in state.trials
        if all(key in tracks and key not in changed for key in trial.keys)
    )
    return State(tracks=tracks, trials=trials)


def _is_sound(one: pressure_mod.Pressure) -> bool:
    return all(
        math.isfinite(value) and value >= 0 for value in (one.value, one.spare)
    )


def _measure(
    track: Track,
    new: pressure_mod.Pressure | None,
    limits: Limits,
    now: float,
) -> Track:
    if new is None:
        return dataclasses.replace(track, is_fresh=False)
    if now - track.changed_at < limits.cool_down / 2:
        # The cache still fills, or empties.
        return dataclasses.replace(track, is_fresh=True)
    weight = max(1 / (track.count + 1), _WEIGHT)
    value = min(new.value, 1.0)
    pressure = _smooth(track.pressure, value, weight)
    noise = track.noise
    if track.count:
        noise = _smooth(noise, abs(value - track.pressure), _NOISE_WEIGHT)
    return dataclasses.replace(
        track,
        pressure=pressure,
        noise=noise,
        spare=_smooth(track.spare, min(new.spare, track.amount), weight),
        count=track.count + 1,
        is_fresh=True,
        wants=pressure > limits.want_above
        or (track.wants and pressure > limits.give_below),
    )


def _smooth(old: float, new: float, weight: float) -> float:
    return old + (new - old) * weight
