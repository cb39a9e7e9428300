# SPDX-License-Identifier: Apache-2.0

"""Claims for a move within Nova's own claim on the destination.

Nova tries another host when its claim in ``prep_resize`` fails, and only
then. It calls no method of a driver there with the server. So a function is
put around ``ResourceTracker.resize_claim``, which Nova calls there. Read in
and tried with Nova 34 (ComputeManager ``_prep_resize``).
"""

from collections.abc import Callable
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
                _take_back(made, instance)
        abort = made.abort

        def abort_both() -> None:
            # Nova could not tell the source.
            try:
                release(migration)
            finally:
                abort()

        made.abort = abort_both
        return made

    tracker.resize_claim = resize_claim


def _take_back(made: Any, instance: Any) -> None:
    """Take Nova's claim back; raise nothing in place of its reason."""
    # The context, or a later rebuild would take the CPUs of this host.
    for step in (made.abort, instance.drop_migration_context):
        try:
            step()
        except Exception:
            LOG.exception(
                'A claim of Nova for a resize that was refused could not be '
                'taken back whole; Nova corrects its own count within '
                '[DEFAULT] update_resources_interval',
                instance=instance,
            )
