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

"""Puts cache ways into force through the Resource Management Daemon."""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
from typing import ClassVar, NoReturn
import uuid

from oslo_config import cfg

from nova_ext_resources.conf import rmd as conf
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.plugins import base
from nova_ext_resources import rdt
from nova_ext_resources.rmd import client as rmd_client
from nova_ext_resources.rmd import errors
from nova_ext_resources.rmd import values

#: The host has no room for the server now; RMD itself is well.
_BUSY = (errors.NotEnoughCache, errors.NoFreeClos, errors.CpusInUse)


class RmdEnforcer(base.Enforcer):
    """One workload of guaranteed ways per server, on its pinned CPUs.

    RMD chooses the run of ways; what it chose comes back as the units of
    the assignments.
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = conf.OPTS
    #: Names as RMD lists them, lower case.
    EXTRA_SPECS = {'policy': r'[a-z0-9_-]{1,64}'}  # noqa: RUF012
    RESOURCE_CLASSES = frozenset({rdt.WAYS, rdt.CLOS})

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        super().__init__(options, host)
        self._client = rmd_client.from_options(options)

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        ways = self._find_ways(entry)
        with self._translated(entry):
            self._check_policy(entry, ways)
            found = self._client.find_workload(entry.consumer_uuid)
            is_uncertain = self._client.may_change(entry.consumer_uuid)
            if found is not None or is_uncertain:
                if not is_uncertain and _is_in_force(entry, ways, found):
                    return entry.assignments
                self._client.delete_workload(entry.consumer_uuid)
            masks = self._client.place_workload(
                uuid=entry.consumer_uuid,
                core_ids=entry.cpus or (),
                max_ways=ways,
                min_ways=ways,
            )
            self._check_domains(entry, masks)
        return tuple(_take_over(one, masks) for one in entry.assignments)

    def release(self, entry: assignment.Entry) -> None:
        if entry.assignments and not any(
            one.resource_class == rdt.WAYS for one in entry.assignments
        ):
            return
        with self._translated(entry):
            self._client.delete_workload(entry.consumer_uuid)

    def list_applied(self) -> frozenset[str]:
        try:
            workloads = self._client.list_workloads()
        except errors.RmdError as err:
            raise exception.EnforcementFailed(
                host=self.host,
                enforcer='rmd',
                consumer_uuid='',
                reason=str(err),
            ) from err
        return frozenset(one.uuid for one in workloads if _is_ours(one))

    def is_in_force(self, entry: assignment.Entry) -> bool:
        # What came late may have other ways than those of before.
        return not self._client.may_change(entry.consumer_uuid)

    def _find_ways(self, entry: assignment.Entry) -> int:
        """Give how many ways the server has on each of its domains."""
        held = {
            one.rp_key: one.amount
            for one in entry.assignments
            if one.resource_class == rdt.WAYS
        }
        if len(set(held.values())) > 1:
            self._refuse(
                entry,
                'RMD gives a server the same number of ways on every cache, '
                f'but it asks for {held}; make the amounts of its request '
                'groups equal',
            )
        if not held:
            self._refuse_bare_class(entry)
        if not entry.cpus:
            self._refuse(
                entry,
                'its CPUs float, and RMD limits pinned CPUs only; set '
                'hw:cpu_policy=dedicated on the flavor',
            )
        return next(iter(held.values()))

    def _check_policy(self, entry: assignment.Entry, ways: int) -> None:
        """Hold the flavor's policy against the amount that was claimed."""
        name = entry.enforcers.get('rmd', {}).get('policy')
        if name is None:
            return
        policies = self._client.list_policies()
        policy = policies.get(name)
        if policy is None:
            self._refuse(
                entry,
                f'RMD has no policy {name} on this host; it has '
                f'{", ".join(sorted(policies)) or "none"}',
            )
        elif not policy.max_ways == policy.min_ways == ways:
            self._refuse(
                entry,
                f'RMD policy {name} stands for {policy.min_ways} to '
                f'{policy.max_ways} ways, but the flavor asks for '
                f'resources:{rdt.WAYS}={ways}; make them equal',
            )

    def _check_domains(
        self, entry: assignment.Entry, masks: Mapping[int, int]
    ) -> None:
        """Make sure that the ways lie where they are counted.

        RMD gives ways of the caches that the CPUs use, whatever was
        claimed.
        """
        given = {rdt.make_l3_key(cache_id) for cache_id in masks}
        claimed = {
            one.rp_key
            for one in entry.assignments
            if one.resource_class == rdt.WAYS
        }
        if given != claimed:
            self._client.delete_workload(entry.consumer_uuid)
            self._refuse(
                entry,
                f'its ways were claimed of {", ".join(sorted(claimed))}, but '
                f'its CPUs use {", ".join(sorted(given))}; have the test '
                'cache_affinity among [ext_resources] claim_tests',
            )

    @contextlib.contextmanager
    def _translated(self, entry: assignment.Entry) -> Iterator[None]:
        try:
            yield
        except _BUSY as err:
            raise rdt.make_busy(
                self.host,
                entry.consumer_uuid,
                rdt.pick(entry.assignments, rdt.WAYS),
                f'something else on the host uses it: {err}',
            ) from err
        except errors.RmdError as err:
            raise exception.EnforcementFailed(
                host=self.host,
                enforcer='rmd',
                consumer_uuid=entry.consumer_uuid,
                reason=str(err),
            ) from err

    def _refuse_bare_class(self, entry: assignment.Entry) -> NoReturn:
        """RMD makes a class of service for ways, and for nothing else."""
        raise rdt.make_violated(
            self.host,
            entry.consumer_uuid,
            rdt.pick(entry.assignments, rdt.CLOS),
            'RMD gives a class of service together with cache ways only; ask '
            f'for resources:{rdt.WAYS} too (it brings the class by itself)',
        )

    def _refuse(self, entry: assignment.Entry, reason: str) -> None:
        raise exception.EnforcementFailed(
            host=self.host,
            enforcer='rmd',
            consumer_uuid=entry.consumer_uuid,
            reason=reason,
        )


def _is_in_force(
    entry: assignment.Entry, ways: int, found: values.Workload | None
) -> bool:
    # Until the ledger says so, nobody knows which ways a workload of RMD
    # has got: it is made anew.
    return (
        found is not None
        and entry.state is assignment.State.APPLIED
        and found.core_ids == entry.cpus
        and found.max_ways == found.min_ways == ways
    )


def _take_over(
    one: assignment.Assignment, masks: dict[int, int]
) -> assignment.Assignment:
    if one.resource_class != rdt.WAYS:
        return one
    cache_id = rdt.find_domain(one)
    mask = bitmask.format_mask(masks[cache_id])
    return dataclasses.replace(one, units={'mask': mask})


def _is_ours(workload: values.Workload) -> bool:
    """Workloads of ours have the server's uuid as their id in RMD."""
    if workload.workload_id != workload.uuid:
        return False
    try:
        return str(uuid.UUID(workload.uuid)) == workload.uuid
    except ValueError:
        return False
