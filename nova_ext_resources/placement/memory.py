# SPDX-License-Identifier: Apache-2.0

"""What placement last had of a host's providers, in a file.

So that a restart does not read each of them again. A generation says whether
that still holds, with two exceptions. A provider that was deleted and created
again, and a database that was restored from a backup, can come to the same
generation with other content. And clients older than microversion 1.19 change
aggregates without a new generation. So :mod:`.tree` writes nothing that is
based on this file alone, and reads all of it again little by little.
"""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
import hashlib
import json
import os
from typing import Any

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider as provider_obj

LOG = logging.getLogger(__name__)

#: Of the file, after the path of the ledger.
SUFFIX = '.published'

#: Of what is in the file; any other is not read.
VERSION = 1

FILE_MODE = 0o600

_Providers = Mapping[str, provider_obj.Provider]


class Memory:
    """Keeps the providers of one compute node; raises nothing.

    :param path: the file, in a folder that exists
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._written = ''
        self._failure = ''

    def read(self, node_uuid: str) -> _Providers:
        """Return rp_uuid -> provider, each with its generation.

        None at all, if the file is missing, damaged, of another version of
        this package, or of another compute node.
        """
        try:
            with open(self._path, encoding='utf-8') as file:
                checksum, _newline, text = file.read().partition('\n')
            if checksum != _sum(text):
                raise ValueError('it is damaged')
            data = json.loads(text)
            if (data['version'], data['node']) != (VERSION, node_uuid):
                raise ValueError('another version or compute node wrote it')
            return {one['rp_uuid']: _load(one) for one in data['providers']}
        except FileNotFoundError:
            return {}
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            exception.InvalidResource,
        ) as err:
            LOG.info(
                '%(path)s is not used, so that placement is read instead: '
                '%(err)s',
                {'path': self._path, 'err': err},
            )
            return {}

    def write(self, node_uuid: str, providers: _Providers) -> None:
        """Write the file in place of the former one.

        Not synced: where the machine fails, the file is the former one, whose
        generations have passed, or a damaged one.
        """
        text = json.dumps(
            {
                'version': VERSION,
                'node': node_uuid,
                'providers': [
                    _dump(one) for _rp_uuid, one in sorted(providers.items())
                ],
            }
        )
        if text == self._written:
            return
        with self._noting_failure():
            self._replace(f'{_sum(text)}\n{text}')
            self._written = text

    def forget(self) -> None:
        """Remove the file, synced, before what it says may be wrong."""
        self._written = ''
        with self._noting_failure(), contextlib.suppress(FileNotFoundError):
            self._remove()

    def _replace(self, content: str) -> None:
        made = f'{self._path}.new'
        with open(made, 'w', encoding='utf-8', opener=_open_private) as file:
            file.write(content)
        os.replace(made, self._path)

    def _remove(self) -> None:
        os.unlink(self._path)
        folder = os.open(os.path.dirname(self._path) or '.', os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Log an error once until it is gone."""
        failure = ''
        try:
            yield
        except OSError as err:
            failure = str(err)
        if failure and failure != self._failure:
            LOG.warning(
                '%(path)s cannot be written, so that the next start reads '
                'all providers of this host from placement: %(failure)s',
                {'path': self._path, 'failure': failure},
            )
        self._failure = failure


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=FILE_MODE)


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _dump(one: provider_obj.Provider) -> dict[str, Any]:
    return {
        'rp_uuid': one.rp_uuid,
        'name': one.name,
        'parent_uuid': one.parent_uuid,
        'generation': one.generation,
        'inventories': {
            name: dataclasses.asdict(inventory)
            for name, inventory in sorted(one.inventories.items())
        },
        'traits': sorted(one.traits),
        'aggregates': sorted(one.aggregates),
    }


def _load(data: Mapping[str, Any]) -> provider_obj.Provider:
    return provider_obj.Provider(
        rp_uuid=data['rp_uuid'],
        name=data['name'],
        parent_uuid=data['parent_uuid'],
        generation=int(data['generation']),
        inventories={
            name: inventory_obj.Inventory(**own)
            for name, own in data['inventories'].items()
        },
        traits=frozenset(data['traits']),
        aggregates=frozenset(data['aggregates']),
    )
