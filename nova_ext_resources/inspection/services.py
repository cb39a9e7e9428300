# SPDX-License-Identifier: Apache-2.0

"""Which hosts have a compute service that Nova can use, and why not.

Placement keeps the providers of a host that Nova has forgotten, or that it
cannot reach. Nova finds no host there, whatever is free.
"""

from collections.abc import Mapping
import dataclasses

from nova_ext_resources.inspection.audit import cloud

_DOWN = 'its compute service does not report, or was forced down'
_CELL_AWAY = (
    'its cell does not answer ("openstack compute service list" shows the '
    'status UNKNOWN): check the database of the cell'
)
_UNMAPPED = (
    'Nova has its compute service, but no hypervisor of this name in a cell; '
    '"nova-manage cell_v2 discover_hosts" maps a new host'
)
_UNKNOWN = (
    'Nova has no hypervisor of this name. If nova-compute manages this host, '
    'start nova-compute and run "nova-manage cell_v2 discover_hosts". If the '
    'host is gone for good, its providers are left over: "openstack extended '
    'resource audit" shows their allocations'
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Compute services, as far as Nova shows them.

    :ivar nodes: hypervisor's hostname -> hypervisor; None where Nova does not
        list them
    :ivar states: host of a nova-compute -> its state, which is None in a cell
        that does not answer; empty where that was not read
    """

    nodes: Mapping[str, cloud.Hypervisor] | None = None
    states: Mapping[str, str | None] = dataclasses.field(default_factory=dict)

    def find_outage(self, name: str) -> str:
        """Return why Nova starts no server on a host; '' if it may.

        :param name: the hypervisor's hostname, or the uuid of a bare-metal
            node
        """
        if self.nodes is not None and name in self.nodes:
            return '' if self.nodes[name].is_up else _DOWN
        if name in self.states:
            return self._explain_state(self.states[name])
        return '' if self.nodes is None else _UNKNOWN

    def find_host(self, name: str) -> str:
        """Return the host of the nova-compute of a hypervisor.

        :returns: '' where that is not known: a hypervisor may have another
            name than its host
        """
        if self.nodes is not None and name in self.nodes:
            return self.nodes[name].host
        return name if name in self.states else ''

    def _explain_state(self, state: str | None) -> str:
        if state is None:
            return _CELL_AWAY
        if state == 'down':
            return _DOWN
        return '' if self.nodes is None else _UNMAPPED
