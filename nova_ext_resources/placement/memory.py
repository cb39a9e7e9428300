# SPDX-License-Identifier: Apache-2.0

"""What placement last had of a host's providers, in a file.

So that a restart does not read each of them again. A generation says whether
that still holds, with two exceptions. A provider that was deleted and created
again, and a database that was restored from a backup, can come to the same
generation with other content. Aggregates can change without a new generation:
clients older than microversion 1.19 do that. So :mod:`.tree` writes nothing
that is based on this file alone, and reads all of it again little by little.
"""

from collections.abc import Mapping
import dataclasses
import hashlib
import json
import os
from typing import Any

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import foreign_data
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

    :param ledger_path: the file is beside it, in a folder that exists
    :ivar path: of the file
    """

    def __init__(self, ledger_path: str) -> None:
        self.path = os.path.realpath(ledger_path) + SUFFIX
        self._written = ''
        self._failures: set[str] = set()

    def read(self, node_uuid: str) -> _Providers:
        """Return rp_uuid -> provider, each with its generation.

        None at all, if the file is missing, damaged, of another version of
        this package, or of another compute node.
        """
        try:
            with open(self.path, encoding='utf-8') as file:
                checksum, _newline, text = file.read().partition('\n')
            if checksum != _sum(text):
                raise ValueError('it is damaged')
            data = foreign_data.load_json(text)
            if (data['version'], data['node']) != (VERSION, node_uuid):
                raise ValueError('another version or compute node wrote it')
            return {one['rp_uuid']: _load(one) for one in data['providers']}
        except FileNotFoundError:
            return {}
        except (
            OSError,
            *foreign_data.UNREADABLE,
            exception.InvalidResource,
        ) as err:
            LOG.info(
                '%(path)s is not used, so that placement is read instead: '
                '%(err)s',
                {'path': self.path, 'err': err},
            )
            return {}

    def write(self, node_uuid: str, providers: _Providers) -> None:
        """Write the file in place of the former one; remove both on failure.

        Not synced: after a power failure it is the former file, whose
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
        try:
            self._replace(f'{_sum(text)}\n{text}')
        except OSError as err:
            self._note(
                'cannot be written, so that the next start reads all '
                f'providers of this host from placement: {err}'
            )
            self.forget()
        else:
            self._written = text
            self._failures.clear()

    def forget(self) -> None:
        """Remove the file, synced, before what it says may be wrong."""
        self._written = ''
        for path in (self.path, self._made_path):
            try:
                _remove(path)
            except OSError as err:
                self._note(
                    'cannot be removed. If placement was changed meanwhile, '
                    'the next start notices that some minutes later. To '
                    'prevent that, delete the file while the service is '
                    f'stopped: {err}'
                )

    @property
    def _made_path(self) -> str:
        return f'{self.path}.new'

    def _replace(self, content: str) -> None:
        with open(
            self._made_path, 'w', encoding='utf-8', opener=_open_private
        ) as file:
            file.write(content)
        os.replace(self._made_path, self.path)

    def _note(self, failure: str) -> None:
        """Log a failure once until a file was written."""
        if failure not in self._failures:
            LOG.warning(
                '%(path)s %(failure)s', {'path': self.path, 'failure': failure}
            )
        self._failures.add(failure)


def _remove(path: str) -> None:
    """Remove a file, synced, if it is there.

    :raises OSError: it can neither be removed nor emptied
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError:
        # An empty file counts as a damaged one.
        _sync(path, os.O_WRONLY | os.O_TRUNC)
        return
    _sync(os.path.dirname(path), os.O_RDONLY)


def _sync(path: str, flags: int) -> None:
    opened = os.open(path, flags)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


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
        generation=foreign_data.read_whole(data['generation']),
        inventories={
            name: inventory_obj.Inventory(**own)
            for name, own in data['inventories'].items()
        },
        traits=frozenset(data['traits']),
        aggregates=frozenset(data['aggregates']),
    )
