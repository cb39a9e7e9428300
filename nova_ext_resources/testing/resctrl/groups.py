# SPDX-License-Identifier: Apache-2.0

"""Control groups and monitoring groups."""

from __future__ import annotations

import dataclasses
import itertools

SHAREABLE = 'shareable'
EXCLUSIVE = 'exclusive'
LOCKSETUP = 'pseudo-locksetup'
LOCKED = 'pseudo-locked'

#: Permissions that mkdir(1) asks for.
PERMISSIONS = 0o755

#: Of the mount point: the kernel gives nobody the right to write there.
ROOT_PERMISSIONS = 0o555

_INODES = itertools.count(1)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """One directory with a ``tasks`` file.

    :ivar parent: of a monitoring group; None makes it a control group
    :ivar rmid: None where nothing can be monitored
    :ivar children: its monitoring groups
    :ivar locked: (resource, domain, mask) that is pseudo-locked
    :ivar inode: of its directory: never that of another one
    :ivar permissions: of its directory, and of those in it but for groups
    """

    name: str
    closid: int
    rmid: int | None
    cpus: set[int] = dataclasses.field(default_factory=set)
    mode: str = SHAREABLE
    parent: Group | None = None
    children: dict[str, Group] = dataclasses.field(default_factory=dict)
    locked: tuple[str, int, int] | None = None
    mbps_event: str = 'mbm_local_bytes'
    inode: int = dataclasses.field(default_factory=lambda: next(_INODES))
    permissions: int = PERMISSIONS

    @property
    def is_locking(self) -> bool:
        return self.mode in (LOCKSETUP, LOCKED)

    @property
    def path(self) -> str:
        """Return the directory, below the mount point."""
        if self.parent is None:
            return self.name
        above = f'{self.parent.path}/' if self.parent.path else ''
        return f'{above}mon_groups/{self.name}'

    def drop_cpus(self, cpus: set[int]) -> None:
        """Take CPUs away, from its monitoring groups too."""
        self.cpus -= cpus
        for child in self.children.values():
            child.cpus &= self.cpus
