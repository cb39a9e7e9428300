# SPDX-License-Identifier: Apache-2.0

"""Servers that are created, in a reservation and without one."""

from collections.abc import Mapping, Sequence
from typing import Any

from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation.manager import askers
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import worlds


class Boots:
    """Creates servers where there is room, and none elsewhere."""

    def __init__(
        self,
        database: databases.Database,
        world: worlds.World,
        time: managers.Time,
    ) -> None:
        self._database, self._world, self._time = database, world, time
        self._number = 0

    @property
    def now(self) -> int:
        return int(self._time.clock)

    def _make_name(self) -> str:
        self._number += 1
        return f'server {self._number}'

    def boot(
        self,
        host: str,
        amount: int,
        lease: Mapping[str, str],
        *,
        is_rude: bool,
    ) -> None:
        """Create a server without a reservation.

        :param lease: extra specs of its flavor
        :param is_rude: whether the scheduler does not ask what is promised
        """
        free = self._world.count_free(host)
        specs = {f'resource:lease:{key}': one for key, one in lease.items()}
        if self._world.keeps_room and not is_rude:
            end = lending.find_end(specs, self.now)
            free -= self._find_peak(host, end)
        if self._world.is_up(host) and amount <= free:
            self._world.hold(
                self._make_name(),
                host,
                amount,
                created_at=self.now,
                project='other',
                extra_specs=specs,
            )

    def _find_peak(self, host: str, end: int) -> int:
        """Return the most that is promised there to nobody in particular."""
        found = [
            one
            for one in self._list_slots()
            if one.host == host
            and one.consumer is None
            and one.during.end > self.now
            and one.during.start < end
        ]
        times = {max(one.during.start, self.now) for one in found}
        return max(
            (
                sum(
                    one.places[host, 'VCPU']
                    for one in found
                    if one.during.start <= time < one.during.end
                )
                for time in times
            ),
            default=0,
        )

    def _list_slots(self) -> Sequence[planned_server.PlannedServer]:
        with self._database.transaction() as connection:
            keys = servers.list_unfinished(connection, interval.ALWAYS)
            held = servers.read_servers(connection, keys, interval.ALWAYS)
        return [one for ones in held.values() for one in ones]

    def boot_reserved(self, key: str, *, is_lost: bool) -> None:
        """Create a server in a reservation, as the filter has it.

        :param is_lost: whether it fails after it has taken its slot
        """
        uuid = self._make_name()

        def choose(
            held: servers.PlannedServers,
        ) -> planned_server.PlannedServer | None:
            return next(
                (
                    one
                    for one in held
                    if one.consumer is None
                    and one.during.start <= self.now < one.during.end
                    and self._world.is_up(one.host)
                ),
                None,
            )

        taken = slots.take(self._database, key, uuid, choose, now=self.now)
        if taken is None or is_lost:
            return
        amount = taken.places[taken.host, 'VCPU']
        fields = self._make_fields(key, amount)
        if self._world.count_free(taken.host) >= amount:
            self._world.hold(uuid, taken.host, amount, **fields)
        else:
            self._world.add(uuid, status='ERROR', **fields)
            self._world.leave(uuid)

    def boot_waiting(self, key: str, host: str, amount: int) -> None:
        """Create a server that says for which reservation it is."""
        if self._world.is_up(host) and self._world.count_free(host) >= amount:
            fields = self._make_fields(key, amount)
            self._world.hold(self._make_name(), host, amount, **fields)

    def _make_fields(self, key: str, amount: int) -> dict[str, Any]:
        """Return what a server says of its reservation, and what it is.

        By its metadata, which its owner can change, only where no scheduler
        knows the hint.
        """
        name = nova_server.RESERVATION
        says: dict[str, Any] = {'hints': {name: [key]}}
        if not self._world.keeps_room:
            says = {'metadata': {name: key}}
        return {
            **says,
            'created_at': self.now,
            'project': askers.find_project(key),
            'flavor': flavor.Flavor(vcpus=amount),
        }
