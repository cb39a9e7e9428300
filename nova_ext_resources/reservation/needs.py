# SPDX-License-Identifier: Apache-2.0

"""What servers of an order need, by its flavor in Nova or by its amounts."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.reservation import flavor as flavor_mod
from nova_ext_resources.reservation import order as order_mod
from nova_ext_resources.reservation import server_demand

#: Name or id -> flavor, None if Nova has none.
Flavors: TypeAlias = Mapping[str, flavor_mod.Flavor | None]

NO_FLAVORS: Flavors = {}


class Needs:
    """Asks Nova for what was not asked before.

    :param find_flavor: asks for the flavor of a name or an id
    :param grammar: of extra specs
    """

    def __init__(
        self,
        find_flavor: Callable[[str], flavor_mod.Flavor | None],
        grammar: extra_specs.Grammar,
    ) -> None:
        self._find_flavor = find_flavor
        self._grammar = grammar

    def read_flavors(self, order: order_mod.Document) -> Flavors:
        """Return what Nova says of the flavor that an order names.

        :param order: or changes of one; they may make no sense
        :raises ComputeUnavailable: Nova cannot be asked
        """
        name = order.get('flavor')
        if not isinstance(name, str):
            return NO_FLAVORS
        return {name: self._find_flavor(name)}

    def read(
        self, key: str, order: order_mod.Document, flavors: Flavors
    ) -> tuple[server_demand.Demand, str]:
        """Return what a server of an order needs, and its flavor's name.

        :param flavors: those that are known
        :raises InvalidReservation: there is no such flavor, or it makes no
            sense
        :raises InvalidExtraSpec: it cannot be planned
        :raises ComputeUnavailable: Nova cannot be asked
        """
        if 'flavor' in order:
            flavor = self._find(key, order, flavors)
        else:
            flavor = order_mod.make_flavor(order)
        try:
            demand = flavor.make_demand(self._grammar)
        except ValueError as err:
            raise exception.InvalidReservation(
                key=key, field='flavor', reason=str(err)
            ) from err
        if 'flavor' not in order:
            order_mod.check_groups(key, demand)
        return demand, flavor.name

    def _find(
        self, key: str, order: order_mod.Document, flavors: Flavors
    ) -> flavor_mod.Flavor:
        name = order['flavor']
        known = flavors if name in flavors else self.read_flavors(order)
        flavor = known[name]
        if flavor is None:
            raise exception.InvalidReservation(
                key=key,
                field='flavor',
                reason=f'there is no flavor {name}; "openstack flavor list '
                '--all" shows all flavors',
            )
        return flavor
