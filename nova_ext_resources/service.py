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

"""Loads the resources of a host from options, and keeps them published.

The one place where the host side, placement and a thread come together.
Nova's driver runs it inside nova-compute.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import functools
import importlib
import os
import re
import types
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import fake as fake_conf
from nova_ext_resources.conf import host as host_conf
from nova_ext_resources.conf import metrics as metrics_conf
from nova_ext_resources import exception
from nova_ext_resources.handover import journal
from nova_ext_resources import health as health_mod
from nova_ext_resources import host as host_mod
from nova_ext_resources import ledger as ledger_mod
from nova_ext_resources import measuring
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import health as health_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import server as server_obj
from nova_ext_resources import option_values
from nova_ext_resources.placement import allocations
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import publisher
from nova_ext_resources.plugins import loader
from nova_ext_resources import server_list

if TYPE_CHECKING:
    from nova_ext_resources.metrics import families
    from nova_ext_resources.metrics import server as metrics_server

LOG = logging.getLogger(__name__)

#: What is known of a host is not believed any more after so many intervals
#: of refreshing, and so many seconds.
_STALE_ROUNDS = 3
_STALE = 300.0

_UNSAFE = re.compile(r'[^A-Za-z0-9._-]')


def read_conf(
    files: Sequence[str], folders: Sequence[str], host: str
) -> cfg.ConfigOpts:
    """Read Nova's configuration files with a parser of our own.

    ``<host>.conf`` of ``[ext_resources] host_config_dir`` comes last.

    :raises InvalidConfiguration: the folder is named and has no such file,
        a file cannot be read, or an option of ``[ext_resources]`` is wrong
    """
    conf = _parse(files, folders)
    extra_dir = conf.ext_resources.host_config_dir
    if not extra_dir:
        return conf
    extra = os.path.join(extra_dir, f'{make_file_name(host)}.conf')
    if not os.path.isfile(extra):
        raise exception.InvalidConfiguration(
            option='[ext_resources] host_config_dir',
            value=extra_dir,
            reason=f'there is no file {extra} for host {host}; write it, '
            'empty if this host needs nothing of its own',
        )
    return _parse(files, folders, extra)


def _parse(
    files: Sequence[str], folders: Sequence[str], *last: str
) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    host_conf.register_opts(conf)
    fake_conf.register_opts(conf)
    metrics_conf.register_opts(conf)
    try:
        # As arguments they are read in this order, and the last one wins.
        conf(
            [
                *(arg for path in files for arg in ('--config-file', path)),
                *(arg for path in folders for arg in ('--config-dir', path)),
                *(arg for path in last for arg in ('--config-file', path)),
            ],
            project='nova',
            default_config_files=[],
            default_config_dirs=[],
        )
    except cfg.Error as err:
        raise option_values.tell_unreadable(
            err, (*files, *folders, *last)
        ) from None
    for part in (host_conf, metrics_conf):
        option_values.check(conf, part.GROUP.name, part.OPTS)
    return conf


def make_file_name(host: str) -> str:
    """Make a file name of a host name, which comes from outside."""
    return _UNSAFE.sub('_', host).lstrip('.') or '_'


def find_ledger_path(
    options: cfg.ConfigOpts.GroupAttr, state_path: str, host: str
) -> str:
    """Give the file of a host's ledger.

    :param options: of ``[ext_resources]``
    :param state_path: its folder where the options name no file
    """
    name = f'{make_file_name(host)}.sqlite'
    return options.ledger_path or os.path.join(state_path, name)


def _load_host(
    conf: cfg.ConfigOpts, host: str, node: provider.Node
) -> Callable[..., host_mod.HostResources]:
    """Load all plugins; what is left to give is the ledger.

    :raises ExtResourcesError: one of them cannot be used
    """
    options = conf.ext_resources
    trackers = loader.load_trackers()
    providers = loader.load_with_options(
        loader.INVENTORY_PROVIDERS, options.inventory_providers, conf, host
    )
    enforcers = loader.load_with_options(
        loader.ENFORCERS, options.enforcers, conf, host
    )
    loader.check_compatible(providers, enforcers)
    return functools.partial(
        host_mod.HostResources,
        host=host,
        node=node,
        providers=providers,
        trackers=trackers,
        tests=loader.load_claim_tests(options.claim_tests, trackers),
        enforcers=enforcers,
    )


def _load_metrics(name: str) -> types.ModuleType:
    """Import what brings in an HTTP server: only who has metrics needs it."""
    return importlib.import_module(f'nova_ext_resources.metrics.{name}')


class HostService:
    """The resources of one host, published by a thread.

    :param conf: parsed; plugins add their options to it
    :param state_path: folder of the ledger where no other is set
    :param on_deleted: called after providers were deleted from placement
    :param list_servers: tells of Nova's servers here, by uuid; asked in a
        thread of its own, and for metrics and monitoring only
    :raises ExtResourcesError: something named in the options cannot be
        used; nothing was started
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        host: str,
        node: provider.Node,
        state_path: str,
        on_deleted: Callable[[], None] = lambda: None,
        list_servers: Callable[
            [], Mapping[str, server_obj.ServerInfo]
        ] = lambda: {},
    ) -> None:
        self.conf = conf
        options = conf.ext_resources
        self._ledger_path = find_ledger_path(options, state_path, host)
        make = _load_host(conf, host, node)
        self.grammar = loader.load_grammar()
        self._placement = placement_client.from_conf(conf)
        ledger = ledger_mod.Ledger(self._ledger_path)
        try:
            journal.check_none(self._ledger_path, self._list_enabled())
            self.host = make(ledger=ledger)
        except BaseException:
            ledger.close()
            raise
        self.health = health_mod.Health(
            host,
            inventory_providers=options.inventory_providers,
            enforcers=options.enforcers,
            stale_after=_STALE_ROUNDS * options.refresh_interval + _STALE,
        )
        self.audit_path = os.path.join(
            state_path, f'{make_file_name(host)}-tuning.jsonl'
        )
        self._measuring: measuring.Measuring | None = None
        self._servers = server_list.ServerList(
            list_servers, host=host, interval=options.refresh_interval
        )
        self._metrics: metrics_server.MetricsServer | None = None
        self._failure = ''
        self._is_node_noticed = False
        self.publisher = publisher.Publisher(
            self._placement,
            node,
            refresh=self._refresh,
            wanted=self.host.providers,
            is_complete=lambda: self.host.found.is_complete,
            is_settled=lambda: self.host.is_settled,
            on_deleted=on_deleted,
            interval=options.refresh_interval,
        )

    @property
    def is_enabled(self) -> bool:
        """Whether any inventory provider is enabled."""
        return bool(self.conf.ext_resources.inventory_providers)

    def start(self, live: Iterable[str]) -> None:
        """Reconcile, look at the host, publish, and go on in a thread.

        What has to leave placement does so before this returns, when Nova
        has not read its provider tree yet.

        :param live: uuids of the servers that Nova has on this host
        :raises InvalidConfiguration: an option for metrics or measuring
            cannot be used; nothing was started
        """
        self._measuring = measuring.Measuring(
            self.conf,
            self.host,
            self.health,
            audit_path=self.audit_path,
            list_uuids=self._servers.list_uuids,
        )
        if self.conf.ext_resources_metrics.port:
            self._metrics = _load_metrics('server').from_conf(
                self.conf, read=self.read_metrics, health=self.read_health
            )
        options = self.conf.ext_resources
        LOG.info(
            'Host %(host)s: extended resources of %(providers)s, put into '
            'force by %(enforcers)s, tested by %(tests)s, written down in '
            '%(ledger)s',
            {
                'host': self.host.host,
                'providers': ', '.join(options.inventory_providers) or 'none',
                'enforcers': ', '.join(options.enforcers) or 'none',
                'tests': ', '.join(options.claim_tests) or 'none',
                'ledger': self._ledger_path,
            },
        )
        if self._metrics is not None or self._measuring.is_enabled:
            self._servers.start()
        self._survive(lambda: self.host.reconcile(live))
        self.publisher.run_round()
        self.publisher.start()
        self._measuring.start()
        if self._metrics is not None:
            self._metrics.start()
        # Not before: a start that fails may be followed by one as before.
        journal.forget(self._ledger_path, self._list_enabled())

    def _list_enabled(self) -> frozenset[str]:
        options = self.conf.ext_resources
        return frozenset({*options.inventory_providers, *options.enforcers})

    def stop(self) -> None:
        """End the threads and close the ledger; what is in force stays."""
        if self._metrics is not None:
            self._metrics.stop()
        if self._measuring is not None:
            self._measuring.stop()
        self._servers.stop()
        self.publisher.stop()
        self.host.close()

    def notice_node(self) -> None:
        """Nova has just read its provider tree, and is about to write.

        At the first start of a host it creates its own provider now, for
        which ours wait.
        """
        if not self._is_node_noticed or self.publisher.status.failure:
            self._is_node_noticed = True
            self.publisher.wake()

    def claim(self, request: assignment.ClaimRequest) -> None:
        """Claim, and let placement's allocation follow the host's choice.

        :raises ExtResourcesError: nothing is held
        """
        entry = self.host.claim(request)
        try:
            self._move_allocations(request, entry)
        except exception.ExtResourcesError:
            self.release(request.consumer_uuid)
            raise
        self.publisher.wake()

    def release(self, consumer_uuid: str) -> None:
        """Give back all that a server holds.

        :raises ExtResourcesError: it is tried again by itself
        """
        if self.host.find_entry(consumer_uuid) is None:
            return
        try:
            self.host.release(consumer_uuid)
        finally:
            self.publisher.wake()

    def _refresh(self) -> None:
        self.host.refresh()
        self._survive(self.host.heal)
        self._servers.expect(self.host.entries)
        try:
            self.health.observe_host(self.host, failure=self._failure)
        # Only what is told of the host depends on it.
        except Exception:
            LOG.exception(
                'Host %(host)s: how it fares cannot be told; report this',
                {'host': self.host.host},
            )

    def read_health(self) -> health_obj.Snapshot:
        """Give how the host is, without I/O."""
        self.health.observe_publisher(self.publisher.status)
        return self.health.snapshot()

    def read_metrics(self) -> 'families.Snapshot':
        """Give all that metrics are made of, without I/O."""
        snapshot: families.Snapshot = _load_metrics('families').Snapshot(
            health=self.read_health(),
            view=self.host.view,
            entries=self.host.entries,
            servers=self._servers.latest,
            sweep=self._measuring.latest if self._measuring else None,
            tuning_changes=self._measuring.changes if self._measuring else {},
        )
        return snapshot

    def _survive(self, heal: Callable[[], None]) -> None:
        """Heal; whatever happens, publishing and Nova go on without."""
        try:
            heal()
        except Exception as err:
            failure = loader.describe(err)
            if failure != self._failure:
                LOG.exception(
                    'Host %(host)s: healing broke off and is tried again, '
                    'what is in force stays; report this',
                    {'host': self.host.host},
                )
            self._failure = failure
        else:
            self._failure = ''

    def _move_allocations(
        self, request: assignment.ClaimRequest, entry: assignment.Entry
    ) -> None:
        for resource_class, source, target in allocations.list_moved(
            request, entry
        ):
            LOG.info(
                'Host %(host)s: %(class)s of server %(uuid)s goes to the '
                'domain of its CPUs',
                {
                    'host': self.host.host,
                    'class': resource_class,
                    'uuid': entry.consumer_uuid,
                },
            )
            allocations.move_allocation(
                self._placement,
                entry.consumer_uuid,
                from_rp_uuid=source,
                to_rp_uuid=target,
                resource_class=resource_class,
            )
