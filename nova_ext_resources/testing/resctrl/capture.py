# SPDX-License-Identifier: Apache-2.0

"""Reads the captured tree of a real machine into plain values."""

from collections.abc import Callable
import os
from typing import Any

from nova_ext_resources.testing.resctrl import numbers

_PLACES = ('', 'resctrl', 'sys/fs/resctrl')
_OWN_FOLDERS = frozenset({'info', 'mon_groups', 'mon_data'})

#: domain -> CPUs
Domains = dict[int, frozenset[int]]


def read(folder: str) -> dict[str, Any]:
    """Read a tree.

    :returns: what :class:`.shape.Shape` takes, as dictionaries
    :raises ValueError: it is no such tree
    """
    root = _find_root(folder)
    names = set(os.listdir(os.path.join(root, 'info')))
    lines = _parse_lines(_text(root, 'schemata'))
    cpus = _read_cpus(root)
    topology = _read_topology(folder)
    caches = [
        _read_cache(root, level, lines, topology, cpus)
        for level in (2, 3)
        if {f'L{level}', f'L{level}CODE'} & names
    ]
    bandwidths = [
        _read_bandwidth(root, name, lines, topology, cpus)
        for name in ('MB', 'SMBA')
        if name in names
    ]
    return {
        'name': os.path.basename(os.path.normpath(folder)),
        'kernel': _guess_kernel(root, lines),
        'num_cpus': max(cpus, default=0) + 1,
        'caches': caches,
        'bandwidths': bandwidths,
        'monitoring': _read_monitoring(root, topology, cpus, caches),
        'nodes': tuple(_share_out(cpus, [0]).values()),
        'packages': tuple(_share_out(cpus, [0]).values()),
        'options': _guess_options(names, lines),
        'groups': list(_read_groups(root)),
    }


def _find_root(folder: str) -> str:
    for place in _PLACES:
        root = os.path.join(folder, place) if place else folder
        if os.path.isfile(os.path.join(root, 'schemata')) and os.path.isdir(
            os.path.join(root, 'info')
        ):
            return root
    raise ValueError(f'{folder} has no captured resctrl: no schemata, no info')


def _text(*path: str) -> str:
    try:
        with open(os.path.join(*path), encoding='utf-8') as stream:
            return stream.read()
    except OSError:
        return ''


def _number(*path: str, default: int = 0, base: int = 10) -> int:
    text = _text(*path).strip()
    try:
        return int(text, base) if text else default
    except ValueError:
        raise ValueError(f'{os.path.join(*path)} says {text!r}') from None


def _parse_lines(text: str) -> dict[str, dict[int, str]]:
    lines: dict[str, dict[int, str]] = {}
    for line in text.splitlines():
        name, _colon, rest = line.partition(':')
        values = lines.setdefault(name.strip(), {})
        for part in filter(None, rest.split(';')):
            domain, _equals, value = part.partition('=')
            values[int(domain)] = value
    return lines


def _read_cpus(root: str) -> list[int]:
    """Return the CPUs of all groups: together they are those online."""
    cpus: set[int] = set()
    for group in ('', *_list_groups(root)):
        cpus |= numbers.parse_cpu_list(
            _text(root, group, 'cpus_list'), 1 << 16
        )
    return sorted(cpus) or [0]


def _read_topology(folder: str) -> dict[int, Domains]:
    """Return the CPUs of each cache, by level, where they were captured."""
    root = os.path.join(folder, 'sys/devices/system/cpu')
    levels: dict[int, Domains] = {}
    if not os.path.isdir(root):
        return levels
    for cpu in os.listdir(root):
        caches = os.path.join(root, cpu, 'cache')
        if not os.path.isdir(caches):
            continue
        for index in os.listdir(caches):
            path = os.path.join(caches, index)
            if not _text(path, 'id').strip():
                continue
            if _text(path, 'type').strip() == 'Instruction':
                continue
            levels.setdefault(_number(path, 'level'), {})[
                _number(path, 'id')
            ] = frozenset(
                numbers.parse_cpu_list(_text(path, 'shared_cpu_list'), 1 << 16)
            )
    return levels


def _share_out(cpus: list[int], ids: list[int]) -> Domains:
    """Deal CPUs out in equal runs: nobody knows better."""
    size = -(-len(cpus) // max(1, len(ids)))
    return {
        number: frozenset(cpus[place * size : (place + 1) * size])
        for place, number in enumerate(ids)
    }


def _domains(
    ids: list[int], level: int, topology: dict[int, Domains], cpus: list[int]
) -> Domains:
    known = topology.get(level, {})
    if ids and set(ids) <= set(known):
        return {number: known[number] for number in ids}
    return _share_out(cpus, ids)


def _as_list(domains: Domains) -> list[dict[str, Any]]:
    return [{'id': n, 'cpus': cpus} for n, cpus in domains.items()]


def _read_cache(
    root: str,
    level: int,
    lines: dict[str, dict[int, str]],
    topology: dict[int, Domains],
    cpus: list[int],
) -> dict[str, Any]:
    has_cdp = os.path.isdir(os.path.join(root, 'info', f'L{level}CODE'))
    name = f'L{level}CODE' if has_cdp else f'L{level}'
    info = os.path.join(root, 'info', name)
    ways = _number(info, 'cbm_mask', base=16).bit_length()
    if not ways:
        raise ValueError(f'{info}/cbm_mask has no ways')
    values = lines.get(name, {})
    return {
        'level': level,
        'ways': ways,
        'num_closids': _number(info, 'num_closids', default=1)
        * (2 if has_cdp else 1),
        'min_cbm_bits': _number(info, 'min_cbm_bits', default=1),
        'shareable_bits': _number(info, 'shareable_bits', base=16),
        'has_sparse_masks': bool(_number(info, 'sparse_masks')),
        # Where it is not mounted with CDP, the padding tells.
        'is_cdp_capable': has_cdp or _text(root, 'schemata').startswith(' '),
        'size': _read_size(root, name, ways, values),
        'domains': _as_list(_domains(list(values), level, topology, cpus)),
    }


def _read_size(root: str, name: str, ways: int, values: dict[int, str]) -> int:
    sizes = _parse_lines(_text(root, 'size')).get(name, {})
    for domain, size in sizes.items():
        used = int(values.get(domain, '0'), 16).bit_count()
        if used:
            return int(size) // used * ways
    return ways << 20


def _read_bandwidth(
    root: str,
    name: str,
    lines: dict[str, dict[int, str]],
    topology: dict[int, Domains],
    cpus: list[int],
) -> dict[str, Any]:
    info = os.path.join(root, 'info', name)
    is_linear = bool(_number(info, 'delay_linear', default=1))
    values = lines.get(name, {})
    highest = max((int(value) for value in values.values()), default=0)
    return {
        'name': name,
        'num_closids': _number(info, 'num_closids', default=1),
        'minimum': _number(info, 'min_bandwidth'),
        'granularity': _number(info, 'bandwidth_gran', default=1),
        'maximum': 100 if is_linear else max(2048, highest),
        'is_linear': is_linear,
        'throttle_mode': _text(info, 'thread_throttle_mode').strip() or None,
        'domains': _as_list(_domains(list(values), 3, topology, cpus)),
    }


def _read_monitoring(
    root: str,
    topology: dict[int, Domains],
    cpus: list[int],
    caches: list[dict[str, Any]],
) -> dict[str, Any] | None:
    info = os.path.join(root, 'info', 'L3_MON')
    features = tuple(_text(info, 'mon_features').split())
    if not features:
        return None
    return {
        'num_rmids': _number(info, 'num_rmids', default=1),
        'features': features,
        'domains': _read_monitored(root, topology, cpus, caches),
    }


def _read_monitored(
    root: str,
    topology: dict[int, Domains],
    cpus: list[int],
    caches: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    data = os.path.join(root, 'mon_data')
    found: dict[int, list[int]] = {}
    for name in _listdir(data):
        clusters = [
            int(sub.rpartition('_')[2])
            for sub in _listdir(os.path.join(data, name))
            if sub.startswith('mon_sub_')
        ]
        number = int(name.rpartition('_')[2])
        found[number] = sorted(clusters) or [number]
    if not found:
        level3 = [one for one in caches if one['level'] == 3]
        found = {
            each['id']: [each['id']]
            for one in level3
            for each in one['domains']
        } or {0: [0]}
    whole = _domains(sorted(found), 3, topology, cpus)
    return [
        {'id': cluster, 'cache_id': number, 'cpus': part}
        for number, clusters in sorted(found.items())
        for cluster, part in _share_out(
            sorted(whole[number]), clusters
        ).items()
    ]


def _guess_kernel(
    root: str, lines: dict[str, dict[int, str]]
) -> tuple[int, int]:
    """Return the oldest kernel that shows what was captured."""
    info = os.path.join(root, 'info')
    has: Callable[[str], bool] = lambda name: any(  # noqa: E731
        os.path.exists(os.path.join(info, one, name)) for one in _listdir(info)
    )
    widths = {len(v) for values in lines.values() for v in values.values()}
    if has('sparse_masks'):
        # Before 6.15 all values of a file had the same width.
        return (6, 15) if len(widths) > 1 else (6, 7)
    if has('thread_throttle_mode'):
        return 5, 12
    return 4, 19 if os.path.exists(os.path.join(root, 'mode')) else 18


def _guess_options(
    names: set[str], lines: dict[str, dict[int, str]]
) -> frozenset[str]:
    options = set()
    if 'L3CODE' in names:
        options.add('cdp')
    if 'L2CODE' in names:
        options.add('cdpl2')
    # No bandwidth in percent, nor in eighths of a GB/s, is that large.
    if any(int(value) >= 1 << 24 for value in lines.get('MB', {}).values()):
        options.add('mba_MBps')
    return frozenset(options)


def _listdir(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _list_groups(root: str) -> list[str]:
    return [
        name
        for name in _listdir(root)
        if name not in _OWN_FOLDERS
        and os.path.isfile(os.path.join(root, name, 'schemata'))
    ]


def _read_groups(root: str) -> list[dict[str, str]]:
    return [
        {
            'name': name,
            'schemata': _text(root, name, 'schemata'),
            'cpus': _text(root, name, 'cpus_list'),
            'mode': _text(root, name, 'mode').strip() or 'shareable',
        }
        for name in ('', *_list_groups(root))
    ]
