# SPDX-License-Identifier: Apache-2.0

"""What the compute node itself offers of what this host has below it.

Software before this package, such as Nova's provider configuration files,
could only put it there. Until nova-compute has moved it, at a start, it is
offered there alone: below, all of it is reserved.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from nova_ext_resources.claims import relocation
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view

#: Why it was not moved, where nothing else is known.
_ONLY_AT_START = (
    'nova-compute moves the inventory at its start, but started before the '
    'inventory existed, or before placement and all plugins answered. Restart '
    'nova-compute'
)

_INCOMPLETE = (
    'not all inventory providers have read this host. Clear the alarms '
    'discovery_failed and resources_left_out, and then restart nova-compute'
)


class OldInventory:
    """What is known of it, and why it is still there.

    Values are replaced and never changed: several threads read them.

    :ivar named: resource class -> path of the provider configuration file
        that has Nova put it on the compute node
    :ivar unreported: other classes that consumers hold on the compute node,
        that no plugin reports, and that Nova's driver has removed
    :ivar reason: why the last start did not move the rest; '' if not known
    """

    def __init__(self, host: manager.HostManager) -> None:
        self._host = host
        self.named: Mapping[str, str] = {}
        self.unreported: frozenset[str] = frozenset()
        self.reason = ''

    def list_classes(self) -> frozenset[str]:
        """Return the classes that are below the compute node, or may be."""
        found = self._host.found
        classes = {n for one in found.providers for n in one.inventories}
        if not found.is_complete:
            classes |= self._host.view.resource_classes
        return frozenset(
            one for one in classes if one.startswith(host_provider.CUSTOM)
        )

    def list_ready(self) -> frozenset[str]:
        """Return the classes of which all is known that may be below."""
        found = self._host.found
        if found.missing:
            return frozenset()
        return self.list_classes() - found.left_out

    def list_providers(self) -> Sequence[host_provider.Provider]:
        """Return what is to be below the compute node.

        :raises LedgerError: see :meth:`.HostManager.providers`
        """
        return self._host.providers()

    def plan(
        self,
        movers: Sequence[relocation.Mover],
        allocated: Mapping[str, host_view.Amounts],
    ) -> relocation.RelocationPlan:
        """Choose where each consumer gets what it has on the compute node.

        :param allocated: see :meth:`.StateMemory.plan_relocation`
        """
        plan = self._host.plan_relocation(movers, allocated)
        if plan.refusal is not None:
            self.reason = _explain(plan.refusal)
        return plan

    def find_former(self, consumer_uuid: str) -> frozenset[str]:
        """Return the providers of which the ledger has units of a consumer."""
        entry = self._host.find_entry(consumer_uuid)
        allocated = entry.assignments if entry else ()
        return frozenset(one.rp_uuid for one in allocated)

    def covers(
        self, allocations: host_view.Amounts, doubled: Collection[str] | None
    ) -> bool:
        """Return whether a consumer has its resources on the compute node.

        :param allocations: all that placement has allocated to it
        :param doubled: classes that are still there; None: not known yet, so
            that any of this host may be
        """
        if doubled is None:
            doubled = self.list_classes()
        own = allocations.get(self._host.node.uuid, {})
        return not own.keys().isdisjoint(doubled) and not (
            self._host.view.list_places(allocations)
        )

    def list_problems(
        self, doubled: Collection[str] | None
    ) -> Iterator[alarm.Problem]:
        """Yield an alarm for each class that is still there.

        :param doubled: these classes; None: not known yet
        """
        doubled = frozenset(doubled or ())
        for name in sorted(self.unreported - doubled):
            yield alarm.Problem(
                alarm=alarm.OLD_INVENTORY,
                subject=name,
                text=f'servers hold {name} on the provider of compute node '
                f'{self._host.node.hypervisor_hostname} itself, and no plugin '
                f'reports {name}. The inventory stays there until these '
                f'servers are gone. Enable the plugin that reports {name}, or '
                f'name {name} in a provider configuration file of Nova, and '
                'restart nova-compute',
            )
        for name in sorted(doubled):
            yield alarm.Problem(
                alarm=alarm.OLD_INVENTORY,
                subject=name,
                text=f'servers hold {name} on the provider of compute node '
                f'{self._host.node.hypervisor_hostname} itself, where nothing '
                'is applied; on the providers below, all units are reserved. '
                f'{self._explain(name)}',
            )

    def _explain(self, name: str) -> str:
        path = self.named.get(name)
        if path:
            return (
                f'Nova adds {name} there because of {path}: remove {name} '
                'from the file, and restart nova-compute'
            )
        reason = self.reason or (
            _ONLY_AT_START if name in self.list_ready() else _INCOMPLETE
        )
        return f'The inventory was not moved: {reason}'


def _explain(refusal: relocation.UnplacedConsumer) -> str:
    mover = refusal.mover
    amounts = ' and '.join(
        f'{n} {a}' for n, a in sorted(mover.amounts.items())
    )
    uuid = mover.consumer_uuid
    server = mover.request.server_uuid
    who = (
        f'server {uuid}'
        if server == uuid
        else (f'migration {uuid} of server {server}')
    )
    reasons = '; '.join(map(str, refusal.shortfalls)) or 'no provider has any'
    return (
        f'{who} holds {amounts}, but no provider has room for them beside the '
        f'other servers ({reasons}). Nothing of this host was moved. Move a '
        f'server with these resources, for example {server}, to another host, '
        'and restart nova-compute'
    )
