# SPDX-License-Identifier: Apache-2.0

"""Reports the claims of a server as events, with the reason of a refusal.

When every host has refused, Nova's fault says only that no host is left.
The events of the boot (``openstack server event show``) then have the
reason of each host.
"""

from collections.abc import Iterator
import contextlib
import sys
from typing import Any

from nova.compute import utils as compute_utils
from nova import exception as nova_exc
from nova import utils
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

CLAIM = 'ext_resources_claim'
APPLY = 'ext_resources_apply'


@contextlib.contextmanager
def reported(
    context: Any, name: str, host: str, instance: Any
) -> Iterator[None]:
    """Report an event of the action under way.

    Without an action, as after a host's start, nothing is reported. A report
    that fails is only logged.
    The host is part of the event's name, because Nova finishes the first
    event of a name (``nova.db.main.api.action_event_finish``), and several
    hosts may try the same server. Any user may read the name, so that the host
    is there as the ``hostId`` of the project, which Nova shows to its users.
    """
    instance_uuid = instance.uuid
    host_id = utils.generate_hostid(host, instance.project_id)
    event = compute_utils.EventReporter(
        context, f'{name}:{host_id}', host, instance_uuid, graceful_exit=True
    )
    with _logged(instance_uuid):
        event.__enter__()
    try:
        yield
    except BaseException:
        with _logged(instance_uuid):
            event.__exit__(*sys.exc_info())
        raise
    with _logged(instance_uuid):
        event.__exit__(None, None, None)


@contextlib.contextmanager
def _logged(instance_uuid: str) -> Iterator[None]:
    """Log that a report failed.

    What the host has done counts, whether or not the conductor can be told.
    """
    try:
        yield
    except nova_exc.InstanceActionNotFound:
        pass
    except Exception as err:
        LOG.warning(
            'An event of server %(uuid)s could not be reported: %(err)s',
            {'uuid': instance_uuid, 'err': err},
        )
