# SPDX-License-Identifier: Apache-2.0

"""Which files there are, what they show, and what they take."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import errno
import functools

from nova_ext_resources.testing.resctrl import controls
from nova_ext_resources.testing.resctrl import groups
from nova_ext_resources.testing.resctrl import mount as mount_mod
from nova_ext_resources.testing.resctrl import numbers
from nova_ext_resources.testing.resctrl import shape

Refused = controls.Refused

READ_ONLY = 0o444
READ_WRITE = 0o644


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """One file.

    :ivar show: gives its text
    :ivar store: takes what was written, and the thread that wrote it
    """

    show: Callable[[], str]
    store: Callable[[bytes, int], None] | None = None
    mode: int = READ_ONLY


#: Names and what they stand for; folders are made when they are looked into.
Folder = dict[str, 'File | Callable[[], Folder]']


def find(mount: mount_mod.Mount, path: str) -> File | Folder:
    """Return what is at a path.

    :raises OSError: ENOENT or ENOTDIR
    """
    node: File | Folder = _root(mount)
    for name in path.split('/') if path else ():
        if isinstance(node, File):
            raise NotADirectoryError(errno.ENOTDIR, 'not a folder', path)
        if name not in node:
            raise FileNotFoundError(errno.ENOENT, 'no such file', path)
        entry = node[name]
        node = entry if isinstance(entry, File) else entry()
    return node


def _root(mount: mount_mod.Mount) -> Folder:
    folder = _control_group(mount, mount.root)
    folder['info'] = lambda: _info(mount)
    for name, group in mount.groups.items():
        if name:
            folder[name] = functools.partial(_control_group, mount, group)
    return folder


# Groups


def _base(mount: mount_mod.Mount, group: groups.Group) -> Folder:
    count = mount.shape.num_cpus

    def store_mask(data: bytes, _caller: int) -> None:
        _store_cpus(mount, group, data, numbers.parse_cpu_mask)

    def store_list(data: bytes, _caller: int) -> None:
        _store_cpus(mount, group, data, numbers.parse_cpu_list)

    def show_tasks() -> str:
        return ''.join(f'{tid}\n' for tid in mount.list_tasks(group))

    def store_tasks(data: bytes, caller: int) -> None:
        if mount.shape.kernel >= shape.TASK_LISTS:
            mount.status = ''
        mount.write_tasks(group, _decode(data), caller)

    def show_mask() -> str:
        cpus = mount.list_cpus(group)
        return f'{numbers.format_cpu_mask(cpus, count)}\n'

    def show_list() -> str:
        return f'{numbers.format_cpu_list(mount.list_cpus(group))}\n'

    mode = _find_mode(group)
    folder: Folder = {
        'cpus': File(show_mask, store_mask, mode),
        'cpus_list': File(show_list, store_list, mode),
        'tasks': File(
            show_tasks, store_tasks, 0 if group.is_locking else READ_WRITE
        ),
    }
    if mount.monitor and group.rmid is not None:
        folder['mon_data'] = lambda: _mon_data(mount, group)
        if 'debug' in mount.shape.options:
            folder['mon_hw_id'] = File(lambda: f'{group.rmid}\n')
    return folder


def _find_mode(group: groups.Group) -> int:
    """Return the mode of the files with CPUs.

    All of what runs in a group is taken away before a region is locked, and
    its CPUs may be read again after (fs/resctrl/pseudo_lock.c,
    rdtgroup_locksetup_user_restrict, rdtgroup_pseudo_lock_create).
    """
    if group.is_locking:
        return READ_ONLY if group.locked else 0
    return READ_WRITE


def _store_cpus(
    mount: mount_mod.Mount,
    group: groups.Group,
    data: bytes,
    parse: Callable[[str, int], set[int]],
) -> None:
    # NOTE: last_cmd_status is not cleared here, nor by mkdir, since commit
    # c8eafe149530 ("x86/resctrl: Fix potential lockdep warning").
    if group.is_locking:
        raise Refused('Pseudo-locking in progress')
    try:
        cpus = parse(_decode(data), mount.shape.num_cpus)
    except OSError as err:
        raise Refused('Bad CPU list/mask', err.errno or 0) from None
    mount.write_cpus(group, cpus)


def _control_group(mount: mount_mod.Mount, group: groups.Group) -> Folder:
    folder = _base(mount, group)

    def store_schemata(data: bytes, _caller: int) -> None:
        text = _cut_newline(data)
        mount.status = ''
        mount.write_schemata(group, text)

    def store_mode(data: bytes, _caller: int) -> None:
        text = _cut_newline(data)
        mount.status = ''
        mount.write_mode(group, text)

    folder['schemata'] = File(
        lambda: mount.schemata.show(group), store_schemata, READ_WRITE
    )
    if mount.shape.kernel >= shape.MODE_FILE:
        folder['mode'] = File(
            lambda: f'{group.mode}\n', store_mode, READ_WRITE
        )
        folder['size'] = File(lambda: mount.schemata.show_size(group))
    if 'debug' in mount.shape.options:
        folder['ctrl_hw_id'] = File(lambda: f'{group.closid}\n')
    if mount.monitor:
        folder['mon_groups'] = lambda: {
            name: functools.partial(_base, mount, child)
            for name, child in group.children.items()
        }
    if mount.monitor and group.rmid is not None:
        if mount.shape.kernel >= shape.ASSIGNED_COUNTERS:
            folder['mbm_L3_assignments'] = File(lambda: '')
        if (
            mount.schemata.is_mbps
            and mount.shape.kernel >= shape.MBPS_EVENT_FILE
        ):
            folder['mba_MBps_event'] = _mbps_event(mount, group)
    return folder


def _mbps_event(mount: mount_mod.Mount, group: groups.Group) -> File:
    def store(data: bytes, _caller: int) -> None:
        text = _cut_newline(data)
        mount.status = ''
        assert mount.monitor is not None
        counted = mount.monitor.monitoring.events
        if not text.startswith('mbm_') or text not in counted:
            raise Refused(f"Unsupported event id '{text}'")
        group.mbps_event = text

    return File(lambda: f'{group.mbps_event}\n', store, READ_WRITE)


def _mon_data(mount: mount_mod.Mount, group: groups.Group) -> Folder:
    assert mount.monitor is not None
    monitor = mount.monitor
    monitored = monitor.monitoring

    def counters(domains: tuple[int, ...]) -> Folder:
        # A control group counts its monitoring groups as well.
        rmids = [
            one.rmid
            for one in (group, *group.children.values())
            if one.rmid is not None
        ]
        return {
            event: File(functools.partial(monitor.show, rmids, domains, event))
            for event in monitored.events
        }

    def cache(domains: tuple[int, ...]) -> Folder:
        folder = counters(domains)
        if monitored.has_clusters:
            for number in domains:
                folder[f'mon_sub_L3_{number:02}'] = functools.partial(
                    counters, (number,)
                )
        return folder

    caches: dict[int, tuple[int, ...]] = {}
    for domain in monitor.online:
        caches[domain.cache_id] = (
            *caches.get(domain.cache_id, ()),
            domain.id,
        )
    return {
        f'mon_L3_{number:02}': functools.partial(cache, domains)
        for number, domains in caches.items()
    }


# Info


def _info(mount: mount_mod.Mount) -> Folder:
    folder: Folder = {'last_cmd_status': File(lambda: mount.status or 'ok\n')}
    for name, control in mount.schemata.controls.items():
        if isinstance(control, controls.CacheControl):
            folder[name] = functools.partial(_cache_info, mount, control)
        elif isinstance(control, controls.BandwidthControl):
            folder[name] = functools.partial(_bandwidth_info, mount, control)
    if mount.monitor:
        folder['L3_MON'] = lambda: _monitor_info(mount)
    return folder


def _constant(value: object) -> File:
    return File(lambda: f'{value}\n')


def _cache_info(
    mount: mount_mod.Mount, control: controls.CacheControl
) -> Folder:
    cache = control.cache
    folder: Folder = {
        'num_closids': _constant(control.num_closids),
        'cbm_mask': _constant(f'{cache.mask:x}'),
        'min_cbm_bits': _constant(cache.min_cbm_bits),
        'shareable_bits': _constant(f'{cache.shareable_bits:x}'),
        'bit_usage': File(lambda: mount.schemata.show_usage(control)),
    }
    if mount.shape.kernel >= shape.SPARSE_MASKS_FILE:
        folder['sparse_masks'] = _constant(int(cache.has_sparse_masks))
    if cache.io_ways is not None:
        folder['io_alloc'] = _constant(
            'enabled' if cache.io_ways else 'disabled'
        )
        folder['io_alloc_cbm'] = File(lambda: _show_io_ways(control))
    return folder


def _show_io_ways(control: controls.CacheControl) -> str:
    ways = control.cache.io_ways
    if not ways:
        raise Refused('io_alloc is not enabled', errno.ENODEV)
    return ';'.join(f'{one}={ways:x}' for one in control.values) + '\n'


def _bandwidth_info(
    mount: mount_mod.Mount, control: controls.BandwidthControl
) -> Folder:
    bandwidth = control.bandwidth
    folder: Folder = {
        'num_closids': _constant(control.num_closids),
        'min_bandwidth': _constant(bandwidth.minimum),
        'bandwidth_gran': _constant(bandwidth.granularity),
        'delay_linear': _constant(int(bandwidth.is_linear)),
    }
    if (
        bandwidth.throttle_mode
        and mount.shape.kernel >= shape.THROTTLE_MODE_FILE
    ):
        folder['thread_throttle_mode'] = _constant(bandwidth.throttle_mode)
    return folder


def _monitor_info(mount: mount_mod.Mount) -> Folder:
    assert mount.monitor is not None
    monitor = mount.monitor
    monitored = monitor.monitoring

    def store_threshold(data: bytes, _caller: int) -> None:
        try:
            size = numbers.parse_integer(_decode(data), (1 << 32) - 1)
        except ValueError:
            raise Refused() from None
        except OverflowError:
            raise Refused(number=errno.ERANGE) from None
        if not 0 <= size <= monitor.limit:
            raise Refused()
        monitor.set_threshold(size)

    return {
        'mon_features': File(
            lambda: ''.join(f'{name}\n' for name in monitored.features)
        ),
        'num_rmids': _constant(monitored.num_rmids),
        'max_threshold_occupancy': File(
            lambda: f'{monitor.threshold}\n', store_threshold, READ_WRITE
        ),
    }


# Data that is written


def _decode(data: bytes) -> str:
    # To the kernel it is a string of C.
    return data.partition(b'\0')[0].decode('utf-8', 'surrogateescape')


def _cut_newline(data: bytes) -> str:
    """Take the newline off that the kernel wants.

    :raises Refused: there is none; ``last_cmd_status`` stays what it was
    """
    if not data.endswith(b'\n'):
        raise Refused()
    return _decode(data[:-1])
