# SPDX-License-Identifier: Apache-2.0

"""What the kernel counts of each group. Only reads.

Every group has a folder ``mon_data`` with one folder per cache, and where
sub-NUMA clusters are on, one more per cluster below it; each has one file per
event (kernel documentation, *User Interface for Resource Control feature*,
"mon_data" and "Resource monitoring rules").

The counters are read without the lock of the mount. It guards what takes more
than one file to do, as finding free ways does; a counter is one file, and with
many groups a server would wait for its start all the while.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import errno
import re
from typing import Protocol

from oslo_log import log as logging

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system

LOG = logging.getLogger(__name__)

OCCUPANCY = 'llc_occupancy'
TOTAL = 'mbm_total_bytes'
LOCAL = 'mbm_local_bytes'

#: In the order of the fields of :class:`Counters`.
EVENTS = (OCCUPANCY, TOTAL, LOCAL)

INFO = 'info/L3_MON'

_FEATURES = 'mon_features'

_DATA = 'mon_data'

# Ids on ARM (MPAM) are any 32 or 64 bits.
_CACHE = re.compile(r'mon_L3_([0-9]{1,20})')
_NODE = re.compile(r'mon_sub_L3_([0-9]{1,20})')

#: Folders that are not read, and were named in the log.
_unread: set[str] = set()

#: The kernel counts in 64 bits.
_MAX_DIGITS = 20

#: A group, a domain or the mount has gone.
_GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})


class Files(file_system.FileSystem, Protocol):
    """What monitoring needs of the file system."""

    def get_inode(self, path: str) -> int:
        """Return what a group made anew under the same name has not."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringInfo:
    """What can be monitored.

    :ivar events: those of :data:`EVENTS` that are counted
    """

    events: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """What has counters of its own.

    :ivar cache: id of an L3 cache, as in a schemata file
    :ivar node: a part of it, where sub-NUMA clusters are on; None for all
        of it
    """

    cache: int
    node: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Numbers of one group in one domain; None where there is none.

    :ivar occupancy: bytes that it holds in the cache
    :ivar total: bytes that it has moved from and to memory up to now
    :ivar local: of these, from and to the memory of the same node
    """

    occupancy: int | None = None
    total: int | None = None
    local: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounters:
    """All numbers of one group.

    :ivar inode: another one means that the group was made anew, and counts
        from the start
    :ivar failure: why numbers are missing that should be there, or ''
    """

    inode: int
    domains: Mapping[Domain, Counters]
    failure: str = ''


def parse_count(text: str) -> int | None:
    """Read a counter.

    The kernel writes words where it has no number: ``Unavailable``,
    ``Error``, ``Unassigned``. Whatever is not a number is none.
    """
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS:
        return int(text)
    return None


def read_info(files: file_system.FileSystem) -> MonitoringInfo | None:
    """Return what can be monitored, None where nothing can.

    :raises ResctrlMissing: there is no mount
    :raises ResctrlError: it cannot be read
    """
    above, _slash, name = INFO.partition('/')
    with file_system.translated(files, f'read {INFO}'):
        try:
            if name not in files.listdir(above):
                return None
        except FileNotFoundError as err:
            raise errors.make_missing(
                files.root, f'there is no folder "{above}"'
            ) from err
        features = files.read(f'{INFO}/{_FEATURES}').split()
    return MonitoringInfo(
        events=tuple(one for one in EVENTS if one in features)
    )


def list_domains(files: file_system.FileSystem) -> dict[Domain, str]:
    """Return the folder, below any group's own, of each domain.

    They are the same for all groups; those without an online CPU are not
    among them. Nor are those of anything but L3 caches, such as of a NUMA node
    (``mon_MB_00``): which cache these belong to is not known.

    :raises ResctrlError: they cannot be listed
    """
    found = {}
    with file_system.translated(files, f'list {_DATA}'):
        for name in files.listdir(_DATA):
            match = _CACHE.fullmatch(name)
            if match:
                cache, folder = int(match[1]), f'{_DATA}/{name}'
                found[Domain(cache=cache)] = folder
                found.update(_list_nodes(files, cache, folder))
            elif name not in _unread:
                _unread.add(name)
                LOG.info(
                    '%s/%s is not read: it does not belong to an L3 cache',
                    _DATA,
                    name,
                )
    return {one: found[one] for one in sorted(found, key=_get_rank)}


def _list_nodes(
    files: file_system.FileSystem, cache: int, folder: str
) -> dict[Domain, str]:
    return {
        Domain(cache=cache, node=int(match[1])): f'{folder}/{match[0]}'
        for match in map(_NODE.fullmatch, files.listdir(folder))
        if match
    }


def _get_rank(domain: Domain) -> tuple[int, int]:
    """Put a cache before its parts."""
    return domain.cache, -1 if domain.node is None else domain.node


class CounterReader:
    """Reads the counters of any number of groups.

    :param domains: as :func:`list_domains` gives them
    :param events: those that are counted; others are not read
    """

    def __init__(
        self,
        files: Files,
        domains: Mapping[Domain, str],
        events: Iterable[str],
    ) -> None:
        self._files = files
        counted = frozenset(events)
        # Made once, for it is done for each of thousands of files.
        self._names = [
            (
                domain,
                [
                    f'/{folder}/{event}' if event in counted else ''
                    for event in EVENTS
                ],
            )
            for domain, folder in domains.items()
        ]

    def read(self, group: str) -> GroupCounters:
        """Read all counters of a group.

        A counter whose file has gone has no number: its domain's last CPU
        went offline.

        :param group: its folder, '' for the default one
        :raises GroupGone: it was removed, or replaced by another of this name
        :raises ResctrlError: it cannot be read
        """
        inode = self._get_inode(group)
        failures: list[str] = []
        domains = {}
        for domain, names in self._names:
            occupancy, total, local = [
                self._read_count(group + name, failures) if name else None
                for name in names
            ]
            domains[domain] = Counters(
                occupancy=occupancy, total=total, local=local
            )
        if self._get_inode(group) != inode:
            raise errors.GroupGone(
                action=f'read the counters of {group}',
                reason='the group was removed, and a new group has the same '
                'name',
            )
        return GroupCounters(
            inode=inode,
            domains=domains,
            failure=failures[0] if failures else '',
        )

    def _read_count(self, path: str, failures: list[str]) -> int | None:
        path = path.removeprefix('/')
        try:
            text = self._files.read(path)
        except OSError as err:
            if err.errno not in _GONE:
                failures.append(f'{path}: {err.strerror or err}')
            return None
        count = parse_count(text)
        if count is None:
            failures.append(f'{path}: {text.strip()[:40]!r} is not a number')
        return count

    def _get_inode(self, group: str) -> int:
        try:
            return self._files.get_inode(group)
        except OSError as err:
            # The words of the last command are not about this.
            raise errors.from_os_error(f'read group {group}', err, '') from err
