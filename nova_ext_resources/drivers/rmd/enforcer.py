# SPDX-License-Identifier: Apache-2.0

"""Puts cache ways and memory bandwidth into force through RMD."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
import contextlib
import dataclasses
import functools
from typing import ClassVar, NoReturn, TypeAlias
import uuid

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import rmd
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import refusals
from nova_ext_resources.drivers.rmd.api import difference
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import removal
from nova_ext_resources.drivers.rmd.api import request
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import verify
from nova_ext_resources.drivers.rmd import constraints
from nova_ext_resources.drivers.rmd import grants
from nova_ext_resources.drivers.rmd import loading
from nova_ext_resources.drivers.rmd import shared_pool
from nova_ext_resources.drivers.rmd import workload as workload_mod
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_constraints

LOG = logging.getLogger(__name__)

#: The host has no room for the server now; RMD itself is well.
_BUSY = (errors.NotEnoughCache, errors.NoFreeClos, errors.CpusInUse)

#: A restart of RMD alone leaves them, with their CPUs and ways.
_REMEDY = (
    'stop RMD, remove its control groups (rmdir /sys/fs/resctrl/COS*), start '
    'RMD (a second time if the first start fails), and restart nova-compute'
)

#: The flavor asks for what RMD does not have on this host.
_NEVER = (
    errors.PluginNotLoaded,
    errors.PluginRefused,
    workload_mod.Impossible,
)

#: Workloads on record, caches, and control groups.
_Seen: TypeAlias = tuple[
    Collection[values.RmdWorkload], grants.Caches, difference.Groups
]


class RmdEnforcer(base.Enforcer):
    """One workload per server, on its pinned CPUs; one for the shared pool.

    RMD chooses the run of ways; what it chose comes back as the units of
    the assignments. What a server has is never changed while it runs: RMD's
    PATCH takes it out of force for a moment, or for good. So there are no
    shares, and the attribute ``max`` of bandwidth has no effect.
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = rmd.OPTS
    CHOOSES_UNITS = True
    # The kernel refuses CPUs that are offline. Then libpqos fails, and RMD
    # answers 200 to DELETE, and keeps the class of service and its ways.
    NEEDS_ONLINE_CPUS = True
    EXTRA_SPECS = {  # noqa: RUF012
        # Names as RMD lists them, lower case.
        'policy': r'[a-z0-9_-]{1,64}',
        'pstate_monitoring': 'on|off',
        'pstate_ratio': r'[0-9]{1,2}\.[0-9]{1,4}',
    }
    RESOURCE_CLASSES = frozenset(
        {classes.CLOS, *workload_mod.WAY_CLASSES, *classes.BANDWIDTHS}
    )

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
        guests: base.GuestsReader = dict,
    ) -> None:
        super().__init__(options, host, entries, guests)
        self._client = loading.from_options(options)
        self._pool = shared_pool.RmdSharedPool(self._client)
        self._grants = grants.Grants()
        self._is_ready = False
        # What list_applied saw.
        self._seen: _Seen = (), {}, {}

    # -- what the host asks for ----------------------------------------

    def check_ready(self) -> None:
        """RMD lets more identities read than create; see the base class."""
        try:
            self._is_ready = self._is_ready or self._client.is_writable()
        except errors.RmdError as err:
            self._refuse('', str(err), err)

    def restore(self, note: str, write: base.NoteWriter) -> None:
        self._client.losses.restore(note, write)

    @property
    def constraints(self) -> Mapping[str, host_constraints.ClassConstraints]:
        return constraints.CONSTRAINTS

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        with self._translated(entry):
            wanted = workload_mod.make(
                entry,
                burst_ways=self.options.burst_ways,
                policy=self._find_policy(entry),
            )
            client = self._client
            found = client.list_workloads()
            masks = None
            # Until the ledger says so, nobody knows which ways a workload of
            # RMD has got.
            if entry.state is assignment.State.APPLIED:
                caches, groups = client.list_caches(), client.list_groups()
                masks = self._find_applied(
                    entry, wanted.matches, (found, caches, groups)
                )
            if masks is None:
                masks = self._make_anew(entry, wanted, found)
        return tuple(_take_over(one, masks) for one in entry.assignments)

    def release(self, entry: assignment.Entry) -> None:
        if entry.assignments and not workload_mod.find_ways(entry):
            return
        with self._translated(entry):
            self._take_out(entry)

    def list_applied(self) -> frozenset[str]:
        client = self._client
        try:
            # The lock: all must show the same state of RMD.
            with client.writing():
                found, groups = client.list_workloads(), client.list_groups()
                self._seen = found, client.list_caches(), groups
        except errors.RmdError as err:
            self._refuse('', str(err), err)
        own = [one.uuid for one in found if _is_ours(one)]
        return frozenset((*own, *shared_pool.list_members(found)))

    def is_applied(self, entry: assignment.Entry) -> bool:
        # What came late may have other ways than those of before.
        is_like = functools.partial(workload_mod.is_like, entry=entry)
        masks = self._find_applied(entry, is_like, self._seen)
        if masks is None:
            LOG.warning(
                'Host %(host)s: RMD lists server %(uuid)s, but the kernel '
                'lacks its ways %(ways)s or its other settings: resctrl was '
                'mounted again, or the host was booted and RMD kept its '
                'database, or another program changed the settings. The '
                'settings are applied again',
                {
                    'host': self.host,
                    'uuid': entry.consumer_uuid,
                    'ways': difference.describe(grants.read(entry)),
                },
            )
        return masks == grants.read(entry)

    def list_problems(self) -> tuple[alarm.Problem, ...]:
        client = self._client
        found = {
            f'rmd {pool}': f'has put {misses} of the last {tries} masks of '
            f'its pool {pool} on the wrong cache, so servers may be refused; '
            'the fault dates from the start of RMD, so restart RMD, and then '
            'nova-compute'
            for pool, (misses, tries) in client.odds.list_bad().items()
        }
        if lost := client.losses.list_all():
            found['rmd classes'] = (
                f'has lost {len(lost)} of its {client.num_closids} classes of '
                f'service; the last loss: {lost[-1].text}. See the log of '
                f'RMD, then {_REMEDY}'
            )
        workloads, caches, groups = self._seen
        if stale := difference.list_stale(groups, workloads, caches):
            found['rmd groups'] = (
                'has control groups without a workload, and a server that '
                'gets the class of such a group does not have its ways alone: '
                f'{", ".join(stale)}; {_REMEDY}'
            )
        return tuple(
            alarm.Problem(
                alarm=alarm.RESTART_NEEDED,
                subject=subject,
                text=f'RMD at {client.url} {text}',
            )
            for subject, text in found.items()
        )

    # -- how it gets there ---------------------------------------------

    def _find_policy(self, entry: assignment.Entry) -> values.RmdPolicy | None:
        name = entry.enforcers.get('rmd', {}).get('policy')
        if name is None:
            return None
        policies = self._client.list_policies()
        if name not in policies:
            raise workload_mod.Impossible(
                entry.assignments,
                f'RMD has no policy {name} on this host; RMD has '
                f'{", ".join(sorted(policies)) or "none"}',
            )
        return policies[name]

    def _find_applied(
        self,
        entry: assignment.Entry,
        is_like: Callable[[values.RmdWorkload], bool],
        seen: _Seen,
    ) -> grants.Masks | None:
        """Return the ways that a server has; None: it has to be made anew.

        :param is_like: whether a workload on record can be its own
        """
        found, caches, groups = seen
        if workload_mod.is_shared(entry):
            members = shared_pool.list_members(found)
            is_in = members.get(entry.consumer_uuid) == entry.cpus
            is_lost = grants.is_pool_lost(entry, caches)
            is_lost |= self._pool.may_change()
            return {} if is_in and not is_lost else None
        own = _find_own(entry, found)
        if (
            own is None
            or self._client.may_change(entry.consumer_uuid)
            or not is_like(own)
            or difference.find_wrong_limit(groups, own, caches)
        ):
            return None
        recorded = {one.uuid for one in found} - {entry.consumer_uuid}
        others = [
            one
            for uuid, one in self.list_entries().items()
            if uuid in recorded and one.state is assignment.State.APPLIED
        ]
        return self._grants.find(entry, others, caches)

    def _make_anew(
        self,
        entry: assignment.Entry,
        wanted: request.WorkloadRequest,
        found: Iterable[values.RmdWorkload],
    ) -> dict[int, int]:
        self._check_losses(entry, wanted)
        if workload_mod.is_shared(entry):
            masks = self._join(entry)
            self._check_domains(entry, masks)
            return masks
        masks = self._place(entry, wanted, found)
        self._check_domains(entry, masks)
        self._check_free(entry, masks)
        self._grants.add(entry.consumer_uuid, masks)
        return masks

    def _join(self, entry: assignment.Entry) -> dict[int, int]:
        cpus = entry.cpus or frozenset()
        # Those that RMD has lost with its database come back with it.
        members = {
            uuid: one.cpus or frozenset()
            for uuid, one in self.list_entries().items()
            if one.state is assignment.State.APPLIED
            and workload_mod.is_shared(one)
        }
        uuid = entry.consumer_uuid
        masks = self._pool.join(uuid, {**members, uuid: cpus})
        caches = self._client.list_caches()
        return {
            cache_id: mask
            for cache_id, mask in masks.items()
            if caches[cache_id].cpus & cpus
        }

    def _place(
        self,
        entry: assignment.Entry,
        wanted: request.WorkloadRequest,
        found: Iterable[values.RmdWorkload],
    ) -> dict[int, int]:
        self._grants.drop(entry.consumer_uuid)
        may_change = self._client.may_change(entry.consumer_uuid)
        if may_change or _find_own(entry, found) is not None:
            removal.remove_workload(self._client, entry.consumer_uuid)
        return verify.place_workload(self._client, wanted)

    def _take_out(self, entry: assignment.Entry) -> None:
        # Of one without assignments nobody knows what it had.
        if workload_mod.is_shared(entry) or not entry.assignments:
            self._pool.leave(entry.consumer_uuid)
        if not workload_mod.is_shared(entry):
            self._grants.drop(entry.consumer_uuid)
            removal.remove_workload(self._client, entry.consumer_uuid)

    def _check_losses(
        self, entry: assignment.Entry, wanted: request.WorkloadRequest
    ) -> None:
        """Make sure that the attempt does not only cost a class."""
        known = self._client.losses
        if known.is_pausing:
            what = 'nothing is applied for some minutes'
        elif wanted.plugins and known.has_failed_plugin:
            what = (
                f'the RMD plugins ({", ".join(wanted.plugins)}) are not used '
                'again'
            )
        else:
            return
        self._refuse(
            entry.consumer_uuid,
            f'RMD at {self._client.url} has lost classes of service, so '
            f'{what}: {known.list_all()[-1].text}. See the log of RMD, and '
            'the alarm restart_needed',
        )

    def _check_domains(
        self, entry: assignment.Entry, masks: Mapping[int, int]
    ) -> None:
        """Make sure that the ways lie where they are counted.

        RMD gives ways of the caches that the CPUs use, whatever was
        claimed.
        """
        given = {classes.make_l3_key(cache_id) for cache_id in masks}
        claimed = {one.rp_key for one in workload_mod.find_ways(entry)}
        if given != claimed:
            self._take_out(entry)
            self._refuse(
                entry.consumer_uuid,
                f'the server claimed ways of {", ".join(sorted(claimed))}, '
                f'but its CPUs use {", ".join(sorted(given))}; add the test '
                'cache_affinity to [ext_resources] claim_tests',
            )

    def _check_free(
        self, entry: assignment.Entry, masks: grants.Masks
    ) -> None:
        """Make sure that a new server has no ways of another one.

        RMD grants what the kernel has lost. What is applied again may get
        ways of another that has lost them too: the repair finds that one
        other ways, as it holds as much as before.
        """
        if entry.state is not assignment.State.CLAIMED:
            return
        for one in self.list_entries().values():
            common = grants.find_common(masks, grants.read(one))
            if (
                common
                and one.state is assignment.State.APPLIED
                and one.consumer_uuid != entry.consumer_uuid
            ):
                self._take_out(entry)
                self._refuse(
                    entry.consumer_uuid,
                    f'RMD gave this server ways {difference.describe(common)} '
                    f'of server {one.consumer_uuid}, whose ways the kernel '
                    'has lost; the next audit applies the lost ways again, or '
                    'the alarm not_applied says why this fails; then start '
                    'this server once more',
                )

    # -- refusing ------------------------------------------------------

    @contextlib.contextmanager
    def _translated(self, entry: assignment.Entry) -> Iterator[None]:
        try:
            yield
        except _NEVER as err:
            assignments = getattr(err, 'assignments', entry.assignments)
            raise refusals.make_violated(
                self.host, entry.consumer_uuid, assignments, str(err)
            ) from err
        except _BUSY as err:
            raise refusals.make_busy(
                self.host,
                entry.consumer_uuid,
                workload_mod.find_ways(entry),
                f'other software on the host uses this resource: {err}',
            ) from err
        except errors.RmdError as err:
            self._is_ready = False
            self._refuse(entry.consumer_uuid, str(err), err)

    def _refuse(
        self, uuid: str, reason: str, cause: Exception | None = None
    ) -> NoReturn:
        raise exception.EnforcementFailed(
            host=self.host, enforcer='rmd', consumer_uuid=uuid, reason=reason
        ) from cause


def _find_own(
    entry: assignment.Entry, found: Iterable[values.RmdWorkload]
) -> values.RmdWorkload | None:
    """Return the workload of a server, whoever made it."""
    for one in found:
        if entry.consumer_uuid in (one.uuid, one.workload_id):
            return one
    return None


def _take_over(
    one: assignment.Assignment, masks: grants.Masks
) -> assignment.Assignment:
    if one.resource_class not in (classes.WAYS, classes.BURST):
        return one
    mask = masks.get(classes.find_domain(one))
    if mask is None:
        return one
    text = bitmask.format_mask(mask)
    return dataclasses.replace(one, units={**one.units, 'mask': text})


def _is_ours(workload: values.RmdWorkload) -> bool:
    """Workloads of ours have the server's uuid as their id in RMD."""
    if workload.workload_id != workload.uuid:
        return False
    try:
        return str(uuid.UUID(workload.uuid)) == workload.uuid
    except ValueError:
        return False
