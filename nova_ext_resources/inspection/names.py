# SPDX-License-Identifier: Apache-2.0

"""What consumers of placement are, for people."""

from collections.abc import Mapping
import dataclasses

from nova_ext_resources.objects import planned_hold


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """As far as Nova shows them to the caller.

    :ivar servers: uuid -> name
    :ivar moves: uuid of a migration -> that of its server
    """

    servers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    moves: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def describe(self, consumer: str) -> str:
        """Return a name, or the uuid where that is all that is known."""
        if consumer in self.servers:
            return self.servers[consumer]
        if consumer in self.moves:
            return f'move of {self.describe(self.moves[consumer])}'
        if planned_hold.may_be_hold(consumer):
            return f'reservation {consumer}'
        return consumer
