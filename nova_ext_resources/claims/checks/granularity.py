# SPDX-License-Identifier: Apache-2.0

"""Amounts respect ``min_unit``, ``max_unit``, ``step_size`` and attributes.

Placement checks the same when it allocates; the inventory may have changed
since, and a claim without placement (an evacuation that was forced) would
not have been checked at all.
"""

from collections.abc import Iterable, Mapping

from nova_ext_resources.claims import base
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view


class GranularityTest(base.ClaimTest):
    """Reports amounts that inventory or attributes do not allow."""

    def shortfalls(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> Iterable[exception.Shortfall]:
        for rp_uuid, resources in request.allocations.items():
            for resource_class, amount in resources.items():
                tracked = view.tracked[rp_uuid, resource_class]
                inventory = tracked.inventory
                error = (
                    inventory and inventory.find_unit_error(amount)
                ) or self._find_attribute_error(
                    tracked.tracker,
                    amount,
                    request.requirement.attributes.get(resource_class, {}),
                )
                if error:
                    yield exception.Shortfall(
                        rp_uuid=rp_uuid,
                        resource_class=resource_class,
                        requested=amount,
                        available=tracked.state.available,
                        reason=error,
                        is_permanent=True,
                    )

    def _find_attribute_error(
        self, name: str, amount: int, attributes: Mapping[str, str]
    ) -> str | None:
        if not attributes:
            return None
        try:
            self.trackers[name].read_attributes(amount, attributes)
        except ValueError as err:
            return str(err)
        return None
