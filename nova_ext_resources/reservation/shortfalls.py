# SPDX-License-Identifier: Apache-2.0

"""What is short on each host for a server.

A refusal has it of all hosts, be they thousands, and few of them are ever
looked at. So the numbers are kept, and become shortfalls, with their words,
where they are looked at.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import functools
from typing import NamedTuple, TypeAlias

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import host as host_mod

#: Of one host.
Found: TypeAlias = tuple[exception.Shortfall, ...]

_SHORT = 'this many are not free throughout the interval'
_ABSENT = 'no provider of this host offers the resource class for a later time'


class Short(NamedTuple):
    """A class of which no provider of a host has enough.

    :ivar place: the one that has most; None if there is none
    :ivar available: how much that is
    """

    resource_class: str
    requested: int
    place: host_view.Place | None
    available: int


class Shortfalls(Mapping[str, Found]):
    """Host -> what is short there.

    :param short: each host of which amounts are short, with these
    :param decided: of other hosts, for other reasons
    """

    def __init__(
        self,
        short: Iterable[tuple[host_mod.Host, Sequence[Short]]],
        decided: Mapping[str, Found],
    ) -> None:
        self._short = {host.name: (host, found) for host, found in short}
        self._decided = decided

    def __getitem__(self, name: str) -> Found:
        if name in self._decided:
            return self._decided[name]
        host, found = self._short[name]
        return tuple(_make_shortfall(host, one) for one in found)

    def __iter__(self) -> Iterator[str]:
        yield from self._short
        yield from self._decided

    def __len__(self) -> int:
        return len(self._short) + len(self._decided)

    @functools.cached_property
    def nearest(self) -> Sequence[str]:
        """Hosts, those first that lack the smallest part of a server.

        Without those that can never serve it.
        """
        lacks = {}
        for name, (_host, found) in self._short.items():
            lack = 0.0
            for one in found:
                if one.place is None:
                    break
                lack += 1 - one.available / one.requested
            else:
                lacks[name] = lack
        for name, decided in self._decided.items():
            if not any(one.is_permanent for one in decided):
                lacks[name] = sum(
                    1 - one.available / one.requested for one in decided
                )
        return sorted(lacks, key=lacks.__getitem__)


def _make_shortfall(host: host_mod.Host, one: Short) -> exception.Shortfall:
    rp_uuid = one.place[0] if one.place else ''
    return exception.Shortfall(
        rp_uuid=rp_uuid,
        resource_class=one.resource_class,
        requested=one.requested,
        available=one.available,
        reason=_SHORT if one.place else _ABSENT,
        is_permanent=not one.place,
        rp_key=host.view.keys.get(rp_uuid, ''),
    )
