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

"""Tells the owner of a server what a host did, and why it refused.

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
    """Make what happens inside an event of the action under way.

    Nothing is reported when there is no action, as after a host's start.
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
            # Nobody has asked for it, so nobody waits for an answer.
            pass
        yield
