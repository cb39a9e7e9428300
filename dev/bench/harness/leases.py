# SPDX-License-Identifier: Apache-2.0

"""Leases as data, so that two programs can be filled with the same ones.

Neither of them is imported here: the file that holds the leases is read in
the environment of each.
"""

from collections.abc import Iterable
import json
from typing import NamedTuple

HOUR = 3600
DAY = 24 * HOUR

#: 2030-01-01T00:00Z. Leases begin later, in so many days.
NOW = 1893456000
DAYS = 30

#: Units of each class that a host has.
CAPACITY = {'VCPU': 64, 'MEMORY_MB': 262144, 'DISK_GB': 2000}

#: What a lease takes.
SIZES = (
    {'VCPU': 2, 'MEMORY_MB': 4096, 'DISK_GB': 20},
    {'VCPU': 8, 'MEMORY_MB': 32768, 'DISK_GB': 100},
    {'VCPU': 16, 'MEMORY_MB': 65536, 'DISK_GB': 400},
    {'VCPU': 32, 'MEMORY_MB': 131072, 'DISK_GB': 800},
)

#: What is looked for, for a day.
ASKED = {'VCPU': 16, 'MEMORY_MB': 65536, 'DISK_GB': 400}


class Lease(NamedTuple):
    """One server of one lease.

    :ivar host: its number
    :ivar start: seconds since the epoch, as is ``end``
    :ivar amounts: by resource class
    """

    host: int
    start: int
    end: int
    amounts: dict[str, int]


class Shape(NamedTuple):
    """How many hosts, and how many leases."""

    hosts: int
    leases: int

    def __str__(self) -> str:
        return f'{self.hosts} hosts, {self.leases} leases'

    @classmethod
    def parse(cls, text: str) -> 'Shape':
        """Read ``HOSTSxLEASES``.

        :raises ValueError: it is something else
        """
        hosts, _x, leases = text.partition('x')
        if not (hosts.isdecimal() and leases.isdecimal() and int(hosts)):
            raise ValueError(f'{text} is not HOSTSxLEASES, such as 100x1000')
        return cls(int(hosts), int(leases))


def name_host(number: int) -> str:
    """Return the name of a host."""
    return f'host{number:05}'


def number_host(name: str) -> int:
    """Return the number of a host of this name."""
    return int(name.removeprefix('host'))


def write(path: str, leases: Iterable[Lease]) -> None:
    """Write leases into a file."""
    with open(path, 'w', encoding='utf-8') as file:
        json.dump([*leases], file)


def read(path: str) -> list[Lease]:
    """Read them."""
    with open(path, encoding='utf-8') as file:
        return [Lease(*one) for one in json.load(file)]
