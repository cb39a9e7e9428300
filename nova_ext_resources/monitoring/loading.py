# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Monitoring as the options of a host want it."""

from collections.abc import Callable, Iterable, Mapping
import functools

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import monitoring as monitoring_conf
from nova_ext_resources.conf import resctrl as resctrl_conf
from nova_ext_resources.monitoring import loop
from nova_ext_resources.monitoring import sample
from nova_ext_resources.monitoring import sweep
from nova_ext_resources.monitoring import upkeep
from nova_ext_resources.objects import assignment
from nova_ext_resources.plugins import loader
from nova_ext_resources.resctrl import files as files_mod
from nova_ext_resources.resctrl import mon_groups
from nova_ext_resources.resctrl import processes

LOG = logging.getLogger(__name__)

#: Seconds to wait for the lock of the mount, when all there is to do is to
#: clean up.
_PATIENCE = 1.0


def from_conf(
    conf: cfg.ConfigOpts,
    host: str,
    *,
    list_entries: Callable[[], Mapping[str, assignment.Entry]],
    list_uuids: Callable[[], Iterable[str]],
    on_sweep: Callable[[sample.Sweep], None] = lambda _sweep: None,
) -> loop.SweepLoop | None:
    """Make what monitors this host, None where that is switched off.

    :param list_entries: gives the ledger's, by server
    :param list_uuids: gives all servers of this host; asked when those that
        hold nothing are monitored too
    :raises InvalidConfiguration: an option has a value that it cannot have
    """
    options = loader.register_opts(
        conf,
        monitoring_conf.GROUP.name.removeprefix(loader.GROUP_PREFIX),
        monitoring_conf.OPTS,
    )
    resctrl = _register_resctrl(conf)
    if not options.enabled:
        return None
    is_all = options.servers == monitoring_conf.ALL
    sweeper = sweep.Sweeper(
        files_mod.RealFileSystem(resctrl.path),
        cpu_path=resctrl.cpu_path,
        list_servers=lambda: sample.describe_servers(
            list_entries(), list_uuids() if is_all else ()
        ),
        list_threads=functools.partial(
            upkeep.find_threads, processes.Processes()
        ),
    )
    return loop.SweepLoop(
        sweeper.sweep,
        interval=options.interval,
        host=host,
        on_sweep=on_sweep,
    )


def _register_resctrl(conf: cfg.ConfigOpts) -> cfg.ConfigOpts.GroupAttr:
    return loader.register_opts(
        conf,
        resctrl_conf.GROUP.name.removeprefix(loader.GROUP_PREFIX),
        resctrl_conf.OPTS,
    )


def clean(conf: cfg.ConfigOpts, host: str) -> None:
    """Remove what monitoring has left behind that is switched off now."""
    path = _register_resctrl(conf).path
    files = files_mod.RealFileSystem(path, timeout=_PATIENCE)
    try:
        mon_groups.MonGroups(files).remove_all()
    # Whatever it is, such as a helper with privileges that does not start:
    # servers do not depend on it.
    except Exception as err:
        LOG.warning(
            'Host %(host)s: monitoring is switched off, and its groups are '
            'left in %(path)s: %(err)s',
            {'host': host, 'path': path, 'err': loader.describe(err)},
        )
