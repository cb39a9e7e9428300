# SPDX-License-Identifier: Apache-2.0

"""The control groups of the simulated kernel: what is really applied."""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
import random
from typing import Any

from nova_ext_resources.testing.rmd_simulator import masks
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod

#: The default group, which RMD calls its OS group.
DEFAULT = '.'
INFRA = 'COS1'


#: How often a pool is right, and after how many starts of 24.
_ODDS = ((0.72, 21), (0.27, 3))


@dataclasses.dataclass(slots=True, kw_only=True)
class Group:
    """One control group.

    :ivar ways: cache id -> mask
    :ivar bandwidth: cache id -> limit, the maximum when there is none
    :ivar is_foreign: made by other software than RMD
    """

    name: str
    ways: dict[int, int]
    bandwidth: dict[int, int]
    cpus: set[int]
    tasks: list[str]
    is_foreign: bool = False


class Resctrl:
    """All groups of the host. RMD has one per class of service.

    :ivar mixup_odds: see :class:`.settings.Settings`
    :ivar drawn: pool -> its odds since RMD was started
    :ivar offline: CPUs that are off; the kernel has none of them in a group
    """

    def __init__(self, settings: settings_mod.Settings) -> None:
        self._settings = settings
        self._random = random.Random(settings.seed)  # noqa: S311
        self.mixup_odds = settings.mixup_odds
        # Apart, so that a start changes nothing of what comes after it.
        self._starts = random.Random(settings.seed)  # noqa: S311
        self.draw_odds()
        self.offline: set[int] = set()
        self.groups: dict[str, Group] = {}
        self.clear()

    def clear(self) -> None:
        """Be as after a boot, with RMD's groups made."""
        names = [DEFAULT, *(f'COS{n}' for n in range(1, self._settings.clos))]
        self.groups = {name: self._make(name) for name in names}
        self.groups[DEFAULT].cpus = self._online
        infra = self._settings.layout('infra')
        if infra:
            cpus = masks.parse_ranges(self._settings.infra_cpus)
            self.groups[INFRA].ways.update(
                (cache_id, mask)
                for cache_id, mask in infra.items()
                if self._settings.caches[cache_id] & cpus
            )
            self.associate_cpus(INFRA, cpus)

    @property
    def _online(self) -> set[int]:
        return set(range(self._settings.cpus)) - self.offline

    def set_offline(self, cpus: Iterable[int]) -> None:
        """Switch CPUs off, and all others on, which the default group gets."""
        back = self.offline - set(cpus)
        self.offline = set(cpus)
        for group in self.groups.values():
            group.cpus -= self.offline
        self.groups[DEFAULT].cpus |= back

    def _make(self, name: str, *, is_foreign: bool = False) -> Group:
        everything = masks.full(self._settings.ways)
        return Group(
            name=name,
            ways=dict.fromkeys(self._settings.caches, everything),
            bandwidth=dict.fromkeys(
                self._settings.caches, self._settings.mba_maximum
            ),
            cpus=set(),
            tasks=[],
            is_foreign=is_foreign,
        )

    def free_ways(
        self, base: Mapping[int, int], ignored: Collection[str]
    ) -> dict[int, int]:
        """Take from ``base`` what groups use, per cache.

        A group that may use every way counts as using none.
        """
        everything = masks.full(self._settings.ways)
        free = dict(base)
        for group in self.groups.values():
            if group.name in ignored:
                continue
            for cache_id, mask in group.ways.items():
                if mask != everything and cache_id in free:
                    free[cache_id] &= ~mask
        return free

    def draw_odds(self) -> None:
        """Draw for each pool how often it is right until the next start."""
        self.drawn = {
            pool: self._starts.choices(*zip(*_ODDS, strict=True))[0]
            for pool in settings_mod.POOLS
        }

    @property
    def has_groups(self) -> bool:
        """Whether RMD's groups are there."""
        return INFRA in self.groups

    def remove_groups(self) -> None:
        """Do as ``rmdir COS*``; CPUs come back to the default group."""
        for name in [one for one in self.groups if one.startswith('COS')]:
            self.groups[DEFAULT].cpus |= self.groups.pop(name).cpus

    def set_ways(
        self, name: str, ways: Mapping[int, int], pool: str = ''
    ) -> None:
        """Write masks; with the mix-up, RMD's way: to some cache.

        Nothing is written to a group that is gone.
        """
        caches = list(ways)
        if self._settings.has_cache_mixup and name != DEFAULT:
            odds = self.mixup_odds
            if odds is None:
                odds = self.drawn[pool]
            if self._random.random() >= odds:
                # To the next cache, the last one's to the first.
                caches = caches[1:] + caches[:1]
        if name in self.groups:
            self.groups[name].ways.update(
                zip(caches, ways.values(), strict=True)
            )

    def set_bandwidth(self, name: str, limits: Mapping[int, int]) -> None:
        """Write limits; libpqos rounds percentages to the nearest step."""
        if self._settings.mba_mode != 'mbps':
            step = settings_mod.MBA_STEP
            limits = {
                cache_id: max((limit + step // 2) // step * step, step)
                for cache_id, limit in limits.items()
            }
        self.groups[name].bandwidth.update(limits)

    def associate_cpus(self, name: str, cpus: Iterable[int]) -> bool:
        """Move CPUs to a group; none moves when one is off, or not there."""
        moved = set(cpus)
        if name not in self.groups or not moved <= self._online:
            return False
        for group in self.groups.values():
            group.cpus -= moved
        self.groups[name].cpus |= moved
        return True

    def associate_tasks(self, name: str, tasks: Iterable[str]) -> None:
        """Move tasks to a group; in the default group they are not listed."""
        moved = list(tasks)
        for group in self.groups.values():
            group.tasks = [task for task in group.tasks if task not in moved]
        if name != DEFAULT:
            self.groups[name].tasks += moved

    def reset(self, name: str) -> bool:
        """Return a group every way and all bandwidth; its CPUs stay.

        :return: whether there is such a group
        """
        if name not in self.groups:
            return False
        fresh = self._make(name)
        self.groups[name].ways = fresh.ways
        self.groups[name].bandwidth = fresh.bandwidth
        return True

    def update_default(self, ignored: Collection[str]) -> None:
        """Return the default group the ways below the first taken one."""
        ways = self._settings.ways
        free = self.free_ways(
            dict.fromkeys(self._settings.caches, masks.full(ways)),
            {*ignored, DEFAULT, INFRA},
        )
        os_ways = self._settings.pools.get('os', 0)
        self.groups[DEFAULT].ways = {
            cache_id: masks.os_mask(mask, os_ways, ways)
            for cache_id, mask in free.items()
        }

    def add_foreign(
        self, name: str, ways: Mapping[int, int], cpus: Iterable[int] = ()
    ) -> None:
        """Make a group as other software would.

        :raises ValueError: there is such a group, or no such cache or way
        """
        if name in self.groups or not name or '/' in name:
            raise ValueError(f'group {name!r} exists or has no valid name')
        everything = masks.full(self._settings.ways)
        for cache_id, mask in ways.items():
            if cache_id not in self._settings.caches:
                raise ValueError(f'there is no cache {cache_id}')
            if not 0 < mask <= everything:
                raise ValueError(f'ways {mask:#x} of {everything:#x}')
        self.groups[name] = self._make(name, is_foreign=True)
        self.groups[name].ways.update(ways)
        self.associate_cpus(name, cpus)

    def remove_foreign(self, name: str) -> None:
        """Remove a group that is not RMD's.

        :raises KeyError: there is none
        """
        if not self.groups[name].is_foreign:
            raise KeyError(name)
        group = self.groups.pop(name)
        self.groups[DEFAULT].cpus |= group.cpus

    def to_dict(self) -> dict[str, Any]:
        """Write all groups, for a file."""
        return {
            name: {
                'ways': {str(k): v for k, v in group.ways.items()},
                'bandwidth': {str(k): v for k, v in group.bandwidth.items()},
                'cpus': sorted(group.cpus),
                'tasks': group.tasks,
                'is_foreign': group.is_foreign,
            }
            for name, group in self.groups.items()
        }

    def load_dict(self, data: Mapping[str, Any]) -> None:
        """Read what ``to_dict`` wrote."""
        self.groups = {
            name: Group(
                name=name,
                ways={int(k): v for k, v in item['ways'].items()},
                bandwidth={int(k): v for k, v in item['bandwidth'].items()},
                cpus=set(item['cpus']),
                tasks=list(item['tasks']),
                is_foreign=item['is_foreign'],
            )
            for name, item in data.items()
        }
