# SPDX-License-Identifier: Apache-2.0

"""Runs the inventory providers of a host, and survives their failures."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import dataclasses

from oslo_log import log as logging

from nova_ext_resources.claims import base
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources import exception
from nova_ext_resources.host.inventory import view
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.objects import resource
from nova_ext_resources import plugins as plugins_mod

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredResources:
    """What the plugins have found, in their order.

    :ivar providers: parents before children
    :ivar failures: plugin -> why its last discovery failed
    :ivar missing: plugins that have never succeeded since the start; what
        they have found earlier is still in placement and must stay there
    :ivar left_out: what plugins could not report although they succeeded;
        that may be in placement, too
    :ivar constraints: what this host can never do, as they have found it
    :ivar pools: of several hosts, that this one reaches
    :ivar nodes: bare-metal ones, of which this one reports what they have
    :ivar problems: what is wrong with what was found
    :ivar node_traits: of the compute node itself
    :ivar node_prefixes: what such traits begin with of plugins that have
        succeeded since the start
    """

    providers: tuple[host_provider.HostProvider, ...] = ()
    failures: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    constraints: Mapping[str, host_constraints.ClassConstraints] = (
        dataclasses.field(default_factory=dict)
    )
    pools: tuple[pool.SharedPool, ...] = ()
    nodes: tuple[host_provider.BareMetalNode, ...] = ()
    problems: tuple[alarm.Problem, ...] = ()
    node_traits: frozenset[str] = frozenset()
    node_prefixes: frozenset[str] = frozenset()

    @property
    def resource_classes(self) -> frozenset[str]:
        return self.left_out | frozenset(
            name for one in self.providers for name in one.inventories
        )

    @property
    def is_complete(self) -> bool:
        return not self.missing and not self.left_out


class Discovery:
    """Scans the host; keeps each plugin's last report when it fails.

    Used by one thread at a time.

    :param trackers: by name, to try what is found
    :param check: called with each definition; raises what is wrong with it
    :param check_ready: called with the resource classes that a plugin has
        found; raises why the host cannot apply them
    """

    def __init__(
        self,
        plugins: Mapping[str, drivers_base.InventoryProvider],
        host: str,
        *,
        trackers: Mapping[str, base.Tracker],
        check: Callable[[resource.ResourceDefinition], None] = lambda _: None,
        check_ready: Callable[[frozenset[str]], None] = lambda _: None,
    ) -> None:
        self._plugins = plugins
        self._host = host
        self._trackers = trackers
        self._check_definition = check
        self._check_ready = check_ready
        #: What each plugin has found when it last succeeded.
        self._last: dict[str, DiscoveredResources] = {}
        self._failures = log_on_change.LogOnChange()

    def list_definitions(
        self, name: str
    ) -> tuple[resource.ResourceDefinition, ...]:
        """Return what a plugin defines now, checked.

        :raises PluginLoadFailed: its definitions cannot be read
        :raises InvalidConfiguration: a definition cannot be used
        """
        plugin = self._plugins[name]
        found = plugins_mod.make(
            plugins_mod.INVENTORY_PROVIDERS, name, plugin.definitions
        )
        for one in found:
            self._check_definition(one)
        return found

    def scan(self) -> DiscoveredResources:
        """Run all plugins. Never raises for what one of them does."""
        for name in self._plugins:
            # NOTE: oslo.log adds the error that is being handled to a line,
            # so that nothing is logged where one is.
            failure = self.scan_by(name)
            if failure is None:
                self._succeed(name)
            else:
                self._fail(name, str(failure))
        last = self._last.values()
        return DiscoveredResources(
            providers=self._list_rooted(),
            failures=dict(self._failures.problems),
            missing=frozenset(self._plugins) - self._last.keys(),
            left_out=frozenset[str]().union(*(one.left_out for one in last)),
            constraints=host_constraints.unite(
                one.constraints for one in last
            ),
            pools=tuple(self._list_pools()),
            nodes=tuple(each for one in last for each in one.nodes),
            problems=tuple(each for one in last for each in one.problems),
            node_traits=frozenset().union(*(one.node_traits for one in last)),
            node_prefixes=frozenset().union(
                *(one.node_prefixes for one in last)
            ),
        )

    def _list_pools(self) -> Iterator[pool.SharedPool]:
        """Return the pools; what a plugin that fails knows of them is old."""
        for name, found in self._last.items():
            for one in found.pools:
                is_failing = one.is_failing or name in self._failures.problems
                yield dataclasses.replace(one, is_failing=is_failing)

    def scan_by(self, name: str) -> exception.DiscoveryFailed | None:
        """Run one plugin; return why it failed. Never raises.

        Those before it in the order have been run: it may have found
        children of their providers.
        """
        plugin = self._plugins[name]
        try:
            self._last[name] = DiscoveredResources(
                providers=self._check(name, plugin.discover()),
                left_out=frozenset(plugin.left_out),
                constraints=dict(plugin.constraints),
                pools=tuple(plugin.pools),
                nodes=tuple(plugin.nodes),
                problems=tuple(plugin.problems),
                node_traits=_check_traits(name, plugin.node_traits),
                node_prefixes=frozenset({plugin.NODE_TRAITS_PREFIX}) - {''},
            )
        except exception.DiscoveryFailed as err:
            return err
        except exception.ExtResourcesError as err:
            return exception.DiscoveryFailed(plugin=name, reason=err)
        # A third party's plugin may raise anything. It must not take the
        # others down, and its last report stays valid.
        except Exception as err:
            LOG.debug('Plugin %(name)s', {'name': name}, exc_info=True)
            return exception.DiscoveryFailed(
                plugin=name, reason=plugins_mod.describe(err)
            )
        return None

    def _list_rooted(self) -> tuple[host_provider.HostProvider, ...]:
        """Return all whose parents are there too, in the plugins' order.

        A plugin that fails may have found children of another's provider
        which is gone by now.
        """
        rooted: dict[str, host_provider.HostProvider] = {}
        for name in self._plugins:
            for one in self._last.get(name, DiscoveredResources()).providers:
                if one.parent_key is None or one.parent_key in rooted:
                    rooted[one.key] = one
        return tuple(rooted.values())

    def _check(
        self, name: str, found: tuple[host_provider.HostProvider, ...]
    ) -> tuple[host_provider.HostProvider, ...]:
        """Refuse what does not fit together, or cannot be applied.

        :raises DiscoveryFailed: a key is taken, a parent is unknown, or a
            tracker cannot track what was found
        :raises EnforcementFailed: an enforcer cannot apply it
        """
        others = {
            p.key
            for other, last in self._last.items()
            if other != name
            for p in last.providers
        }
        types = {one.name: one.type for one in self.list_definitions(name)}
        own: set[str] = set()
        for one in found:
            reason = (
                _find_problem(one, others, own)
                or _find_wrong_type(one, types)
                or self._find_untrackable(one)
            )
            if reason:
                raise exception.DiscoveryFailed(plugin=name, reason=reason)
            own.add(one.key)
        self._check_ready(
            frozenset(name for one in found for name in one.inventories)
        )
        return found

    def _find_untrackable(self, one: host_provider.HostProvider) -> str:
        for resource_class, inventory in one.inventories.items():
            kind = one.trackers.get(resource_class, view.DEFAULT_TRACKER)
            tracker = self._trackers[kind]
            units = one.units.get(resource_class, {})
            try:
                tracker.initial(tracker.observe(inventory, units, ()), units)
            except (
                exception.InvalidResource,
                KeyError,
                TypeError,
                ValueError,
            ) as err:
                return (
                    f'tracker {kind} cannot track {resource_class} of '
                    f'{one.key}: {plugins_mod.describe(err)}'
                )
        return ''

    def _fail(self, name: str, message: str) -> None:
        if self._failures.note(message, name):
            LOG.error(
                'Host %(host)s: %(message)s',
                {'host': self._host, 'message': message},
            )

    def _succeed(self, name: str) -> None:
        if self._failures.clear(name):
            LOG.info(
                'Host %(host)s: inventory provider %(name)s works again',
                {'host': self._host, 'name': name},
            )


def _check_traits(name: str, traits: Iterable[str]) -> frozenset[str]:
    """Return traits of the compute node.

    :raises DiscoveryFailed: Nova or this package has one of them for itself
    """
    for reason in map(host_provider.find_trait_error, sorted(traits)):
        if reason:
            raise exception.DiscoveryFailed(plugin=name, reason=reason)
    return frozenset(traits)


def _find_problem(
    one: host_provider.HostProvider, others: set[str], own: set[str]
) -> str:
    if one.key in others:
        return f'provider key {one.key} belongs to another plugin'
    if one.key in own:
        return f'it has found two providers with the key {one.key}'
    if one.parent_key is not None and one.parent_key not in others | own:
        return f'{one.key} has an unknown parent {one.parent_key}'
    return ''


def _find_wrong_type(
    one: host_provider.HostProvider, types: Mapping[str, str]
) -> str:
    for resource_class in one.inventories:
        kind = one.trackers.get(resource_class, view.DEFAULT_TRACKER)
        defined = types.get(resource_class, 'none')
        if kind != defined:
            return (
                f'it reports {resource_class} with tracker {kind}, but the '
                f'tracker in its definitions is {defined}'
            )
    return ''
