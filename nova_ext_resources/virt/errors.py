# SPDX-License-Identifier: Apache-2.0

"""Errors of this package as those that Nova acts on during a build."""

from collections.abc import Iterator
import contextlib

from nova import exception as nova_exc

from nova_ext_resources import exception
from nova_ext_resources.objects import operation as operation_obj


class HostRefused(nova_exc.GroupAffinityViolation):
    """The host cannot take the server, but nothing is broken.

    Of all that ``spawn`` may raise, Nova reschedules this family without
    counting a failed build against the host (ComputeManager
    ``_build_and_run_instance``).
    """

    msg_fmt = '%(reason)s'


@contextlib.contextmanager
def translated(instance_uuid: str) -> Iterator[None]:
    """Turn errors of this package into Nova's.

    Nova tries another host after a refused claim, and where placement cannot
    move an allocation to the domain of the server's CPUs. It also tries
    another host after a failure of this host, and counts a failed build
    here. A malformed flavor fails on every host, so none is tried.
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


@contextlib.contextmanager
def rebuild_shown(
    operation: operation_obj.Operation, instance_uuid: str
) -> Iterator[None]:
    """Leave the server in ERROR when a rebuild on its own host fails.

    Nova takes ``ComputeResourcesUnavailable`` for a claim that failed before
    anything was touched, and sets the server back to ACTIVE (ComputeManager
    ``rebuild_instance``). That is true for an evacuation. Here its guest and
    its disk are gone by now.
    """
    try:
        yield
    except nova_exc.ComputeResourcesUnavailable as err:
        if operation is not operation_obj.Operation.REBUILD:
            raise
        raise nova_exc.BuildAbortException(
            instance_uuid=instance_uuid, reason=err.format_message()
        ) from err
