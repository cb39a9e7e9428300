# SPDX-License-Identifier: Apache-2.0

"""What hosts run without the package: a fake driver that can be restarted.

Nova's own has another node in every process, which Nova refuses. This file is
copied beside it, because Nova loads drivers from nowhere else.
"""

from typing import Any

from nova.virt import driver
from nova.virt import fake
from nova.virt import node


class Driver(fake.FakeDriver):
    """Its node is the one that the host has had before."""

    get_nodenames_by_uuid = driver.ComputeDriver.get_nodenames_by_uuid

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        data = super().get_available_resource(nodename)
        return {**data, 'uuid': node.get_local_node_uuid()}
