# SPDX-License-Identifier: Apache-2.0

"""What ``nova-ext-resources-status`` checks: a method each.

A check does what a start of nova-compute does, as far as that only reads.
What it raises is a failure, with a traceback on standard error if that is not
an error of this package; what it or a plugin logs is a warning; what it
returns is the detail of a success.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import functools
import logging
import os
import tempfile
import traceback
from typing import Any, TypeAlias

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_ext_resources.claims import base
from nova_ext_resources.cmd import compute_node
from nova_ext_resources.cmd import old_inventory
from nova_ext_resources.conf import driver as driver_conf
from nova_ext_resources.conf import monitoring
from nova_ext_resources.conf import names
from nova_ext_resources.conf import state
from nova_ext_resources.conf import tuning
from nova_ext_resources.conf import values
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources import exception
from nova_ext_resources.host.claims import enforcement
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.ledger import snapshot
from nova_ext_resources.host.service import paths
from nova_ext_resources.host.service import telemetry
from nova_ext_resources.objects import resource
from nova_ext_resources import opts
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources import plugins
from nova_ext_resources.tuning import loop
from nova_ext_resources.virt.guards import cpu_power

LOG = logging.getLogger(__name__)

#: Returns the detail of a success.
Check: TypeAlias = Callable[[], str]

#: Name of a check, and the check as the library calls it.
Row: TypeAlias = tuple[str, Callable[[Any], upgradecheck.Result]]

#: What the ledger and its journals may grow by, far more than they do.
_LEDGER_MIB = 8

#: Options of Nova's own.
_NOVA_COMPUTE = (
    cfg.StrOpt('cpu_dedicated_set'),
    cfg.StrOpt('cpu_shared_set'),
)
_NOVA_POWER = (
    cfg.BoolOpt('cpu_power_management', default=False),
    cfg.StrOpt('cpu_power_management_strategy', default='cpu_state'),
)


class _LeftOut(exception.ExtResourcesError):
    """A plugin has not reported all. What it has logged says why."""

    message = (
        '%(names)s cannot be reported. Nothing is deleted from placement '
        'until this is corrected.'
    )


class Checks:
    """The checks of one host, for one run in their order.

    :param conf: as :func:`.reader.read_conf` has read it
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str) -> None:
        self.host = host
        conf.register_opts(_NOVA_COMPUTE, group='compute')
        conf.register_opts(_NOVA_POWER, group='libvirt')
        self._conf = conf
        self._options = conf.ext_resources
        # Filled by the checks: one plugin that cannot be loaded hides
        # nothing that is wrong with the others.
        self._trackers: dict[str, base.Tracker] = {}
        self._inventories: dict[str, drivers_base.InventoryProvider] = {}
        self._enforcers: dict[str, drivers_base.Enforcer] = {}
        self._classes: set[str] = set()
        self._compared: set[str] = set()
        # Without check_ready, which makes a group and removes it.
        self._discovery = discovery.Discovery(
            self._inventories,
            host,
            trackers=self._trackers,
            check=self._check_definition,
        )

    @property
    def _enforcement(self) -> enforcement.Enforcement:
        return enforcement.Enforcement(
            self.host, self._enforcers, self._trackers
        )

    def list_rows(self) -> tuple[Row, ...]:
        """Return all checks, in the order in which they are to run."""
        return tuple(
            (name, functools.partial(_run, check))
            for name, check in self._list_checks()
        )

    def _list_checks(self) -> Iterator[tuple[str, Check]]:
        yield 'Configuration', self._check_configuration
        yield 'Names of options', self._check_names
        yield 'Nova', self._check_nova
        yield 'Plugins', self._check_plugins
        for name in self._options.enforcers:
            check = functools.partial(self._check_enforcer, name)
            yield f'Enforcer {name}', check
        for name in self._options.inventory_providers:
            check = functools.partial(self._check_inventory, name)
            yield f'Inventory provider {name}', check
        yield 'Provider configuration files', self._check_provider_config
        yield 'Ledger', self._check_ledger
        yield 'Placement', self._check_placement
        yield 'Old inventory', self._check_old_inventory
        yield 'Metrics', self._check_metrics
        yield 'Monitoring and tuning', self._check_tuning
        yield 'CPUs of servers that are not pinned', self._check_cpus
        yield 'CPUs that Nova switches off', self._check_power

    def _check_configuration(self) -> str:
        driver = driver_conf.find(self._conf)
        if not self._options.inventory_providers:
            LOG.warning(
                '[ext_resources] inventory_providers is empty, so this host '
                'offers nothing. Name a plugin there, such as resctrl, or '
                'name all files of nova-compute with --config-file.'
            )
        elif not driver_conf.is_ours(self._conf):
            raise exception.InvalidConfiguration(
                option='[DEFAULT] compute_driver',
                value=driver,
                reason='with this driver, nova-compute ignores '
                f'[ext_resources]; set it to {driver_conf.PREFIX}'
                'LibvirtDriver, or name all files of nova-compute with '
                '--config-file',
            )
        return ''

    def _check_names(self) -> str:
        try:
            known = opts.list_names()
        except exception.PluginError as err:
            return f'Not checked: {err}'
        for problem in names.list_problems(self._conf, known):
            LOG.warning('%s', problem)
        return ''

    def _check_nova(self) -> str:
        driver = driver_conf.find(self._conf)
        try:
            from nova_ext_resources.virt.compat import startup_checks
        except ImportError as err:
            raise exception.InvalidConfiguration(
                option='[DEFAULT] compute_driver',
                value=driver,
                reason=f'Nova cannot be imported ({err}); install this '
                'package into the Python environment of Nova, and run this '
                'command there',
            ) from err
        startup_checks.check_nova(
            allow_untested=self._options.allow_untested_nova
        )
        if driver_conf.is_ours(self._conf):
            startup_checks.check_driver(driver)
        return ''

    def _check_plugins(self) -> str:
        # Logs what is broken among those that are not enabled.
        plugins.load_grammar()
        self._trackers |= plugins.load_trackers()
        plugins.load_claim_tests(self._trackers, self._options.claim_tests)
        plugins.check_compatible(
            _load_installed(
                plugins.INVENTORY_PROVIDERS, self._options.inventory_providers
            ),
            _load_installed(plugins.ENFORCERS, self._options.enforcers),
        )
        return ''

    def _check_definition(self, one: resource.ResourceDefinition) -> None:
        # An enforcer that cannot be loaded has failed its own check.
        if self._enforcers.keys() >= set(self._options.enforcers):
            self._enforcement.check_definition(one)

    def _check_enforcer(self, name: str) -> str:
        self._enforcers |= self._load(plugins.ENFORCERS, name)
        self._enforcement.check_unchanged(name)
        return ''

    def _check_inventory(self, name: str) -> str:
        self._inventories |= self._load(plugins.INVENTORY_PROVIDERS, name)
        found = self._discovery.list_definitions(name)
        self._classes |= {one.name for one in found}
        failure = self._discovery.scan_by(name)
        if failure:
            raise failure
        self._compared.add(name)
        for problem in self._inventories[name].problems:
            LOG.warning('%(problem)s.', {'problem': problem})
        self._check_left_out(self._inventories[name])
        pools = self._inventories[name].pools
        self._classes |= {one.resource_class for one in pools}
        defined = [one.name for one in found] + [
            f'pool {one.name}' for one in pools
        ]
        defined += sorted(self._inventories[name].node_traits)
        return f'The plugin defines {", ".join(defined) or "none"}.'

    def _check_left_out(self, plugin: drivers_base.InventoryProvider) -> None:
        """Fail if an operator has to correct a file; else warn."""
        if plugin.misconfigured:
            raise _LeftOut(names=', '.join(sorted(plugin.left_out)))
        if plugin.left_out:
            LOG.warning(
                '%s', _LeftOut(names=', '.join(sorted(plugin.left_out)))
            )

    def _check_provider_config(self) -> str:
        try:
            from nova_ext_resources.virt.provider_config import files
        except ImportError:
            # Which has failed the check of Nova.
            return 'Not checked: Nova cannot be imported.'
        if not driver_conf.is_ours(self._conf):
            return 'Not compared: nova-compute ignores the plugins.'
        location = driver_conf.find_provider_config(self._conf)
        found = files.list_collisions(location, self._classes)
        if found:
            raise exception.InvalidConfiguration(
                option='[compute] provider_config_location',
                value=location,
                reason='; '.join(map(str, found)),
            )
        failed = {*self._options.inventory_providers} - self._compared
        if failed:
            LOG.warning(
                'Not compared with %(names)s, because another check of these '
                'plugins failed.',
                {'names': ', '.join(sorted(failed))},
            )
        return ''

    def _load(self, namespace: str, name: str) -> dict[str, Any]:
        return plugins.load_with_options(
            namespace, [name], self._conf, self.host
        )

    def _check_ledger(self) -> str:
        options = self._options
        folder = state.find_folder(self._conf)
        if not folder and not options.ledger_path:
            return 'Not checked: [DEFAULT] state_path is not set.'
        path = os.path.abspath(
            paths.find_ledger_path(options, folder, self.host)
        )
        # First: what this user may not see looks damaged to the others.
        problem = _find_unwritable(path)
        if problem:
            raise exception.LedgerError(path=path, reason=problem)
        journal.check_none(
            path, {*options.inventory_providers, *options.enforcers}
        )
        if not os.path.lexists(path):
            self._warn_of_loss(path)
            return f'nova-compute will create {path}.'
        try:
            count = len(snapshot.read(path).entries)
        except exception.LedgerNotChecked as err:
            LOG.warning('%s', err)
            return ''
        return f'Entries in {path}: {count}.'

    def _warn_of_loss(self, path: str) -> None:
        # An enforcer that cannot be read has failed its own check.
        applied, _problems = self._enforcement.list_applied()
        counts = [f'{n}: {len(u)}' for n, u in applied.items() if u]
        if counts:
            LOG.warning(
                'Host %(host)s: there is no ledger %(path)s, but settings of '
                'servers are applied (%(counts)s). Follow "The ledger is '
                'lost" in the documentation (admin/troubleshooting): stop '
                'nova-compute, if it runs, before it makes a new ledger.',
                {
                    'host': self.host,
                    'path': path,
                    'counts': ', '.join(counts),
                },
            )

    def _check_placement(self) -> str:
        placement_client.from_conf(self._conf).check_access()
        return ''

    def _check_old_inventory(self) -> str:
        node_uuid = compute_node.read_uuid(self._conf)
        if node_uuid is None:
            return 'Not checked: nova-compute has not been started yet.'
        try:
            problems = old_inventory.list_problems(
                placement_client.from_conf(self._conf),
                node_uuid,
                self._classes,
                driver_conf.find_provider_config(self._conf),
            )
        except exception.PlacementError as err:
            # Which has failed the check of placement.
            return f'Not checked: {err}'
        for problem in problems:
            LOG.warning('%s', problem)
        return ''

    def _check_metrics(self) -> str:
        if self._conf.ext_resources_metrics.port:
            # Only a host with metrics needs an HTTP server.
            from nova_ext_resources.monitoring.exporter import server

            server.check(self._conf)
        return ''

    def _check_tuning(self) -> str:
        values.load(self._conf, monitoring.GROUP, monitoring.OPTS)
        options = values.load(self._conf, tuning.GROUP, tuning.OPTS)
        if not options.enabled:
            return ''
        loop.Settings.from_conf(self._conf)
        telemetry.check_measured(self._conf)
        folder = state.find_folder(self._conf)
        if not folder and not options.audit_path:
            return 'Not checked: [DEFAULT] state_path is not set.'
        path = os.path.abspath(
            options.audit_path or paths.find_audit_path(folder, self.host)
        )
        is_link = os.path.islink(path)
        problem = 'the file is a link' if is_link else _find_unwritable(path)
        if problem:
            raise loop.refuse_trail(path, problem.rstrip('.'))
        return ''

    def _check_power(self) -> str:
        # An enforcer that cannot be loaded has failed its own check.
        with contextlib.suppress(exception.PluginError):
            cpu_power.check(self._options, self._conf.libvirt)
        return ''

    def _check_cpus(self) -> str:
        cpus = self._conf.compute
        if cpus.cpu_dedicated_set and not cpus.cpu_shared_set:
            LOG.warning(
                '[compute] cpu_dedicated_set = %(cpus)s is set and '
                'cpu_shared_set is not, so this host has no VCPU and takes '
                'only pinned servers. If the host is to take other servers, '
                'set cpu_shared_set to other CPUs.',
                {'cpus': cpus.cpu_dedicated_set},
            )
        return ''


def _load_installed(
    namespace: str, names: Sequence[str]
) -> dict[str, type[Any]]:
    """Return the classes of plugins; each name has a check of its own."""
    installed = plugins.list_names(namespace)
    return plugins.load_classes(
        namespace, [one for one in names if one in installed]
    )


def _find_unwritable(path: str) -> str:
    """Return why a file can be neither written nor made; '' if it can.

    :param path: absolute
    """
    found = path
    while not os.path.lexists(found):
        found = os.path.dirname(found)
    if os.path.isdir(found) != (found != path):
        return f'{found} is {"a" if found == path else "not a"} folder'
    if not os.access(found, os.R_OK | os.W_OK):
        return (
            f'this user cannot read and write {found}. Run this command as '
            'the user that nova-compute runs as; if you did, change the owner '
            f'of {found}.'
        )
    refusal = _find_refusal(found) if os.path.isdir(found) else ''
    disk = os.statvfs(found)
    free = disk.f_bavail * disk.f_frsize // 2**20
    if refusal or free >= _LEDGER_MIB:
        return refusal
    return (
        f'the file system of {found} has {free} MiB free, and the ledger '
        f'needs {_LEDGER_MIB} MiB for its changes. Make room there.'
    )


def _find_refusal(folder: str) -> str:
    """Return why the kernel makes no file in a folder; '' if it does.

    Root may write to any folder, also to those of /proc. The file has no name
    where the file system can do that, and is gone at once.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as err:
        return (
            f'no file can be created in {folder}: {err.strerror}. Choose '
            'another folder, or mount the missing file system.'
        )
    return ''


def _run(check: Check, _commands: object = None) -> upgradecheck.Result:
    """Run a check as the library wants it."""
    with _collected() as lines:
        try:
            detail = check()
        except exception.ExtResourcesError as err:
            lines.append(str(err))
            return _make_result(upgradecheck.Code.FAILURE, *lines)
        # Of a plugin, or a bug: the other checks have to be seen all the same.
        except Exception as err:
            traceback.print_exc()
            lines.append(plugins.describe(err))
            return _make_result(upgradecheck.Code.FAILURE, *lines)
    if lines:
        return _make_result(upgradecheck.Code.WARNING, *lines)
    return _make_result(upgradecheck.Code.SUCCESS, detail)


def _make_result(code: upgradecheck.Code, *lines: str) -> upgradecheck.Result:
    return upgradecheck.Result(code, '\n'.join(dict.fromkeys(lines)) or None)


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def _collected() -> Iterator[list[str]]:
    """Return the warnings and errors that are logged meanwhile."""
    handler, root = _Collector(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler.lines
    finally:
        root.removeHandler(handler)
