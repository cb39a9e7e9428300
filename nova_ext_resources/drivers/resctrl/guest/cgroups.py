# SPDX-License-Identifier: Apache-2.0

"""The cgroups that libvirt makes, one for each machine.

libvirt puts QEMU and its helpers into a cgroup for this machine alone, which
is named after it, and never puts anything else there: ``machine-qemu\\x2d<n>
\\x2d<name>.scope`` with systemd, ``qemu-<n>-<name>.libvirt-qemu`` without.
Where that lies differs: below ``/machine.slice`` or ``/machine``, a partition
of the domain, or the cgroup of the container that libvirt runs in
(``/docker/<id>``, ``/kubepods/...``). So its place proves nothing; whoever
could have made it does, see :class:`LibvirtMachine`.

Sources: cgroups(7), cgroup_namespaces(7), the kernel's "Control Group v2", and
"Control Groups Resource Management" of libvirt.
"""

from collections.abc import Collection, Iterator
import dataclasses
import os
import re

from nova_ext_resources.drivers.resctrl.guest import procfs

PATH = '/sys/fs/cgroup'

_FOLDER = re.compile(r'machine-(qemu.+)\.scope|(qemu.+)\.libvirt-qemu')

#: The number of the guest's run, and what is left of its name.
_MACHINE = re.compile(r'qemu-(\d+)(?:-(.+))?')

#: What libvirt may leave out of a machine's name.
_LEFT_OUT = re.compile(r'[^0-9A-Za-z]')

#: libvirt adds no character to 64, and takes a dash or a dot off the end.
_MAY_BE_CUT = 63


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtMachine:
    """The machine that a cgroup is named after.

    :ivar name: of the machine, such as ``qemu-1-instance-0000002a``
    :ivar number: of the run of its guest
    :ivar folder: where the cgroup is, if nobody but ``owners`` can have made
        or filled it: they alone can change every folder, from the hierarchy's
        root on. Users get cgroups of their own as folders that they own. ''
        where that is not so, or not seen: then only the name is known.
    """

    name: str
    number: int
    folder: str = ''

    @property
    def is_proved(self) -> bool:
        """Return whether libvirt has made the cgroup, and no other user."""
        return bool(self.folder)

    def is_named_after(self, name: str) -> bool:
        """Return whether its name can be that of a guest's machine.

        For the guest with its number: no two of one libvirt have the same,
        but one of another libvirt on the host may.
        """
        kept = _shorten(self.name.removeprefix(f'qemu-{self.number}'))
        whole = _shorten(name)
        is_cut = len(self.name) >= _MAY_BE_CUT and whole.startswith(kept)
        return whole == kept or is_cut


def _shorten(name: str) -> str:
    return _LEFT_OUT.sub('', name)


class Cgroups:
    """Reads cgroups of either version.

    :param path: where they are mounted
    :param owners: users who may make the cgroup of a machine
    """

    def __init__(
        self, reader: procfs.ProcReader, path: str, owners: Collection[int]
    ) -> None:
        self._reader = reader
        self._path = path
        self._owners = owners

    def find_machine(self, pid: int) -> LibvirtMachine | None:
        """Return the machine that the cgroup of a process is named after.

        The kernel shows the name in every cgroup namespace.
        """
        found = list(self._list_machines(pid))
        proved = (one for one in found if one.is_proved)
        return next(proved, found[0] if found else None)

    def list_threads(self, pid: int) -> set[int]:
        """Return all threads in the machine's cgroup, and below it."""
        for one in self._list_machines(pid):
            threads = set(_walk(one.folder)) if one.is_proved else None
            if threads:
                return threads
        return set()

    def _list_machines(self, pid: int) -> Iterator[LibvirtMachine]:
        """Return the machine as each hierarchy has it (cgroups(7))."""
        for controllers, path in self._reader.list_cgroups(pid):
            parts = path.strip('/').split('/')
            place = next(filter(None, map(_FOLDER.fullmatch, parts)), None)
            if place is None:
                continue
            name = (place[1] or place[2]).replace('\\x2d', '-')
            match = _MACHINE.fullmatch(name)
            if match is None:
                continue
            named = LibvirtMachine(name=name, number=int(match[1]))
            inner = parts[: parts.index(place[0]) + 1]
            for folder in self._list_owned(controllers, inner):
                yield dataclasses.replace(named, folder=folder)
            yield named

    def _list_owned(self, controllers: str, parts: list[str]) -> Iterator[str]:
        # Dots are relative to a cgroup namespace that it is not in.
        if '..' not in parts:
            for root in self._list_roots(controllers):
                if self._is_owned(root, parts):
                    yield os.path.join(root, *parts)

    def _list_roots(self, controllers: str) -> Iterator[str]:
        if controllers:
            name = controllers.removeprefix('name=')
            yield os.path.join(self._path, name)
        else:
            yield self._path
            yield os.path.join(self._path, 'unified')

    def _is_owned(self, root: str, parts: list[str]) -> bool:
        path = root
        try:
            for part in ('', *parts):
                path = os.path.join(path, part)
                if not procfs.is_owned(os.stat(path), self._owners):
                    return False
        except OSError:
            return False
        return True


def _walk(folder: str) -> Iterator[int]:
    text = procfs.read_file(f'{folder}/cgroup.threads') or procfs.read_file(
        f'{folder}/tasks'
    )
    # Those that this process cannot see (another PID namespace) are 0, which
    # to the kernel is whoever writes it.
    yield from (tid for tid in map(int, text.split()) if tid)
    try:
        # Two links are those of a folder without any other in it, which
        # saves reading the names of some hundred files.
        if os.stat(folder).st_nlink == 2:
            return
        with os.scandir(folder) as entries:
            below = [one.path for one in entries if one.is_dir()]
    except OSError:
        return
    for one in below:
        yield from _walk(one)
