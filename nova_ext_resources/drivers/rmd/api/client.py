# SPDX-License-Identifier: Apache-2.0

"""The client of one RMD: the only place that knows RMD's paths.

RMD v0.3.1 has two habits that shape it. Parallel writes corrupt each
other, so all writes to one RMD go one after the other. And a 201 means that
RMD tried, not that it succeeded: use :func:`.verify.place_workload`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
import contextlib
import http
import re

from oslo_log import log as logging

from nova_ext_resources.drivers.resctrl.kernel import errors as kernel_errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import group_files
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.rmd.api import decode
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd.api import odds
from nova_ext_resources.drivers.rmd.api import pending_changes
from nova_ext_resources.drivers.rmd.api import request as request_mod
from nova_ext_resources.drivers.rmd.api import response as response_mod
from nova_ext_resources.drivers.rmd.api import transport as transport_mod
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import writer_lock

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

_POST = 'POST /v1/workloads'

#: Where RMD needs resctrl to be mounted.
RESCTRL = '/sys/fs/resctrl'

#: RMD makes it at its start, and gives it to no workload.
_INFRA = 'COS1'

#: RMD keeps the default class and ``COS1``, even if it is not configured.
KEPT_CLOSIDS = 2


class RmdClient:
    """Reads and changes the workloads of one RMD.

    Made by :mod:`.loading`. It may be shared by threads. Every method
    raises an :class:`.errors.RmdError`.

    :ivar losses: classes of service that RMD has lost
    :ivar odds: how often it has picked the right cache
    :param num_closids: classes of service of the host, of which RMD keeps
        two; RMD does not report it
    :param mba_mode: RMD's unit of memory bandwidth, None when it manages
        none; RMD does not report it
    :param allow_shared: accept workloads of the shared pool. Two of them in
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
        self._pending = pending_changes.PendingChanges(transport.timeout)
        self._allow_shared = allow_shared
        self._known_cpus: frozenset[int] = frozenset()
        self._known_ways = 0
        self.odds = odds.Odds()
        self.losses = losses.find_losses(transport.url)
        transport.on_gone = self._forget
        self.num_closids = num_closids
        self.mba_mode = mba_mode

    @property
    def url(self) -> str:
        """Where RMD listens, without a slash at the end."""
        return self._transport.url

    def close(self) -> None:
        """Close the connections."""
        self._transport.session.close()

    def _forget(self) -> None:
        """Nothing listens: what answers later is another process."""
        self.losses.forget()
        self.odds.forget()

    def writing(self) -> contextlib.AbstractContextManager[object]:
        """Hold this RMD's writer lock; one thread may hold it repeatedly."""
        return writer_lock.writer_lock(self.url)

    # -- reading -------------------------------------------------------

    def _get(self, path: str, convert: Callable[[Any], _T]) -> _T:
        return self._transport.get(path).read(convert)

    def list_caches(self) -> dict[int, values.RmdCache]:
        """Return the last-level caches by their id.

        :raises CachesUnreadable: RMD's policy file is wrong
        """
        caches = self._get('/v1/cache/l3', decode.caches)
        self._known_cpus = frozenset().union(
            *(cache.cpus for cache in caches.values())
        )
        self._known_ways = max(cache.ways for cache in caches.values())
        return caches

    def list_policies(self) -> dict[str, values.RmdPolicy]:
        """Return RMD's policies by name; send their ways, never their name.

        What RMD does with a policy's name depends on the type of its
        policy file: with YAML it enforces nothing.
        """
        return self._get('/v1/policy', decode.policies)

    def get_mba(self) -> values.MbaSupport | None:
        """Return how the host limits memory bandwidth; None: it cannot."""
        return self._get('/v1/mba', decode.mba)

    def has_plugin(self, name: str) -> bool:
        """Return whether a plugin is loaded: only then it has a page.

        The format of the page is the plugin's own.
        """
        try:
            self._transport.get(f'/v1/{name}')
        except errors.MalformedResponse as err:
            return err.status != http.HTTPStatus.NOT_FOUND
        return True

    def list_workloads(self) -> tuple[values.RmdWorkload, ...]:
        """Return all workloads on record, also those of other software."""
        found = self._get('/v1/workloads', decode.workloads)
        self.losses.see(found)
        return found

    def list_groups(self) -> dict[str, groups.Group]:
        """Return the control groups of RMD's classes, by name.

        Unlike what RMD reports, it is what is applied. Empty where resctrl
        cannot be read, or has no group that RMD makes at its start.
        """
        try:
            tree = group_files.GroupFiles(
                file_system.RealFileSystem(RESCTRL)
            ).read()
        except kernel_errors.ResctrlError:
            return {}
        found = {n: one for n, one in tree.groups.items() if n[:3] == 'COS'}
        return found if found.pop(_INFRA, None) else {}

    def find_workload(self, uuid: str) -> values.RmdWorkload | None:
        """Return the workload of a server, None when there is none."""
        for workload in self.list_workloads():
            if uuid in (workload.uuid, workload.workload_id):
                return workload
        return None

    def count_classes(self, workloads: Iterable[values.RmdWorkload]) -> int:
        """Return how many classes of service are left for workloads."""
        used = len({one.cos_name for one in workloads} - {''})
        lost = len(self.losses.list_all())
        return max(self.num_closids - KEPT_CLOSIDS - used - lost, 0)

    def may_change(self, uuid: str) -> bool:
        """Return whether RMD may still carry out a change that timed out.

        Then RMD's record does not prove which ways are applied. The change
        is over as soon as :meth:`delete_workload` succeeds.
        """
        return self._pending.is_expected(uuid)

    # -- writing -------------------------------------------------------

    def is_writable(self) -> bool:
        """Return True if RMD would create workloads; it creates none.

        :raises NotPermitted: these credentials may only read
        """
        with contextlib.suppress(errors.RmdRejected):
            self._send('POST', '', {})
        return True

    def create_workload(
        self, request: request_mod.WorkloadRequest
    ) -> values.RmdWorkload:
        """Create a workload.

        The result is what RMD has on record. To know what is applied, use
        :func:`.verify.place_workload`.

        :raises InvalidWorkload: RMD would mishandle it; nothing was sent
        :raises WorkloadExists: delete it first if it is the wrong one
        :raises NotEnoughCache, NoFreeClos, CpusInUse: it does not fit
        :raises RmdUnavailable: RMD has no such workload now; after a
            timeout it may still make one, so delete it before a retry
        :raises OutcomeUnknown: it may or may not exist
        """
        self._check(request)
        with self.writing():
            workload = self._post(request)
            if not workload.cos_name:
                # RMD found nothing to do although ways were requested.
                self.delete_workload(request.uuid)
                raise errors.NotEnforced(
                    url=self.url,
                    action=_POST,
                    uuid=request.uuid,
                    reason='the workload got no class of service and was '
                    'deleted again; see the log of RMD.',
                )
        return workload

    def _check(self, request: request_mod.WorkloadRequest) -> None:
        """Refuse what RMD would mishandle, before anything is sent."""
        if not self._known_ways or not request.core_ids <= self._known_cpus:
            # A CPU may have come online since the caches were last read.
            self.list_caches()
        faults = request_mod.find_problems(
            request,
            known_cpus=self._known_cpus,
            known_ways=self._known_ways,
            mba_mode=self.mba_mode,
            allow_shared=self._allow_shared,
        )
        if reason := '; '.join(faults):
            raise errors.InvalidWorkload(
                url=self.url, action=_POST, reason=reason
            )

    def _post(
        self, request: request_mod.WorkloadRequest
    ) -> values.RmdWorkload:
        try:
            response = self._send('POST', '', request.to_body())
            return response.read(decode.workload)
        except (errors.RmdUnavailable, errors.MalformedResponse) as err:
            found = self._find_outcome(err, request.uuid, 'POST')
            if found is None:
                self._pending.see_absent(request.uuid)
                raise
            self._pending.forget(request.uuid)
            if not request.matches(found):
                raise errors.WorkloadExists(
                    url=self.url,
                    action=_POST,
                    reason='RMD has another workload of server '
                    f'{request.uuid}',
                    workload_id=found.workload_id,
                ) from err
            return found

    def delete_workload(self, uuid: str) -> None:
        """Remove the workload of a server; none is a success.

        :raises ForeignWorkload: RMD's own Nova listener made it
        :raises OutcomeUnknown: it may or may not exist, or may appear
            later; try again after the timeout
        """
        self._check_id(uuid, request_mod.OUR_ID)
        with self.writing():
            self._delete(uuid, uuid)
            # One that others made for the server has an id of RMD's.
            other = self.find_workload(uuid)
            if other is not None:
                self._check_id(other.workload_id, request_mod.PATH_ID)
                self._delete(other.workload_id, uuid)
            if not self._pending.see_absent(uuid):
                raise errors.OutcomeUnknown(
                    url=self.url,
                    action='DELETE',
                    uuid=uuid,
                    reason='the workload does not exist, but RMD did not '
                    'respond in time to an earlier request and may still '
                    'carry out this request; the outcome will be certain in '
                    f'{self._pending.timeout:g} seconds',
                )

    def _check_id(self, workload_id: str, pattern: re.Pattern[str]) -> None:
        """Refuse an id that must not become part of a path."""
        if not pattern.fullmatch(workload_id):
            raise errors.InvalidWorkload(
                url=self.url,
                action='DELETE',
                reason=f'{workload_id!r:.80} cannot be the id of a workload '
                'of a server; delete that workload by hand',
            )

    def _delete(self, workload_id: str, uuid: str) -> None:
        was_pending = self.may_change(uuid)
        try:
            response = self._send('DELETE', f'/{workload_id}')
            if response.text:
                response.raise_malformed(
                    f'the response is not empty: {response.reason!r}'
                )
        except errors.WorkloadNotFound:
            return
        except errors.NotPermitted:
            # Who may only read has never created it either.
            if self.find_workload(uuid) is not None:
                raise
        except (errors.RmdUnavailable, errors.MalformedResponse) as err:
            if self._find_outcome(err, uuid, 'DELETE') is not None:
                raise
            if not was_pending:
                self._pending.forget(uuid)

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> response_mod.RmdResponse:
        return self._transport.send(method, f'/v1/workloads{path}', body)

    def _find_outcome(
        self, err: errors.RmdError, uuid: str, action: str
    ) -> values.RmdWorkload | None:
        """Find out what became of a change that got no proper response.

        :return: the workload as it is now
        :raises OutcomeUnknown: RMD does not report it
        """
        if isinstance(err, errors.RmdUnavailable) and not err.was_sent:
            raise err
        if pending_changes.may_be_pending(err):
            self._pending.expect(uuid)
        LOG.warning(
            'Checking whether RMD carried out a request, after this error: '
            '%(err)s',
            {'err': err},
        )
        try:
            return self.find_workload(uuid)
        except errors.RmdError as again:
            raise errors.OutcomeUnknown(
                url=self.url,
                action=action,
                uuid=uuid,
                reason=f'{err} The check then failed: {again}',
            ) from again
