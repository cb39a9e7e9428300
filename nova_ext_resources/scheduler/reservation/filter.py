# SPDX-License-Identifier: Apache-2.0

"""The filter that keeps what is reserved.

In ``nova.conf`` of nova-scheduler, beside what :mod:`.filters` says::

    [filter_scheduler]
    enabled_filters = ..., ExtendedResourcesFilter, ReservationFilter
    [ext_resources_reservation]
    connection = mysql+pymysql://...
"""

from collections.abc import Iterable, Sequence
import functools
from typing import Any

import nova.conf
from nova import exception as nova_exc
from nova.scheduler import filters
from nova.scheduler import utils
from oslo_log import log as logging

from nova_ext_resources.claims import lease
from nova_ext_resources.conf import reservation as options
from nova_ext_resources import exception
from nova_ext_resources import plugins
from nova_ext_resources.reservation import choice
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.scheduler.hooks import claim_hook
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler import report as report_mod
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler.reservation import backfill_weight
from nova_ext_resources.scheduler.reservation import commitments
from nova_ext_resources.scheduler.reservation import coresidency
from nova_ext_resources.scheduler.reservation import inventory_snapshot
from nova_ext_resources.scheduler.reservation import slots

LOG = logging.getLogger(__name__)

_AWAY = 'the database of the reservations does not answer; try again later'

_UNKNOWN = (
    'The reserved resources are not known, because the database of the '
    'reservations does not answer; try again later'
)

_PROMISED = (
    'all suitable hosts have promised their free resources to reservations '
    'during the lifetime of this server. Give the server an earlier end, by '
    f'{lease.HINT} or by its flavor, use a reservation, or try again later'
)


class ReservationFilter(filters.BaseHostFilter):
    """Keeps what is reserved for those that have reserved it.

    A server with the scheduler hint ``nova_ext:reservation`` gets a slot of
    its reservation, and the host of that slot only. Any other server gets no
    candidate that would leave too little for what is promised until it ends.
    Name it last in ``enabled_filters``: what it returns is what Nova claims.

    Nova constructs it without arguments, so it reads the options itself.

    :raises InvalidConfiguration: no database is named, or its manager holds
        in placement what is reserved
    """

    # A rebuild keeps its host and what it holds.
    RUN_ON_REBUILD = False

    def __init__(self) -> None:
        super().__init__()
        url = options.get_connection(nova.conf.CONF)
        options.find_lead(nova.conf.CONF, [type(self).__name__])
        trackers = plugins.load_trackers()
        self._installed = coresidency.Plugins(
            trackers,
            plugins.load_claim_tests(trackers),
            plugins.load_grammar(),
        )
        self._followed = commitments.Followed(
            loading.open_database(url, commitments.WAIT_SECONDS)
        )
        self._reserved = slots.ReservedSlots(self._followed)
        request_context.install()
        claim_hook.install()
        inventory_snapshot.install(self._followed)

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        """Ask for one host; Nova itself asks for all of them at once."""
        return bool(self.filter_all([host_state], spec_obj))

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any
    ) -> list[Any]:
        """Return the hosts that pass, their candidates narrowed.

        :raises nova.exception.NoValidHost: the server may not be created in
            its reservation, or all room is promised to others, or it asks
            for an end that cannot be, or it is not known what is promised
        """
        hosts = list(filter_obj_list)
        if utils.request_is_rebuild(spec_obj):
            return hosts
        ongoing = request_context.find(spec_obj)
        ongoing.count_consumed()
        if fault := request.find_problem(spec_obj):
            return self._refuse(spec_obj, ongoing, fault)
        try:
            read = self._followed.refresh()
        except exception.StoreError:
            # It was logged when it was new.
            return self._refuse(spec_obj, ongoing, _UNKNOWN)
        key = request.find_reservation(spec_obj)
        if key is not None:
            return self._place(hosts, spec_obj, key, read)
        end = request.find_end(spec_obj, read.now)
        return self._keep(hosts, spec_obj, read.now, end)

    # Servers without a reservation

    def _keep(
        self, hosts: Sequence[Any], spec_obj: Any, now: int, end: int
    ) -> list[Any]:
        """Return the hosts on which a server would break no promise.

        :raises nova.exception.NoValidHost: there are none, and it is safe to
            say why
        """
        report = report_mod.RefusalReport('ReservationFilter', spec_obj)
        with self._followed.lock:
            # The first reservation may come before Nova has claimed.
            passed = (
                [*hosts]
                if self._followed.promises.is_empty
                else self._narrow(hosts, spec_obj, report, now, end)
            )
        report.finish()
        ongoing = request_context.find(spec_obj)
        # Of several servers Nova may have claimed for the first ones.
        if hosts and not passed and not request.is_multiple(spec_obj):
            return self._refuse(spec_obj, ongoing, _PROMISED)
        claimed = claim_hook.Claimed(
            self._followed,
            ongoing.summaries,
            request.identify(spec_obj),
            end,
        )
        ongoing.check, ongoing.narrow = claimed.check, claimed.narrow
        if end < interval.FOREVER:
            ongoing.score = backfill_weight.BackfillWeight(
                self._followed, ongoing, self._installed.trackers, end
            ).score
        if request.is_multiple(spec_obj):
            ongoing.note(passed)
        return passed

    def _narrow(
        self,
        hosts: Iterable[Any],
        spec_obj: Any,
        report: report_mod.RefusalReport,
        now: int,
        end: int,
    ) -> list[Any]:
        """Narrow the candidates of hosts, with the lock of the promises."""
        neighbours = coresidency.Coresidency(
            self._installed,
            self._followed.promises,
            spec_obj,
            now=now,
            end=end,
        )
        passed = []
        for host_state in hosts:
            options = host_state.allocation_candidates
            kept = neighbours.keep(host_state, options)
            if options and not kept:
                explain = functools.partial(
                    neighbours.explain, host_state, options
                )
                report.add(host_state, explain)
                continue
            host_state.allocation_candidates = kept
            passed.append(host_state)
        return passed

    # Servers with a reservation

    def _place(
        self,
        hosts: Sequence[Any],
        spec_obj: Any,
        key: str,
        read: commitments.Read,
    ) -> list[Any]:
        """Return the host of a slot that the server has taken."""
        server, ongoing = (
            request.get_server_uuid(spec_obj),
            request_context.find(spec_obj),
        )
        if server in ongoing.placed:
            # Nova looks for alternates of the last server of a request.
            return [one for one in hosts if one is ongoing.placed[server]]
        if ongoing.hosts is None and request.is_multiple(spec_obj):
            ongoing.hosts = [
                (one, [*one.allocation_candidates]) for one in hosts
            ]
        try:
            reason = self._take(hosts, spec_obj, key, read)
        except exception.StoreError as err:
            LOG.warning(
                'Could not take a slot of reservation %(key)s for server '
                '%(server)s: %(err)s',
                {'key': key, 'err': err, 'server': server},
            )
            reason = _AWAY
        if reason is None:
            return [ongoing.placed[server]]
        is_move = request.is_move(spec_obj)
        if is_move:
            return self._keep_moving(hosts, spec_obj, key, reason, read.now)
        if is_move is None:
            reason += (
                '; the database of Nova does not answer, so it is not known '
                'whether this server is only being moved'
            )
        return self._refuse(spec_obj, ongoing, reason)

    def _take(
        self,
        hosts: Sequence[Any],
        spec_obj: Any,
        name: str,
        read: commitments.Read,
    ) -> str | None:
        """Let a server have a slot on one of the hosts.

        :returns: why there is none; None if it has one now
        :raises StoreError: the database did not take it
        """
        if not read.is_fresh:
            # It may be there again. If not, to take a slot would take longer,
            # and by what was read last its reservation may not be there yet.
            read = self._followed.refresh(must_ask=True)
            if not read.is_fresh:
                return _AWAY
        now = read.now
        key = self._reserved.find_key(name, spec_obj, now)
        if key is None:
            return slots.explain_unusable(name)
        reason = self._explain_few(hosts, spec_obj, key, now)
        if reason is not None:
            return reason
        server = request.get_server_uuid(spec_obj)
        by_node = {one.nodename: one for one in hosts}
        unknown: list[planned_server.PlannedServer] = []

        def fits(
            slot: planned_server.PlannedServer,
            candidate: coresidency.Candidate,
        ) -> bool:
            with self._followed.lock:
                if not (slot.consumer or self._followed.promises.has(slot)):
                    unknown.append(slot)
                fits_until = functools.partial(
                    self._fits_until, by_node[slot.host], spec_obj, slot, now
                )
                besides = choice.find_besides(slot, candidate)
                end = self._find_stay(key, slot, spec_obj, now)
                return fits_until(slot.during.end, candidate) and (
                    not besides['allocations'] or fits_until(end, besides)
                )

        take = functools.partial(self._reserved.take, key, server, hosts, fits)
        free_abandoned = self._reserved.free_abandoned
        chosen = take(now)
        if chosen is None and unknown:
            # They were changed since the promises were read.
            chosen = take(self._followed.refresh(must_ask=True).now)
        if chosen is None and free_abandoned(key, server, hosts, now):
            # Placement may have been slow: a slot is taken now, not then.
            chosen = take(self._followed.refresh().now)
        if chosen is None:
            return self._reserved.explain_none(key, hosts, now)
        host_state = by_node[chosen.slot.host]
        host_state.allocation_candidates = [*chosen.candidates]
        ongoing = request_context.find(spec_obj)
        ongoing.placed[server] = host_state
        ongoing.taken.append((key, chosen.slot))
        ongoing.note([host_state])
        self._have_checked(spec_obj, key, chosen, now)
        return None

    def _explain_few(
        self, hosts: Sequence[Any], spec_obj: Any, key: str, now: int
    ) -> str | None:
        """Return why a request gets none of its servers; None if it may.

        Looked at before the first one has a slot. When Nova may have claimed
        for some, nobody can tell the owner any more.
        """
        is_begun = request_context.find(spec_obj).is_begun
        if is_begun or not request.is_multiple(spec_obj):
            return None
        server = request.get_server_uuid(spec_obj)
        number = int(spec_obj.num_instances)
        with self._followed.lock:
            if self._followed.promises.find_taken(server) is not None:
                return None  # So may others of the request: it is repeated.
        reason = self._reserved.explain_few(key, number)
        if reason and self._reserved.free_abandoned(key, server, hosts, now):
            self._followed.refresh(must_ask=True)
            reason = self._reserved.explain_few(key, number)
        # Nova keeps the number when one of the servers moves later.
        if not reason or request.is_move(spec_obj) is not False:
            return None
        return reason

    def _fits_until(
        self,
        host_state: Any,
        spec_obj: Any,
        slot: planned_server.PlannedServer,
        now: int,
        end: int,
        candidate: coresidency.Candidate,
    ) -> bool:
        """Return whether a server breaks no promise but that of its slot.

        With the lock of the promises.
        """
        neighbours = coresidency.Coresidency(
            self._installed,
            self._followed.promises,
            spec_obj,
            now=now,
            end=end,
            without=None if slot.consumer else slot,
            is_reserved=True,
        )
        return bool(neighbours.keep(host_state, [candidate]))

    def _find_stay(
        self,
        key: str,
        slot: planned_server.PlannedServer,
        spec_obj: Any,
        now: int,
    ) -> int:
        """Return until when a server has what its slot does not promise.

        One that is kept after its reservation has it for longer.
        """
        asked = self._followed.promises.reservations.get(key)
        if asked is not None and asked.at_end is not plan_request.AtEnd.KEEP:
            return slot.during.end
        return max(request.find_end(spec_obj, now), slot.during.end)

    def _have_checked(
        self,
        spec_obj: Any,
        key: str,
        chosen: choice.Choice,
        now: int,
    ) -> None:
        """Have Nova's claim looked at if it may take what others are promised.

        Of two schedulers that take the same, one gives it back.
        """
        slot, candidates = chosen.slot, chosen.candidates
        if choice.list_exact(slot, candidates):
            return
        ongoing = request_context.find(spec_obj)
        with self._followed.lock:
            end = self._find_stay(key, slot, spec_obj, now)
        ongoing.check = claim_hook.Claimed(
            self._followed,
            ongoing.summaries,
            request.identify(spec_obj),
            end,
            slot=slot,
        ).check

    def _keep_moving(
        self,
        hosts: Sequence[Any],
        spec_obj: Any,
        key: str,
        reason: str,
        now: int,
    ) -> list[Any]:
        """Return hosts for a server that moves and finds no other slot.

        It keeps the slot that it has: a move may be taken back.
        """
        with self._followed.lock:
            taken = self._followed.promises.find_taken(
                request.get_server_uuid(spec_obj)
            )
        end = interval.FOREVER
        if taken is not None and taken[1].during.end > now:
            end = taken[1].during.end
        LOG.info(
            'Server %(server)s (request %(request)s) is being moved, and gets '
            'no other slot of its reservation %(key)s: %(reason)s. The server '
            'may get any host with resources that are not promised until '
            '%(end)s.',
            {
                'key': key,
                'reason': reason,
                'end': interval.format_time(end),
                **request.identify(spec_obj),
            },
        )
        return self._keep(hosts, spec_obj, now, end)

    def _refuse(
        self,
        spec_obj: Any,
        ongoing: request_context.OngoingRequest,
        reason: str,
    ) -> list[Any]:
        """Refuse every host.

        Nova frees what it has claimed for other servers of the request only
        if no host is left, and not after an error.

        :raises nova.exception.NoValidHost: with the reason, if that is safe
        """
        LOG.info(
            'ReservationFilter refuses every host for server %(server)s '
            '(request %(request)s): %(reason)s.',
            {'reason': reason, **request.identify(spec_obj)},
        )
        if not ongoing.is_begun:
            text = f'{reason[0].upper()}{reason[1:]}.'
            raise nova_exc.NoValidHost(reason=text)
        self._reserved.free_all(ongoing.taken)
        ongoing.taken.clear()
        return []
