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

"""The client of one RMD: the only place that knows RMD's paths.

RMD v0.3.1 has two habits that shape it. Parallel writes corrupt each
other, so all writes to one RMD go one after the other. And a 201 says that
RMD tried, not that it succeeded; :func:`.placing.place_workload` looks.
"""

from collections.abc import Iterable, Mapping
import contextlib
import http
from typing import Any

from oslo_log import log as logging

from nova_ext_resources.rmd import bodies
from nova_ext_resources.rmd import checks
from nova_ext_resources.rmd import decode
from nova_ext_resources.rmd import errors
from nova_ext_resources.rmd import late
from nova_ext_resources.rmd import placing
from nova_ext_resources.rmd import transport as transport_mod
from nova_ext_resources.rmd import values
from nova_ext_resources.rmd import writing

LOG = logging.getLogger(__name__)


class RmdClient:
    """Reads and changes the workloads of one RMD.

    Made by :mod:`.loading`. It may be shared by threads. Every method
    raises an :class:`.errors.RmdError`.

    :param num_closids: classes of service of the host, of which RMD keeps
        two; RMD does not report it
    :param mba_mode: RMD's unit of memory bandwidth, None when it manages
        none; RMD does not report it
    :param allow_shared: let workloads with 0 ways through. Two of them in
        RMD's database keep it from starting again.
    """

    def __init__(
        self,
        transport: transport_mod.Transport,
        *,
        num_closids: int = 8,
        mba_mode: values.MbaUnit | None = 'percentage',
        allow_shared: bool = False,
    ) -> None:
        self._transport = transport
        self._late = late.LateChanges(transport.timeout)
        self._allow_shared = allow_shared
        self._known_cpus: frozenset[int] = frozenset()
        self._known_ways = 0
        self.num_closids = num_closids
        self.mba_mode = mba_mode

    @property
    def url(self) -> str:
        """Where RMD listens, without a slash at the end."""
        return self._transport.url

    def writing(self) -> contextlib.AbstractContextManager[object]:
        """Hold this RMD's writer lock; one thread may hold it repeatedly."""
        return writing.writer_lock(self.url)

    def list_caches(self) -> dict[int, values.Cache]:
        """Give the last-level caches by their id.

        :raises CachesUnreadable: RMD cannot tell; its policy file is wrong
        """
        answer = self._transport.get('/v1/cache/l3')
        caches = decode.caches(answer)
        self._known_cpus = frozenset().union(
            *(cache.cpus for cache in caches.values())
        )
        self._known_ways = max(cache.ways for cache in caches.values())
        return caches

    def list_policies(self) -> dict[str, values.Policy]:
        """Give RMD's policies by name; use their ways, never their name.

        What RMD does with a policy's name depends on the type of its
        policy file: with YAML it enforces nothing.
        """
        return decode.policies(self._transport.get('/v1/policy'))

    def get_mba(self) -> values.Mba:
        """Tell whether the host can limit memory bandwidth."""
        return decode.mba(self._transport.get('/v1/mba'))

    def has_plugin(self, name: str) -> bool:
        """Tell whether a plugin is loaded: only then it has a page.

        What is on the page is the plugin's own business.
        """
        checks.plugin(self.url, name)
        try:
            self._transport.get(f'/v1/{name}')
        except errors.MalformedAnswer as err:
            return err.status != http.HTTPStatus.NOT_FOUND
        return True

    def list_workloads(self) -> tuple[values.Workload, ...]:
        """Give all workloads on record, also those of others."""
        return decode.workloads(self._transport.get('/v1/workloads'))

    def find_workload(self, uuid: str) -> values.Workload | None:
        """Give the workload of a server, None when there is none."""
        checks.uuid(self.url, uuid)
        for workload in self.list_workloads():
            if uuid in (workload.uuid, workload.workload_id):
                return workload
        return None

    def may_change(self, uuid: str) -> bool:
        """Tell whether RMD may still carry out a change given up here.

        Then what it has on record says nothing about the ways in force;
        :meth:`delete_workload` tells when it is over.
        """
        return self._late.is_expected(uuid)

    def hospitality(
        self, *, max_ways: int, min_ways: int, cache_id: int | None = None
    ) -> dict[int, int]:
        """Score from 0 to 100 how well a request would fit, per cache.

        Advisory: RMD counts neither classes of service nor CPUs, and with
        an [InfraGroup] scores 0 where it would succeed.
        """
        checks.ways(self.url, max_ways, min_ways, allow_shared=True)
        body = {'max_cache': max_ways, 'min_cache': min_ways}
        if cache_id is not None:
            body['cache_id'] = cache_id
        return decode.scores(
            self._transport.send('POST', '/v1/hospitality', body)
        )

    def create_workload(
        self,
        *,
        uuid: str,
        core_ids: Iterable[int] = (),
        max_ways: int,
        min_ways: int,
        mba: values.MbaLimit | None = None,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
        task_ids: Iterable[int] = (),
        label: str = '',
    ) -> values.Workload:
        """Ask for a workload whose id is the server's uuid.

        The answer says what RMD has on record. To know what is in force,
        use :meth:`place_workload`.

        :param max_ways: equal to ``min_ways`` for guaranteed ways
        :param plugins: settings of RMD plugins, such as
            ``{'pstate': {'ratio': 3.0}}``; numbers are sent as floats
        :param label: what RMD keeps as its ``uuid``, if not the same
        :raises InvalidWorkload: RMD would mishandle it; nothing was sent
        :raises WorkloadExists: delete it first if it is the wrong one
        :raises NotEnoughCache, NoFreeClos, CpusInUse: it does not fit
        :raises RmdUnavailable: RMD has no such workload now; after a
            timeout it may still make one, so delete it before a retry
        :raises OutcomeUnknown: it may or may not exist
        """
        cores = frozenset(core_ids)
        tasks = tuple(task_ids)
        self._check(uuid, cores, tasks, max_ways, min_ways)
        checks.mba(self.url, mba, self.mba_mode, max_ways, min_ways)
        body = bodies.make_body(
            uuid=uuid,
            core_ids=cores,
            task_ids=tasks,
            max_ways=max_ways,
            min_ways=min_ways,
            mba=mba,
            plugins=checks.plugins(self.url, plugins),
            label=label,
        )
        with self.writing():
            workload = self._post(uuid, body)
            if not workload.cos_name:
                # RMD found nothing to do although it was given ways.
                self.delete_workload(uuid)
                raise errors.NotEnforced(
                    url=self.url,
                    action='POST /v1/workloads',
                    uuid=uuid,
                    reason='it got no class of service. It was deleted '
                    'again; RMD\'s log tells more.',
                )
        return workload

    def _check(
        self,
        uuid: str,
        cores: frozenset[int],
        tasks: tuple[int, ...],
        max_ways: int,
        min_ways: int,
    ) -> None:
        """Refuse what RMD would mishandle, before anything is sent."""
        checks.uuid(self.url, uuid)
        checks.targets(self.url, cores, tasks)
        if not cores <= self._known_cpus or not self._known_ways:
            # A CPU may have come online since the caches were last read.
            self.list_caches()
        checks.cores(self.url, cores, self._known_cpus)
        checks.ways(
            self.url,
            max_ways,
            min_ways,
            available=self._known_ways,
            allow_shared=self._allow_shared,
        )

    def _post(self, uuid: str, body: Mapping[str, Any]) -> values.Workload:
        try:
            return decode.workload(
                self._transport.send('POST', '/v1/workloads', body)
            )
        except (errors.RmdUnavailable, errors.MalformedAnswer) as err:
            found = self._look_after(err, uuid, 'POST')
            if found is None:
                self._late.see_absent(uuid)
                raise
            self._late.forget(uuid)
            if not bodies.is_as_asked(found, body):
                raise errors.WorkloadExists(
                    url=self.url,
                    action='POST /v1/workloads',
                    reason=f'it has another workload of server {uuid}',
                    workload_id=found.workload_id,
                ) from err
            return found

    def _look_after(
        self, err: errors.RmdError, uuid: str, action: str
    ) -> values.Workload | None:
        """Find out what became of a change that got no proper answer.

        :raises OutcomeUnknown: RMD does not tell
        """
        if isinstance(err, errors.RmdUnavailable) and not err.was_sent:
            raise err
        if late.may_be_late(err):
            self._late.expect(uuid)
        LOG.warning(
            'Asking whether the change took effect, after: %(err)s',
            {'err': err},
        )
        try:
            return self.find_workload(uuid)
        except errors.RmdError as again:
            raise errors.OutcomeUnknown(
                url=self.url,
                action=action,
                uuid=uuid,
                reason=f'{err} Then: {again}',
            ) from again

    def delete_workload(self, uuid: str) -> None:
        """Remove the workload of a server; none is a success.

        :raises ForeignWorkload: RMD's own Nova listener made it
        :raises OutcomeUnknown: it may or may not exist, or may appear
            later; try again after the timeout
        """
        checks.uuid(self.url, uuid)
        with self.writing():
            self._delete(uuid, uuid)
            # One that others made for the server has an id of RMD's.
            other = self.find_workload(uuid)
            if other is not None:
                checks.path_id(self.url, other.workload_id)
                self._delete(other.workload_id, uuid)
            if not self._late.see_absent(uuid):
                raise errors.OutcomeUnknown(
                    url=self.url,
                    action='DELETE',
                    uuid=uuid,
                    reason='it is not there, but RMD gave no answer to an '
                    'earlier request in time and may still carry that out; '
                    f'this is certain in {self._late.timeout:g} seconds',
                )

    def _delete(self, workload_id: str, uuid: str) -> None:
        was_late = self.may_change(uuid)
        try:
            answer = self._transport.send(
                'DELETE', f'/v1/workloads/{workload_id}'
            )
            if answer.text:
                answer.raise_malformed(f'not empty: {answer.reason!r}')
        except errors.WorkloadNotFound:
            return
        except (errors.RmdUnavailable, errors.MalformedAnswer) as err:
            if self._look_after(err, uuid, 'DELETE') is not None:
                raise
            if not was_late:
                self._late.forget(uuid)

    def replace_workload(
        self,
        *,
        uuid: str,
        core_ids: Iterable[int],
        max_ways: int,
        min_ways: int,
        mba: values.MbaLimit | None = None,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[int, int]:
        """Give a server other ways or cores: delete, then place anew.

        RMD's PATCH is not used: when it fails, the record stays, points to
        a class of service of somebody else, and harms that one later.

        :raises RmdError: the server may have no workload now
        """
        with self.writing():
            self.delete_workload(uuid)
            return self.place_workload(
                uuid=uuid,
                core_ids=core_ids,
                max_ways=max_ways,
                min_ways=min_ways,
                mba=mba,
                plugins=plugins,
            )

    def place_workload(
        self,
        *,
        uuid: str,
        core_ids: Iterable[int],
        max_ways: int,
        min_ways: int,
        mba: values.MbaLimit | None = None,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
        label: str = '',
    ) -> dict[int, int]:
        """Create a workload and give the mask that it got, per cache id.

        See :func:`.placing.place_workload`.
        """
        return placing.place_workload(
            self,
            uuid=uuid,
            core_ids=core_ids,
            max_ways=max_ways,
            min_ways=min_ways,
            mba=mba,
            plugins=plugins,
            label=label,
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._transport.close()
