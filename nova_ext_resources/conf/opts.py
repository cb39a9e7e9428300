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

"""Every option of the package and of the installed plugins.

For oslo-config-generator and for the documentation; nothing else imports
this module.
"""

from collections.abc import Iterable, Iterator
import copy
import importlib
import inspect
import pkgutil
from typing import Any

from oslo_config import cfg

from nova_ext_resources import conf as conf_package
from nova_ext_resources.plugins import loader

_NAMESPACES = (
    loader.INVENTORY_PROVIDERS,
    loader.TRACKERS,
    loader.CLAIM_TESTS,
    loader.ENFORCERS,
)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Give each group once, with copies of its options.

    Copies, because the generator may change the defaults that it is given.

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


def list_own() -> Iterator[tuple[cfg.OptGroup, Iterable[cfg.Opt]]]:
    """Ask every module beside this one."""
    for info in pkgutil.iter_modules(conf_package.__path__):
        if info.name != __name__.rpartition('.')[2]:
            module = importlib.import_module(
                f'{conf_package.__name__}.{info.name}'
            )
            yield from module.list_opts()


def list_of_plugins() -> Iterator[tuple[cfg.OptGroup, Iterable[cfg.Opt]]]:
    """Ask every installed plugin class; most have no options."""
    for namespace in _NAMESPACES:
        for name, plugin in loader.load_classes(namespace).items():
            options = getattr(plugin, 'OPTIONS', ())
            if options:
                yield _make_group(name, plugin), options


def _make_group(name: str, plugin: type[Any]) -> cfg.OptGroup:
    summary = (inspect.getdoc(plugin) or '').partition('\n\n')[0]
    return cfg.OptGroup(
        f'{loader.GROUP_PREFIX}{name}',
        title=f'Plugin {name}',
        help=' '.join(summary.split()),
    )
