# SPDX-License-Identifier: Apache-2.0

"""The model: what the file operations on a resctrl mount do."""

import collections
from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import errno
import os
import stat
import threading
import time

from nova_ext_resources.testing.resctrl import controls
from nova_ext_resources.testing.resctrl import faults
from nova_ext_resources.testing.resctrl import files
from nova_ext_resources.testing.resctrl import groups as groups_mod
from nova_ext_resources.testing.resctrl import mount as mount_mod
from nova_ext_resources.testing.resctrl import shape as shape_mod
from nova_ext_resources.testing.resctrl import tasks as tasks_mod

#: kernfs takes no longer write than a page: E2BIG.
MAX_WRITE = 4096
#: Operations that are remembered.
MAX_OPERATIONS = 100_000

Listener = Callable[[set[int]], None]


class Kernel:
    """A machine with resctrl.

    Paths are relative to the mount point, '' is the mount point itself.
    All methods raise OSError with the number that the kernel gives.

    :ivar mount: None when it is not mounted
    :ivar operations: (operation, path) of each, newest last
    :ivar act: does what a fault wants done; set by who can
    """

    def __init__(
        self,
        shape: shape_mod.Shape,
        *,
        tasks: tasks_mod.Tasks | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.shape = self._first_shape = shape
        self.tasks = tasks or tasks_mod.MadeUpTasks()
        self.faults = faults.Faults()
        self.mutex = threading.RLock()
        self.operations: collections.deque[tuple[str, str]] = (
            collections.deque(maxlen=MAX_OPERATIONS)
        )
        self.act: Callable[..., object] = _cannot_act
        self.on_cpus: list[Listener] = []
        self._clock = clock
        self._online = set(range(shape.num_cpus))
        self.mount: mount_mod.Mount | None = None
        self.reset()

    @property
    def mounted(self) -> mount_mod.Mount:
        """Return the mount.

        :raises OSError: ENOENT, there is none: an empty folder
        """
        if self.mount is None:
            raise FileNotFoundError(errno.ENOENT, 'resctrl is not mounted')
        return self.mount

    def reset(self) -> None:
        """Make it as it was at first: nothing is remembered."""
        with self.mutex:
            self.faults.clear()
            self.tasks.reset()
            self.set_online(set(range(self.shape.num_cpus)))
            self.remount(self._first_shape.options)
            for found in self.shape.groups:
                self._restore(found)
            self.operations.clear()

    # Mounting

    def remount(self, options: frozenset[str] | None = None) -> None:
        """Unmount it, which removes all groups, and mount it again.

        :param options: None for the same ones
        """
        with self.mutex:
            if options is not None:
                self.shape = dataclasses.replace(self.shape, options=options)
            self.mount = mount_mod.Mount(
                self.shape, set(self._online), self.tasks, self._clock
            )

    def unmount(self) -> None:
        with self.mutex:
            self.mount = None

    def _restore(self, found: shape_mod.Found) -> None:
        """Make a group that a captured tree has."""
        mount = self.mounted
        if found.name:
            mount.make_group(found.name)
        mount.restore(mount.groups[found.name], found.schemata, found.mode)
        if found.name and found.cpus.strip():
            self.write_unseen(f'{found.name}/cpus_list', found.cpus.encode())

    def set_offline(self, cpus: set[int]) -> None:
        with self.mutex:
            gone = cpus & self._online
            self._online -= gone
            if self.mount:
                self.mount.set_offline(gone)
        self._tell(gone)

    def set_online(self, cpus: set[int]) -> None:
        with self.mutex:
            back = cpus - self._online
            self._online |= back
            if self.mount:
                self.mount.set_online(back)
        self._tell(back)

    def _tell(self, changed: set[int]) -> None:
        for listener in self.on_cpus if changed else ():
            listener(set(self._online))

    # File operations

    def read(self, path: str) -> str:
        with self._operation('read', path):
            return self._get_file(path, 0o400).show()

    def write(self, path: str, data: bytes, caller: int | None = None) -> None:
        """Do one write(2).

        :param caller: the thread that writes, for "0" to ``tasks``
        """
        with self._operation('write', path) as fault:
            if fault is not None and fault.half:
                data = faults.halve(data.decode()).encode()
            self._store(path, data, caller)
            if fault is not None and fault.half:
                fault.fail(path)

    def write_unseen(self, path: str, data: bytes) -> None:
        """Write as others do: not counted, and no fault hits it."""
        with self.mutex, self._words(path):
            self._store(path, data, None)

    def _store(self, path: str, data: bytes, caller: int | None) -> None:
        file = self._get_file(path, 0o200)
        if len(data) > MAX_WRITE:
            raise OSError(errno.E2BIG, 'more than a page', path)
        assert file.store is not None
        file.store(data, os.getpid() if caller is None else caller)

    def listdir(self, path: str) -> list[str]:
        with self._operation('listdir', path):
            if self.mount is None and not path:
                return []
            node = files.find(self.mounted, path)
            if isinstance(node, files.File):
                raise NotADirectoryError(errno.ENOTDIR, 'no folder', path)
            return sorted(node)

    def get_mode(self, path: str) -> int:
        """Return type and permissions, as ``st_mode`` has them.

        A folder has those of the group that it is in, which is the default
        one for ``info`` (fs/resctrl/rdtgroup.c: ``parent_kn->mode``);
        ``mon_groups`` has none where a region is locked, or is about to be.
        Not counted as an operation, and no fault hits it.
        """
        with self.mutex:
            if self.mount is None and not path:
                return stat.S_IFDIR | groups_mod.PERMISSIONS
            node = files.find(self.mounted, path)
            if isinstance(node, files.File):
                return stat.S_IFREG | node.mode
            last = path.rpartition('/')[2]
            while (group := self.find_group(path)) is None:
                path = path.rpartition('/')[0]
            if group.is_locking and last == 'mon_groups':
                return stat.S_IFDIR
            return stat.S_IFDIR | group.permissions

    def get_inode(self, path: str) -> int:
        """Return the number of a group's folder.

        Not counted as an operation, and no fault hits it.

        :raises OSError: ENOENT, there is no such group
        """
        with self.mutex:
            group = self.find_group(path)
        if group is None:
            raise FileNotFoundError(errno.ENOENT, 'no such group', path)
        return group.inode

    def mkdir(
        self, path: str, permissions: int = groups_mod.PERMISSIONS
    ) -> None:
        with self._operation('mkdir', path):
            mount = self.mounted
            above, _slash, name = path.rpartition('/')
            self._check_parent(above, name)
            if '\n' in name:
                raise OSError(errno.EINVAL, 'newline in a name', path)
            if not above:
                mount.make_group(name, permissions)
                return
            parent = self._find_parent(above, name)
            mount.make_monitor_group(parent, name, permissions)

    def _check_parent(self, above: str, name: str) -> None:
        """Look at what mkdir(2) looks at before resctrl is asked."""
        folder = files.find(self.mounted, above)
        if isinstance(folder, files.File):
            raise NotADirectoryError(errno.ENOTDIR, 'no folder', above)
        if name in folder:
            raise FileExistsError(errno.EEXIST, 'it is there', name)

    def _find_parent(self, above: str, name: str) -> groups_mod.Group:
        """Return the control group whose ``mon_groups`` a path is."""
        if self.mounted.monitor is None:
            raise PermissionError(errno.EPERM, 'nothing is monitored', above)
        if (
            above.split('/')[0] == 'info'
            and self.shape.kernel >= shape_mod.ASKED_OF_PARENTS
        ):
            raise OSError(errno.ENODEV, 'no place for a group', above)
        holder, _slash, last = above.rpartition('/')
        if last != 'mon_groups' or name == 'mon_groups':
            raise PermissionError(
                errno.EPERM, 'monitoring groups go below mon_groups', above
            )
        return self.mounted.groups[holder]

    def rmdir(self, path: str) -> None:
        with self._operation('rmdir', path):
            node = files.find(self.mounted, path)
            if isinstance(node, files.File):
                raise NotADirectoryError(errno.ENOTDIR, 'no folder', path)
            group = self.find_group(path)
            if group is None or not path:
                raise PermissionError(errno.EPERM, 'no group', path)
            if group.parent is None:
                self.mounted.remove_group(group)
            else:
                self.mounted.remove_monitor_group(group)

    def rename(self, path: str, target: str) -> None:
        """Move a monitoring group; nothing else can be moved."""
        with self._operation('rename', path):
            files.find(self.mounted, path)
            self.mounted.status = ''
            group = self.find_group(path)
            if group is None or group.parent is None:
                raise controls.Refused(
                    'Source must be a MON group', errno.EPERM
                )
            above, _slash, name = target.rpartition('/')
            if above.rpartition('/')[2] != 'mon_groups':
                raise controls.Refused(
                    'Destination must be a mon_groups subdirectory',
                    errno.EPERM,
                )
            files.find(self.mounted, above)
            parent = self.mounted.groups[above.rpartition('/')[0]]
            self.mounted.move_monitor_group(group, parent, name)

    def find_group(self, path: str) -> groups_mod.Group | None:
        """Return the group whose folder a path is."""
        groups = self.mounted.groups
        if path in groups:
            return groups[path]
        above, _slash, name = path.rpartition('/')
        holder, _slash, last = above.rpartition('/')
        if last == 'mon_groups' and holder in groups:
            return groups[holder].children.get(name)
        return None

    def _get_file(self, path: str, wanted: int) -> files.File:
        node = files.find(self.mounted, path)
        if not isinstance(node, files.File):
            raise IsADirectoryError(errno.EISDIR, 'a folder', path)
        # NOTE: kernfs looks at the mode for root as well.
        if not node.mode & wanted:
            raise PermissionError(errno.EACCES, 'not permitted', path)
        return node

    @contextlib.contextmanager
    def _operation(
        self, name: str, path: str
    ) -> Iterator[faults.Fault | None]:
        """Hold the mutex, have faults happen, keep the kernel's words."""
        with self.mutex:
            self.operations.append((name, path))
            fault = self.faults.take(name, path)
            if fault is not None:
                if fault.do:
                    self.act(*fault.do)
                if not fault.half:
                    fault.fail(path)
            with self._words(path):
                yield fault

    @contextlib.contextmanager
    def _words(self, path: str) -> Iterator[None]:
        """Put what the kernel says of a refusal where it can be read."""
        try:
            yield
        except controls.Refused as refused:
            if self.mount:
                self.mount.say(refused.words)
            raise OSError(
                refused.errno, os.strerror(refused.errno or 0), path
            ) from None


def _cannot_act(*_what: object) -> object:
    raise NotImplementedError('nobody is there to do it')
