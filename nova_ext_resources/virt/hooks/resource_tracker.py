# SPDX-License-Identifier: Apache-2.0

"""Nova's own claims for moves, and ours together with them.

Nova tries another host when its claim in ``prep_resize`` fails, and only
then. It calls no method of a driver there with the server. So a function is
put around ``ResourceTracker.resize_claim``, which Nova calls there. Read in
and tried with Nova 34 (ComputeManager ``_prep_resize``).
"""

from collections.abc import Callable, Iterator
import contextlib
import functools
from typing import Any, TypeAlias

from oslo_log import log as logging
from oslo_utils import excutils

LOG = logging.getLogger(__name__)

#: Claims for a server that is about to move here. Gets the context, the
#: ``nova.objects.Instance`` as it will be on this host, the former one, and
#: the ``nova.objects.Migration``; and the allocations of the server.
ClaimMove: TypeAlias = Callable[[Any, Any, Any, Any, Any], None]

#: Releases that again; gets the migration.
ReleaseMove: TypeAlias = Callable[[Any], None]


def watch(tracker: Any, claim: ClaimMove, release: ReleaseMove) -> None:
    """Claim and release together with a tracker's claims for resizes.

    Both are called outside of Nova's semaphore.

    :param tracker: a ``nova.compute.resource_tracker.ResourceTracker``
    :param claim: raises what Nova is to see
    """
    original = tracker.resize_claim

    @functools.wraps(original)
    def resize_claim(
        context: Any,
        instance: Any,
        flavor: Any,
        nodename: str,
        migration: Any,
        allocations: Any,
        **options: Any,
    ) -> Any:
        made = original(
            context,
            instance,
            flavor,
            nodename,
            migration,
            allocations,
            **options,
        )
        try:
            moved = instance.obj_clone()
            moved.flavor = flavor
            moved.numa_topology = made.claimed_numa_topology
            claim(context, moved, instance, migration, allocations)
        except BaseException:
            with excutils.save_and_reraise_exception():
                # With the context, a later rebuild would take the CPUs of this
                # host.
                take_back(
                    instance, made.abort, instance.drop_migration_context
                )
        return _aborting_both(made, functools.partial(release, migration))

    tracker.resize_claim = resize_claim


@contextlib.contextmanager
def _aborting_both(made: Any, release: Callable[[], None]) -> Iterator[Any]:
    """Surround what Nova does with both claims: it tells the source."""
    with made:
        try:
            yield made
        except BaseException:
            release()
            raise


def has_live_claim(instance: Any, migration: Any) -> bool:
    """Return whether Nova has claimed CPUs here for a live migration.

    It does so for a server with a NUMA topology. What it has left of a former
    migration does not count.

    :param migration: None where the conductor omits it; Nova claims nothing
    """
    found = instance.migration_context
    return (
        found is not None
        and migration is not None
        and found.migration_id == migration.id
    )


def drop_live_claim(
    tracker: Any, context: Any, instance: Any, migration: Any, nodename: str
) -> None:
    """Take back what Nova has claimed for a live migration to this host.

    :param tracker: a ``nova.compute.resource_tracker.ResourceTracker``
    """
    take_back(
        instance,
        lambda: _drop_cpus(tracker, context, instance, migration, nodename),
        lambda: tracker.free_pci_device_claims_for_instance(context, instance),
    )


def _drop_cpus(
    tracker: Any, context: Any, instance: Any, migration: Any, nodename: str
) -> None:
    if not has_live_claim(instance, migration):
        return
    take_back(
        instance,
        lambda: tracker.drop_move_claim(
            context, instance, nodename, flavor=instance.flavor
        ),
        # Or a later rebuild would take the CPUs of this host.
        instance.drop_migration_context,
    )


def take_back(instance: Any, *steps: Callable[[], None]) -> None:
    """Take a claim back, step by step; raise nothing in place of its reason.

    A step that fails keeps no other one from being done.
    """
    for step in steps:
        try:
            step()
        except Exception:
            LOG.exception(
                'Could not undo the whole claim of a refused move; Nova '
                'corrects its own count within [DEFAULT] '
                'update_resources_interval, and the comparison with Nova '
                'releases the resources of the host',
                instance=instance,
            )
