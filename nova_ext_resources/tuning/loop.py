# SPDX-License-Identifier: Apache-2.0

"""Runs the controller on a host: measure, decide, act, record.

It has no thread of its own: monitoring calls it after each sweep.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import errno
from typing import Protocol

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources.conf import tuning
from nova_ext_resources.conf import values
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import fair_share
from nova_ext_resources import exception
from nova_ext_resources.objects import tunable_units
from nova_ext_resources import plugins
from nova_ext_resources.tuning import audit as audit_mod
from nova_ext_resources.tuning import controller
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps
from nova_ext_resources.tuning import trials

LOG = logging.getLogger(__name__)

#: Measurements that are older than so many rounds are ignored.
_MAX_AGE = 2.5

#: Seconds for which a pool is left alone after its change failed; each
#: further failure doubles the time.
_BACK_OFF = 60.0
_MAX_BACK_OFF = 3600.0


class TuningHost(Protocol):
    """What the tuner needs of the host; each round reads all of it."""

    def list_tunables(self) -> Sequence[tunable_units.Tunable]:
        """Return what may be moved, as it is applied now.

        :raises ExtResourcesError: it is not known
        """

    def list_domains(self) -> Mapping[str, pressure.CacheDomain]:
        """Return the caches by the keys of their providers."""

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        """Apply all tunables of one pool.

        :raises ExtResourcesError: nothing has changed, or it is not known
        """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options, as values.

    :ivar interval: seconds
    :ivar max_ways: ways in a step
    :ivar max_bandwidth: percent of the domain's bandwidth in a step
    """

    limits: history.TuningLimits = dataclasses.field(
        default_factory=history.TuningLimits
    )
    is_dry_run: bool = False
    interval: float = 10.0
    max_ways: int = 1
    max_bandwidth: int = 10

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> 'Settings':
        """Read ``[ext_resources_tuning]``.

        :param conf: with the options registered
        :raises InvalidConfiguration: an option cannot be used
        """
        group = tuning.GROUP.name
        values.check(conf, group, tuning.OPTS)
        options = conf[group]
        if options.give_below >= options.want_above:
            raise exception.InvalidConfiguration(
                option=f'[{group}] give_below',
                value=options.give_below,
                reason='give_below must be below want_above, which is '
                f'{options.want_above}',
            )
        return cls(
            limits=history.TuningLimits(
                want_above=options.want_above,
                give_below=options.give_below,
                cool_down=options.cool_down,
            ),
            is_dry_run=options.dry_run,
            interval=options.interval,
            max_ways=options.max_ways,
            max_bandwidth=options.max_bandwidth,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """A pool whose change failed."""

    until: float
    count: int
    text: str


def refuse_trail(path: str, reason: str) -> exception.InvalidConfiguration:
    """Return the error for an audit trail that cannot be written."""
    return exception.InvalidConfiguration(
        option=f'[{tuning.GROUP.name}] audit_path',
        value=path,
        reason=f'{reason}; audit_path must be a file that the user of '
        'nova-compute can write',
    )


def from_conf(
    conf: cfg.ConfigOpts, target: TuningHost, *, host: str, audit_path: str
) -> 'Tuner | None':
    """Return a tuner; None when tuning is disabled.

    :param host: name of the compute host
    :param audit_path: file of the audit trail where no other is set
    :raises InvalidConfiguration: an option cannot be used
    """
    options = conf[tuning.GROUP.name]
    if not options.enabled:
        return None
    settings = Settings.from_conf(conf)
    trail = audit_mod.AuditTrail(options.audit_path or audit_path, host=host)
    try:
        trail.check()
    except OSError as err:
        # A disk that is full now does not keep nova-compute from starting.
        if err.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise refuse_trail(trail.path, err.strerror or str(err)) from err
    return Tuner(target, settings=settings, audit=trail, host=host)


class Tuner:
    """Moves burst ways and bandwidth between the servers of one host.

    Only one thread may call it at a time; any thread may read its attributes.

    :param clock: that of the readings
    :ivar changes: resource class -> number of changes since the start
    :ivar problems: what is wrong now, each in a sentence
    """

    def __init__(
        self,
        target: TuningHost,
        *,
        settings: Settings,
        audit: audit_mod.AuditTrail,
        host: str,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self._target = target
        self._settings = settings
        self._audit = audit
        self._host = host
        self._clock = clock
        self._state = history.TuningState()
        self._last_round: float | None = None
        self._failures: dict[pressure.PoolKey, _Failure] = {}
        self._recorded: dict[
            pressure.PoolKey, tuple[float, tuple[object, ...]]
        ] = {}
        self.problems: tuple[str, ...] = ()
        self.changes: Mapping[str, int] = {}

    def run_once(
        self, readings: Iterable[pressure.PressureReading]
    ) -> tuple[steps.UnitMove, ...]:
        """Run one round, unless the last one was less than an interval ago.

        :param readings: what the newest sweep measured
        :return: the steps that were made, or in a dry run: would have been
        """
        now = self._clock.monotonic()
        if (
            self._last_round is not None
            # A sweep is a little early now and then.
            and now - self._last_round < self._settings.interval * 0.9
        ):
            return ()
        self._last_round = now
        fresh = tuple(one for one in readings if self._is_fresh(one, now))
        made: tuple[steps.UnitMove, ...] = ()
        failure = ''
        try:
            made = self._run(fresh, now)
        except exception.ExtResourcesError as err:
            failure = f'cannot find the units that may be tuned: {err}'
        self.problems = tuple(
            text
            for text in (
                failure,
                *(one.text for one in self._failures.values()),
                self._audit.problem,
            )
            if text
        )
        return made

    def _is_fresh(self, reading: pressure.PressureReading, now: float) -> bool:
        return now - reading.taken_at <= _MAX_AGE * self._settings.interval

    def _run(
        self, readings: tuple[pressure.PressureReading, ...], now: float
    ) -> tuple[steps.UnitMove, ...]:
        tunables = tuple(self._target.list_tunables())
        domains = self._target.list_domains()
        grouped = pressure.group_by_pool(tunables)
        for gone in self._failures.keys() - grouped.keys():
            del self._failures[gone]
        pools = {
            key: make_pool(key, some, domains[key[0]], self._settings)
            for key, some in grouped.items()
            if key[0] in domains
        }
        moves, self._state = controller.decide(
            tunables,
            pressure.list_pressures(tunables, readings, domains),
            self._state,
            {
                key: pool
                for key, pool in pools.items()
                if not self._is_backing_off(key, now)
            },
            self._settings.limits,
            now,
        )
        if self._settings.is_dry_run:
            return self._record(moves, grouped, readings, now)
        return tuple(
            move
            for move in moves
            if self._make(move, grouped[move.pool], readings, pools, now)
        )

    def _is_backing_off(self, key: pressure.PoolKey, now: float) -> bool:
        failure = self._failures.get(key)
        return failure is not None and now < failure.until

    def _record(
        self,
        moves: Iterable[steps.UnitMove],
        grouped: Mapping[pressure.PoolKey, tuple[tunable_units.Tunable, ...]],
        readings: tuple[pressure.PressureReading, ...],
        now: float,
    ) -> tuple[steps.UnitMove, ...]:
        """Record what would be done; the same step once only."""
        recorded = []
        for move in moves:
            what = move.taker, move.giver, move.units
            recorded_at, last = self._recorded.get(move.pool, (now, ()))
            wait = self._settings.limits.cool_down
            if what == last or (last and now - recorded_at < wait):
                continue
            self._recorded[move.pool] = now, what
            self._audit.write(
                move,
                outcome=audit_mod.StepOutcome.DRY_RUN,
                before=grouped[move.pool],
                readings=readings,
            )
            recorded.append(move)
        return tuple(recorded)

    def _make(
        self,
        move: steps.UnitMove,
        before: tuple[tunable_units.Tunable, ...],
        readings: tuple[pressure.PressureReading, ...],
        pools: Mapping[pressure.PoolKey, steps.UnitPool],
        now: float,
    ) -> bool:
        error = self._set(move, steps.apply_move(before, move), now)
        outcome = audit_mod.StepOutcome
        self._audit.write(
            move,
            outcome=outcome.FAILED if error else outcome.APPLIED,
            before=before,
            readings=readings,
            error=error,
        )
        if error:
            return False
        self._state = trials.note(
            self._state, [move], pools, self._settings.limits, now
        )
        # A new one: others may be reading the old one.
        count = self.changes.get(move.resource_class, 0)
        self.changes = {**self.changes, move.resource_class: count + 1}
        return True

    def _set(
        self,
        move: steps.UnitMove,
        after: tuple[tunable_units.Tunable, ...],
        now: float,
    ) -> str:
        """Apply a step; return the error, '' when there was none."""
        try:
            self._target.set_tunables(after)
        except Exception as err:
            # Foreign exceptions too: one enforcer must not stop the others.
            self._note_failure(move.pool, plugins.describe(err), now)
            LOG.warning(
                'Host %(host)s: %(problem)s',
                {
                    'host': self._host,
                    'problem': self._failures[move.pool].text,
                },
                exc_info=not isinstance(err, exception.ExtResourcesError),
            )
            return plugins.describe(err)
        self._failures.pop(move.pool, None)
        return ''

    def _note_failure(
        self, key: pressure.PoolKey, error: str, now: float
    ) -> None:
        old = self._failures.get(key)
        count = old.count + 1 if old else 1
        pause = min(_BACK_OFF * 2 ** min(count - 1, 10), _MAX_BACK_OFF)
        rp_key, resource_class = key
        self._failures[key] = _Failure(
            until=now + pause,
            count=count,
            text=f'tuning of {resource_class} of {rp_key} failed and pauses '
            f'for {pause:.0f} s: {error}',
        )


def make_pool(
    key: pressure.PoolKey,
    tunables: Iterable[tunable_units.Tunable],
    domain: pressure.CacheDomain,
    settings: Settings,
) -> steps.UnitPool:
    """Return the rules of one pool. Pure.

    Traffic shows beforehand whether bandwidth can be spared. Nothing shows
    that for ways of a cache, so their steps are trials.
    """
    _rp_key, resource_class = key
    capacity = domain.capacities.get(resource_class)
    tunables = tuple(tunables)
    # If the host had to round, the audit trail would be wrong.
    step = max(
        domain.steps.get(resource_class, 1), *(one.step for one in tunables), 1
    )
    total = (
        sum(one.amount for one in tunables) if capacity is None else capacity
    )
    is_tried = resource_class not in classes.BANDWIDTHS
    most = settings.max_ways
    if not is_tried:
        most = max(total * settings.max_bandwidth // 100, 1)
    return steps.UnitPool(
        capacity=capacity,
        step=step,
        max_step=most,
        is_tried=is_tried,
        even=_divide_evenly(total, tunables, step),
    )


def _divide_evenly(
    total: int, tunables: Sequence[tunable_units.Tunable], step: int
) -> Mapping[str, int]:
    """Return what each server would have without tuning, if that is known."""
    demands = [(one.minimum, one.maximum) for one in tunables]
    try:
        amounts = fair_share.divide(total, demands, step)
    except ValueError:
        # The host has shrunk below what is allocated.
        return {}
    return {
        one.consumer_uuid: amount
        for one, amount in zip(tunables, amounts, strict=True)
    }
