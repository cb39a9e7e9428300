# SPDX-License-Identifier: Apache-2.0

"""What a host has told Nova of its units, as a scheduler has noted it."""

from collections.abc import Iterable, Mapping
import dataclasses
import hashlib
import json
from typing import TypeAlias

from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects.documents import stats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Texts that are read where they are needed.

    :ivar host: the hypervisor's hostname, as placement names the host
    :ivar document: see :mod:`nova_ext_resources.objects.documents.stats`
    :ivar holders: see :mod:`nova_ext_resources.objects.documents.holders`
    :ivar cells: see :func:`write_cells`; '' where it is not known
    """

    host: str
    document: str
    holders: str = ''
    cells: str = ''

    @property
    def refused(self) -> Mapping[str, str]:
        """Resource class -> the alarm for which the host takes none now."""
        found = stats.decode(self.document)
        text = found.constraints if found else ''
        return stats.read_constraints(text).refused

    @property
    def digest(self) -> str:
        """A text that differs if anything of it does."""
        texts = json.dumps([self.document, self.holders, self.cells])
        return hashlib.sha256(texts.encode()).hexdigest()


#: Host -> its publication.
Publications: TypeAlias = Mapping[str, Publication]


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """The dedicated CPUs of one NUMA cell, and those that no server has."""

    cpus: frozenset[int]
    free: frozenset[int]


def write_cells(cells: Iterable[Cell]) -> str:
    """Write the cells of a host."""
    return json.dumps(
        [
            [bitmask.format_list(one.cpus), bitmask.format_list(one.free)]
            for one in cells
        ]
    )


def read_cells(text: str) -> tuple[Cell, ...] | None:
    """Read what :func:`write_cells` wrote; None if it is something else."""
    try:
        return tuple(
            Cell(bitmask.parse_list(cpus), bitmask.parse_list(free))
            for cpus, free in foreign_data.load_json(text)
        )
    except foreign_data.UNREADABLE:
        return None
