# SPDX-License-Identifier: Apache-2.0

"""Reports the claims of a server as events, with the reason of a refusal.

When every host has refused, Nova's fault says only that no host is left.
The events of the boot (``openstack server event show``) then have the
reason of each host.
"""

from collections.abc import Iterator
import contextlib
import functools
import threading
import traceback
from typing import Any, TypeAlias

from nova import exception as nova_exc
from nova import objects
from nova import utils
from oslo_log import log as logging
from oslo_utils import timeutils

from nova_ext_resources.objects import event as event_obj

LOG = logging.getLogger(__name__)

#: Ids of a request and of a server, and the name of an event.
_Key: TypeAlias = tuple[str, str, str]

#: Many times what a host has under way.
_MAX_BEGUN = 1000

#: When this process began, in UTC, as the contexts of Nova have it.
_BEGAN_AT = timeutils.utcnow()

CLAIM = event_obj.CLAIM
APPLY = event_obj.APPLY

#: Characters of a traceback. MySQL keeps 65,535 bytes.
_MAX_TRACEBACK = 16_000


class _Begun:
    """The events that this process has begun; the oldest are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[_Key, None] = {}

    def __contains__(self, key: _Key) -> bool:
        with self._lock:
            return key in self._known

    def add(self, key: _Key) -> None:
        with self._lock:
            self._known[key] = None
            if len(self._known) > _MAX_BEGUN:
                del self._known[next(iter(self._known))]


_BEGUN = _Begun()


@contextlib.contextmanager
def reported(
    context: Any, name: str, host: str, instance: Any
) -> Iterator[None]:
    """Report an event of the action under way; its last outcome counts.

    Without an action, as after a host's start, nothing is reported. A report
    that fails is only logged.
    The host is part of the event's name, because Nova has one event of a name
    in an action, and several hosts may try the same server. Any user may read
    the name, so that the host is there as the ``hostId`` of the project, which
    Nova shows to its users.
    """
    host_id = utils.generate_hostid(host, instance.project_id)
    event = (context, instance.uuid, f'{name}:{host_id}')
    with contextlib.ExitStack() as stack:
        with _logged(instance.uuid):
            _begin(*event, host)
            stack.push(functools.partial(_finish, *event))
        yield


def _begin(context: Any, uuid: str, name: str, host: str) -> None:
    """Begin an event, unless the action has it from a former outcome.

    Nova finishes the first event of a name (``action_event_finish`` in
    ``nova.db.main.api``): a second one would never have an end.

    :raises InstanceActionNotFound: the request is of no action
    """
    if not _is_begun(context, uuid, name):
        objects.InstanceActionEvent.event_start(
            context, uuid, name, want_result=False, host=host
        )
        _BEGUN.add((context.request_id, uuid, name))


def _finish(
    context: Any,
    uuid: str,
    name: str,
    _type: object,
    error: BaseException | None,
    _frames: object,
) -> None:
    """Finish an event; end its traceback with the reason, as Python does.

    Nova cuts the details at 255 characters, and writes frames alone.
    """
    text = None
    if error is not None:
        lines = traceback.format_exception(error, chain=False)
        text = ''.join(lines)[-_MAX_TRACEBACK:]
    with _logged(uuid):
        objects.InstanceActionEvent.event_finish_with_failure(
            context,
            uuid,
            name,
            exc_val=error,
            exc_tb=text,
            want_result=False,
        )


def _is_begun(context: Any, uuid: str, name: str) -> bool:
    """Return whether the action of a request has an event of this name.

    Only this host begins it. So Nova is asked only for a request that is
    older than this process, and for one that is of no action: there Nova would
    take the last action of the server, which has nothing to do with the start
    of a host.
    """
    if context.project_id and context.timestamp > _BEGAN_AT:
        return (context.request_id, uuid, name) in _BEGUN
    action = objects.InstanceAction.get_by_request_id(
        context, uuid, context.request_id
    )
    if action is None:
        raise nova_exc.InstanceActionNotFound(
            request_id=context.request_id, instance_uuid=uuid
        )
    found = objects.InstanceActionEventList.get_by_action(context, action.id)
    return any(one.event == name for one in found)


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
