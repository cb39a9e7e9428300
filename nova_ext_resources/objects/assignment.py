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

"""What one server asks of this host, and what it holds here."""

from collections.abc import Mapping
import dataclasses
import enum
from typing import Any

from nova_ext_resources.objects import requirement as requirement_obj


class State(enum.StrEnum):
    """How far a server's entry in the ledger is on its way.

    ``CLAIMED``: written down, nothing on the host was touched yet.
    ``APPLIED``: the enforcers have put it into force.
    ``RELEASING``: to be taken out of force, then forgotten.
    """

    CLAIMED = 'claimed'
    APPLIED = 'applied'
    RELEASING = 'releasing'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What a server brings to a host.

    :ivar consumer_uuid: the server
    :ivar allocations: rp_uuid -> resource class -> amount, as placement
        has allocated it; providers of others may be among them
    :ivar requirement: what its flavor says
    :ivar cpus: host CPUs that Nova has pinned it to; None when it floats
    """

    consumer_uuid: str
    allocations: Mapping[str, Mapping[str, int]]
    requirement: requirement_obj.Requirement
    cpus: frozenset[int] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Units of one resource class of one provider, held by one server.

    :ivar rp_key: the provider's key on this host, such as ``L3_0``
    :ivar amount: how many units
    :ivar units: which ones, in the tracker's words, JSON types only, such
        as ``{'mask': '1e'}``
    :ivar is_allocated: whether placement has an allocation for it; an
        implied class of service has none and counts as reserved there
    """

    rp_uuid: str
    rp_key: str
    resource_class: str
    amount: int
    units: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_allocated: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """All that the ledger knows of one server.

    :ivar cpus: as in :class:`ClaimRequest`
    :ivar enforcers: enforcer -> key -> value, from the flavor
    """

    consumer_uuid: str
    state: State = State.CLAIMED
    assignments: tuple[Assignment, ...]
    cpus: frozenset[int] | None = None
    enforcers: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )
