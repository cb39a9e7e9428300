# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Resources that nobody can find by looking: somebody writes them down."""

from collections.abc import Iterable
import os
from typing import ClassVar, TypeAlias

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources import definitions as definitions_mod
from nova_ext_resources import exception
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import resource
from nova_ext_resources.plugins import base
from nova_ext_resources.plugins import loader

LOG = logging.getLogger(__name__)

_OPTION = '[ext_resources_static] definitions_file'

#: Changes when a file does: path, inode, size, time of change.
Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]

Entries: TypeAlias = dict[tuple[str, str], definitions_mod.Entry]


class StaticInventory(base.InventoryProvider):
    """Reports what a YAML file, or a folder of them, defines.

    The files are read again when they have changed. An entry with an error
    is logged and left out; if it was good before, it stays as it was. A
    process that has just started knows nothing of before, but placement may:
    nothing leaves placement while an entry is left out.
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt(
            'definitions_file',
            default='/etc/nova_ext_resources/definitions.yaml',
            help="""
Resource definitions of this host.

They are read at the start, and again when they have changed. Move a new
file into place (``mv``) instead of writing into the old one: what is
missing from a half-written file is taken out of placement.

Possible values:

* path of a YAML file
* path of a folder: all of its ``*.yaml`` and ``*.yml`` count
""",
        ),
    )

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        super().__init__(options, host)
        self._path: str = options.definitions_file
        self._types = frozenset(
            name
            for name, tracker in loader.load_classes(loader.TRACKERS).items()
            if not tracker.NEEDS_FACTS
        )
        self._signature: Signature = ()
        self._entries: Entries = {}
        self._left_out: frozenset[str] = frozenset()
        try:
            self._read()
        except ValueError as err:
            raise exception.InvalidConfiguration(
                option=_OPTION, value=self._path, reason=str(err)
            ) from err

    @property
    def left_out(self) -> frozenset[str]:
        return self._left_out

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        unique = {
            entry.definition.name: entry.definition
            for entry in self._entries.values()
        }
        return tuple(unique.values())

    def discover(self) -> tuple[provider.HostProvider, ...]:
        try:
            self._read()
        except ValueError as err:
            raise exception.DiscoveryFailed(
                plugin='static', reason=str(err)
            ) from err
        by_key: dict[str, list[definitions_mod.Entry]] = {}
        for entry in self._entries.values():
            by_key.setdefault(entry.rp_key, []).append(entry)
        return tuple(_make_provider(key, some) for key, some in by_key.items())

    def _read(self) -> None:
        """Read the files if they have changed.

        :raises ValueError: one of them cannot be read; nothing has changed
        """
        try:
            signature = _sign(self._path)
            if signature == self._signature:
                return
            texts = {path: _load(path) for path, *_rest in signature}
        except OSError as err:
            raise ValueError(
                f'{err.filename}: {err.strerror}; it must be there, and be '
                'readable for the user that nova-compute runs as'
            ) from err
        self._entries = self._parse(texts)
        self._signature = signature

    def _parse(self, texts: dict[str, str]) -> Entries:
        entries: Entries = {}
        problems: list[definitions_mod.Problem] = []
        for path, text in texts.items():
            try:
                some, wrong = definitions_mod.parse(text, path, self._types)
            except ValueError as err:
                raise ValueError(f'{path}, {err}; correct the file') from err
            problems.extend(wrong)
            for entry in some:
                if entry.place in entries:
                    first = entries[entry.place]
                    problems.append(_make_duplicate(first, entry))
                else:
                    entries[entry.place] = entry
        left_out = set()
        for problem in problems:
            self._report(problem, entries)
            if problem.place not in entries:
                left_out.add(problem.place[1] or problem.origin)
        self._left_out = frozenset(left_out)
        return entries

    def _report(
        self, problem: definitions_mod.Problem, entries: Entries
    ) -> None:
        """Log it, once for each change of the files."""
        effect = (
            'it is left out, and nothing is taken out of placement until it '
            'is corrected'
        )
        if problem.place in entries:
            effect = 'the first one counts'
        elif problem.place in self._entries:
            entries[problem.place] = self._entries[problem.place]
            effect = 'it stays as it was before'
        LOG.error(
            'Host %(host)s: bad resource definition; %(effect)s: %(problem)s',
            {'host': self.host, 'effect': effect, 'problem': problem},
        )


def _sign(path: str) -> Signature:
    """Find the files, in the order of their names.

    :raises ValueError: the folder has none
    """
    paths = [path]
    if os.path.isdir(path):
        names = sorted(os.listdir(path))
        paths = [
            os.path.join(path, name)
            for name in names
            if name.endswith(('.yaml', '.yml')) and not name.startswith('.')
        ]
    if not paths:
        raise ValueError(
            f'folder {path} has no *.yaml; put a file of resource definitions '
            'there, or take static out of [ext_resources] inventory_providers'
        )
    found = [(one, os.stat(one)) for one in paths]
    return tuple((p, s.st_ino, s.st_size, s.st_mtime_ns) for p, s in found)


def _load(path: str) -> str:
    """Read one file.

    :raises ValueError: it is no text
    """
    with open(path, encoding='utf-8') as file:
        try:
            return file.read()
        except UnicodeDecodeError as err:
            raise ValueError(f'{path} is not UTF-8: {err.reason}') from err


def _make_duplicate(
    first: definitions_mod.Entry, entry: definitions_mod.Entry
) -> definitions_mod.Problem:
    return definitions_mod.Problem(
        origin=entry.origin,
        place=entry.place,
        reason=f'provider {entry.rp_key} has it from {first.origin}; keep '
        'one of the two, or give each a provider of its own',
    )


def _make_provider(
    key: str, entries: Iterable[definitions_mod.Entry]
) -> provider.HostProvider:
    some = {entry.definition.name: entry for entry in entries}
    return provider.HostProvider(
        key=key,
        inventories={name: entry.inventory for name, entry in some.items()},
        trackers={name: entry.definition.type for name, entry in some.items()},
        traits=frozenset().union(*(entry.traits for entry in some.values())),
    )
