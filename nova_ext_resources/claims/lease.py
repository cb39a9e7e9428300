# SPDX-License-Identifier: Apache-2.0

"""How long a server uses what it has: ``resource:lease:*`` of its flavor.

::

    resource:lease:max_seconds=N        it has gone so long after its creation
    resource:lease:preemptible=true     it may be told to go at any time
    resource:lease:drain_seconds=N      so long before it is told, 300 by
                                        default and 3600 at most
    resource:lease:on_drain=shelve      what is done with it then: shelve, the
                                        default, or delete
    resource:lease:priority=N           a lower one goes first; 0 by default

A server may end sooner than its flavor says, by a scheduler hint::

    nova_ext:lease_seconds=N            as max_seconds, and no more than that

Nothing here is a matter for the host: it is the scheduler that lends what is
reserved for later, and the manager of reservations that has it given back.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import re
from typing import TypeAlias

from nova_ext_resources import exception

#: What stands where other keys have a class or an enforcer.
SUBJECT = 'lease'

_PREFIX = f'resource:{SUBJECT}:'

#: Scheduler hint of a server: when it ends. Its owner cannot change it later.
HINT = 'nova_ext:lease_seconds'

#: Scheduler hints of a server, as Nova keeps them: name -> values.
Hints: TypeAlias = Mapping[str, Sequence[str]]

#: Seconds between the notice and the end, at most and by default.
MAX_DRAIN = 3600
DEFAULT_DRAIN = 300

#: Key -> regular expression of its values.
PATTERNS = {
    'max_seconds': '[1-9][0-9]{0,8}',
    'preemptible': 'true|false',
    'drain_seconds': '[0-9]{1,3}|[12][0-9]{3}|3[0-5][0-9]{2}|3600',
    'on_drain': 'shelve|delete',
    'priority': '-?[0-9]{1,3}',
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlavorLease:
    """What a flavor says of it.

    :ivar max_seconds: from the creation of a server; None for no end
    :ivar is_preemptible: whether a server may be told to go at any time
    :ivar drain_seconds: between the notice and what is done
    :ivar is_deleted: whether a server is deleted then, or else shelved
    :ivar priority: servers of a lower one go first
    """

    max_seconds: int | None = None
    is_preemptible: bool = False
    drain_seconds: int = DEFAULT_DRAIN
    is_deleted: bool = False
    priority: int = 0

    @property
    def is_lent(self) -> bool:
        """Whether a server can be told to go, sooner or later."""
        return self.is_preemptible or self.max_seconds is not None


def parse(extra_specs: Mapping[str, str]) -> FlavorLease:
    """Read what a flavor says.

    :param extra_specs: all of the flavor's, those of ours checked
    :raises InvalidExtraSpec: a key has no effect
    """
    found = {
        key.removeprefix(_PREFIX): value
        for key, value in extra_specs.items()
        if key.startswith(_PREFIX)
    }
    made = FlavorLease(
        max_seconds=int(found['max_seconds'])
        if 'max_seconds' in found
        else None,
        is_preemptible=found.get('preemptible') == 'true',
        drain_seconds=int(found.get('drain_seconds', DEFAULT_DRAIN)),
        is_deleted=found.get('on_drain') == 'delete',
        priority=int(found.get('priority', 0)),
    )
    idle = sorted(found.keys() - {'preemptible'})
    if idle and not made.is_lent:
        raise exception.InvalidExtraSpec(
            key=f'{_PREFIX}{idle[0]}',
            value=found[idle[0]],
            reason='this extra spec has no effect without '
            f'{_PREFIX}preemptible=true or {_PREFIX}max_seconds; add one of '
            'the two',
        )
    return made


def read_hint(hints: Hints) -> int | None:
    """Return how many seconds a server asks for, None if it does not say.

    :raises ValueError: it says so in a way that cannot be read
    """
    if HINT not in hints:
        return None
    values = hints[HINT]
    if len(values) == 1 and re.fullmatch(PATTERNS['max_seconds'], values[0]):
        return int(values[0])
    raise ValueError(
        f'the scheduler hint {HINT} is {", ".join(values) or "empty"}; write '
        'one whole number of seconds, from 1 to 999999999'
    )
