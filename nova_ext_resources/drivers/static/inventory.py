# SPDX-License-Identifier: Apache-2.0

"""Resources that cannot be discovered, so an operator defines them."""

import collections
from collections.abc import Container, Iterable
import dataclasses
import pathlib
import re
from typing import ClassVar, TypeAlias

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import values
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.static import broken
from nova_ext_resources.drivers.static import contents as contents_mod
from nova_ext_resources.drivers.static import definitions as definitions_mod
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)

#: A file of a folder that is read; editors' copies are not.
_NAME = re.compile(r'[^.].*\.ya?ml')

#: Changes when a file does, or who may read it: path, inode, size, time of
#: change, mode, user, group. Without numbers: there is no file to be seen.
Signature: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


class StaticInventory(base.InventoryProvider):
    """Reports what a YAML file, or a folder of them, defines.

    The files are read again when they have changed. For a definition with
    an error, the last good one is used, and for a file that cannot be read,
    its last good contents. A process that has just started has none. What
    servers hold of the resource is then known from the ledger, and nothing
    else is offered. Placement may have more: nothing is deleted from it
    meanwhile.
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt(
            'definitions_file',
            default='/etc/nova_ext_resources/definitions.yaml',
            help="""
Resource definitions of this host.

The definitions are read at the start, and again after each change. Move a
new file into place (``mv``) instead of writing into the old file: resources
that are missing from a half-written file are deleted from placement.

Possible values:

* path of a YAML file
* path of a folder: all of its ``*.yaml`` and ``*.yml`` are read
""",
        ),
    )

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
    ) -> None:
        super().__init__(options, host, entries)
        self._path: str = options.definitions_file
        trackers = plugins.load_classes(plugins.TRACKERS).items()
        self._types = {name for name, one in trackers if not one.NEEDS_FACTS}
        self._signature: Signature = ()
        self._contents = contents_mod.Contents()
        self._logged = log_on_change.LogOnChange(f'Host {host}: ')
        option = '[ext_resources_static] definitions_file'
        with values.checked(option, self._path):
            self._read()

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset(self._contents.left_out)

    @property
    def misconfigured(self) -> frozenset[str]:
        return self.left_out

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        lost = [
            bad.make_closed(1)
            for (node, *_), bad in self._contents.lost.items()
            if not node
        ]
        found = [*filter(None, lost), *self._list_by_node()['']]
        return tuple(
            {d.name: d for d in (r.definition for r in found)}.values()
        )

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        with base.discovering('static', ValueError):
            self._read()
        closed = self._list_closed()
        return _make_providers(
            [*self._list_by_node()[''], *closed],
            {one.rp_key for one in closed},
        )

    @property
    def nodes(self) -> tuple[host_provider.BareMetalNode, ...]:
        unread: dict[str, set[str]] = {}
        for node, key, _name in self._contents.lost:
            unread.setdefault(node, set()).add(key)
        return tuple(
            host_provider.BareMetalNode(
                uuid=uuid,
                providers=_make_providers(some, unread.get(uuid, ())),
            )
            for uuid, some in self._list_by_node().items()
            if uuid
        )

    def _list_by_node(
        self,
    ) -> dict[str, list[definitions_mod.StaticResource]]:
        """Return what each bare-metal node has, and '', this host."""
        found: dict[str, list[definitions_mod.StaticResource]] = {'': []}
        for (node, *_), one in self._contents.resources.items():
            found.setdefault(node, []).append(one)
        return found

    def _list_closed(self) -> list[definitions_mod.StaticResource]:
        """Return what servers hold of resources without a good definition."""
        held: collections.Counter[tuple[str, str]] = collections.Counter()
        for entry in self.list_entries().values():
            for one in entry.assignments:
                held[one.rp_key, one.resource_class] += one.amount
        # Of a class that others define well, the type is known from these.
        types = {one.name: one.type for one in self.definitions()}
        closed = [
            dataclasses.replace(
                bad, type=types.get(name, bad.type)
            ).make_closed(held[key, name])
            for (node, key, name), bad in self._contents.lost.items()
            if not node and held[key, name]
        ]
        return [one for one in closed if one]

    def _read(self) -> None:
        """Read the files if they have changed.

        And those again that the system has not let be read: the cause may
        end without a change of the file.

        :raises ValueError: there are none, or not to be seen; nothing has
            changed
        """
        try:
            signature = _sign(self._path)
        except OSError as err:
            raise ValueError(
                f'{err.filename}: {err.strerror}; the file must exist and be '
                'readable by the user of nova-compute'
            ) from err
        if signature == self._signature:
            return
        contents = contents_mod.Contents(
            self._contents.resources, self._contents.lost
        )
        are_read = [self._add(contents, path) for path, _ in signature]
        self._logged.log_new(LOG.error, contents.errors)
        self._contents = contents
        self._signature = signature if all(are_read) else ()

    def _add(self, contents: contents_mod.Contents, path: str) -> bool:
        """Add a file; return whether the system has let it be read."""
        text = ''
        try:
            text = pathlib.Path(path).read_text(encoding='utf-8')
            parsed = definitions_mod.parse(text, path, self._types)
        except OSError as err:
            file = broken.BrokenFile(
                path=path, reason=err.strerror or str(err), is_readable=False
            )
        except ValueError as err:  # UnicodeDecodeError is one
            file = broken.BrokenFile(path=path, reason=str(err), text=text)
        else:
            contents.add(parsed)
            return True
        contents.keep(file, self._types)
        return file.is_readable


def _make_providers(
    resources: Iterable[definitions_mod.StaticResource],
    unread: Container[str],
) -> tuple[host_provider.HostProvider, ...]:
    """Make the providers of this host, or of one bare-metal node.

    :param unread: keys of those of which not all is known
    """
    by_key: dict[str, list[definitions_mod.StaticResource]] = {}
    for one in resources:
        by_key.setdefault(one.rp_key, []).append(one)
    return tuple(
        host_provider.HostProvider(
            key=key,
            inventories={e.definition.name: e.inventory for e in some},
            trackers={e.definition.name: e.definition.type for e in some},
            traits=frozenset().union(*(e.traits for e in some)),
            is_unread=key in unread,
        )
        for key, some in by_key.items()
    )


def _sign(path: str) -> Signature:
    """Find the files, in the order of their names.

    :raises OSError: there is no such file or folder
    :raises ValueError: the folder has none
    """
    folder = pathlib.Path(path)
    folder.stat()
    paths = [folder]
    if folder.is_dir():
        # glob() would hide that the folder cannot be read.
        found = sorted(folder.iterdir())
        paths = [one for one in found if _NAME.fullmatch(one.name)]
    if not paths:
        raise ValueError(
            f'folder {path} has no *.yaml; put a file of resource definitions '
            'there, or remove static from [ext_resources] inventory_providers'
        )
    return tuple((str(one), _find_numbers(one)) for one in paths)


def _find_numbers(path: pathlib.Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        # To read it will say why.
        return ()
    file = found.st_ino, found.st_size, found.st_mtime_ns
    return *file, found.st_mode, found.st_uid, found.st_gid
