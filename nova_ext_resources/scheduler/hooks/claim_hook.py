# SPDX-License-Identifier: Apache-2.0

"""Nova's claim in placement, with what is asked before and after it.

Before: whether the host still has what others may have been given meanwhile
(``in_flight_claims``). After: whether all that is promised can be kept.
What one scheduler gives back may have been too much for a server that has
reserved, so the claim of such a server is tried again.

Two schedulers may each have found room for a server beside a promise, and
there is room for one. Placement refuses only what is more than a host has. So
who has claimed asks placement what is used now: one of the two at least sees
both, gives its claim back, and Nova tries the next host.
"""

from collections.abc import Callable, Iterable, Mapping
import functools
import time
from typing import Any

from keystoneauth1 import exceptions as ks_exc
from nova import exception as nova_exc
from nova.scheduler import utils
from oslo_log import log as logging
from oslo_utils import timeutils

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import owed
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler.reservation import commitments

LOG = logging.getLogger(__name__)

#: Seconds before each further try of a reserved server: claims that go too far
#: are given back at once.
PAUSES = (0.1, 0.3, 1.0, 2.0)


def _try_again(claim: Callable[[], Any]) -> Any:
    for pause in PAUSES:
        time.sleep(pause)
        if claim():
            return True
    return False


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def claim_resources(
        ctx: Any,
        client: Any,
        spec_obj: Any,
        instance_uuid: str,
        alloc_req: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        claim = functools.partial(
            original,
            ctx,
            client,
            spec_obj,
            instance_uuid,
            alloc_req,
            *args,
            **kwargs,
        )
        ongoing = request_context.find(spec_obj)
        if instance_uuid in ongoing.placed:
            return claim() or _try_again(claim)
        if not ongoing.take(instance_uuid, alloc_req):
            return False
        is_claimed = False
        try:
            is_claimed = claim() and (
                ongoing.check is None
                or ongoing.check(ctx, client, instance_uuid, alloc_req)
            )
        finally:
            if not is_claimed:
                ongoing.give_back(instance_uuid)
        return is_claimed

    return claim_resources


@functools.cache
def install() -> None:
    """Ask before and after each claim of this scheduler."""
    request_context.replace_function(
        utils,
        'claim_resources',
        ['ctx', 'client', 'spec_obj', 'instance_uuid', 'alloc_req'],
        _wrap,
        'simultaneous requests may get the same host, and the same free '
        'resources beside a reservation',
    )


#: ``allocations`` of a provider came with placement's first version.
_MICROVERSION = '1.0'


class Claimed:
    """Answers for one server that was claimed for.

    It must not hold Nova's request: it is kept as long as that lives.

    :param summaries: of placement; None where this Nova does not show them
    :param names: of server and request, for the log
    :param end: when it ends, in seconds since the epoch
    :param slot: that it has taken in its reservation: what it takes there is
        its own, and what it takes of these classes elsewhere it has until the
        slot ends
    """

    def __init__(
        self,
        followed: commitments.Followed,
        summaries: Mapping[str, Any] | None,
        names: Mapping[str, str],
        end: int,
        *,
        slot: planned_server.PlannedServer | None = None,
    ) -> None:
        self._followed = followed
        self._summaries = summaries
        self._names = names
        self._end = end
        self._own = slot.places if slot else {}
        self._sooner = (
            {name: slot.during.end for _uuid, name in self._own}
            if slot
            else {}
        )

    def check(
        self, context: Any, client: Any, server: str, alloc_req: Any
    ) -> bool:
        """Return whether all promises hold, and give the claim back if not."""
        promised = self._list_promised(alloc_req['allocations'])
        if not promised or self._summaries is None:
            return True
        try:
            broken = _find_broken(client, context, self._summaries, promised)
            return broken is None or not self._give_back(
                context, client, server, alloc_req, broken
            )
        except (
            KeyError,
            TypeError,
            ValueError,
            ks_exc.ClientException,
            nova_exc.NovaException,
        ) as err:
            LOG.warning(
                'Cannot check again whether server %(server)s (request '
                '%(request)s) leaves the promised resources free: %(err)r',
                {**self._names, 'err': err},
            )
            return True

    def narrow(self, hosts: Iterable[Any]) -> list[Any]:
        """Return the hosts that may be alternates of the server.

        Of each, the candidates that take nothing of which something is
        promised, or taken by a server that may be gone. Nova's conductor
        claims one of them when a build has failed, and nobody looks again.
        """
        now = int(timeutils.utcnow_ts())
        found = []
        with self._followed.lock:
            for host_state in hosts:
                kept = [
                    one
                    for one in host_state.allocation_candidates
                    if not self._is_promised(one['allocations'], now)
                ]
                if kept:
                    host_state.allocation_candidates = kept
                    found.append(host_state)
        return found

    def _is_promised(self, allocations: Any, now: int) -> bool:
        """Return whether anything of these is promised, or taken.

        Asked about thousands of hosts, with the lock of the promises.
        """
        promises = self._followed.promises
        for rp_uuid, one in allocations.items():
            if not promises.concerns(rp_uuid):
                continue
            for name in one['resources']:
                asked = (rp_uuid, name), now, self._find_end(name)
                if promises.find_peak(*asked) or promises.list_taken_of(
                    *asked
                ):
                    return True
        return False

    def _list_promised(
        self, allocations: Any
    ) -> dict[host_view.Place, owed.Owed]:
        """Return what is promised of each place that was claimed of."""
        try:
            now = self._followed.refresh().now
        except exception.StoreError:
            return {}
        with self._followed.lock:
            promises = self._followed.promises
            found = {
                (rp_uuid, name): promises.find_owed(
                    (rp_uuid, name),
                    now,
                    self._find_end(name),
                    self._find_capacity((rp_uuid, name)),
                )
                for rp_uuid, one in allocations.items()
                for name in one['resources']
                if (rp_uuid, name) not in self._own
            }
        return {place: one for place, one in found.items() if one}

    def _find_end(self, name: str) -> int:
        return self._sooner.get(name, self._end)

    def _find_capacity(self, place: host_view.Place) -> int | None:
        """Return what placement showed before the claim."""
        try:
            found = (self._summaries or {})[place[0]]['resources'][place[1]]
            return int(found['capacity'])
        except KeyError:
            return None

    def _give_back(
        self,
        context: Any,
        client: Any,
        server: str,
        alloc_req: Any,
        place: host_view.Place,
    ) -> bool:
        """Return whether the claim was given back.

        It is not in an evacuation, which has the allocations of both hosts:
        that must not fail.
        """
        held = client.get_allocs_for_consumer(context, server)['allocations']
        if held.keys() - alloc_req['allocations'].keys():
            LOG.warning(
                'Server %(server)s (request %(request)s) keeps its claim of '
                '%(name)s of provider %(rp_uuid)s, because the server also '
                'has allocations of another host, as in an evacuation; fewer '
                'resources are left there than are promised.',
                {**self._names, 'name': place[1], 'rp_uuid': place[0]},
            )
            return False
        client.delete_allocation_for_instance(context, server, force=True)
        LOG.info(
            'Server %(server)s (request %(request)s) gives back its claim of '
            '%(name)s of provider %(rp_uuid)s: another scheduler made a claim '
            'there at the same time, and both claims together would leave '
            'less than the promised resources.',
            {
                **self._names,
                'name': place[1],
                'rp_uuid': place[0],
            },
        )
        return True


def _find_broken(
    client: Any,
    context: Any,
    summaries: Mapping[str, Any],
    promised: Mapping[host_view.Place, owed.Owed],
) -> host_view.Place | None:
    """Return a place that has less left than is promised.

    :raises (KeyError, TypeError, ValueError): placement gave no sensible
        answer
    """
    held = {
        rp_uuid: _list_allocations(client, context, rp_uuid)
        for rp_uuid in {place[0] for place in promised}
    }
    for (rp_uuid, name), one in promised.items():
        amounts = {
            consumer: int(each['resources'].get(name, 0))
            for consumer, each in held[rp_uuid].items()
        }
        capacity = int(summaries[rp_uuid]['resources'][name]['capacity'])
        if capacity - sum(amounts.values()) < one.count(amounts):
            return rp_uuid, name
    return None


def _list_allocations(client: Any, context: Any, rp_uuid: str) -> Any:
    """Return consumer -> what it holds of a provider now."""
    response = client.get(
        f'/resource_providers/{rp_uuid}/allocations',
        version=_MICROVERSION,
        global_request_id=context.global_id,
    )
    return response.json()['allocations']
