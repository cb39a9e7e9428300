# SPDX-License-Identifier: Apache-2.0

"""Rates from counters that may restart at any time. Pure."""

from collections.abc import Mapping
import dataclasses

from nova_ext_resources.drivers.resctrl.kernel import counters as counters_mod
from nova_ext_resources.monitoring import sample

_NOT_READ = counters_mod.Counters()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The counters of a group, and when they were read.

    :ivar at: on the monotonic clock, in seconds
    :ivar whole_at: when all counters had a number for the last time
    """

    at: float
    group: counters_mod.GroupCounters
    whole_at: float


def make_samples(
    before: Reading | None, after: Reading
) -> tuple[sample.DomainSample, ...]:
    """Make the samples of one group.

    :param before: of the last sweep, None when there was none. It is ignored
        when it is of an earlier group of the same name.
    """
    old: Mapping[counters_mod.Domain, counters_mod.Counters] = {}
    seconds = 0.0
    if before is not None and before.group.inode == after.group.inode:
        old, seconds = before.group.domains, after.at - before.at
    return tuple(
        sample.DomainSample(
            domain=domain,
            counters=new,
            total_rate=find_rate(first.total, new.total, seconds),
            local_rate=find_rate(first.local, new.local, seconds),
        )
        for domain, new in after.group.domains.items()
        for first in (old.get(domain, _NOT_READ),)
    )


def find_rate(
    before: int | None, after: int | None, seconds: float
) -> float | None:
    """Return the growth per second.

    None where a number is missing, where no time has passed, and where the
    counter went backwards: it was reset, at an unknown time.
    """
    if before is None or after is None or seconds <= 0 or after < before:
        return None
    return (after - before) / seconds
