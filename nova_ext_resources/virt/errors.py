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

"""Our errors as those by which Nova decides what becomes of a build."""

from collections.abc import Iterator
import contextlib
from typing import Any

from nova.compute import task_states
from nova import exception as nova_exc

from nova_ext_resources import exception


class HostRefused(nova_exc.GroupAffinityViolation):
    """The host cannot take the server, but nothing is broken.

    Of all that ``spawn`` may raise, Nova reschedules this family without
    counting a failed build against the host (ComputeManager
    ``_build_and_run_instance``).
    """

    msg_fmt = '%(reason)s'


@contextlib.contextmanager
def translated(instance_uuid: str) -> Iterator[None]:
    """Turn our errors into Nova's.

    A refused claim goes to another host, and so does one whose allocation
    placement cannot move to the domain of its CPUs. A failure of this host
    goes to another one, too, and counts against this one. A malformed flavor
    fails everywhere, so it is not tried elsewhere.
    """
    try:
        yield
    except (exception.ClaimError, exception.AllocationRejected) as err:
        raise HostRefused(reason=str(err)) from err
    except exception.InvalidExtraSpec as err:
        raise nova_exc.BuildAbortException(
            instance_uuid=instance_uuid, reason=str(err)
        ) from err
    except exception.ExtResourcesError as err:
        # Nova ends the sentence.
        reason = str(err).removesuffix('.')
        raise nova_exc.ComputeResourcesUnavailable(reason=reason) from err


def is_in_place(instance: Any, host: str) -> bool:
    """Tell a rebuild on the server's own host from anything else.

    An evacuation has the same task states on another host.
    """
    return instance.host == host and instance.task_state in (
        task_states.REBUILDING,
        task_states.REBUILD_BLOCK_DEVICE_MAPPING,
        task_states.REBUILD_SPAWNING,
    )


@contextlib.contextmanager
def rebuild_shown(instance: Any, host: str) -> Iterator[None]:
    """Have a rebuild in place that fails leave the server in ERROR.

    Nova takes ``ComputeResourcesUnavailable`` for a claim that failed before
    anything was touched, and sets the server back to ACTIVE (ComputeManager
    ``rebuild_instance``). By now its guest and its disk are gone. It does
    hold for an evacuation.
    """
    try:
        yield
    except nova_exc.ComputeResourcesUnavailable as err:
        if not is_in_place(instance, host):
            raise
        raise nova_exc.BuildAbortException(
            instance_uuid=instance.uuid, reason=err.format_message()
        ) from err
