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

"""Runs the inventory providers of a host, and survives their failures."""

from collections.abc import Callable, Mapping
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import resource
from nova_ext_resources.plugins import base
from nova_ext_resources.plugins import loader

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the plugins have found, in their order.

    :ivar providers: parents before children
    :ivar failures: plugin -> why it could not look the last time
    :ivar missing: plugins that have never succeeded since the start; what
        they have found earlier is still in placement and must stay there
    """

    providers: tuple[provider.HostProvider, ...] = ()
    failures: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing: frozenset[str] = frozenset()

    @property
    def resource_classes(self) -> frozenset[str]:
        return frozenset(
            name for one in self.providers for name in one.inventories
        )

    @property
    def is_complete(self) -> bool:
        return not self.missing


class Discovery:
    """Looks at the host; keeps each plugin's last report when it fails.

    Used by one thread at a time.

    :param check: called with each definition; raises what is wrong with it
    """

    def __init__(
        self,
        plugins: Mapping[str, base.InventoryProvider],
        host: str,
        *,
        check: Callable[[resource.ResourceDefinition], None] = lambda _: None,
    ) -> None:
        self._plugins = plugins
        self._host = host
        self._check_definition = check
        self._last: dict[str, tuple[provider.HostProvider, ...]] = {}
        self._failures: dict[str, str] = {}

    def list_definitions(
        self, name: str
    ) -> tuple[resource.ResourceDefinition, ...]:
        """Give what a plugin defines now, checked.

        :raises PluginLoadFailed: it cannot even tell that
        :raises InvalidConfiguration: a definition cannot be used
        """
        plugin = self._plugins[name]
        found = loader.make(
            loader.INVENTORY_PROVIDERS, name, plugin.definitions
        )
        for one in found:
            self._check_definition(one)
        return found

    def look(self) -> Found:
        """Run all plugins. Never raises for what one of them does."""
        for name, plugin in self._plugins.items():
            try:
                self._last[name] = self._check(name, plugin.discover())
            except exception.DiscoveryFailed as err:
                self._fail(name, str(err))
            except exception.ExtResourcesError as err:
                failed = exception.DiscoveryFailed(plugin=name, reason=err)
                self._fail(name, str(failed))
            # A third party's plugin may raise anything. It must not take
            # the others down, and what it knew stays in force.
            except Exception as err:
                LOG.debug('Plugin %(name)s', {'name': name}, exc_info=True)
                failed = exception.DiscoveryFailed(
                    plugin=name, reason=loader.describe(err)
                )
                self._fail(name, str(failed))
            else:
                self._succeed(name)
        return Found(
            providers=tuple(p for one in self._last.values() for p in one),
            failures=dict(self._failures),
            missing=frozenset(self._plugins) - frozenset(self._last),
        )

    def _check(
        self, name: str, found: tuple[provider.HostProvider, ...]
    ) -> tuple[provider.HostProvider, ...]:
        """Refuse what does not fit to the plugin's own definitions or to
        what other plugins have found.
        """
        types = {one.name: one.type for one in self.list_definitions(name)}
        taken = {
            p.key
            for other, providers in self._last.items()
            if other != name
            for p in providers
        }
        known = set(taken)
        for one in found:
            if one.key in taken:
                reason = f'provider key {one.key} belongs to another plugin'
                raise exception.DiscoveryFailed(plugin=name, reason=reason)
            if one.parent_key is not None and one.parent_key not in known:
                reason = f'{one.key} has an unknown parent {one.parent_key}'
                raise exception.DiscoveryFailed(plugin=name, reason=reason)
            known.add(one.key)
            _check_types(name, one, types)
        return found

    def _fail(self, name: str, message: str) -> None:
        if self._failures.get(name) != message:
            LOG.error(
                'Host %(host)s: %(message)s',
                {
                    'host': self._host,
                    'message': message,
                },
            )
        self._failures[name] = message

    def _succeed(self, name: str) -> None:
        if self._failures.pop(name, None) is not None:
            LOG.info(
                'Host %(host)s: inventory provider %(name)s works again',
                {'host': self._host, 'name': name},
            )


def _check_types(
    plugin: str, found: provider.HostProvider, types: Mapping[str, str]
) -> None:
    for resource_class in found.inventories:
        tracker = found.trackers.get(resource_class, 'count')
        if types.get(resource_class) != tracker:
            raise exception.DiscoveryFailed(
                plugin=plugin,
                reason=f'it reports {resource_class} counted by {tracker}, '
                'but its definitions say '
                f'{types.get(resource_class, "nothing of it")}',
            )
