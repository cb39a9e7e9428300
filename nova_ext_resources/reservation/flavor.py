# SPDX-License-Identifier: Apache-2.0

"""A flavor of Nova, as far as it says what a server needs."""

from collections.abc import Mapping
import dataclasses

from nova_ext_resources.claims import extra_specs as extra_specs_mod
from nova_ext_resources.reservation import server_demand


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """One flavor; without a name it is only a list of amounts.

    :ivar disk_gb: root and ephemeral disk, and swap in GB rounded upwards
    """

    name: str = ''
    vcpus: int = 0
    memory_mb: int = 0
    disk_gb: int = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def make_demand(
        self, grammar: extra_specs_mod.Grammar
    ) -> server_demand.Demand:
        """Return what one server of it needs.

        :raises InvalidExtraSpec: an extra spec is malformed, or of a kind
            that cannot be planned
        :raises ValueError: nothing is requested
        """
        return server_demand.make_demand(
            vcpus=self.vcpus,
            memory_mb=self.memory_mb,
            disk_gb=self.disk_gb,
            extra_specs=self.extra_specs,
            grammar=grammar,
        )
