# SPDX-License-Identifier: Apache-2.0

"""Who holds what on a host: ledger, placement and what is applied."""

from collections.abc import Iterable
import dataclasses

from dev.cloud import ledger as ledger_mod
from dev.cloud import tree
from dev.demo import scene as scenes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Cache ways of one server, as each of the three sees them.

    :ivar ledger: ways in the host's ledger
    :ivar placement: ways allocated in placement
    :ivar in_force: ways that the host really gives it
    """

    host: str
    consumer_uuid: str
    ledger: int
    placement: int
    in_force: int

    @property
    def is_agreed(self) -> bool:
        """Whether all three say the same."""
        return self.ledger == self.placement == self.in_force


def list_assigned(
    scene: scenes.Scene, host: str
) -> tuple[ledger_mod.Assigned, ...]:
    """Return what the ledger of a host says."""
    return ledger_mod.read(scene.cloud.folder.get_ledger(host))


def compare(scene: scenes.Scene) -> tuple[Holding, ...]:
    """Return every server of which any of the three knows, on every host."""
    ours = tree.list_ours(scene.cloud.placement)
    return tuple(
        holding
        for host in scene.hosts
        for holding in _compare(scene, host, ours)
    )


def _compare(
    scene: scenes.Scene, host: str, ours: tuple[tree.Provider, ...]
) -> tuple[Holding, ...]:
    ledger = _ways_in_ledger(scene, host)
    mine = [one.uuid for one in ours if one.host == host]
    placement = _ways_in_placement(scene, mine)
    in_force = scene.machines[host].list_in_force()
    ways = {uuid: one.ways for uuid, one in in_force.items()}
    return tuple(
        Holding(
            host=host,
            consumer_uuid=consumer_uuid,
            ledger=ledger.get(consumer_uuid, 0),
            placement=placement.get(consumer_uuid, 0),
            in_force=ways.get(consumer_uuid, 0),
        )
        for consumer_uuid in sorted({*ledger, *placement, *ways})
    )


def _ways_in_ledger(scene: scenes.Scene, host: str) -> dict[str, int]:
    ways: dict[str, int] = {}
    for one in list_assigned(scene, host):
        # A row without ways still makes the server known.
        amount = one.amount if one.resource_class == tree.WAYS else 0
        ways[one.consumer_uuid] = ways.get(one.consumer_uuid, 0) + amount
    return ways


def _ways_in_placement(
    scene: scenes.Scene, rp_uuids: Iterable[str]
) -> dict[str, int]:
    ways: dict[str, int] = {}
    for rp_uuid in rp_uuids:
        found = tree.list_consumers(scene.cloud.placement, rp_uuid)
        for consumer_uuid, resources in found.items():
            amount = resources.get(tree.WAYS, 0)
            ways[consumer_uuid] = ways.get(consumer_uuid, 0) + amount
    return ways
