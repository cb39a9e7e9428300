# SPDX-License-Identifier: Apache-2.0

"""Measures the servers of a host, and tunes them by what is measured."""

from collections.abc import Mapping

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import resctrl as resctrl_conf
from nova_ext_resources.conf import monitoring
from nova_ext_resources.conf import tuning
from nova_ext_resources.conf import values
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import topology
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.host.reconcile import running_guests
from nova_ext_resources.host.service import health as health_mod
from nova_ext_resources.host.service import server_names
from nova_ext_resources.monitoring import loading
from nova_ext_resources.monitoring import loop
from nova_ext_resources.monitoring import sample
from nova_ext_resources import plugins
from nova_ext_resources.tuning import loop as tuning_loop
from nova_ext_resources.tuning import target

LOG = logging.getLogger(__name__)


class Measuring:
    """One thread that sweeps, and tunes after each sweep.

    Both are off unless the options say otherwise, and nothing is running
    then.

    :param servers: Nova's servers of this host, whatever they hold
    :param guests: those that run; None where nobody knows
    :param audit_path: file of what tuning has done, where the options name
        none
    :raises InvalidConfiguration: an option cannot be used, or it shall tune
        what is not measured, or what no enforcer can change
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: manager.HostManager,
        health: health_mod.Health,
        servers: server_names.ServerList,
        guests: running_guests.GuestList | None,
        *,
        audit_path: str,
    ) -> None:
        self._conf = conf
        self._host = host
        self._health = health
        self._sweeps: loop.SweepLoop | None = loading.from_conf(
            conf,
            host.host,
            list_entries=lambda: host.entries,
            list_uuids=servers.list_uuids,
            list_guests=guests.read if guests else lambda: None,
            on_sweep=self._tune,
        )
        if self._sweeps is not None:
            health.watch(self._sweeps)
        elif _is_used(conf):
            loading.clean(conf, host.host)
        self._tuner = _make_tuner(conf, host, audit_path)
        if self._tuner is not None:
            self._check_tunable()

    def _check_tunable(self) -> None:
        check_measured(self._conf)
        if not self._host.enforcement.has_tunables:
            names = self._conf.ext_resources.enforcers
            enforcers = ', '.join(names) or '(empty)'
            raise _refuse_tuning(
                f'[ext_resources] enforcers = {enforcers} cannot change the '
                'resources of a running server; set this option to False, or '
                'use an enforcer that can, such as resctrl'
            )

    @property
    def is_enabled(self) -> bool:
        """Whether anything is measured."""
        return self._sweeps is not None

    @property
    def latest(self) -> sample.Sweep | None:
        """What was measured last; None where nothing is."""
        return self._sweeps.latest if self._sweeps else None

    @property
    def changes(self) -> Mapping[str, int]:
        """Resource class -> changes that tuning has made since the start."""
        return self._tuner.changes if self._tuner else {}

    def start(self) -> None:
        self._log_start()
        if self._sweeps is not None:
            self._sweeps.start()

    def _log_start(self) -> None:
        """Log what is on: what is off is off by default."""
        host = self._host.host
        if self._sweeps is not None:
            options = self._conf[monitoring.GROUP.name]
            LOG.info(
                'Host %(host)s: monitoring is on: servers = %(servers)s, '
                'every %(interval)d s',
                {'host': host, **options},
            )
        if self._tuner is not None:
            LOG.info(
                'Host %(host)s: tuning is on%(how)s',
                {
                    'host': host,
                    'how': ', as a dry run: nothing is changed'
                    if self._conf[tuning.GROUP.name].dry_run
                    else ' and changes the resources of servers',
                },
            )

    def stop(self) -> None:
        if self._sweeps is not None:
            self._sweeps.stop()

    def _tune(self, sweep: sample.Sweep) -> None:
        self._health.observe_sweep(sweep)
        if self._tuner is None:
            return
        cpus = {
            uuid: len(entry.cpus)
            for uuid, entry in self._host.entries.items()
            if entry.cpus
        }
        try:
            self._tuner.run_once(target.list_readings(sweep, cpus))
        # Of a third party's enforcer, or a bug: measuring goes on without.
        except Exception as err:
            LOG.debug(
                'Host %(host)s: a round of tuning failed',
                {'host': self._host.host},
                exc_info=True,
            )
            self._health.observe_tuning(
                [f'a round failed: {plugins.describe(err)}']
            )
        else:
            self._health.observe_tuning(self._tuner.problems)


def check_measured(conf: cfg.ConfigOpts) -> None:
    """Make sure that there is monitoring, on which tuning decides.

    :param conf: with the options of monitoring registered
    :raises InvalidConfiguration: it is disabled
    """
    if not conf[monitoring.GROUP.name].enabled:
        raise _refuse_tuning(
            'fine tuning needs the measurements of monitoring, which is off; '
            'set [ext_resources_monitoring] enabled = True too'
        )


def _refuse_tuning(reason: str) -> exception.InvalidConfiguration:
    return exception.InvalidConfiguration(
        option='[ext_resources_tuning] enabled', value=True, reason=reason
    )


def _is_used(conf: cfg.ConfigOpts) -> bool:
    """Whatever gives resources out, monitoring may have been on."""
    options = conf.ext_resources
    return bool({*options.inventory_providers, *options.enforcers})


def _make_tuner(
    conf: cfg.ConfigOpts, host: manager.HostManager, audit_path: str
) -> tuning_loop.Tuner | None:
    options = values.load(conf, tuning.GROUP, tuning.OPTS)
    resctrl = values.load(conf, resctrl_conf.GROUP, resctrl_conf.OPTS)
    made = target.TunedHost(
        host,
        sizes=_read_sizes(host.host, resctrl.cpu_path)
        if options.enabled
        else {},
        bandwidth=resctrl.memory_bandwidth,
    )
    return tuning_loop.from_conf(
        conf, made, host=host.host, audit_path=audit_path
    )


def _read_sizes(host: str, cpu_path: str) -> dict[int, int]:
    """Return the sizes of the caches; without them ways are not tuned."""
    try:
        return topology.read_sizes(cpu_path)
    except errors.ResctrlError as err:
        LOG.debug(
            'Host %(host)s: sizes of caches are not known: %(err)s',
            {'host': host, 'err': err},
        )
        return {}
