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
from nova import objects
from nova import utils
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

CLAIM = 'ext_resources_claim'
APPLY = 'ext_resources_apply'


class _Reporter(compute_utils.EventReporter):
    """Has one event of a name in an action, whose last outcome counts.

    Nova finishes the first event of a name (``action_event_finish`` in
    ``nova.db.main.api``): a second one would never have an end.
    Where the request is of no action, Nova would take the last action of the
    server, which has nothing to do with the start of a host.
    """

    def __enter__(self) -> Any:
        if self._is_first():
            super().__enter__()
        return self

    def _is_first(self) -> bool:
        (uuid,) = self.instance_uuids
        request_id = self.context.request_id
        action = objects.InstanceAction.get_by_request_id(
            self.context, uuid, request_id
        )
        if action is None:
            raise nova_exc.InstanceActionNotFound(
                request_id=request_id, instance_uuid=uuid
            )
        found = objects.InstanceActionEventList.get_by_action(
            self.context, action.id
        )
        return all(one.event != self.event_name for one in found)


@contextlib.contextmanager
def reported(
    context: Any, name: str, host: str, instance: Any
) -> Iterator[None]:
    """Report an event of the action under way.

    Without an action, as after a host's start, nothing is reported. A report
    that fails is only logged.
    The host is part of the event's name, because Nova has one event of a name
    in an action, and several hosts may try the same server. Any user may read
    the name, so that the host is there as the ``hostId`` of the project, which
    Nova shows to its users.
    """
    host_id = utils.generate_hostid(host, instance.project_id)
    event = _Reporter(context, f'{name}:{host_id}', host, instance.uuid)

    def finish(*error: Any) -> None:
        with _logged(instance.uuid):
            event.__exit__(*error)

    with contextlib.ExitStack() as stack:
        with _logged(instance.uuid):
            event.__enter__()
            stack.push(finish)
        yield


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
