# SPDX-License-Identifier: Apache-2.0

"""Reports the claims of a server as events, with the reason of a refusal.

When every host has refused, Nova's fault says only that no host is left.
The events of the boot (``openstack server event show``) then have the
reason of each host.
"""

from collections.abc import Iterator
import contextlib
from typing import Any

from nova.compute import utils as compute_utils
from nova import exception as nova_exc

CLAIM = 'ext_resources_claim'
APPLY = 'ext_resources_apply'


@contextlib.contextmanager
def reported(
    context: Any, name: str, host: str, instance_uuid: str
) -> Iterator[None]:
    """Report an event of the action under way.

    Without an action, as after a host's start, nothing is reported.
    The host is part of the event's name, because Nova finishes the first
    event of a name (``nova.db.main.api.action_event_finish``), and several
    hosts may try the same server.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(
                compute_utils.EventReporter(
                    context,
                    f'{name}:{host}'[:255],
                    host,
                    instance_uuid,
                    graceful_exit=True,
                )
            )
        except nova_exc.InstanceActionNotFound:
            # No action: nobody waits for an answer.
            pass
        yield
