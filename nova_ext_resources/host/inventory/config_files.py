# SPDX-License-Identifier: Apache-2.0

"""Entries of Nova's provider configuration files about providers of a host.

Nova must not add inventory to a provider that is published here: from its
next update on, it takes its own inventory for that of the virt driver, and
its update of the whole compute node fails. See ResourceTracker
``_merge_provider_configs`` of Nova 34. Read without Nova, for hosts where it
is in another Python environment.
"""

from collections.abc import Collection, Iterator
import dataclasses
import fnmatch
import functools
import os
import re
from typing import Any

from oslo_log import log as logging

from nova_ext_resources.host import manager
from nova_ext_resources.objects.documents import foreign_data

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NamedClass:
    """A resource class that a file adds to a provider.

    :ivar lines: of the file that name the class, from 1
    """

    path: str
    lines: tuple[int, ...]
    identification: str
    resource_class: str

    def __str__(self) -> str:
        return (
            f'{locate(self.path, self.lines)}: provider {self.identification} '
            'is published by this program. If Nova adds '
            f'{self.resource_class} to this provider, Nova cannot update any '
            'inventory of its compute node. Remove the provider from the '
            'file, and restart nova-compute'
        )


def list_own_names(host: manager.HostManager) -> frozenset[str]:
    """Return names and uuids of all providers that plugins report here."""
    keys, pools = host.view.keys, host.found.pools
    node = host.node.hypervisor_hostname
    return frozenset(
        [
            *keys,
            *(f'{node}_{key}' for key in keys.values()),
            *(one.rp_uuid for one in pools),
            *(one.rp_name for one in pools),
        ]
    )


def list_named(folder: str, names: Collection[str]) -> tuple[NamedClass, ...]:
    """Return what the files of a folder add to these providers.

    A file that cannot be read adds nothing. If Nova cannot read it either,
    Nova does not start; if only this program cannot, a warning says so.

    :param names: names and uuids
    """
    return tuple(
        NamedClass(
            path=path,
            lines=find_lines(path, resource_class),
            identification=identification,
            resource_class=resource_class,
        )
        for path in _list_files(folder)
        for identification, resource_class in _list_classes(path)
        if identification in names
    )


def find_lines(path: str, word: str) -> tuple[int, ...]:
    """Return the lines in which a file has a word; none if it is gone."""
    pattern = re.compile(rf'(?<![\w-]){re.escape(word)}(?![\w-])')
    try:
        with open(path, encoding='utf-8') as file:
            return tuple(
                number
                for number, line in enumerate(file, 1)
                if pattern.search(line)
            )
    except (OSError, ValueError) as err:
        LOG.debug('%(path)s: %(err)s', {'path': path, 'err': err})
        return ()


def locate(path: str, lines: Collection[int]) -> str:
    """Return words for a place in a file."""
    if not lines:
        return path
    return f'{path}, line {", ".join(map(str, lines))}'


def _list_files(folder: str) -> list[str]:
    """Return the paths of the files that Nova reads; none without a folder.

    As Nova's ``glob``, without those whose names begin with a dot.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as err:
        _warn(folder, str(err))
        return []
    found = fnmatch.filter(names, '[!.]*.yaml')
    return [os.path.join(folder, name) for name in found]


@functools.cache
def _warn(path: str, reason: str) -> None:
    """Log once what each round finds anew."""
    LOG.warning(
        '%(path)s cannot be read: %(reason)s. Nova may use this file to add '
        'inventory to a provider of this host. Correct the file, or make it '
        'readable for the user of this program.',
        {'path': path, 'reason': reason},
    )


def _list_classes(path: str) -> Iterator[tuple[str, str]]:
    """Return name or uuid of a provider, and what the file adds to it."""
    for one in _read_entries(path):
        match one:
            case {
                'identification': {'name': str(name)} | {'uuid': str(name)},
                'inventories': {'additional': [*additional]},
            }:
                for added in additional:
                    if isinstance(added, dict):
                        yield from ((name, str(one)) for one in added)


def _read_entries(path: str) -> list[Any]:
    try:
        with open(path, encoding='utf-8') as file:
            document = foreign_data.load_yaml(file.read())
    except (OSError, ValueError) as err:
        _warn(path, str(err))
        return []
    match document:
        case {'providers': [*entries]}:
            return entries
    return []
