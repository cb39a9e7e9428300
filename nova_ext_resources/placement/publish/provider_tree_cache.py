# SPDX-License-Identifier: Apache-2.0

"""One compute node's provider tree as placement was last seen to have it.

A file keeps it, so that a restart does not read each of them again. A
generation says whether that still holds, with two exceptions. A provider that
was deleted and created again, and a database that was restored from a backup,
can come to the same generation with other content. Aggregates can change
without a new generation: clients older than microversion 1.19 do that. So
:mod:`.tree_writer` writes nothing that is based on this file alone, and reads
all of it again little by little.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
import dataclasses
import hashlib
import json
import os
import random
from typing import Any, TypeVar

from oslo_log import log as logging
import tenacity

from nova_ext_resources import exception
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client

LOG = logging.getLogger(__name__)

#: Of the file, after the path of the ledger.
SUFFIX = '.published'

#: Of what is in the file; any other is not read.
VERSION = 1

FILE_MODE = 0o600

_Providers = Mapping[str, host_provider.Provider]


class Memory:
    """Keeps the providers of one compute node; raises nothing.

    :param ledger_path: the file is beside it, in a folder that exists
    :ivar path: of the file
    """

    def __init__(self, ledger_path: str) -> None:
        self.path = os.path.realpath(ledger_path) + SUFFIX
        self._written = ''
        self._failures = log_on_change.LogOnChange()

    def read(self, node_uuid: str) -> _Providers:
        """Return rp_uuid -> provider, each with its generation.

        None at all, if the file is missing, damaged, of another version of
        this package, or of another compute node.
        """
        try:
            with open(self.path, encoding='utf-8') as file:
                checksum, _newline, text = file.read().partition('\n')
            if checksum != _sum(text):
                raise ValueError('the file is damaged')
            data = foreign_data.load_json(text)
            if (data['version'], data['node']) != (VERSION, node_uuid):
                raise ValueError(
                    'another version or compute node wrote the file'
                )
            return {one['rp_uuid']: _load(one) for one in data['providers']}
        except FileNotFoundError:
            return {}
        except (
            OSError,
            *foreign_data.UNREADABLE,
            exception.InvalidResource,
        ) as err:
            LOG.info(
                '%(path)s is not used; all providers are read from placement '
                'instead: %(err)s',
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
                'cannot be written, so the next start reads all providers of '
                f'this host from placement: {err}'
            )
            self.forget()
        else:
            self._written = text
            self._failures.problems.clear()

    def forget(self) -> None:
        """Remove the file, synced, before what it says may be wrong."""
        self._written = ''
        for path in (self.path, self._made_path):
            try:
                _remove(path)
            except OSError as err:
                self._note(
                    'cannot be removed. If placement was changed meanwhile, '
                    'the next start notices the change some minutes later. To '
                    'prevent this delay, delete the file while the service is '
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
        if self._failures.note(failure, failure):
            LOG.warning(
                '%(path)s %(failure)s', {'path': self.path, 'failure': failure}
            )


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


def _dump(one: host_provider.Provider) -> dict[str, Any]:
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


def _load(data: Mapping[str, Any]) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=data['rp_uuid'],
        name=data['name'],
        parent_uuid=data['parent_uuid'],
        generation=foreign_data.read_whole(data['generation']),
        inventories={
            name: class_inventory.Inventory(**own)
            for name, own in data['inventories'].items()
        },
        traits=frozenset(data['traits']),
        aggregates=frozenset(data['aggregates']),
    )


_T = TypeVar('_T')
_R = TypeVar('_R')

#: Requests at the same time; below the ten connections that a session of
#: requests keeps alive.
WORKERS = 4

#: Remembered providers that each publication reads again, of which each costs
#: three requests. So a start with an unchanged tree takes 14, with the tree
#: and the compute node itself.
CHECKED = 4

#: In the place of the generation of a provider that is gone: none has it.
_FORMER = foreign_data.MAX_INT

#: No secret: hosts that restart often shall not check the same ones.
_RANDOM = random.SystemRandom()


class ProviderTreeReader:
    """Reads what has changed; used by one thread at a time.

    The same generation means that nothing has changed. Another generation may
    mean nothing, because every allocation changes it: then that provider is
    read again.

    After a restart it believes what is remembered of a provider, if that still
    has the same generation. Each time it reads a few of these again, until
    none is left.

    :param call: repeats a call to placement, see :mod:`.api.retry`
    :param memory: remembers over restarts; None reads all at each start
    :ivar providers: rp_uuid -> provider, of ours; see :meth:`note`
    :ivar former: likewise, of those that this host has deleted
    """

    def __init__(
        self,
        client: placement_client.Client,
        call: tenacity.Retrying,
        memory: Memory | None,
    ) -> None:
        self._client = client
        self._call = call
        self._memory = memory
        self._has_recalled = memory is None
        self._believed: list[str] = []
        self._foreign: set[str] = set()
        self.providers: dict[str, host_provider.Provider] = {}
        self.former: dict[str, host_provider.Provider] = {}

    def read(
        self, node: host_provider.Node, wanted_uuids: set[str]
    ) -> Sequence[host_provider.Provider]:
        """List the tree, and read what has changed since the last time.

        :returns: all providers, those of others too, with nothing but uuid,
            name, parent and generation
        :raises NotFound: Nova has not yet created the node's own provider
        :raises PlacementError: placement could not be read
        """
        listed = self._call(self._client.list_providers, in_tree=node.uuid)
        uuids = {p.rp_uuid for p in listed}
        if node.uuid not in uuids:
            raise exception.NotFound(
                action=f'show the provider of compute node '
                f'{node.hypervisor_hostname} ({node.uuid})',
                detail='the provider does not exist yet. nova-compute creates '
                'the provider shortly after its first start; extended '
                'resources are published as soon as the provider exists. If '
                'it is missing for more than a few minutes, look for '
                'ResourceProviderCreationFailed in the log of nova-compute, '
                'and for a resource provider of the same name and another '
                'uuid: openstack resource provider list --name '
                f'{node.hypervisor_hostname}',
            )
        self._foreign &= uuids
        for gone in self.providers.keys() - uuids:
            del self.providers[gone]
        self._believed = [one for one in self._believed if one in uuids]
        self._recall(node, listed)
        self._learn_owners(node, listed, wanted_uuids)
        checked = self._believed[:CHECKED]
        self._read_each(
            [p for p in listed if self._has_moved(p) or p.rp_uuid in checked]
        )
        for provider in listed:
            if provider.rp_uuid in self.providers:
                # Name and parent change without a new generation.
                self.providers[provider.rp_uuid] = dataclasses.replace(
                    self.providers[provider.rp_uuid],
                    name=provider.name,
                    parent_uuid=provider.parent_uuid,
                )
        return listed

    @property
    def believed(self) -> int:
        """How many providers are only remembered, and have not been read."""
        return len(self._believed)

    def note(
        self, rp_uuid: str, provider: host_provider.Provider | None
    ) -> None:
        """Note how a provider is after a write.

        :param provider: None: it is gone, or is to be read next time
        """
        self.providers.pop(rp_uuid, None)
        if provider is not None:
            self.providers[rp_uuid] = provider

    def keep(
        self, rp_uuid: str, provider: host_provider.Provider | None
    ) -> None:
        """Keep how a provider was before the host deleted it; None: not."""
        self.former.pop(rp_uuid, None)
        if provider is not None:
            self.former[rp_uuid] = dataclasses.replace(
                provider, generation=_FORMER
            )

    def fill(
        self, listed: Sequence[host_provider.Provider]
    ) -> list[host_provider.Provider]:
        """Return the listed providers, ours with all that is seen of them."""
        return [self.providers.get(one.rp_uuid, one) for one in listed]

    def check(
        self,
        listed: Sequence[host_provider.Provider],
        rp_uuids: frozenset[str],
    ) -> bool:
        """Read those that are only believed; return whether there were any.

        :raises PlacementError: placement could not be read
        """
        believed = rp_uuids.intersection(self._believed)
        self._read_each([one for one in listed if one.rp_uuid in believed])
        return bool(believed)

    def remember(self, node: host_provider.Node) -> None:
        """Remember what is seen; raises nothing."""
        if self._memory:
            self._memory.write(node.uuid, self.former | self.providers)

    def forget(self) -> None:
        """Remember nothing; raises nothing."""
        if self._memory:
            self._memory.forget()

    def _recall(
        self,
        node: host_provider.Node,
        listed: Sequence[host_provider.Provider],
    ) -> None:
        """Begin, once, with what is remembered."""
        if self._has_recalled or self._memory is None:
            return
        self._has_recalled = True
        remembered = self._memory.read(node.uuid)
        self.former = {
            rp_uuid: one
            for rp_uuid, one in remembered.items()
            if one.generation == _FORMER
        }
        for one in listed:
            if one.rp_uuid in remembered:
                self.providers[one.rp_uuid] = remembered[one.rp_uuid]
                self._believed.append(one.rp_uuid)
        _RANDOM.shuffle(self._believed)
        # Of these, a generation says the least.
        self._believed.sort(key=lambda one: not self.providers[one].aggregates)

    def _read_each(self, listed: Sequence[host_provider.Provider]) -> None:
        for one, read in zip(
            listed, run_each(self._read_provider, listed), strict=True
        ):
            self.note(one.rp_uuid, read)
        done = {one.rp_uuid for one in listed}
        self._believed = [one for one in self._believed if one not in done]

    def _learn_owners(
        self,
        node: host_provider.Node,
        listed: Sequence[host_provider.Provider],
        wanted_uuids: set[str],
    ) -> None:
        """Find out which unknown providers belong to other software."""
        known = self._foreign | self.providers.keys() | wanted_uuids
        unknown = {p.rp_uuid for p in listed} - known
        if unknown - {node.uuid}:
            unknown -= self._call(self._list_owned, node)
        self._foreign |= unknown
        self._foreign -= wanted_uuids

    def _list_owned(self, node: host_provider.Node) -> set[str]:
        # Placement refuses to search for a trait that it does not know.
        if not self._client.has_trait(host_provider.OWNER_TRAIT):
            return set()
        owned = self._client.list_providers(
            in_tree=node.uuid, required=host_provider.OWNER_TRAIT
        )
        return {p.rp_uuid for p in owned}

    def _has_moved(self, listed: host_provider.Provider) -> bool:
        if listed.rp_uuid in self._foreign:
            return False
        seen = self.providers.get(listed.rp_uuid)
        return seen is None or seen.generation != listed.generation

    def _read_provider(
        self, listed: host_provider.Provider
    ) -> host_provider.Provider | None:
        try:
            return self._call(self._client.read_provider, listed)
        except exception.NotFound:
            return None


def run_each(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Call a function with each item, some at the same time."""
    if len(items) < 2:
        return [function(item) for item in items]
    with futures.ThreadPoolExecutor(max_workers=WORKERS) as pool:
        return list(pool.map(function, items))
