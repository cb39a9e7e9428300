# SPDX-License-Identifier: Apache-2.0

"""What the controller remembers from one round to the next.

Values: each round makes a new one. Nothing is kept over a restart, because
all of it is learned again within minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import math
from typing import TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import tunable_units
from nova_ext_resources.tuning import level as level_mod
from nova_ext_resources.tuning import pressure as pressure_mod

#: (server, provider's key, resource class)
TunableKey: TypeAlias = tuple[str, str, str]

#: Measurements that a mean is made of. A trial is judged after so many at the
#: latest: a longer one would meet another load.
WINDOW = 32

#: How much a new measurement counts for noise.
_NOISE_WEIGHT = 0.04

#: Measurements are taken to repeat each other up to so much, see ``level``.
_LEAST_RATIO = 0.05

#: Difference of waiting that means another load, at least.
_LEAST_CHANGE = 0.05

#: Measurements far from the mean, one after the other, that mean another load.
_STRAYS = 3

#: Measurements after a change that it takes to judge.
_ENOUGH = 3

#: Measurements after which a server may give units.
_MANY = 10

#: Pressure on bandwidth above which traffic no longer shows what ways are
#: worth: it is at its limit whatever the server has.
_THROTTLED = 0.75

#: Loss, see :mod:`.level`, that does not count.
SMALL_LOSS = 0.03

#: Loss that must be unlikely before a step stays.
MOST_RISK = 0.08

#: Cool-downs for which a step that failed is not tried again. Each further
#: failure doubles the time.
_BLOCK = 20

#: Cool-downs without a measurement after which a server gives back what it
#: has above the even division.
_LAPSE = 20

#: Cool-downs for which a server whose load changes often is left alone.
_HOLD = 5
_MAX_DOUBLINGS = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TuningLimits:
    """When something is moved, and how often.

    :ivar want_above: pressure above which a server wants more
    :ivar give_below: pressure below which it no longer wants more
    :ivar cool_down: seconds after a change in which a server is not changed
        again; after them, the change is judged
    :ivar gain: part of its time that a server must gain by a step
    """

    want_above: float = 0.3
    give_below: float = 0.2
    cool_down: float = 30.0
    gain: float = 0.01

    @property
    def margin(self) -> float:
        """Difference of pressures that counts."""
        return self.want_above - self.give_below


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Something failed, and is not tried again for a while.

    :ivar waiting: how much the server waited before; when it changes, the
        load is another one, and the block ends
    """

    until: float
    waiting: float = 0.0
    failures: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One tunable, over time.

    :ivar amount: what the server has, or should have after our last change
    :ivar changed_at: time of our last change
    :ivar measured_at: time of the last measurement, or when it became known
    :ivar pressure: mean since then
    :ivar waiting: the same of :attr:`.Pressure.waiting`
    :ivar unused: units that the server does not use; it falls at once and
        rises slowly, because a server needs what it uses now and then
    :ivar variance: of single measurements around the mean
    :ivar jitter: half of the squared difference of two measurements in turn
    :ivar latest: the last measurement of ``waiting``
    :ivar seen: measurements that ``variance`` is made of
    :ivar count: measurements since the last change
    :ivar strays: the last so many measurements were far from the mean
    :ivar turned_at: when the load became another one
    :ivar is_fresh: whether there was a measurement in this round
    :ivar wants: whether the server wants more
    :ivar base: its level with the even division; None: not known
    :ivar futile: more units did not help it
    :ivar needed: fewer units harmed it
    :ivar hold: its load changes too often
    """

    amount: int
    changed_at: float
    measured_at: float = -math.inf
    pressure: float = 0.0
    waiting: float = 0.0
    unused: float = 0.0
    variance: float = 0.0
    jitter: float = 0.0
    latest: float = 0.0
    seen: int = 0
    count: int = 0
    strays: int = 0
    turned_at: float = -math.inf
    is_fresh: bool = False
    wants: bool = False
    base: level_mod.Level | None = None
    futile: Block | None = None
    needed: Block | None = None
    hold: Block | None = None

    @property
    def level(self) -> level_mod.Level:
        """Return the mean, with its standard error.

        Measurements of a load that alternates repeat each other, so that many
        of them say as little as a few: von Neumann's ratio of ``jitter`` to
        ``variance`` is 1 for mere noise, and small for slow changes. The mean
        forgets, so that it never gets more exact than of two windows.
        """
        ratio = min(self.jitter / (self.variance or 1.0), 1.0)
        ratio = max(ratio, _LEAST_RATIO) if self.variance else 1.0
        count = min(max(self.count, 1), 2 * WINDOW - 1)
        variance = self.variance * (2 - ratio) / ratio / count
        return level_mod.Level(waiting=self.waiting, error=math.sqrt(variance))

    @property
    def is_precise(self) -> bool:
        """Whether a loss would be noticed.

        A server that varies too much even for the longest trial would only
        be harmed by trials: they could not show that they do no harm.
        """
        longest = dataclasses.replace(self, count=WINDOW).level
        fear = math.sqrt(2) * longest.worst_error
        if self.seen < _MANY or fear > MOST_RISK:
            return False
        return self.count >= _MANY or 2 * self.level.worst_error < SMALL_LOSS

    def is_ready(self, now: float, limits: TuningLimits) -> bool:
        """Whether enough is known since the last change."""
        return (
            self.is_fresh
            and self.count >= _ENOUGH
            and now - self.changed_at >= limits.cool_down
        )

    def is_lapsed(self, now: float, limits: TuningLimits) -> bool:
        """Whether it has not been measured, nor changed, for long."""
        return (
            now - self.measured_at >= limits.cool_down * _LAPSE
            and now - self.changed_at >= limits.cool_down
        )

    def is_on_hold(self, now: float) -> bool:
        return self.hold is not None and now < self.hold.until

    def is_blocked(
        self, block: Block | None, limits: TuningLimits, now: float
    ) -> bool:
        return (
            block is not None
            and now < block.until
            and not self._is_far(block, self.waiting, limits)
        )

    def _is_far(
        self, block: Block, waiting: float, limits: TuningLimits
    ) -> bool:
        distance = max(limits.margin, _LEAST_CHANGE)
        distance += 2 * math.sqrt(self.variance)
        return abs(waiting - block.waiting) > distance

    def make_block(
        self,
        old: Block | None,
        waiting: float,
        limits: TuningLimits,
        now: float,
    ) -> Block:
        """Return a block, twice as long as the old one of the same load.

        :param waiting: how much the server waited before the step that failed
        """
        failures = 1
        if old is not None and not self._is_far(old, waiting, limits):
            failures = min(old.failures + 1, _MAX_DOUBLINGS + 1)
        length = limits.cool_down * _BLOCK * 2 ** (failures - 1)
        return Block(until=now + length, waiting=waiting, failures=failures)

    def turn(self, limits: TuningLimits, now: float) -> 'Track':
        """Return the track at the start of another load.

        The second such change within a short time begins a hold, and each
        further one doubles it: no trial is shorter than such a load.
        """
        unit = limits.cool_down * _HOLD
        old, failures = self.hold, 1
        if old is not None and now < old.until + unit * 2**old.failures:
            failures = min(old.failures + 1, _MAX_DOUBLINGS + 1)
        until = now + unit * (2 ** (failures - 1) - 1)
        return dataclasses.replace(
            self,
            base=None,
            count=0,
            strays=0,
            turned_at=now,
            hold=Block(until=until, failures=failures),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A step that must still show that it does no harm.

    :ivar giver: None: the units were free
    :ivar before: levels before it: of the taker, of the giver
    """

    taker: TunableKey
    giver: TunableKey | None
    units: int
    started_at: float
    before: tuple[level_mod.Level, level_mod.Level]

    @property
    def keys(self) -> tuple[TunableKey, ...]:
        return (
            (self.taker,) if self.giver is None else (self.taker, self.giver)
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TuningState:
    """All that is remembered."""

    tracks: Mapping[TunableKey, Track] = dataclasses.field(
        default_factory=dict
    )
    trials: tuple[Trial, ...] = ()

    @property
    def tried(self) -> frozenset[TunableKey]:
        return frozenset(key for trial in self.trials for key in trial.keys)

    def is_throttled(self, key: TunableKey) -> bool:
        """Whether the server is at its limit of bandwidth in this domain."""
        return any(
            other[:2] == key[:2]
            and other[2] in classes.BANDWIDTHS
            and track.pressure > _THROTTLED
            for other, track in self.tracks.items()
        )

    def replace_tracks(self, new: Mapping[TunableKey, Track]) -> 'TuningState':
        return dataclasses.replace(self, tracks={**self.tracks, **new})

    def drop_trial(self, trial: Trial) -> 'TuningState':
        left = tuple(one for one in self.trials if one != trial)
        return dataclasses.replace(self, trials=left)


def make_key(one: tunable_units.Tunable | pressure_mod.Pressure) -> TunableKey:
    return one.consumer_uuid, one.rp_key, one.resource_class


def observe(
    state: TuningState,
    tunables: Sequence[tunable_units.Tunable],
    pressures: Iterable[pressure_mod.Pressure],
    limits: TuningLimits,
    now: float,
) -> TuningState:
    """Return the state after one round of measurements.

    A server without a measurement keeps what is known, and is not fresh. If
    an amount is not the expected one, other software changed it or our change
    was refused: all about that tunable is learned anew.
    """
    measured = {make_key(one): one for one in pressures if _is_sound(one)}
    tracks = {}
    changed = set()
    for one in tunables:
        key = make_key(one)
        track = state.tracks.get(key)
        if track is None or track.amount != one.amount:
            changed.add(key)
            track = Track(amount=one.amount, changed_at=now, measured_at=now)
        tracks[key] = _measure(track, measured.get(key), limits, now)
    trials = tuple(
        trial
        for trial in state.trials
        if all(key in tracks and key not in changed for key in trial.keys)
    )
    return TuningState(tracks=tracks, trials=trials)


def _is_sound(one: pressure_mod.Pressure) -> bool:
    values = one.value, one.unused, one.waiting or 0.0
    return all(math.isfinite(value) and value >= 0 for value in values)


def _measure(
    track: Track,
    new: pressure_mod.Pressure | None,
    limits: TuningLimits,
    now: float,
) -> Track:
    if new is None:
        return dataclasses.replace(track, is_fresh=False)
    track = dataclasses.replace(track, measured_at=now)
    if now - track.changed_at < limits.cool_down / 2:
        # The cache still fills, or empties.
        return dataclasses.replace(track, is_fresh=True)
    value = min(new.value, 1.0)
    waiting = value if new.waiting is None else min(new.waiting, 1.0)
    track = _note_noise(track, waiting, limits, now)
    weight = max(1 / (track.count + 1), 1 / WINDOW)
    pressure = _smooth(track.pressure, value, weight)
    unused = _smooth(track.unused, new.unused, weight)
    return dataclasses.replace(
        track,
        pressure=pressure,
        waiting=_smooth(track.waiting, waiting, weight),
        unused=min(unused, new.unused, track.amount),
        latest=waiting,
        count=track.count + 1,
        is_fresh=True,
        wants=pressure > limits.want_above
        or (track.wants and pressure > limits.give_below),
    )


def _note_noise(
    track: Track, waiting: float, limits: TuningLimits, now: float
) -> Track:
    """Compare a measurement with those before it, since the last change."""
    if not track.count:
        return track
    seen = track.seen + 1
    weight = max(1 / seen, _NOISE_WEIGHT)
    distance = abs(waiting - track.waiting)
    is_far = distance > max(_LEAST_CHANGE, 3 * math.sqrt(track.jitter))
    step = (waiting - track.latest) ** 2 / 2
    track = dataclasses.replace(
        track,
        seen=seen,
        variance=_smooth(track.variance, distance**2, weight),
        jitter=_smooth(track.jitter, step, weight),
        strays=track.strays + 1 if is_far else 0,
    )
    if track.strays >= _STRAYS and track.count > _ENOUGH:
        return track.turn(limits, now)
    return track


def _smooth(old: float, new: float, weight: float) -> float:
    return old + (new - old) * weight
