# SPDX-License-Identifier: Apache-2.0

"""Gives servers slots of their reservations.

A slot is written to the database before its host is returned, so that of two
schedulers that want it one gets it. A server that asks again gets the slot
that it has, or another one in its place.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import random
import time
from typing import Any

from keystoneauth1 import exceptions as ks_exc
from nova import context as nova_context
from nova import exception as nova_exc
from nova.scheduler.client import report
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import choice
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler.reservation import commitments

LOG = logging.getLogger(__name__)

#: A server is in placement some seconds after it has taken a slot. One that
#: is not so long after it was deleted, or has failed.
ABANDONED_SECONDS = 300

#: Servers that placement is asked about, for one that has found no slot.
MAX_ASKED = 20

#: So long it is asked about them at most.
MAX_ASKING_SECONDS = 5.0


class ReservedSlots:
    """Takes slots, and frees those of servers that are no more."""

    def __init__(self, followed: commitments.Followed) -> None:
        self._followed = followed

    def find_key(self, name: str, spec_obj: Any, now: int) -> str | None:
        """Return the reservation of a name that a server may use now.

        Why there is none, the log alone says: by different answers the owner
        of a server could tell what others have reserved.
        """
        with self._followed.lock:
            slots = self._followed.promises.slots
            # Those of the project come before those of none.
            found = sorted(
                (not one.project, key, slots[key][0].during)
                for key, one in self._followed.promises.reservations.items()
                if plan_request.is_named(key, name)
                and request.is_owner(spec_obj, one.project)
            )
        for _is_of_none, key, during in found:
            if during.start <= now < during.end:
                return key
        known = ', '.join(
            f'{key} from {one}' for _is_of_none, key, one in found
        )
        LOG.info(
            'Reservation %(name)s cannot be used now. Present and future '
            'reservations of this name for the project of the server: '
            '%(known)s.',
            {'name': name, 'known': known or 'none'},
        )
        return None

    def take(
        self,
        key: str,
        server: str,
        hosts: Sequence[Any],
        fits: choice.Fits,
        now: int,
    ) -> choice.Choice | None:
        """Take a slot on one of several hosts for a server.

        :param fits: see :func:`~nova_ext_resources.reservation.choice.choose`
        :param now: seconds since the epoch
        :returns: None if there is none
        :raises StoreError: the database did not take it
        """
        candidates = {one.nodename: one.allocation_candidates for one in hosts}
        made: list[choice.Choice] = []

        def choose(
            planned: servers.PlannedServers,
        ) -> planned_server.PlannedServer | None:
            usable = [
                one
                for one in planned
                if one.consumer == server
                or not self._find_maintenance(one, now)
            ]
            chosen = choice.choose(usable, server, candidates, fits)
            if chosen is None:
                return None
            made.append(chosen)
            return chosen.slot

        database = self._followed.database
        taken = slots.take(database, key, server, choose, now=now)
        if taken is None:
            return None
        return dataclasses.replace(made[-1], slot=taken)

    def free_abandoned(
        self, key: str, server: str, hosts: Sequence[Any], now: int
    ) -> bool:
        """Free slots of servers that placement knows nothing of any more.

        :param server: that needs one
        :returns: whether one was freed
        """
        names = {one.nodename for one in hosts}
        old = [
            one
            for one in self._list_slots(key)
            if one.consumer not in (None, server)
            and one.host in names
            and (one.taken_at or 0) <= now - ABANDONED_SECONDS
        ]
        is_freed = False
        latest = time.monotonic() + MAX_ASKING_SECONDS
        # Any: so all are asked about in the end.
        for one in random.sample(old, min(len(old), MAX_ASKED)):
            if time.monotonic() > latest:
                LOG.warning(
                    'Placement answers too slowly: some servers of '
                    'reservation %(key)s could not be checked, and slots of '
                    'deleted servers may not be free yet.',
                    {'key': key},
                )
                break
            if one.consumer is not None and _is_gone(one.consumer):
                is_freed |= self._free(key, one)
        return is_freed

    def _list_slots(self, key: str) -> servers.PlannedServers:
        with self._followed.lock:
            return self._followed.promises.slots.get(key, ())

    def _find_maintenance(
        self, slot: planned_server.PlannedServer, now: int
    ) -> capacity_change.CapacityChange | None:
        with self._followed.lock:
            return self._followed.promises.cuts.find_maintenance(slot, now)

    def _free(self, key: str, slot: planned_server.PlannedServer) -> bool:
        is_freed = slots.free(self._followed.database, key, slot)
        if is_freed:
            LOG.info(
                'Freed slot %(slot)s of reservation %(reservation)s on host '
                '%(host)s: placement has no allocations of server %(server)s, '
                'which had the slot.',
                {
                    'slot': slot.key,
                    'reservation': key,
                    'host': slot.host,
                    'server': slot.consumer,
                },
            )
        return is_freed

    def free_all(
        self, taken: Iterable[tuple[str, planned_server.PlannedServer]]
    ) -> None:
        """Free the slots of a request that fails as a whole.

        What cannot be freed now is abandoned, and freed when it is needed: to
        try it for each of them would take as long as many servers.
        """
        for key, slot in taken:
            try:
                slots.free(self._followed.database, key, slot)
            except exception.StoreError as err:
                LOG.warning(
                    'Cannot free slot %(slot)s of reservation %(key)s, and '
                    'other slots of the same request, now: %(err)s These '
                    'slots are freed when they are needed.',
                    {'slot': slot.key, 'key': key, 'err': err},
                )
                return

    def explain_few(self, key: str, number: int) -> str:
        """Return why a reservation has no slots for so many servers.

        :returns: '' if it has
        """
        planned = self._list_slots(key)
        free = sum(one.consumer is None for one in planned)
        if free >= number:
            return ''
        return (
            f'{number} servers were requested at once, but only {free} of '
            f'{len(planned)} servers of reservation {key} are free; request '
            'fewer servers, delete some of the existing servers, or reserve '
            'more'
        )

    def explain_none(self, key: str, hosts: Sequence[Any], now: int) -> str:
        """Return why there was no slot for a server on some hosts."""
        planned = self._list_slots(key)
        free = [one for one in planned if one.consumer is None]
        gone = [self._find_maintenance(one, now) for one in free]
        if reason := _explain_gone(key, [one for one in gone if one], free):
            return reason
        if not free:
            return (
                f'all {len(planned)} servers of reservation {key} exist '
                'already; delete one of these servers, or reserve more'
            )
        for host_state in hosts:
            for one in free:
                candidates = host_state.allocation_candidates
                if one.host == host_state.nodename and candidates:
                    excess = choice.list_excess(one, candidates[0])
                    if excess:
                        return _explain_excess(key, excess)
        names = ', '.join(sorted({one.host for one in free}))
        return (
            f'{len(free)} servers of reservation {key} are free, but other '
            f'filters, or placement, refuse their hosts ({names})'
        )


def _explain_gone(
    key: str,
    gone: Sequence[capacity_change.CapacityChange],
    free: Sequence[planned_server.PlannedServer],
) -> str:
    """Return why no slot can be had now, '' if one can.

    In words for the owner of the server, who may see no hosts: which ones
    these are, and why, the log says.
    """
    if not gone or len(gone) < len(free):
        return ''
    LOG.info(
        'No slot of reservation %(key)s can be taken now: %(why)s.',
        {'key': key, 'why': gone[0].describe()},
    )
    ends = [one.during.end for one in gone if not one.during.is_open]
    begin = f'{len(free)} servers of reservation {key} are free, but their '
    if not ends:
        return f'{begin}hosts are in maintenance; ask the operators'
    end = interval.format_time(min(ends))
    return f'{begin}hosts are in maintenance; try again after {end}'


def explain_unusable(name: str) -> str:
    """Return why a server can use no reservation of a name, to its owner."""
    return (
        f'there is no reservation {name} for this project now: it is unknown, '
        'has not started yet, or is over; correct the scheduler hint '
        f'{request.HINT}, or create the server during the reservation'
    )


def _explain_excess(key: str, excess: Sequence[tuple[str, int, int]]) -> str:
    words = ', '.join(
        f'{name}: {needed} needed, {had} reserved'
        for name, needed, had in excess
    )
    return (
        f'the flavor needs more than a server of reservation {key} has '
        f'({words}); use the flavor that was reserved'
    )


def _is_gone(consumer: str) -> bool:
    """Return whether it is certain that placement has nothing of a server."""
    client = report.report_client_singleton()
    try:
        # Not get_allocations_for_consumer, for which a placement that does not
        # answer has nothing of anyone.
        found = client.get_allocs_for_consumer(
            nova_context.get_admin_context(), consumer
        )['allocations']
    except (ks_exc.ClientException, nova_exc.NovaException) as err:
        LOG.warning(
            'Cannot ask placement whether server %(server)s still exists '
            '(%(err)s); the server keeps the slot of its reservation.',
            {'server': consumer, 'err': err},
        )
        return False
    return not found
