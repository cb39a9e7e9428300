# SPDX-License-Identifier: Apache-2.0

"""The servers that share RMD's shared pool: one workload for them all.

RMD means each of them to be a workload of its own, all in one class of
service. But two records with the same class in its database keep the daemon
from starting again, and after any restart it forgets which class that was and
opens a second one. So there is never more than one: it has the CPUs of all
servers of the pool, and what RMD calls its uuid, which is free text, says
whose they are::

    <server uuid>=1-2 <server uuid>=5,9

Whenever a server comes or goes it is deleted and made anew. In between, for
some milliseconds, the servers of the pool fill the ways of the operating
system.
"""

from collections.abc import Iterable, Mapping

from oslo_log import log as logging

from nova_ext_resources.drivers.rmd.api import client as client_mod
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import removal
from nova_ext_resources.drivers.rmd.api import request
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import verify
from nova_ext_resources.objects import bitmask

LOG = logging.getLogger(__name__)


def format_members(members: Mapping[str, frozenset[int]]) -> str:
    """Write which server has which CPUs."""
    return ' '.join(
        f'{uuid}={bitmask.format_list(cpus)}'
        for uuid, cpus in sorted(members.items())
    )


def parse_members(text: str) -> dict[str, frozenset[int]]:
    """Read what :func:`format_members` wrote.

    :raises ValueError: it is something else
    """
    members = {}
    for part in text.split():
        uuid, _equals, cpus = part.partition('=')
        members[uuid] = bitmask.parse_list(cpus)
    return members


def list_members(
    workloads: Iterable[values.RmdWorkload],
) -> dict[str, frozenset[int]]:
    """Return the servers of the pool with their CPUs.

    Somebody else may have made a workload of that name, or changed its CPUs:
    then nobody is in the pool, and it is made anew.
    """
    for one in workloads:
        if one.workload_id == values.SHARED_ID:
            try:
                members = parse_members(one.uuid)
            except ValueError:
                return {}
            cpus = frozenset[int]().union(*members.values())
            return members if cpus == one.core_ids else {}
    return {}


class RmdSharedPool:
    """Lets servers into the pool, and out."""

    def __init__(self, client: client_mod.RmdClient) -> None:
        self._client = client

    def join(
        self, uuid: str, members: Mapping[str, frozenset[int]]
    ) -> dict[int, int]:
        """Let a server in; give the pool's ways of each cache.

        :param members: it, and others that are to be in, with their CPUs
        :raises NotEnoughCache: somebody else has a shared workload, or the
            pool's ways
        :raises RmdError: it is not in; the others are, as far as RMD lets
        """
        with self._client.writing():
            workloads = self._client.list_workloads()
            self._check_alone(workloads)
            before = list_members(workloads)
            try:
                return self._write({**before, **members})
            except errors.RmdError:
                self._restore({u: c for u, c in before.items() if u != uuid})
                raise

    def leave(self, uuid: str) -> None:
        """Let a server out; one that is not in is a success.

        :raises RmdError: it may still be in, or the others may be out
        """
        with self._client.writing():
            members = list_members(self._client.list_workloads())
            if uuid not in members and not self.may_change():
                return
            members.pop(uuid, None)
            self._write(members)

    def may_change(self) -> bool:
        """See :meth:`.client.RmdClient.may_change`."""
        return self._client.may_change(values.SHARED_ID)

    def _write(self, members: Mapping[str, frozenset[int]]) -> dict[int, int]:
        removal.remove_workload(self._client, values.SHARED_ID)
        if not members:
            return {}
        wanted = request.WorkloadRequest(
            uuid=values.SHARED_ID,
            core_ids=frozenset[int]().union(*members.values()),
            max_ways=0,
            min_ways=0,
            label=format_members(members),
        )
        return verify.place_workload(self._client, wanted)

    def _restore(self, members: Mapping[str, frozenset[int]]) -> None:
        """Let those in again that were; repair tries what fails here again."""
        try:
            self._write(members)
        except errors.RmdError as err:
            LOG.error(
                'RMD at %(url)s: the servers of the shared pool lack the ways '
                'of the pool until the repair has added the servers again: '
                '%(err)s',
                {'url': self._client.url, 'err': err},
            )

    def _check_alone(self, workloads: Iterable[values.RmdWorkload]) -> None:
        for one in workloads:
            if one.is_shared and one.workload_id != values.SHARED_ID:
                raise errors.NotEnoughCache(
                    url=self._client.url,
                    action='join the shared pool',
                    reason=f'workload {one.workload_id} is in the shared pool '
                    'already, and RMD does not start with two shared '
                    'workloads',
                )
