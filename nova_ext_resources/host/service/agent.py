# SPDX-License-Identifier: Apache-2.0

"""A host whose nova-compute is not ours: discovered and published.

Nothing is claimed and nothing is applied, so it offers only resources that
are counted; see the requirements of :class:`.claims.enforcement.Enforcement`.
"""

from typing import Any
import uuid

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import driver
from nova_ext_resources import exception
from nova_ext_resources.host.inventory import config_files
from nova_ext_resources.host.inventory import old_inventory
from nova_ext_resources.host.service import health
from nova_ext_resources.host.service import loading
from nova_ext_resources.host.service import metrics
from nova_ext_resources.host.service import paths
from nova_ext_resources.host.service import publication_source
from nova_ext_resources.host.service import server_names
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)

_NOT_BY_AGENT = (
    'only a nova-compute with a driver of this package can move the '
    'inventory. Run this nova-compute here, or leave the class to the compute '
    'node and disable its plugin'
)

#: Seed of the uuid of a host without a compute node, which is published
#: nowhere.
_NO_NODE = uuid.UUID('b5f1f0c7-4a0e-4c57-9f0b-6a3d5e8c2f41')


class HostAgent(worker.Worker):
    """One host: discovers it in a thread, has it published by another.

    :param node: the compute node that the host's own nova-compute has; None
        where there is none, as on a storage node: only shared pools are
        published, and what bare-metal nodes have
    :param state_path: folder of the ledger where no option names it; its
        lock keeps a nova-compute with our driver, and another agent, away
    :raises ExtResourcesError: something named in the options cannot be used;
        nothing was started
    """

    THREAD = 'ext-resources-agent'

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        host: str,
        node: host_provider.Node | None,
        state_path: str,
    ) -> None:
        super().__init__()
        options = conf.ext_resources
        check(conf, state_path)
        self._name = host
        self._node = node
        self._interval: float = options.refresh_interval
        self._failures = 0
        self._files = driver.find_provider_config(conf)
        client = placement_client.from_conf(conf)
        self.host = loading.load_host(
            conf,
            host=host,
            node=node or _make_unpublished(host),
            ledger_path=paths.find_ledger_path(options, state_path, host),
            list_guests=lambda: None,
        )
        self._check_ledger()
        self._old = old_inventory.OldInventory(self.host)
        self._old.reason = _NOT_BY_AGENT
        self.health = health.Health(
            host,
            inventory_providers=options.inventory_providers,
            stale_after=health.find_stale_after(self._interval),
        )
        self.publisher = publisher.Publisher(
            client,
            node,
            publication_source.AgentSource(
                self.host, has_node=node is not None
            ),
            host=host,
            memory=provider_tree_cache.Memory(self.host.ledger_path),
            interval=self._interval,
        )
        self.metrics = metrics.Metrics(
            conf,
            self.host,
            self.health,
            self.publisher,
            server_names.ServerList(dict, host=host, interval=self._interval),
            guests=None,
            audit_path=paths.find_audit_path(state_path, host),
        )
        self.health.watch(self, self.publisher)

    def _check_ledger(self) -> None:
        """Refuse to go on where servers have units.

        :raises InvalidConfiguration: the ledger has entries; it is closed
        """
        if not self.host.entries:
            return
        path, number = self.host.ledger_path, len(self.host.entries)
        self.host.close()
        raise exception.InvalidConfiguration(
            option='[ext_resources] ledger_path',
            value=path,
            reason=f'the ledger has units of {number} servers from a '
            'nova-compute with a driver of this package, and the agent would '
            'never release these units. Start that nova-compute again; or '
            'first move these servers and the file away',
        )

    def start(self, pause: float = 0.0) -> None:
        """Discover and publish, and go on in threads.

        :raises InvalidConfiguration: an option for metrics cannot be used,
            there is inventory and no compute node, traits are of the compute
            node itself, or a file of Nova's adds to a provider of this host;
            nothing was started
        """
        self.metrics.prepare()
        delay = self.do_round()
        self._check_unpublished()
        self._check_files()
        super().start(delay + pause)
        self.publisher.start()
        self.metrics.start()

    def stop(self, timeout: float | None = None) -> None:
        """End the threads; what was published stays in placement."""
        self.metrics.stop()
        super().stop(timeout)
        self.publisher.stop(timeout)
        self.host.close()

    def do_round(self) -> float:
        failure = ''
        try:
            self.host.refresh()
            self._check_unpublished()
        except exception.ExtResourcesError as err:
            failure = str(err)
            LOG.error(
                'Host %(host)s: %(err)s', {'host': self._name, 'err': err}
            )
        # A bug in a plugin: the thread has to outlive it, and the log has to
        # show where it is.
        except Exception as err:
            failure = plugins.describe(err)
            LOG.exception(
                'Host %(host)s: the discovery failed, and will be retried; '
                'the inventory in placement does not change',
                {'host': self._name},
            )
        self.health.observe_host(self.host, failure=failure)
        self.health.report(
            'comparison',
            [
                *self._old.list_problems(self.publisher.doubled),
                *map(_make_problem, self._list_named()),
            ],
        )
        self.publisher.wake_soon()
        is_well = not failure and not self.host.found.failures
        self._failures = 0 if is_well else self._failures + 1
        return publisher.find_delay(self._failures, self._interval)

    def _check_unpublished(self) -> None:
        """Report what this program has no provider for.

        :raises InvalidConfiguration: there is some
        """
        classes = {
            name
            for one in self.host.found.providers
            for name in one.inventories
        }
        if self._node is None and classes:
            raise exception.InvalidConfiguration(
                option='[ext_resources] inventory_providers',
                value=', '.join(sorted(classes)),
                reason=f'host {self._name} has no compute node, but these '
                'resources are published below a compute node; use only '
                'shared_pool, and definitions that name bare-metal nodes',
            )
        if traits := self.host.found.node_traits:
            raise exception.InvalidConfiguration(
                option='[ext_resources] inventory_providers',
                value=', '.join(sorted(traits)),
                reason='only nova-compute writes these traits of the compute '
                'node. Run nova-compute with a driver of this package, or '
                'write a provider configuration file with '
                'nova-ext-resources-provider-config',
            )

    def _check_files(self) -> None:
        """Refuse what Nova would add to a provider of this host.

        Before that is published, Nova passes over it.

        :raises InvalidConfiguration: a file of Nova's names one
        """
        if found := self._list_named():
            raise exception.InvalidConfiguration(
                option='[compute] provider_config_location',
                value=self._files,
                reason='; '.join(map(str, found)),
            )

    def _list_named(self) -> tuple[config_files.NamedClass, ...]:
        return config_files.list_named(
            self._files, config_files.list_own_names(self.host)
        )


def _make_problem(one: config_files.NamedClass) -> alarm.Problem:
    return alarm.Problem(
        alarm=alarm.PROVIDER_CONFIG,
        subject=f'{one.identification} {one.resource_class}',
        text=str(one),
    )


def check(conf: cfg.ConfigOpts, state_path: str) -> None:
    """Refuse what would promise more than is kept.

    :raises InvalidConfiguration: an enforcer is enabled, no plugin is, there
        is no folder for the ledger, or nova-compute has our driver
    :raises PluginError: one cannot be loaded
    """
    options: Any = conf.ext_resources
    if driver.is_ours(conf):
        raise exception.InvalidConfiguration(
            option='[DEFAULT] compute_driver',
            value=driver.find(conf),
            reason='nova-compute of this host already publishes its '
            'resources. Stop and disable the agent here',
        )
    if options.enforcers:
        raise exception.InvalidConfiguration(
            option='[ext_resources] enforcers',
            value=', '.join(options.enforcers),
            reason='the agent applies nothing. Remove the enforcers, or run '
            'nova-compute with a driver of this package instead of the agent',
        )
    if not options.inventory_providers:
        raise exception.InvalidConfiguration(
            option='[ext_resources] inventory_providers',
            value='',
            reason='the option is empty; name the plugins that discover the '
            'resources of the host',
        )
    plugins.load_classes(
        plugins.INVENTORY_PROVIDERS, options.inventory_providers
    )
    if not state_path and not options.ledger_path:
        raise exception.InvalidConfiguration(
            option='[DEFAULT] state_path',
            value='',
            reason='name a folder in which this program may write',
        )


def _make_unpublished(host: str) -> host_provider.Node:
    return host_provider.Node(
        uuid=str(uuid.uuid5(_NO_NODE, host)), hypervisor_hostname=host
    )
