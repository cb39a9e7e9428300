# SPDX-License-Identifier: Apache-2.0

"""Filters that Nova's scheduler loads.

In ``nova.conf``::

    [filter_scheduler]
    available_filters = nova.scheduler.filters.all_filters
    available_filters = nova_ext_resources.scheduler.filters.all_filters
    enabled_filters = ..., ExtendedResourcesFilter, ReservationFilter

``ReservationFilter`` is in :mod:`.reservation.filter`; it is enabled only
where capacity is reserved.
"""

from collections.abc import Iterable, Iterator
import functools
from typing import Any

from nova import exception as nova_exc
from nova.scheduler import filters
from nova.scheduler import utils
from oslo_log import log as logging

from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.claims.schedule import consumption
from nova_ext_resources.claims.schedule import unchecked
from nova_ext_resources import exception
from nova_ext_resources.objects.documents import stats
from nova_ext_resources import plugins
from nova_ext_resources.scheduler.hooks import claim_hook
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler import in_flight_claims
from nova_ext_resources.scheduler import report as report_mod
from nova_ext_resources.scheduler import request

LOG = logging.getLogger(__name__)


def all_filters() -> list[type[filters.BaseHostFilter]]:
    """Return every filter that is installed under our entry points.

    Nova instantiates those that ``enabled_filters`` names.

    :raises PluginLoadFailed: one cannot be imported, or is no filter
    """
    return plugins.load_subclasses(
        plugins.SCHEDULER_FILTERS, filters.BaseHostFilter
    )


class ExtendedResourcesFilter(filters.BaseHostFilter):
    """Keeps the hosts, and the candidates, that can really be had.

    It only narrows what placement offers, and goes by what hosts have
    published: one whose words are not understood here passes. So does one
    without a driver of this package, unless the flavor requires more than
    amounts. Name it last in ``enabled_filters``: the first candidate that
    it leaves is the one that Nova claims.

    Nova constructs it without arguments, so it gathers what it needs.
    ``CandidateFilterMixin`` is not used: it formats three messages per
    candidate even where nobody reads them.
    """

    # A rebuild keeps its host, its flavor and what it holds, and comes
    # without candidates.
    RUN_ON_REBUILD = False

    def __init__(self) -> None:
        super().__init__()
        self._trackers = plugins.load_trackers()
        self._tests = plugins.load_claim_tests(self._trackers)
        self._grammar = plugins.load_grammar()
        self._consumption = consumption.Consumption()
        self._in_flight = in_flight_claims.InFlightClaims()
        self._unread: set[tuple[str, str]] = set()
        request_context.install()
        claim_hook.install()

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        """Ask for one host; Nova itself asks for all of them at once."""
        return bool(self.filter_all([host_state], spec_obj))

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any
    ) -> list[Any]:
        """Return the hosts that pass, their candidates narrowed.

        :raises nova.exception.NoValidHost: the flavor is malformed. Nova does
            with the server what it does when no host passes. After a build,
            its owner reads the reason in the fault; for a resize, Nova gives
            words of its own, and only the log has the reason
        """
        hosts = list(filter_obj_list)
        if utils.request_is_rebuild(spec_obj):
            return hosts
        try:
            requirement = request.find_requirement(spec_obj, self._grammar)
        except exception.InvalidExtraSpec as err:
            raise _refuse_request(spec_obj, err) from err
        if requirement is None:
            return hosts
        judge = candidates.Judge(
            self._trackers,
            self._tests,
            request.find_sizes(spec_obj),
            requirement,
        )
        ongoing = request_context.find(spec_obj)
        ongoing.offer = in_flight_claims.Offer(
            self._in_flight, ongoing.summaries, judge
        )
        is_multiple = request.is_multiple(spec_obj)
        report = report_mod.RefusalReport('ExtendedResourcesFilter', spec_obj)
        if lacking := unchecked.find_unchecked(requirement):
            hosts = list(_leave_out_undriven(hosts, lacking, report))
        passed = [
            host_state
            for host_state in hosts
            if self._narrow(host_state, judge, is_multiple, report)
        ]
        report.finish()
        return passed

    def _narrow(
        self,
        host_state: Any,
        judge: candidates.Judge,
        is_multiple: bool,
        report: report_mod.RefusalReport,
    ) -> bool:
        """Narrow and order the candidates of a host."""
        text = request.find_text(host_state)
        options = host_state.allocation_candidates
        if is_multiple:
            document, is_used = self._consumption.read(host_state, text, judge)
            if is_used:
                # Should nothing be known of the host, another candidate is
                # still a better guess than the one that was just claimed.
                options = [*options[1:], *options[:1]]
        else:
            document = stats.decode(text)
        if document is not None and options:
            find_free = functools.partial(request.find_free, host_state)
            kept = judge.choose(document, options, find_free)
        else:
            kept = options
        host_state.allocation_candidates = kept
        if judge.unread:
            self._log_unread(host_state, judge)
        if options and not kept:
            assert document is not None, 'nothing else narrows'
            find_free = functools.partial(request.find_free, host_state)
            report.add(
                host_state,
                functools.partial(judge.explain, document, options, find_free),
            )
            return False
        if is_multiple:
            self._consumption.remember(host_state, text, document)
        return True

    def _log_unread(self, host_state: Any, judge: candidates.Judge) -> None:
        """Log once of each kind of record: thousands of hosts have it."""
        for kind, reason in judge.unread.items():
            if kind not in self._unread:
                self._unread.add(kind)
                LOG.warning(
                    'Cannot use %(subject)s (%(plugin)s) that host %(host)s '
                    'publishes: %(reason)s. The scheduler ignores this data '
                    'on all hosts, so hosts may refuse servers. Install the '
                    'same version of nova-ext-resources, and the same '
                    'plugins, for nova-scheduler and nova-compute.',
                    {
                        'host': host_state.host,
                        'subject': kind[0],
                        'plugin': kind[1],
                        'reason': reason,
                    },
                )
        judge.unread.clear()


def _leave_out_undriven(
    hosts: Iterable[Any],
    lacking: tuple[exception.Shortfall, ...],
    report: report_mod.RefusalReport,
) -> Iterator[Any]:
    """Yield the hosts whose nova-compute has a driver of this package."""
    for host_state in hosts:
        if request.has_driver(host_state):
            yield host_state
        else:
            report.add(host_state, lambda: lacking)


def _refuse_request(
    spec_obj: Any, err: exception.InvalidExtraSpec
) -> nova_exc.NoValidHost:
    """Log, and return what Nova shows to the owner of the server."""
    reason = str(err).rstrip('.')
    flavor = request.get_flavor_name(spec_obj)
    LOG.warning(
        'ExtendedResourcesFilter refuses every host for server %(server)s '
        '(request %(request)s): %(reason)s. Correct flavor %(flavor)s.',
        {'reason': reason, 'flavor': flavor, **request.identify(spec_obj)},
    )
    return nova_exc.NoValidHost(reason=f'{reason}. Correct flavor {flavor}.')
