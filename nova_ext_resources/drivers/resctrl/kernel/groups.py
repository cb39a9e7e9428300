# SPDX-License-Identifier: Apache-2.0

"""Control groups, as they were when they were read. Pure.

A group of ours is named after its server, ``nova-<uuid>``; ``nova-shared`` has
all servers of the shared pool, and ``nova-trial`` none. All others are of
other software: they are read and never written.
"""

from collections.abc import Mapping
import dataclasses
import uuid

from nova_ext_resources.drivers.resctrl.kernel import info as info_mod
from nova_ext_resources.drivers.resctrl.kernel import schemata as schemata_mod

#: The default group is the mount itself.
DEFAULT = ''

#: Of the names of our groups.
PREFIX = 'nova-'

#: The group of all servers that share one pool of ways.
SHARED = 'nova-shared'

#: A group that is there for a moment only, to see whether groups can be made.
TRIAL = 'nova-trial'

SHAREABLE = 'shareable'

EXCLUSIVE = 'exclusive'

#: A region of a cache is about to be locked.
PSEUDO_LOCKSETUP = 'pseudo-locksetup'

#: A region that is locked no longer needs a class of service.
PSEUDO_LOCKED = 'pseudo-locked'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One control group.

    :ivar consumer_uuid: the server that it was made for; '' when it is of
        other software
    """

    name: str
    schemata: schemata_mod.Schemata
    cpus: frozenset[int] = frozenset()
    mode: str = SHAREABLE
    consumer_uuid: str = ''

    @property
    def has_class(self) -> bool:
        """Whether it uses a class of service."""
        return self.mode != PSEUDO_LOCKED

    @property
    def is_locking(self) -> bool:
        """Whether it is for a region of a cache: nothing runs in it."""
        return self.mode in (PSEUDO_LOCKSETUP, PSEUDO_LOCKED)

    def get_ways(self, cache: schemata_mod.Cache) -> int:
        return schemata_mod.get_masks(self.schemata).get(cache, 0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Everything that was there when it was read.

    :ivar groups: by name, the default one first
    """

    info: info_mod.ControlInfo
    groups: Mapping[str, Group]

    @property
    def ours(self) -> dict[str, Group]:
        """Server -> its group."""
        return {
            one.consumer_uuid: one
            for one in self.groups.values()
            if one.consumer_uuid
        }

    @property
    def shared(self) -> Group | None:
        """The group of the shared pool."""
        return self.groups.get(SHARED)

    @property
    def foreign(self) -> list[Group]:
        return [
            one
            for name, one in self.groups.items()
            if name not in (DEFAULT, SHARED) and not one.consumer_uuid
        ]

    @property
    def used_closids(self) -> int:
        """Classes in use, the default one and that of I/O among them."""
        taken = sum(one.has_class for one in self.groups.values())
        return taken + self.info.has_io_class

    def with_group(self, group: Group) -> 'Tree':
        return dataclasses.replace(
            self, groups={**self.groups, group.name: group}
        )

    def without(self, *names: str) -> 'Tree':
        left = {n: one for n, one in self.groups.items() if n not in names}
        return dataclasses.replace(self, groups=left)


def make_name(consumer_uuid: str) -> str:
    return f'{PREFIX}{consumer_uuid}'


def parse_name(name: str) -> str:
    """Return the server of a group of ours, '' for others."""
    text = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX):
        return ''
    try:
        return text if str(uuid.UUID(text)) == text else ''
    except ValueError:
        return ''


def is_ours(name: str) -> bool:
    return name == SHARED or bool(parse_name(name))
