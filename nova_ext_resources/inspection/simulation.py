# SPDX-License-Identifier: Apache-2.0

"""How many more servers fit on hosts, of one flavor or of several.

One after the other is placed until one does not fit, see :mod:`.placing`.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses

from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import placing as placing_mod
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.reservation import publication


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """How many more servers fit on a host.

    :ivar number: of servers
    :ivar fit: why one more does not fit; without a step where no more were
        tried
    :ivar is_sure: whether the host has published which units are free
    """

    number: int
    fit: fit_mod.Fit
    is_sure: bool


class Simulation:
    """Places servers on host after host.

    What they have of pools of several hosts, servers on the next hosts do not
    get.
    """

    def __init__(self, published: publication.Publications) -> None:
        self._published = published
        self._rooms: dict[str, fit_mod.HostRoom] = {}
        #: Pools, as the servers so far have left them.
        self._pools: dict[str, host_tree.TreeProvider] = {}

    def run(
        self,
        host: host_tree.HostTree,
        placing: placing_mod.Placing,
        most: int,
    ) -> Simulated:
        """Place servers of one request on a host until one does not fit.

        :param most: how many are tried
        """
        for number in range(most):
            refused = self.place(host, placing)
            if refused is not None:
                return self._make_result(host, number, refused)
        room = self._find_room(host)
        return self._make_result(host, most, fit_mod.Fit(host=room.tree))

    def place(
        self, host: host_tree.HostTree, placing: placing_mod.Placing
    ) -> fit_mod.Fit | None:
        """Place one server; return why it does not fit, None if it does."""
        made = placing.place(self._find_room(host))
        if isinstance(made, fit_mod.Fit):
            return made
        self._rooms[host.name] = made
        self._pools |= {one.rp_uuid: one for one in made.tree.shared}
        return None

    def is_sure(self, host: host_tree.HostTree) -> bool:
        """Return whether a host has published which units are free."""
        return self._find_room(host).is_sure

    def _find_room(self, host: host_tree.HostTree) -> fit_mod.HostRoom:
        room = self._rooms.get(host.name)
        if room is None:
            room = fit_mod.make_room(host, self._published)
        shared = tuple(
            self._pools.get(one.rp_uuid, one) for one in room.tree.shared
        )
        return dataclasses.replace(
            room, tree=dataclasses.replace(room.tree, shared=shared)
        )

    def _make_result(
        self, host: host_tree.HostTree, number: int, fit: fit_mod.Fit
    ) -> Simulated:
        return Simulated(number=number, fit=fit, is_sure=self.is_sure(host))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """How many more servers of several flavors fit, in their proportion.

    :ivar rounds: how often all of them fit
    :ivar numbers: host -> flavor -> servers
    :ivar flavor: of the server that fits nowhere; '' where no more were tried
    :ivar refused: host -> why it does not take that
    """

    rounds: int
    numbers: Mapping[str, Mapping[str, int]]
    flavor: str = ''
    refused: Mapping[str, fit_mod.Fit] = dataclasses.field(
        default_factory=dict
    )


def mix(
    simulation: Simulation,
    hosts: Sequence[host_tree.HostTree],
    flavors: Mapping[str, tuple[placing_mod.Placing, int]],
    most: int,
    refused: Mapping[str, Mapping[str, fit_mod.Fit]],
) -> Mixed:
    """Place servers of all flavors in turns until one fits on no host.

    Each goes to the first host that takes it.

    :param flavors: name -> its request, and how many of each round
    :param most: rounds that are tried
    :param refused: flavor -> host -> why placement does not offer the host
    """
    numbers = {host.name: dict.fromkeys(flavors, 0) for host in hosts}
    # Who has no room once has none later: servers only come.
    left = {
        name: [one for one in hosts if one.name not in refused.get(name, {})]
        for name in flavors
    }
    for rounds in range(most):
        for name, placing in _list_turn(flavors):
            host = _find_host(simulation, left[name], placing)
            if host is None:
                return Mixed(
                    rounds=rounds,
                    numbers=numbers,
                    flavor=name,
                    refused={
                        **_explain(simulation, hosts, placing),
                        **refused.get(name, {}),
                    },
                )
            numbers[host.name][name] += 1
    return Mixed(rounds=most, numbers=numbers)


def _list_turn(
    flavors: Mapping[str, tuple[placing_mod.Placing, int]],
) -> Iterable[tuple[str, placing_mod.Placing]]:
    for name, (placing, number) in flavors.items():
        for _ in range(number):
            yield name, placing


def _find_host(
    simulation: Simulation,
    left: list[host_tree.HostTree],
    placing: placing_mod.Placing,
) -> host_tree.HostTree | None:
    """Place a server on the first host that takes it.

    :param left: the hosts that may; those that do not are removed
    """
    while left:
        if simulation.place(left[0], placing) is None:
            return left[0]
        del left[0]
    return None


def _explain(
    simulation: Simulation,
    hosts: Iterable[host_tree.HostTree],
    placing: placing_mod.Placing,
) -> dict[str, fit_mod.Fit]:
    """Return host -> why it does not take one more, as it is now."""
    found = {one.name: simulation.place(one, placing) for one in hosts}
    return {name: fit for name, fit in found.items() if fit is not None}
