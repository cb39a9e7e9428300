# SPDX-License-Identifier: Apache-2.0

"""The slots of a reservation that servers may still have in a pass."""

import dataclasses

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import cuts as cuts_mod
from nova_ext_resources.reservation.manager import case as case_mod
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import holds as holds_mod
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import server_demand
from nova_ext_resources.reservation import waiting

#: Seconds before the end from which on no running server is shelved: it would
#: hardly be back before.
LAST_SECONDS = 600


@dataclasses.dataclass(kw_only=True)
class Room:
    """What is left of the slots while servers are looked at, one by one.

    :ivar free: key -> slot that no server has taken
    :ivar coming: how many servers are on their way to one of these, or wait
    """

    free: dict[str, planned_server.PlannedServer]
    coming: int = 0

    @property
    def has_more(self) -> bool:
        """Return whether there is a slot for one more server."""
        return len(self.free) > self.coming


def make_room(case: case_mod.Case) -> Room:
    """Return what is free at the beginning."""
    return Room(
        free={one.key: one for one in case.held if one.consumer is None}
    )


def find_demand(
    server: nova_server.NovaServer, grammar: extra_specs.Grammar
) -> server_demand.Demand | None:
    """Return what a server needs; None if its flavor makes no sense."""
    try:
        return server.flavor.make_demand(grammar)
    except (ValueError, exception.InvalidExtraSpec):
        return None


class Places:
    """Judges whether a server that is to be shelved has where to go.

    :param cuts: as those of whoever asks, who keeps them new
    :param grammar: of extra specs
    """

    def __init__(
        self,
        cloud: cloud_services.Cloud,
        holds: holds_mod.Holds,
        cuts: cuts_mod.Cuts,
        grammar: extra_specs.Grammar,
    ) -> None:
        self._cloud = cloud
        self._holds = holds
        self._cuts = cuts
        self._grammar = grammar

    def has_one(
        self,
        case: case_mod.Case,
        room: Room,
        server: nova_server.NovaServer,
    ) -> bool:
        """Return whether there is a slot for a server that is shelved now.

        One that runs goes on running after the start unless there is a slot
        that it can have at once. What is not held may be full.
        """
        if not case.has_started or server.status != 'ACTIVE':
            return True
        if case.now >= case.one.during.end - LAST_SECONDS:
            return False
        held = self._list_held(case, room, server)
        if len(held) <= room.coming:
            return False
        enabled = self._cloud.list_enabled()
        number = sum(
            enabled.get(one.host, False)
            and not self._cuts.find_maintenance(one, case.now)
            for one in held
        )
        return number > room.coming

    def _list_held(
        self,
        case: case_mod.Case,
        room: Room,
        server: nova_server.NovaServer,
    ) -> list[planned_server.PlannedServer]:
        """Return the free slots that suit a server, and whose room is held."""
        demand = find_demand(server, self._grammar)
        return [
            one
            for one in room.free.values()
            if demand is not None
            and one.during.start <= case.now
            and waiting.fits(demand, one)
            and self._holds.has(
                planned_hold.make_consumer(one.key), one.allocations
            )
        ]
