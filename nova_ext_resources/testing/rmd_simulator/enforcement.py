# SPDX-License-Identifier: Apache-2.0

"""Putting workloads into force: ways, cores, tasks and bandwidth."""

from collections.abc import Iterable, Mapping
import os

from nova_ext_resources.testing.rmd_simulator import allocation
from nova_ext_resources.testing.rmd_simulator import classes
from nova_ext_resources.testing.rmd_simulator import cores
from nova_ext_resources.testing.rmd_simulator import resctrl
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import validation
from nova_ext_resources.testing.rmd_simulator import workload

#: Calls of libpqos: of POST, and of DELETE.
CALLS = frozenset({'mask', 'cpus', 'bandwidth', 'free_cpus', 'free_mask'})


class Enforcement:
    """The classes of service and the groups of one RMD. Not thread-safe.

    :ivar failing: calls of libpqos that fail; RMD says that all is well
    :ivar is_plugin_failing: plugins fail after all else was done
    :ivar bandwidth: the last limit that was asked for; RMD passes it from
        check to act in a global variable
    """

    def __init__(self, settings: settings_mod.Settings) -> None:
        self._settings = settings
        self.resctrl = resctrl.Resctrl(settings)
        self.classes = classes.ClassPool(settings.clos)
        self.failing = frozenset[str]()
        self.is_plugin_failing = False
        self.bandwidth = 0

    def start(self, used: Iterable[str]) -> None:
        """Begin with these classes in use.

        :raises StartFailed: one is named twice, or the groups are gone
        """
        self.classes = classes.ClassPool(self._settings.clos)
        self.bandwidth = 0
        self.resctrl.draw_odds()
        if not self.resctrl.has_groups:
            # It makes them, gives up, and finds them the next time.
            self.resctrl.clear()
            raise classes.StartFailed('No free group')
        for name in used:
            self.classes.mark_used(name)
        self.resctrl.update_default(self.classes.free)

    def free_ways(
        self, pool: str, *, for_workload: bool = False
    ) -> dict[int, int] | None:
        """Return a pool's free ways per cache, None without such a pool.

        :param for_workload: look as the enforcement does, not as the pages
        """
        layout = self._settings.layout(pool)
        if layout is None:
            return None
        # The pages mean to leave the infra group out, but misspell it.
        ignored = {resctrl.DEFAULT}
        if for_workload:
            ignored |= {resctrl.INFRA, *self.classes.free}
        return self.resctrl.free_ways(layout, ignored)

    def enforce(self, record: workload.Record) -> None:
        """Put a workload into force.

        :raises CannotEnforce: RMD gives up
        :raises Panic: a core is impossible
        """
        record.status = 'None'
        asked = cores.read_on_host(record.core_ids, self._settings.cpu_words)
        self._check_policy_plugins(record)
        limits = self._limits(record)
        self._check_bandwidth(record)
        if limits is not None:
            self._enforce_ways(record, asked, *limits)
        self._enforce_plugins(record)
        record.status = 'Successful'

    def _limits(self, record: workload.Record) -> tuple[int, int] | None:
        """Return (max, min) ways to enforce, None when there are none."""
        if not record.policy:
            if not record.has_cache:
                return None
            return record.cache_max or 0, record.cache_min or 0
        try:
            limits = validation.find_policy(self._settings, record.policy)
        except validation.Refused as err:
            raise allocation.CannotEnforce(
                validation.with_details('Could not find the Policy.', str(err))
            ) from None
        return limits if self._settings.policy_file == 'toml' else None

    def _check_policy_plugins(self, record: workload.Record) -> None:
        """What a policy names was not looked at by the validation."""
        for name in self._settings.policy_plugins.get(record.policy, ()):
            if name not in self._settings.plugins:
                raise allocation.CannotEnforce(
                    f"Plugin '{name}' is not loaded"
                )

    def _check_bandwidth(self, record: workload.Record) -> None:
        """PATCH comes here without the checks of POST."""
        if not self._limits_bandwidth(record):
            return
        if not record.has_cache:
            return
        is_guaranteed = record.cache_max == record.cache_min
        if not (is_guaranteed and record.cache_max) and (
            self.bandwidth != self._settings.mba_maximum
        ):
            raise allocation.CannotEnforce(
                'MBA is only supported for Guarantee Cache Request'
            )

    def _enforce_ways(
        self,
        record: workload.Record,
        asked: frozenset[int],
        maximum: int,
        minimum: int,
    ) -> None:
        pool = allocation.check_pool(maximum, minimum)
        free = self.free_ways(pool, for_workload=True)
        if free is None:
            raise allocation.CannotEnforce(
                "Unable to read cache schemata; error doesn't support pool "
                f'{pool}'
            )
        wanted = self._caches_of(asked, record.task_ids)
        chosen = allocation.choose(
            self._settings,
            pool,
            free,
            wanted,
            maximum=maximum,
            minimum=minimum,
        )
        name = self._take_class(pool)
        if pool == allocation.SHARED and self._limits_bandwidth(record):
            raise allocation.CannotEnforce('MBA forbidden for shared group')
        record.cos_name = name
        self._commit(record, asked, chosen, wanted)
        self.resctrl.update_default(self.classes.free)

    def _take_class(self, pool: str) -> str:
        try:
            if pool == allocation.SHARED:
                return self.classes.take_shared()
            return self.classes.take()
        except classes.NoClass as err:
            raise allocation.CannotEnforce(str(err)) from None

    @staticmethod
    def _limits_bandwidth(record: workload.Record) -> bool:
        # What a policy, or somebody beside a policy, says is not enforced.
        return record.has_bandwidth and not record.policy

    def _caches_of(self, asked: frozenset[int], tasks: list[str]) -> set[int]:
        """Find the caches of cores and tasks; all when there are none."""
        cpus = set(asked)
        for task in tasks:
            cpus |= _affinity(task)
        cpus -= self.resctrl.offline
        matching = {
            cache_id
            for cache_id, shared in self._settings.caches.items()
            if cpus & shared
        }
        return matching or set(self._settings.caches)

    def _commit(
        self,
        record: workload.Record,
        asked: frozenset[int],
        chosen: Mapping[int, int],
        wanted: set[int],
    ) -> None:
        """Write to the groups; each failure ends it without a word."""
        name = record.cos_name
        if 'mask' in self.failing or name not in self.resctrl.groups:
            return
        pool = allocation.pool_name(*(self._limits(record) or (0, 0)))
        self.resctrl.set_ways(name, chosen, pool)
        if 'cpus' in self.failing:
            return
        if record.task_ids:
            self.resctrl.associate_tasks(name, record.task_ids)
        elif not self.resctrl.associate_cpus(name, asked):
            return
        if self._limits_bandwidth(record) and 'bandwidth' not in self.failing:
            maximum = self._settings.mba_maximum
            self.resctrl.set_bandwidth(
                name,
                {
                    cache_id: self.bandwidth if cache_id in wanted else maximum
                    for cache_id in self._settings.caches
                },
            )

    def _enforce_plugins(self, record: workload.Record) -> None:
        """Plugins that fail here leave class, ways and cores taken."""
        for name in record.plugins:
            if name not in self._settings.plugins:
                raise allocation.CannotEnforce(validation.NOT_LOADED)
            if self.is_plugin_failing:
                # The words are the plugin's own.
                raise allocation.CannotEnforce(f'{name} failed')

    def release(self, record: workload.Record) -> None:
        """Take a workload out of force.

        RMD logs what fails; then the class is never given back. First the
        cores leave the group, then it gets every way.
        """
        name = record.cos_name
        if not name or 'free_cpus' in self.failing:
            return
        self.resctrl.associate_tasks(resctrl.DEFAULT, record.task_ids)
        released = cores.release_ids(record.core_ids)
        if not self.resctrl.associate_cpus(resctrl.DEFAULT, released):
            return
        group = self.resctrl.groups.get(name)
        is_shared = name == self.classes.shared
        if not is_shared or not (group and (group.cpus or group.tasks)):
            if 'free_mask' in self.failing or not self.resctrl.reset(name):
                return
            self.classes.give(name)
        self.resctrl.update_default(self.classes.free)


def _affinity(task: str) -> set[int]:
    """Tasks are those of this machine, as RMD finds them in /proc."""
    try:
        return os.sched_getaffinity(int(task))
    except OSError:
        return set(range(400))
