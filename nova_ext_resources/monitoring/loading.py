# SPDX-License-Identifier: Apache-2.0

"""Make what monitors a host, from its options."""

from collections.abc import Callable, Iterable, Mapping
import functools

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import resctrl as resctrl_conf
from nova_ext_resources.conf import monitoring
from nova_ext_resources.conf import values
from nova_ext_resources.drivers.resctrl.guest import processes
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import mon_groups
from nova_ext_resources.facts import guest
from nova_ext_resources.monitoring import loop
from nova_ext_resources.monitoring import mon_groups as mon_groups_mod
from nova_ext_resources.monitoring import sample
from nova_ext_resources.monitoring import sweep
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)

#: Seconds to wait for the lock of the mount before a clean-up is given up.
_PATIENCE = 1.0


def from_conf(
    conf: cfg.ConfigOpts,
    host: str,
    *,
    list_entries: Callable[[], Mapping[str, assignment.Entry]],
    list_uuids: Callable[[], Iterable[str]],
    list_guests: Callable[[], Mapping[str, guest.Guest] | None] = dict,
    on_sweep: Callable[[sample.Sweep], None] = lambda _sweep: None,
) -> loop.SweepLoop | None:
    """Make the loop that monitors this host; None where it is disabled.

    :param list_entries: returns server -> its entry in the ledger
    :param list_uuids: returns all servers of this host; called only when
        servers that hold nothing are monitored too
    :param list_guests: returns server -> its guest, of all that run;
        None while that is unknown
    :raises InvalidConfiguration: a value is not valid for its option
    """
    options = values.load(conf, monitoring.GROUP, monitoring.OPTS)
    resctrl = values.load(conf, resctrl_conf.GROUP, resctrl_conf.OPTS)
    if not options.enabled:
        return None
    is_all = options.servers == monitoring.ALL
    sweeper = sweep.Sweeper(
        file_system.RealFileSystem(resctrl.path),
        cpu_path=resctrl.cpu_path,
        list_servers=lambda: sample.describe_servers(
            list_entries(), list_uuids() if is_all else ()
        ),
        list_threads=functools.partial(
            mon_groups_mod.find_threads,
            processes.from_options(resctrl, list_guests),
        ),
    )
    return loop.SweepLoop(
        sweeper.sweep,
        interval=options.interval,
        host=host,
        on_sweep=on_sweep,
    )


def clean(conf: cfg.ConfigOpts, host: str) -> None:
    """Remove the groups that monitoring left before it was disabled."""
    path = values.load(conf, resctrl_conf.GROUP, resctrl_conf.OPTS).path
    files = file_system.RealFileSystem(path, timeout=_PATIENCE)
    try:
        mon_groups.MonGroups(files).remove_all()
    # Any error, such as of a privileged helper that does not start: no server
    # depends on these groups.
    except Exception as err:
        LOG.warning(
            'Host %(host)s: monitoring is disabled, but its groups in '
            '%(path)s could not be removed: %(err)s',
            {'host': host, 'path': path, 'err': plugins.describe(err)},
        )
