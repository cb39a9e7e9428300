# SPDX-License-Identifier: Apache-2.0

"""Why Nova refused a server or a move, from what its API has of it.

A fault, an instance action and its events are read here as the Compute API
shows them. The API leaves out what the user may not see.
"""

from collections.abc import Mapping, Sequence
import re
from typing import Any, TypeAlias

from nova_ext_resources.objects import event as event_obj

#: As in the answers of the Compute API.
Body: TypeAlias = Mapping[str, Any]

#: Actions for which a server needs room on a host.
_MOVES = frozenset(
    {
        'create',
        'evacuate',
        'live-migration',
        'migrate',
        'resize',
        'unshelve',
    }
)

_ERROR = 'Error'

#: Nova keeps 255 bytes of a message, and cuts no character in two.
_CUT_BYTES = 252

#: Ends what Nova has cut.
CUT = '...'

#: What Python writes behind a message: more of a chain of exceptions.
_NEXT = re.compile(
    r'\n+(?:Traceback \(most|During handling of|The above exception)'
)


def complete(message: str, traceback: str) -> str:
    """Return a message whole where a traceback has all of it.

    One of which the rest is unknown ends with :data:`CUT`.

    :param traceback: '' where Nova shows none
    """
    if len(message.encode()) < _CUT_BYTES:
        return message
    place = traceback.rfind(message)
    if place < 0:
        return f'{message}{CUT}'
    return _NEXT.split(traceback[place:])[0].strip()


def read_fault(server: Body) -> str:
    """Return what Nova says of a server in ERROR; '' if nothing."""
    fault = server.get('fault') or {}
    return complete(fault.get('message') or '', fault.get('details') or '')


def read_action(action: Body) -> dict[str, Any]:
    """Return an action and its events that have failed."""
    return {
        'action': action['action'],
        'request_id': action['request_id'],
        'started_at': action['start_time'],
        'events': [
            _read_event(one)
            for one in sorted(
                action['events'], key=lambda one: str(one['start_time'])
            )
            if one['result'] == _ERROR
        ],
    }


def _read_event(event: Body) -> dict[str, str]:
    return {
        'event': event['event'],
        'host': event.get('host') or '',
        'reason': complete(
            event.get('details') or '', event.get('traceback') or ''
        ),
    }


def hides_reasons(action: Body) -> bool:
    """Return whether Nova keeps the reasons of failures from this user."""
    return any(
        one['result'] == _ERROR and 'details' not in one
        for one in action['events']
    )


def has_failed(action: Body) -> bool:
    """Return whether an event of an action failed, of the list of actions."""
    return bool(action['message'])


def find_move(actions: Sequence[Body]) -> Body | None:
    """Return the last action for which the server needed room.

    :param actions: the latest first
    """
    return next((one for one in actions if one['action'] in _MOVES), None)


def is_refused(action: Body) -> bool:
    """Return whether no host took the server, of an action with its events.

    A host that refuses is no end: the next one may take the server.
    """
    events = [(one['event'], one['result']) for one in action['events']]
    return any(result == _ERROR for _name, result in events) and not any(
        result != _ERROR and name.startswith(f'{event_obj.CLAIM}:')
        for name, result in events
    )
