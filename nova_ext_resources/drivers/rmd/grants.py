# SPDX-License-Identifier: Apache-2.0

"""Which ways servers have got of RMD, as far as that can be known.

RMD's record of a workload does not contain its ways, and proves nothing: its
database may survive a reboot, and resctrl may be mounted anew, while the
kernel has forgotten every mask. Four things together do prove it:

* The workload is on record. Otherwise nobody has the ways.
* The cache pages show none of the ways as free. RMD derives these pages from
  the control groups of the kernel.
* They show none of its CPUs in the default group.
* No other workload has got one of them. Of two, only the one that got its
  ways last in this process is certain.

An example: RMD gave ways 5-6 to server A, and the host was booted. Then RMD
gave the free ways 5-6 to server B, or other software took them. The page shows
them as used, and A has none.
"""

from collections.abc import Iterable, Mapping
import contextlib
from typing import TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask

#: Cache id -> mask of ways.
Masks: TypeAlias = Mapping[int, int]

Caches: TypeAlias = Mapping[int, values.RmdCache]


def read(entry: assignment.Entry, *names: str) -> Masks:
    """Return the ways that a server has for itself, by its ledger entry.

    Units of another tracker, which the resource had once, are no ways.

    :param names: only ways of these resource classes; both if none is given
    """
    masks = {}
    names = names or (classes.WAYS, classes.BURST)
    for one in classes.pick(entry.assignments, *names):
        with contextlib.suppress(KeyError, TypeError, ValueError):
            mask = bitmask.parse_mask(one.units['mask'])
            masks[classes.find_domain(one)] = mask
    return masks


def find_common(masks: Masks, others: Masks) -> Masks:
    """Return the ways that are in both, without caches that have none."""
    return {
        cache_id: common
        for cache_id, mask in masks.items()
        if (common := mask & others.get(cache_id, 0))
    }


def has_idle_cpus(entry: assignment.Entry, caches: Caches) -> bool:
    """Return whether CPUs of a server use the ways of the default group."""
    return any(
        cache.idle_cpus & (entry.cpus or frozenset())
        for cache in caches.values()
    )


def is_pool_lost(entry: assignment.Entry, caches: Caches) -> bool:
    """Return whether the shared pool of RMD's record is not in the kernel."""
    return has_idle_cpus(entry, caches) or any(
        cache.free.get(values.SHARED) for cache in caches.values()
    )


def _is_free(masks: Masks, caches: Caches) -> bool:
    free = {cache_id: cache.free_mask for cache_id, cache in caches.items()}
    return bool(find_common(masks, free))


class Grants:
    """What RMD has granted since this process began. Safe to share by threads.

    A claim, a repair and a release of one server never run side by side, and
    RMD grants under its writer lock.
    """

    def __init__(self) -> None:
        self._latest: dict[str, Masks] = {}

    def add(self, uuid: str, masks: Masks) -> None:
        """Note a grant; whoever had one of these ways has lost it."""
        for other, theirs in list(self._latest.items()):
            if find_common(theirs, masks):
                self._latest.pop(other, None)
        self._latest[uuid] = masks

    def drop(self, uuid: str) -> None:
        """Forget what a server had."""
        self._latest.pop(uuid, None)

    def find(
        self,
        entry: assignment.Entry,
        others: Iterable[assignment.Entry],
        caches: Caches,
    ) -> Masks | None:
        """Return the ways that a server has, None when they are not certain.

        :param entry: of a server whose workload is on record
        :param others: of all other servers whose workload is on record
        """
        masks = self._latest.get(entry.consumer_uuid)
        if masks is None:
            masks = read(entry)
            if any(find_common(masks, read(one)) for one in others):
                return None
        is_lost = _is_free(masks, caches) or has_idle_cpus(entry, caches)
        return None if is_lost else masks
