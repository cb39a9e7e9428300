# SPDX-License-Identifier: Apache-2.0

"""A workload as it is requested of RMD, checked before it is sent. Pure.

RMD drops the connection over a core that cannot exist, allocates ways for
one that does not exist, and accepts ranges of cores that it cannot release.
So it must not receive such requests.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
import re
from typing import Any

from nova_ext_resources.drivers.rmd.api import values

#: Ids of our workloads: servers' uuids, and that of the shared pool. A
#: decimal id must not be chosen: RMD counts its own ids and overwrites a
#: record that has the next one.
OUR_ID = re.compile(
    rf'[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|{values.SHARED_ID}'
)

#: Ids of any workload that can become part of a path.
PATH_ID = re.compile(r'[A-Za-z0-9_-]{1,64}')

#: Largest limit per unit. RMD rounds up, and overflows above the second.
MBA_MAXIMA: Mapping[str, int] = {'percentage': 100, 'mbps': 4294967290}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequest:
    """One workload. The amounts are the same on each of its caches.

    :ivar uuid: its id in RMD: a server's uuid, or ``values.SHARED_ID``
    :ivar core_ids: pinned CPUs. RMD could limit tasks too, but it removes
        such workloads by itself when their tasks end.
    :ivar max_ways: equal to ``min_ways`` for guaranteed ways; both are 0
        for the shared pool
    :ivar plugins: RMD's plugin -> setting -> value
    :ivar label: what RMD stores as its ``uuid``, '' for the same
    """

    uuid: str
    core_ids: frozenset[int]
    max_ways: int
    min_ways: int
    mba: values.MbaLimit | None = None
    plugins: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=dict
    )
    label: str = ''

    @property
    def pool(self) -> str:
        """The pool that serves it; RMD decides by these two numbers.

        :raises ValueError: RMD serves no such request
        """
        if self.max_ways == self.min_ways == 0:
            return values.SHARED
        if self.max_ways >= self.min_ways > 0:
            is_fixed = self.max_ways == self.min_ways
            return values.GUARANTEED if is_fixed else values.BESTEFFORT
        raise ValueError(
            f'max {self.max_ways} and min {self.min_ways} ways do not go '
            'together: both must be at least 1, and max not below min'
        )

    def to_body(self) -> dict[str, Any]:
        """Return it as RMD needs it.

        Ids and cores are strings, one core each: RMD accepts ranges but
        cannot release them. Numbers for plugins are floats: RMD passes ``3``
        to the plugin as an integer, and a plugin that needs a float refuses
        it. A policy is never named.
        """
        rdt: dict[str, Any] = {
            'cache': {'max': self.max_ways, 'min': self.min_ways}
        }
        if self.mba is not None:
            rdt['mba'] = {self.mba.unit: self.mba.value}
        body: dict[str, Any] = {
            'id': self.uuid,
            'uuid': self.label or self.uuid,
            'core_ids': [str(core) for core in sorted(self.core_ids)],
            'rdt': rdt,
        }
        if self.plugins:
            body['plugins'] = {
                plugin: {key: _to_float(value) for key, value in items.items()}
                for plugin, items in self.plugins.items()
            }
        return body

    def matches(self, found: values.RmdWorkload) -> bool:
        """Return whether a workload on record is what it requests."""
        return (
            found.uuid == (self.label or self.uuid)
            and found.core_ids == self.core_ids
            and found.max_ways == self.max_ways
            and found.min_ways == self.min_ways
            and found.mba == self.mba
            # RMD stores 3.0 as 3, which is equal in Python.
            and found.plugins == self.plugins
        )


def _to_float(value: Any) -> Any:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_integer else value


def find_problems(
    request: WorkloadRequest,
    *,
    known_cpus: Collection[int],
    known_ways: int,
    mba_mode: str | None,
    allow_shared: bool,
) -> Iterator[str]:
    """Report what RMD would mishandle; nothing when all is well.

    :param known_cpus: the CPUs that share some last-level cache
    :param known_ways: ways of the largest cache
    :param mba_mode: RMD's unit of memory bandwidth
    :param allow_shared: whether there may be workloads of the shared pool
    """
    if not OUR_ID.fullmatch(request.uuid):
        yield f'{request.uuid!r:.80} is not a server uuid'
    if not request.core_ids:
        yield (
            'the workload has no CPUs; RMD serves only servers with pinned '
            'CPUs'
        )
    # True is in {1}, and RMD drops the connection over 'True'.
    unknown = [
        core
        for core in request.core_ids
        if type(core) is not int or core not in known_cpus
    ]
    if unknown:
        yield (
            f'CPUs {sorted(unknown, key=str)} are not online on this host, '
            f'which has {len(known_cpus)} CPUs; correct [compute] '
            'cpu_dedicated_set'
        )
    try:
        pool = request.pool
    except ValueError as err:
        yield str(err)
        return
    if pool == values.SHARED and not allow_shared:
        yield (
            'shared ways (max 0, min 0) are not offered, because RMD does not '
            'start with two such workloads in its database'
        )
    if request.max_ways > known_ways:
        yield (
            f'{request.max_ways} ways are requested, but a cache has '
            f'{known_ways}'
        )
    if request.mba is not None:
        yield from _find_limit_problems(request.mba, pool, mba_mode)


def _find_limit_problems(
    limit: values.MbaLimit, pool: str, mba_mode: str | None
) -> Iterator[str]:
    if limit.unit != mba_mode:
        yield (
            f'the limit of memory bandwidth is in {limit.unit}, but '
            f'[ext_resources_rmd] mba_mode is {mba_mode or "none"}'
        )
    if pool != values.GUARANTEED:
        yield (
            'RMD limits memory bandwidth for guaranteed ways only: max and '
            'min ways must be equal'
        )
    if not 1 <= limit.value <= MBA_MAXIMA[limit.unit]:
        yield (
            f'memory bandwidth {limit.value} is not between 1 and '
            f'{MBA_MAXIMA[limit.unit]}'
        )
