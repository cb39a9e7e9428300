# SPDX-License-Identifier: Apache-2.0

"""Finds what changes of capacity take from reservations."""

from collections.abc import Iterable, Mapping, Sequence
import functools

import sqlalchemy as sa

from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation import lack
from nova_ext_resources.reservation.manager import supplies as supplies_mod
from nova_ext_resources.reservation import outage
from nova_ext_resources.reservation import packing
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import states

Cause = cause.Cause
State = state.State

#: What changes of capacity degrade reservations by, until it is over.
PLANNED = (Cause.CAPACITY, Cause.WITHDRAWN)


class Cuts:
    """Compares what is promised with what there is, and what was planned.

    :param supplies: what placement shows of where something changes
    """

    def __init__(
        self,
        database: databases.Database,
        supplies: supplies_mod.Supplies,
    ) -> None:
        self._database = database
        self._supplies = supplies

    def list_cut(
        self,
        found: Sequence[progress.Unfinished],
        rows: Sequence[tuple[str, str, int, int]],
        changes: capacity_change.Changes,
        now: int,
    ) -> dict[str, list[str]]:
        """Return reservation -> what changes of capacity take from it.

        Who counts on what is more or less is read with placement only: of a
        provider that all hosts share, that may be all reservations.

        :param changes: also those that ended a while ago
        """
        with self._database.transaction() as connection:
            lacks = _read_lacks(connection, found)
            if not (lacks or self._supplies.is_due(now)):
                # Nothing has come or gone since somebody looked.
                changes = [one for one in changes if one.is_maintenance]
            hosts = {one.host for one in changes}
            hosts |= {one[1] for one in rows if one[0] in lacks}
            # Of a provider that hosts share, it is not known here which these
            # are.
            touched = {
                one[0] for one in rows if one[1] in hosts or '' in hosts
            }
            keys = touched & {one.key for one in found}
            held = servers.read_servers(connection, keys, now)
        going_on = [one for one in changes if one.during.end > now]
        lacking = self._find_lacking(held, changes, going_on, lacks, now)
        cut = {}
        for key, own in held.items():
            words = outage.list_cut(
                own, going_on, lacking.get(key, ()), self._supplies.late
            )
            if words := words or _explain(lacking.get(key), lacks.get(key)):
                cut[key] = words
        return cut

    def _find_lacking(
        self,
        held: lack.Held,
        changes: capacity_change.Changes,
        going_on: capacity_change.Changes,
        lacks: Mapping[str, Sequence[states.Change]],
        now: int,
    ) -> Mapping[str, frozenset[host_view.Place]]:
        """Return reservation -> the places where it has too little."""
        places = {*supplies_mod.list_places(changes)}
        for key in lacks.keys() & held.keys():
            places.update(*(one.places for one in held[key]))
        if not places:
            return {}
        # What is held for a server is its own, as what it has.
        consumers = {
            consumer
            for own in held.values()
            for one in own
            for consumer in (one.consumer, planned_hold.make_consumer(one.key))
            if consumer
        }
        supplies = self._supplies.read(going_on, places, consumers, now)
        find = functools.partial(
            lack.list_lacking,
            held,
            supplies,
            now,
            degraded={
                key
                for key in lacks.keys() & held.keys()
                if _is_doubtful(held[key], lacks[key], going_on)
            },
        )
        found = find(priorities={})
        if found:
            # Who lacks something depends on that; whether anybody does, not.
            found = find(priorities=self._read_priorities(held))
        for key in lacks.keys() & held.keys():
            own = frozenset[host_view.Place]().union(
                *(one.places for one in held[key])
            )
            # What is not known is not well again.
            if unknown := own - supplies.keys():
                found[key] = found.get(key, frozenset()) | unknown
        return found

    def _read_priorities(self, keys: Iterable[str]) -> dict[str, int]:
        with self._database.transaction() as connection:
            found = reservations.read_requests(connection, keys)
        return {key: one.priority for key, one in found.items()}


def _read_lacks(
    connection: sa.Connection, found: Sequence[progress.Unfinished]
) -> dict[str, list[states.Change]]:
    """Return reservation -> why changes of capacity have degraded it."""
    lacks = {
        one.key: states.list_lacks(states.list_changes(connection, one.key))
        for one in found
        if one.state is State.DEGRADED
    }
    return {
        key: own
        for key, changes in lacks.items()
        if (own := [one for one in changes if one.cause in PLANNED])
    }


def _is_doubtful(
    servers: packing.PlannedServers,
    lacks: Sequence[states.Change],
    going_on: capacity_change.Changes,
) -> bool:
    """Return whether what has degraded a reservation goes on.

    Then it was found beside all that others hold, and is gone beside that.
    """
    return any(one.cause is Cause.WITHDRAWN for one in lacks) or any(
        outage.takes(change, one) for change in going_on for one in servers
    )


def _explain(
    places: frozenset[host_view.Place] | None,
    lacks: Sequence[states.Change] | None,
) -> list[str]:
    """Return what is missing, in words, where no change says so."""
    if not places:
        return []
    if lacks:
        return [lacks[0].reason]
    return [
        f'provider {rp_uuid} has less {name} than is promised'
        for rp_uuid, name in sorted(places)
    ]
