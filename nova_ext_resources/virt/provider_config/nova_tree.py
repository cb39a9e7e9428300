# SPDX-License-Identifier: Apache-2.0

"""Nova's own copy of what placement has of the host's providers."""

from typing import Any

from nova.compute import resource_tracker
from nova import utils


def forget(tracker: Any) -> None:
    """Clear Nova's cache of the provider tree.

    Until it expires, up to five minutes later, every update of the node and
    every build would fail because of a provider that is gone.

    :param tracker: Nova's resource tracker; None where there is none (yet)
    """
    if tracker is None:
        return
    lock = utils.synchronized(
        resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True
    )
    lock(tracker.reportclient.clear_provider_cache)()
