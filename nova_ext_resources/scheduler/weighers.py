# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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

from nova_ext_resources.conf import scheduler as options
from nova_ext_resources import exception
from nova_ext_resources.objects import stats
from nova_ext_resources.plugins import loader
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler import scores

#: Also the key in an aggregate's metadata.
MULTIPLIER = 'ext_resources_weight_multiplier'


def all_weighers() -> list[type[weights.BaseHostWeigher]]:
    """Give every weigher that is installed under our entry points.

    Nova uses all that it is given.

    :raises PluginLoadFailed: one cannot be imported, or is no weigher
    """
    classes = loader.load_classes(loader.SCHEDULER_WEIGHERS)
    for name, cls in classes.items():
        if not issubclass(cls, weights.BaseHostWeigher):
            raise exception.PluginLoadFailed(
                plugin=name,
                namespace=loader.SCHEDULER_WEIGHERS,
                reason=f'{cls!r} is no BaseHostWeigher',
            )
    return list(classes.values())


class ExtendedResourcesWeigher(weights.BaseHostWeigher):
    """Spreads or packs those who ask; keeps scarce hosts from the others.

    A host that has not published anything, or in words that are not
    understood here, is neither better nor worse than the others.

    Nova constructs it without arguments, so it reads the options itself.
    """

    def __init__(self) -> None:
        super().__init__()
        options.register_opts(nova.conf.CONF)
        self._options = nova.conf.CONF[options.GROUP.name]
        self._grammar = loader.load_grammar()

    def weight_multiplier(self, host_state: Any) -> float:
        """Give the option, or what the host's aggregates say instead."""
        multiplier: float = self._options[MULTIPLIER]
        if host_state.aggregates:
            multiplier = utils.get_weight_multiplier(
                host_state, MULTIPLIER, multiplier
            )
        return multiplier

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
        """Weigh one host; Nova itself asks for all of them at once."""
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
            # It has nothing of ours, as far as anybody knows: the best host
            # for those who do not ask.
            return None if preference.asked else 0.0
        totals = stats.decode_totals(text)
        return None if totals is None else preference.score(totals)
