# SPDX-License-Identifier: Apache-2.0

"""What is compared of a host."""

from collections.abc import Mapping
import dataclasses
from typing import Any, TYPE_CHECKING, TypeAlias

from nova_ext_resources.objects import assignment
from tests.crash import placement

if TYPE_CHECKING:
    from tests.crash import site as site_mod

#: Consumer, provider, resource class.
Place: TypeAlias = tuple[str, str, str]

#: Place -> amount.
Held: TypeAlias = dict[Place, int]

WAYS = 'CUSTOM_LLC_WAYS'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is compared of a host.

    :ivar said: what the host has reported
    :ivar found: Nova's servers, by uuid
    :ivar killed: hosts that have died since all was compared the last time
    """

    site: 'site_mod.Site'
    host: str
    said: Mapping[str, Any]
    found: Mapping[str, Any]
    killed: frozenset[str] = frozenset()

    @property
    def entries(self) -> Mapping[str, assignment.Entry]:
        entries: Mapping[str, assignment.Entry] = self.said['entries']
        return entries

    def find_server_uuid(self, uuid: str) -> str:
        """Return the server for which a consumer holds anything."""
        entry = self.entries.get(uuid)
        return entry.server_uuid if entry else uuid

    def list_held(self) -> Held:
        return {
            (uuid, one.rp_uuid, one.resource_class): one.amount
            for uuid, entry in self.entries.items()
            for one in entry.assignments
            if one.is_allocated
        }

    def list_allocated(self) -> Held:
        return {
            (uuid, rp_uuid, name): amount
            for rp_uuid in self.said['providers']
            for uuid, one in placement.read_provider(
                self.site, rp_uuid
            ).items()
            for name, amount in one['resources'].items()
        }

    def list_own(self, held: Held, uuid: str) -> Held:
        return {
            place: amount for place, amount in held.items() if place[0] == uuid
        }
