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

"""Rates from counters that may begin anew at any time. Pure."""

from collections.abc import Mapping
import dataclasses

from nova_ext_resources.monitoring import sample
from nova_ext_resources.resctrl import monitoring


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The counters of a group, and when they were read.

    :ivar at: on the monotonic clock, in seconds
    """

    at: float
    group: monitoring.GroupCounters


def make_samples(
    before: Reading | None, after: Reading
) -> tuple[sample.DomainSample, ...]:
    """Make the samples of one group.

    :param before: of the sweep before, None when there was none. One of
        another group of the same name is no baseline.
    """
    old: Mapping[monitoring.Domain, monitoring.Counters] = {}
    seconds = 0.0
    if before is not None and before.group.inode == after.group.inode:
        old, seconds = before.group.domains, after.at - before.at
    return tuple(
        _make_sample(domain, old.get(domain), counters, seconds)
        for domain, counters in after.group.domains.items()
    )


def _make_sample(
    domain: monitoring.Domain,
    old: monitoring.Counters | None,
    new: monitoring.Counters,
    seconds: float,
) -> sample.DomainSample:
    if old is None:
        return sample.DomainSample(domain=domain, counters=new)
    return sample.DomainSample(
        domain=domain,
        counters=new,
        total_rate=find_rate(old.total, new.total, seconds),
        local_rate=find_rate(old.local, new.local, seconds),
    )


def find_rate(
    before: int | None, after: int | None, seconds: float
) -> float | None:
    """Give the growth per second.

    None where a number is missing, where no time has passed, and where the
    counter went backwards: it was reset, and nobody knows when.
    """
    if before is None or after is None or seconds <= 0 or after < before:
        return None
    return (after - before) / seconds
