# SPDX-License-Identifier: Apache-2.0

"""What is asked for: servers of one flavor for one time."""

import dataclasses
import enum

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import server_demand


def find_name(key: str) -> str:
    """Return the name in the key of a reservation.

    The first one of a name has it as its key. Those that others make
    meanwhile, or anybody later, have ``NAME~2``, ``NAME~3`` and so on.
    """
    name, tilde, number = key.rpartition('~')
    return name if tilde and number.isdecimal() else key


def is_named(key: str, name: str) -> bool:
    """Return whether a reservation can be meant by a name, or by its key."""
    return key.startswith(name) and name in (key, find_name(key))


class Affinity(enum.Enum):
    """Where the servers of a reservation may be."""

    ANY = 'any host'
    SAME_HOST = 'the same host'
    DIFFERENT_HOSTS = 'different hosts'


class AtEnd(enum.StrEnum):
    """What becomes of the servers of a reservation at its end.

    ``KEEP``: they go on, as servers without a reservation.
    ``SHELVE``: they are shelved and offloaded.
    ``DELETE``: they are deleted.
    """

    KEEP = 'keep'
    SHELVE = 'shelve'
    DELETE = 'delete'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Servers of one flavor for one time.

    :ivar key: unique among the reservations; see :func:`find_name`
    :ivar during: from when to when, at the earliest; ``FOREVER`` where the
        end is open
    :ivar delay: seconds by which it may be later, ``FOREVER`` at most
    :ivar least: with fewer servers it is refused
    :ivar most: so many servers are planned if there is room; ``least`` by
        default
    :ivar zone: availability zone, None for any
    :ivar priority: reservations of a higher one are not moved for this one
    :ivar flavor: name of the flavor that the demand was read of, for people
    :ivar project: id of the project that it is for
    :ivar expires_after: seconds from its start, after which what no server
        has taken is released; None where nothing is
    :ivar at_end: what becomes of its servers then
    :raises ValueError: servers or delay are no whole numbers, or beyond their
        bounds
    """

    key: str
    demand: server_demand.Demand
    during: interval.Interval
    delay: int = 0
    least: int = 1
    most: int = 0
    zone: str | None = None
    affinity: Affinity = Affinity.ANY
    priority: int = 0
    flavor: str = ''
    project: str = ''
    expires_after: int | None = None
    at_end: AtEnd = AtEnd.KEEP

    def __post_init__(self) -> None:
        object.__setattr__(self, 'most', self.most or self.least)
        for name, low, high in (
            ('least', 1, self.most),
            ('delay', 0, interval.FOREVER),
            ('expires_after', 1, interval.FOREVER),
        ):
            value = getattr(self, name)
            if name == 'expires_after' and value is None:
                continue
            if type(value) is not int or not low <= value <= high:
                raise ValueError(
                    f'{name} of reservation {self.key} is {value!r}; it must '
                    f'be a whole number from {low} to {high}'
                )

    @property
    def latest(self) -> int:
        """The latest start, in seconds since the epoch."""
        return interval.add_seconds(self.during.start, self.delay)
