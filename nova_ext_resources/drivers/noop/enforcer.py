# SPDX-License-Identifier: Apache-2.0

"""Accounting only: units are counted and nothing on the host is touched."""

from nova_ext_resources.drivers import base
from nova_ext_resources.objects import assignment


class NoopEnforcer(base.Enforcer):
    """Serves every resource class by doing nothing."""

    RESOURCE_CLASSES = None

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        return entry.assignments

    def release(self, entry: assignment.Entry) -> None:
        return None

    def recover_units(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        return entry.assignments

    def list_applied(self) -> frozenset[str] | None:
        return None
