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

"""Accounting only: units are counted and nothing on the host is touched."""

from nova_ext_resources.objects import assignment
from nova_ext_resources.plugins import base


class NoopEnforcer(base.Enforcer):
    """Serves every resource class by doing nothing."""

    RESOURCE_CLASSES = None

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        return entry.assignments

    def release(self, entry: assignment.Entry) -> None:
        return None

    def list_applied(self) -> frozenset[str] | None:
        return None
