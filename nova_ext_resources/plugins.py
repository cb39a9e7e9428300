# SPDX-License-Identifier: Apache-2.0

"""Strict loading of plugins: all that are enabled work, or nothing starts.

stevedore's defaults log a missing name or a plugin that fails, and go on; a
host would then report too little.
"""

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
import functools
import importlib.metadata
import sys
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import extension
from stevedore import named

from nova_ext_resources.claims import base
from nova_ext_resources.claims import extra_specs
from nova_ext_resources.conf import values
from nova_ext_resources import exception

LOG = logging.getLogger(__name__)

T = TypeVar('T')

PREFIX = 'nova_ext_resources.'

INVENTORY_PROVIDERS = f'{PREFIX}inventory_providers'
TRACKERS = f'{PREFIX}trackers'
CLAIM_TESTS = f'{PREFIX}claim_tests'
ENFORCERS = f'{PREFIX}enforcers'
SCHEDULER_FILTERS = f'{PREFIX}scheduler_filters'
SCHEDULER_WEIGHERS = f'{PREFIX}scheduler_weighers'

#: Prefix of every plugin's option group.
GROUP_PREFIX = 'ext_resources_'


def load_classes(
    namespace: str, names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the classes of plugins by name, in the order of ``names``.

    :param names: None loads all that are installed
    :raises PluginNotFound: a name is not installed
    :raises PluginLoadFailed: one cannot be imported, or a name is used
        twice in the option or by two packages
    """
    if names is None:
        names = sorted(set(list_names(namespace)))
    _check_unique(namespace, names, 'is named twice in the option')
    # Not subscripted when it runs: before 5.6 the classes are not generic.
    manager: named.NamedExtensionManager[Any] = named.NamedExtensionManager(
        namespace,
        list(names),
        on_load_failure_callback=_refuse_failed,
        on_missing_entrypoints_callback=_refuse_missing(namespace),
    )
    found = [one.name for one in manager.extensions]
    _check_unique(namespace, found, 'is provided by two packages')
    by_name = {one.name: one.plugin for one in manager.extensions}
    return {name: by_name[name] for name in names}


def load_subclasses(namespace: str, kind: type[T]) -> list[type[T]]:
    """Return the classes of all installed plugins.

    :param kind: what each of them must be
    :raises PluginLoadFailed: one cannot be imported, or is something else
    """
    classes = load_classes(namespace)
    for name, cls in classes.items():
        if not issubclass(cls, kind):
            raise exception.PluginLoadFailed(
                plugin=name,
                namespace=namespace,
                reason=f'{cls!r} is not a {kind.__name__}',
            )
    return list(classes.values())


def list_names(namespace: str) -> list[str]:
    """Return the names of all installed plugins, without loading them."""
    return list(_read_names(namespace, tuple(sys.path)))


@functools.lru_cache
def _read_names(namespace: str, _path: tuple[str, ...]) -> tuple[str, ...]:
    # Once for each path, as stevedore does: all packages are read for it.
    points = importlib.metadata.entry_points(group=namespace)
    return tuple(point.name for point in points)


def load_trackers() -> dict[str, base.Tracker]:
    """Make every installed tracker: a resource may name any of them."""
    return {
        name: make(TRACKERS, name, cls)
        for name, cls in load_classes(TRACKERS).items()
    }


def load_claim_tests(
    trackers: dict[str, base.Tracker], names: Sequence[str] | None = None
) -> dict[str, base.ClaimTest]:
    """Make claim tests, in order; every installed one without ``names``."""
    return {
        name: make(CLAIM_TESTS, name, cls, trackers)
        for name, cls in load_classes(CLAIM_TESTS, names).items()
    }


def load_grammar() -> extra_specs.Grammar:
    """Make the grammar of extra specs from all installed plugins.

    All, because the API and the scheduler do not know which of them each
    host has enabled. A broken one is left out here; enabling it is an error
    on the host.
    """
    patterns: dict[str, dict[str, None]] = {}
    for own in _read_all(TRACKERS, 'ATTRIBUTES').values():
        for name, pattern in own.items():
            patterns.setdefault(name, {})[pattern] = None
    reasons = _read_all(TRACKERS, 'NO_ATTRIBUTES').values()
    return extra_specs.Grammar(
        attributes={name: '|'.join(one) for name, one in patterns.items()},
        no_attributes={
            name: reason
            for own in reasons
            for name, reason in own.items()
            # Another plugin may have what this one has not.
            if name not in patterns
        },
        enforcers=_read_all(ENFORCERS, 'EXTRA_SPECS'),
    )


def _read_all(namespace: str, attribute: str) -> dict[str, Any]:
    """Read an attribute of all installed plugins that are not broken."""
    found = {}
    for name in sorted(set(list_names(namespace))):
        try:
            cls = load_classes(namespace, [name])[name]
            found[name] = dict(make(namespace, name, getattr, cls, attribute))
        except exception.PluginLoadFailed as err:
            LOG.warning(
                '%(err)s The extra specs of this plugin are unknown here, so '
                'flavors that use them are refused.',
                {'err': err},
            )
    return found


def load_with_options(
    namespace: str,
    names: Sequence[str],
    conf: cfg.ConfigOpts,
    host: str,
    entries: Callable[[], Mapping[str, Any]] = dict,
    *others: Callable[[], Mapping[str, Any] | None],
) -> dict[str, Any]:
    """Make plugins that have an option group of their own.

    Options are registered after loading and before construction, so are those
    of Nova that a plugin reads.

    :param conf: parsed, and not Nova's own, which has these already
    :param entries: reads what the servers of the host hold
    :param others: readers that follow it in the constructor
    """
    plugins = {}
    for name, cls in load_classes(namespace, names).items():
        options = register_opts(conf, name, cls.OPTIONS)
        nova = {
            group: values.load(conf, cfg.OptGroup(group), some)
            for group, some in getattr(cls, 'NOVA_OPTIONS', {}).items()
        }
        call = functools.partial(cls, nova=nova) if nova else cls
        plugins[name] = make(
            namespace, name, call, options, host, entries, *others
        )
    return plugins


def load_for_host(
    conf: cfg.ConfigOpts,
    host: str,
    entries: Callable[[], Mapping[str, Any]],
    inventory_providers: Sequence[str],
    enforcers: Sequence[str],
    *,
    guests: Callable[[], Mapping[str, Any] | None] = dict,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the inventory providers and the enforcers of a host.

    :param entries: reads what the servers of the host hold
    :param guests: reads which of them run
    :raises InvalidConfiguration: two of them manage the same part of it
    """
    made = (
        load_with_options(
            INVENTORY_PROVIDERS, inventory_providers, conf, host, entries
        ),
        load_with_options(ENFORCERS, enforcers, conf, host, entries, guests),
    )
    check_compatible(*made)
    return made


def check_compatible(*enabled: Mapping[str, Any]) -> None:
    """Make sure that no two plugins manage the same part of the host.

    :param enabled: inventory providers and enforcers by name
    :raises InvalidConfiguration: two of them do
    """
    names = {name for plugins in enabled for name in plugins}
    for plugins in enabled:
        for name, plugin in plugins.items():
            for other in sorted(plugin.EXCLUDES & names):
                raise exception.InvalidConfiguration(
                    option='[ext_resources] inventory_providers, enforcers',
                    value=', '.join(sorted(names)),
                    reason=f'{name} and {other} manage the same part of the '
                    'host and would undo the changes of each other; enable '
                    'only one of them, in both options',
                )


def register_opts(
    conf: cfg.ConfigOpts, name: str, options: Sequence[cfg.Opt]
) -> cfg.ConfigOpts.GroupAttr:
    """Declare the options of a plugin.

    An inventory provider and an enforcer of the same name share one group.

    :raises InvalidConfiguration: a value is not valid for its option
    """
    return values.load(conf, cfg.OptGroup(f'{GROUP_PREFIX}{name}'), options)


def make(namespace: str, name: str, cls: Callable[..., T], *args: Any) -> T:
    """Construct a plugin.

    :raises PluginLoadFailed: its constructor raised
    """
    try:
        return cls(*args)
    except exception.ExtResourcesError:
        raise
    # A plugin may raise anything; its type belongs into the message.
    except Exception as err:
        raise exception.PluginLoadFailed(
            plugin=name, namespace=namespace, reason=describe(err)
        ) from err


def describe(err: BaseException) -> str:
    """Return type and text: the text alone is often just a name."""
    return f'{type(err).__name__}: {err}'


def _check_unique(namespace: str, names: Iterable[str], what: str) -> None:
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise exception.PluginLoadFailed(
                plugin=name, namespace=namespace, reason=f'it {what}'
            )


def _refuse_missing(namespace: str) -> Callable[[Iterable[str]], None]:
    def refuse(missing: Iterable[str]) -> None:
        raise exception.PluginNotFound(
            plugin=sorted(missing)[0],
            namespace=namespace,
            names=', '.join(sorted(set(list_names(namespace)))) or 'none',
        )

    return refuse


def _refuse_failed(
    manager: 'extension.ExtensionManager[Any]', point: Any, err: BaseException
) -> None:
    raise exception.PluginLoadFailed(
        plugin=point.name, namespace=point.group, reason=describe(err)
    ) from err
