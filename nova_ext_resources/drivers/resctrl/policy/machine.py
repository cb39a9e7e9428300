# SPDX-License-Identifier: Apache-2.0

"""What a host is, besides its control groups. Pure."""

from collections.abc import Mapping
import dataclasses

from oslo_config import cfg

from nova_ext_resources.drivers.resctrl.kernel import schemata


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostMachine:
    """What a host is, besides its groups.

    :ivar host: its name, for errors
    :ivar cpus: cache -> its CPUs, online or not
    :ivar online: all CPUs that are online
    :ivar reserved_ways: how many ways of each cache the host keeps
    :ivar burst_ways: how many of each last-level cache are for burst ways
    :ivar shared_ways: how many are for the servers that share a pool
    :ivar memory_bandwidth: of each last-level cache in MB/s, 0 if unknown
    :ivar lent: cache -> ways that the default group has shared with groups
        of other software until we took them from it
    """

    host: str = ''
    cpus: Mapping[schemata.Cache, frozenset[int]] = dataclasses.field(
        default_factory=dict
    )
    online: frozenset[int] = frozenset()
    reserved_ways: int = 1
    burst_ways: int = 0
    shared_ways: int = 0
    memory_bandwidth: int = 0
    lent: Mapping[schemata.Cache, int] = dataclasses.field(
        default_factory=dict
    )

    def is_offline(self, cache: schemata.Cache) -> bool:
        """Return whether a cache is there, and all its CPUs are offline.

        The kernel shows nothing of it then, and nothing fills it.
        """
        return cache in self.cpus and not self.cpus[cache] & self.online

    def with_default(
        self,
        before: Mapping[schemata.Cache, int],
        after: Mapping[schemata.Cache, int],
    ) -> 'HostMachine':
        """Remember which ways the default group has lost, to restore them.

        The groups do not show it: other software may have kept the default
        group out of its ways on purpose.
        """
        lent = {
            cache: (before.get(cache, 0) | self.lent.get(cache, 0)) & ~mask
            for cache, mask in after.items()
        }
        return dataclasses.replace(self, lent=lent)


def make(options: cfg.ConfigOpts.GroupAttr, host: str) -> HostMachine:
    """Return what the options say; the CPUs are not known yet."""
    return HostMachine(
        host=host,
        reserved_ways=options.reserved_ways,
        burst_ways=options.burst_ways,
        shared_ways=options.shared_ways,
        memory_bandwidth=options.memory_bandwidth,
    )
