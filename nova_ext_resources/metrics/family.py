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

"""Metric families that add up: no series can be there twice. Pure.

A scrape with the same series twice is refused as a whole by Prometheus, and
so is one with text that is no UTF-8. Names of flavors come from outside.
"""

from typing import TypeAlias

from prometheus_client import core

PREFIX = 'nova_ext_resources_'

#: The most characters that a label's value has.
MAX_LENGTH = 128

Labels: TypeAlias = tuple[str, ...]


def clean(text: object) -> str:
    """Make a label's value of anything.

    What cannot be printed becomes a question mark: control characters, and
    halves of characters that cannot be encoded.
    """
    cut = str(text)[:MAX_LENGTH]
    if cut.isprintable():
        return cut
    return ''.join(char if char.isprintable() else '?' for char in cut)


class Family:
    """One metric, to which values are added series by series.

    :param name: without the prefix; a counter's without ``_total``
    :param is_counter: whether it only grows; a gauge otherwise
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Labels = (),
        *,
        is_counter: bool = False,
    ) -> None:
        self._name = f'{PREFIX}{name}'
        self._documentation = documentation
        self._labels = labels
        self._is_counter = is_counter
        self._values: dict[Labels, float] = {}

    def add(self, value: float, *labels: str) -> None:
        """Add to a series, which begins with nothing."""
        key = tuple(map(clean, labels))
        self._values[key] = self._values.get(key, 0.0) + value

    def make(self) -> core.Metric:
        """Make what ``prometheus_client`` writes out."""
        cls = (
            core.CounterMetricFamily
            if self._is_counter
            else core.GaugeMetricFamily
        )
        family = cls(self._name, self._documentation, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        return family
