# SPDX-License-Identifier: Apache-2.0

"""Every option of the package and of the installed plugins.

For oslo-config-generator, the documentation and the status command.
"""

from collections.abc import Iterable, Iterator
import copy
import importlib
import inspect
import pkgutil
from typing import Any

from oslo_config import cfg
from oslo_privsep import priv_context

from nova_ext_resources import conf
from nova_ext_resources.conf import placement
from nova_ext_resources.drivers.resctrl.kernel import privsep
from nova_ext_resources import plugins

_NAMESPACES = (
    plugins.INVENTORY_PROVIDERS,
    plugins.TRACKERS,
    plugins.CLAIM_TESTS,
    plugins.ENFORCERS,
)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return each group once, with copies of its options.

    Copies, because the generator may change their defaults.

    :raises PluginLoadFailed: an installed plugin cannot be imported, so that
        its options are not known
    """
    groups: dict[str, cfg.OptGroup] = {}
    opts: dict[str, dict[str, cfg.Opt]] = {}
    for group, some in [*list_own(), *list_of_plugins()]:
        groups.setdefault(group.name, group)
        found = opts.setdefault(group.name, {})
        for opt in some:
            found.setdefault(opt.name, copy.deepcopy(opt))
    return [(groups[name], list(opts[name].values())) for name in groups]


def list_names() -> dict[str, frozenset[str]]:
    """Return, by group, every name that a configuration file may have.

    :raises PluginLoadFailed: see :func:`list_opts`
    """
    privileges = cfg.OptGroup(privsep.GROUP), priv_context.OPTS
    return {
        group.name: frozenset(
            name for opt in options for name in _list_names(opt)
        )
        for group, options in [*list_opts(), privileges]
    }


def _list_names(opt: cfg.Opt) -> Iterator[str]:
    former = (one.name or '' for one in opt.deprecated_opts)
    for name in (opt.name, *former):
        yield from {name, name.replace('-', '_')}


def list_own() -> Iterator[tuple[cfg.OptGroup, Iterable[cfg.Opt]]]:
    """Return what each module of the room conf declares, group by group."""
    for info in pkgutil.walk_packages(conf.__path__, f'{conf.__name__}.'):
        module = importlib.import_module(info.name)
        if hasattr(module, 'GROUP'):
            yield module.GROUP, module.OPTS
    yield placement.GROUP, placement.list_plugin_opts()


def list_of_plugins() -> Iterator[tuple[cfg.OptGroup, Iterable[cfg.Opt]]]:
    """Return the options of every installed plugin; most have none."""
    for namespace in _NAMESPACES:
        for name, plugin in plugins.load_classes(namespace).items():
            options = getattr(plugin, 'OPTIONS', ())
            if options:
                yield _make_group(name, plugin), options


def _make_group(name: str, plugin: type[Any]) -> cfg.OptGroup:
    summary = (inspect.getdoc(plugin) or '').partition('\n\n')[0]
    return cfg.OptGroup(
        f'{plugins.GROUP_PREFIX}{name}',
        title=f'Plugin {name}',
        help=' '.join(summary.split()),
    )
