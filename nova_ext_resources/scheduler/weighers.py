# SPDX-License-Identifier: Apache-2.0

"""Weighers that Nova's scheduler loads.

In ``nova.conf``::

    [filter_scheduler]
    weight_classes = nova.scheduler.weights.all_weighers
    weight_classes = nova_ext_resources.scheduler.weighers.all_weighers
"""

from collections.abc import Iterable
from typing import Any

import nova.conf
from nova.scheduler import utils
from nova.scheduler import weights

from nova_ext_resources.conf import scheduler
from nova_ext_resources import exception
from nova_ext_resources.objects.documents import stats
from nova_ext_resources import plugins
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler import scores

#: Options that are keys in an aggregate's metadata, too.
MULTIPLIER = 'ext_resources_weight_multiplier'
RESERVATION_MULTIPLIER = 'reservation_weight_multiplier'


def all_weighers() -> list[type[weights.BaseHostWeigher]]:
    """Return every weigher that is installed under our entry points.

    Nova uses all of them.

    :raises PluginLoadFailed: one cannot be imported, or is not a weigher
    """
    return plugins.load_subclasses(
        plugins.SCHEDULER_WEIGHERS, weights.BaseHostWeigher
    )


class ExtendedResourcesWeigher(weights.BaseHostWeigher):
    """Spreads or packs servers; keeps scarce hosts for those that ask.

    A host that has published nothing, or nothing that can be decoded, is
    neither better nor worse than the others.

    Nova constructs it without arguments, so it reads the options itself.
    """

    def __init__(self) -> None:
        super().__init__()
        scheduler.register_opts(nova.conf.CONF)
        self._options = nova.conf.CONF[scheduler.GROUP.name]
        self._grammar = plugins.load_grammar()

    def weight_multiplier(self, host_state: Any) -> float:
        """Return the option, or the value in the host's aggregates."""
        return _find_multiplier(host_state, MULTIPLIER)

    def weigh_objects(
        self, weighed_obj_list: Iterable[Any], weight_properties: Any
    ) -> list[float]:
        """Weigh all hosts of a request."""
        hosts = [weighed.obj for weighed in weighed_obj_list]
        preference = self._make_preference(weight_properties)
        if preference.is_indifferent:
            return [0.0] * len(hosts)
        return scores.fill_gaps(
            self._score(host_state, preference) for host_state in hosts
        )

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """Weigh one host; Nova itself weighs all of them at once."""
        preference = self._make_preference(weight_properties)
        return self._score(host_state, preference) or 0.0

    def _make_preference(self, spec_obj: Any) -> scores.Preference:
        return scores.Preference(
            asked=self._find_asked(spec_obj),
            policies=self._options.weigh_policies,
            scarce=frozenset(self._options.scarce_classes),
        )

    def _find_asked(self, spec_obj: Any) -> frozenset[str]:
        try:
            requirement = request.find_requirement(spec_obj, self._grammar)
        except exception.InvalidExtraSpec:
            # The filter has refused and reported it, if it is enabled.
            return frozenset()
        return (
            request.find_classes(requirement) if requirement else frozenset()
        )

    def _score(
        self, host_state: Any, preference: scores.Preference
    ) -> float | None:
        text = request.find_text(host_state)
        if not text:
            # As far as is known, it has nothing of ours: the best host for
            # servers that do not ask.
            return None if preference.asked else 0.0
        totals = stats.decode_totals(text)
        return None if totals is None else preference.score(totals)


class ReservationWeigher(weights.BaseHostWeigher):
    """Has servers that end fill the time until something is promised.

    Of the hosts that ``ReservationFilter`` leaves, which knows what is
    promised: without that filter, or for a server without an end, all hosts
    are alike.

    Nova constructs it without arguments, so it reads the option itself.
    """

    # Scores are shares: a host is not good because all others are worse.
    minval = 0.0
    maxval = 1.0

    def __init__(self) -> None:
        super().__init__()
        scheduler.register_opts(nova.conf.CONF)

    def weight_multiplier(self, host_state: Any) -> float:
        """Return the option, or the value in the host's aggregates."""
        return _find_multiplier(host_state, RESERVATION_MULTIPLIER)

    def weigh_objects(
        self, weighed_obj_list: Iterable[Any], weight_properties: Any
    ) -> list[float]:
        """Weigh all hosts of a request."""
        hosts = [weighed.obj for weighed in weighed_obj_list]
        score = request_context.find(weight_properties).score
        return [0.0] * len(hosts) if score is None else score(hosts)

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """Weigh one host; Nova itself weighs all of them at once."""
        score = request_context.find(weight_properties).score
        return 0.0 if score is None else score([host_state])[0]


def _find_multiplier(host_state: Any, name: str) -> float:
    multiplier: float = nova.conf.CONF[scheduler.GROUP.name][name]
    if host_state.aggregates:
        multiplier = utils.get_weight_multiplier(host_state, name, multiplier)
    return multiplier
