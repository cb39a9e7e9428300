# SPDX-License-Identifier: Apache-2.0

"""Traits of the compute node, for how its CPUs save energy. No inventory.

They cannot be on a provider of this package: placement looks at the traits of
those providers that a server gets something of, and such a one has nothing to
give. Of the compute node, every server has its VCPUs.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import cpu
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.cpu import sysfs
from nova_ext_resources.drivers.cpu import traits
from nova_ext_resources.drivers.devices import files
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource

LOG = logging.getLogger(__name__)

_NOVA_SETS = (
    'no trait CUSTOM_CPU_GOVERNOR_* or CUSTOM_CPU_EPP_* is reported: Nova '
    'changes governors when servers start and stop ([libvirt] '
    'cpu_power_management_strategy = governor)'
)


class CpuInventory(base.InventoryProvider):
    """Traits for frequency and idle states of CPUs.

    :param nova: Nova's own options, by group
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = cpu.OPTS
    NODE_TRAITS_PREFIX: ClassVar[str] = 'CUSTOM_CPU_'
    NOVA_OPTIONS: ClassVar[Mapping[str, tuple[cfg.Opt, ...]]] = cpu.NOVA_OPTS

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
        *,
        nova: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(options, host, entries)
        power = nova['libvirt'] if nova else None
        self._has_governors = not (
            power
            and power.cpu_power_management
            and power.cpu_power_management_strategy == 'governor'
        )
        self._traits: frozenset[str] = frozenset()
        self._notes = log_on_change.LogOnChange(
            f'Host {host}: inventory provider cpu: '
        )

    @property
    def node_traits(self) -> frozenset[str]:
        return self._traits

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return ()

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        with base.discovering('cpu', OSError, ValueError, files.Unsteady):
            seen = sysfs.read(self.options.path)
        found = traits.find(seen, has_governors=self._has_governors)
        self._traits = found.traits
        notes = [] if self._has_governors else [_NOVA_SETS]
        self._notes.log_new(LOG.info, [*found.notes, *notes])
        return ()
