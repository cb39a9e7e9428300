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

"""What a virt driver does for extended resources; the base of ours.

Composition root: the one place where Nova's global options are read. The
package's own options come from the same files, through a private parser,
because Nova has already registered some of the names in its own way.
"""

from collections.abc import Iterator, Mapping
import contextlib
import os
import threading
from typing import Any

from nova.compute import resource_tracker
import nova.conf
from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects
from nova import utils
from nova.virt import driver
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources import extra_specs
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import server
from nova_ext_resources.objects import stats
from nova_ext_resources import service
from nova_ext_resources.virt import errors
from nova_ext_resources.virt import events
from nova_ext_resources.virt import gate
from nova_ext_resources.virt import request

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class ExtResourcesMixin(driver.ComputeDriver):
    """Comes before a ``ComputeDriver`` in the bases of a driver class."""

    _ext: service.HostService
    _ext_grammar: extra_specs.Grammar

    def init_host(self, host: str) -> None:
        gate.check_nova()
        super().init_host(host)
        self._ext_kept = threading.local()
        self._ext = self._make_service(host)
        self._ext_grammar = self._ext.grammar
        self._ext.start(live=_list_servers(host))

    def cleanup_host(self, host: str) -> None:
        # A host that could not even start has nothing to stop.
        if hasattr(self, '_ext'):
            self._ext.stop()
        super().cleanup_host(host)

    def _make_service(self, host: str) -> service.HostService:
        node_uuid, name = next(iter(self.get_nodenames_by_uuid().items()))
        conf = service.read_conf(
            CONF.config_file or (), CONF.config_dir or (), host
        )
        return service.HostService(
            conf,
            host=host,
            node=provider.Node(uuid=node_uuid, hypervisor_hostname=name),
            state_path=os.path.join(CONF.state_path, 'ext_resources'),
            on_deleted=self._forget_providers,
            list_servers=lambda: _describe_servers(host),
        )

    def _forget_providers(self) -> None:
        """Have Nova read its provider tree anew.

        Until its cache expires, up to five minutes later, every update of
        the node and every build would fail over a provider that is gone.
        """
        tracker = self._find_tracker()
        if tracker is None:
            return
        lock = utils.synchronized(
            resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True
        )
        lock(tracker.reportclient.clear_provider_cache)()

    def _find_tracker(self) -> Any:
        """Give Nova's resource tracker; None where there is none (yet)."""
        return getattr(getattr(self.virtapi, '_compute', None), 'rt', None)

    # -- what the host reports; called under Nova's semaphore ----------

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        data: dict[str, Any] = super().get_available_resource(nodename)
        if data:
            own = {stats.KEY: self._ext.host.stats()}
            data['stats'] = {**(data.get('stats') or {}), **own}
        return data

    def update_provider_tree(
        self,
        provider_tree: Any,
        nodename: str,
        allocations: Any = None,
    ) -> None:
        super().update_provider_tree(
            provider_tree, nodename, allocations=allocations
        )
        # Nova is about to create its node if this is the first time.
        self._ext.notice_node()

    # -- the life of a server ------------------------------------------

    def spawn(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Mapping[str, Any] | None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        with errors.rebuild_shown(instance, self._ext.host.host):
            self._claim(context, instance, allocations)
            try:
                self._spawn_claimed(
                    context,
                    instance,
                    image_meta,
                    injected_files,
                    admin_password,
                    allocations,
                    *args,
                    **kwargs,
                )
            # Whatever it was: the server does not run, so it holds nothing.
            # One that was rebuilt in place belongs to this host all the
            # same, and may be rebuilt again.
            except BaseException:
                if not self._is_rebuilt_here(instance):
                    self._release(instance)
                raise

    def _spawn_claimed(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        super().spawn(context, instance, *args, **kwargs)

    def destroy(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        super().destroy(context, instance, *args, **kwargs)
        if not (
            instance.uuid in self._kept_uuids()
            or self._is_rebuilt_here(instance)
        ):
            self._release(instance)

    def _is_rebuilt_here(self, instance: Any) -> bool:
        return errors.is_in_place(instance, self._ext.host.host)

    def _claim(
        self,
        context: Any,
        instance: Any,
        allocations: Mapping[str, Any] | None,
    ) -> None:
        if self._ext.host.holds(instance.uuid) and (
            allocations is None or self._is_rebuilt_here(instance)
        ):
            # Started again. Nova may not say what it holds, and has lost
            # its allocation when a former rebuild in place had failed.
            return
        with errors.translated(instance.uuid):
            asked = request.make_request(
                instance,
                allocations,
                self._ext_grammar if self._ext.is_enabled else None,
            )
        with (
            self._reported(
                context, events.CLAIM, request.find_keys(instance), instance
            ),
            errors.translated(instance.uuid),
        ):
            self._ext.claim(asked)
        self._tell_scheduler()

    def _apply(
        self, context: Any, instance: Any, *, must_hold: bool = False
    ) -> None:
        entry = self._ext.host.find_entry(instance.uuid)
        with (
            self._reported(context, events.APPLY, entry, instance),
            errors.translated(instance.uuid),
        ):
            self._ext.host.apply(instance.uuid, must_hold=must_hold)
        self._tell_scheduler()

    def _tell_scheduler(self) -> None:
        """Put the view where Nova's next write of the node takes it along.

        ``get_available_resource`` is asked once in a periodic only. Without
        this, a boot right after a delete on a full host would be refused.
        """
        tracker = self._find_tracker()
        nodename = self._ext.host.node.hypervisor_hostname
        if tracker is not None and nodename in tracker.stats:
            tracker.stats[nodename][stats.KEY] = self._ext.host.stats()

    def _reported(
        self, context: Any, name: str, subject: object, instance: Any
    ) -> contextlib.AbstractContextManager[None]:
        """Report an event, if there is something to report about."""
        if not subject:
            return contextlib.nullcontext()
        return events.reported(
            context, name, self._ext.host.host, instance.uuid
        )

    def _release(self, instance: Any) -> None:
        """Give back what a server holds; never stands in Nova's way.

        What fails stays in the ledger and is tried again.
        """
        try:
            self._ext.release(instance.uuid)
        except exception.ExtResourcesError as err:
            LOG.error(
                'Host %(host)s: giving back what server %(uuid)s holds '
                'failed and is tried again: %(err)s',
                {
                    'host': self._ext.host.host,
                    'uuid': instance.uuid,
                    'err': err,
                },
            )
        self._tell_scheduler()

    @contextlib.contextmanager
    def _keeping(self, instance: Any) -> Iterator[None]:
        """Let ``destroy`` keep the claim: the server comes up again."""
        kept = self._kept_uuids()
        kept.append(instance.uuid)
        try:
            yield
        finally:
            kept.remove(instance.uuid)

    def _kept_uuids(self) -> list[str]:
        if not hasattr(self._ext_kept, 'uuids'):
            self._ext_kept.uuids = []
        uuids: list[str] = self._ext_kept.uuids
        return uuids

    # -- moves: refused until they carry the claim along ----------------

    def migrate_disk_and_power_off(
        self,
        context: Any,
        instance: Any,
        dest: Any,
        flavor: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        self._refuse_move(instance, flavor)
        return super().migrate_disk_and_power_off(
            context, instance, dest, flavor, *args, **kwargs
        )

    def check_can_live_migrate_destination(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if self._asks(instance, instance.flavor):
            raise nova_exc.MigrationPreCheckError(reason=_explain(instance))
        return super().check_can_live_migrate_destination(
            context, instance, *args, **kwargs
        )

    def _refuse_move(self, instance: Any, flavor: Any) -> None:
        if self._asks(instance, flavor):
            raise nova_exc.InstanceFaultRollback(
                inner_exception=nova_exc.MigrationError(
                    reason=_explain(instance)
                )
            )

    def _asks(self, instance: Any, flavor: Any) -> bool:
        """Tell whether extended resources of this host are involved."""
        if self._ext.host.holds(instance.uuid):
            return True
        try:
            asked = request.make_requirement(flavor, self._ext_grammar)
        except exception.InvalidExtraSpec:
            # Refused where servers are built. One that runs already was
            # built without it, and holds what the ledger says.
            return False
        return bool(
            self._ext.host.view.resource_classes & asked.resources.keys()
        )


def _explain(instance: Any) -> str:
    return (
        f'server {instance.uuid} holds or asks for extended resources, and '
        'this version moves such servers by shelving and unshelving only'
    )


def _list_servers(host: str) -> list[str]:
    """Give the servers that Nova has on this host."""
    return [instance.uuid for instance in _read_servers(host, [])]


def _describe_servers(host: str) -> dict[str, server.ServerInfo]:
    """Give what labels of metrics say of each of them."""
    return {
        instance.uuid: server.ServerInfo(
            flavor=instance.flavor.name, project_id=instance.project_id or ''
        )
        for instance in _read_servers(host, ['flavor'])
    }


def _read_servers(host: str, attributes: list[str]) -> Any:
    return objects.InstanceList.get_by_host(
        nova_context.get_admin_context(), host, expected_attrs=attributes
    )
