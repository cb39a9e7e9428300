# SPDX-License-Identifier: Apache-2.0

"""What the parts of a pass have in common."""

from collections.abc import Callable, Set
import enum
from typing import ParamSpec, Protocol, runtime_checkable

from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)

_P = ParamSpec('_P')


class Outcome(enum.Enum):
    """What became of a row.

    ``WRITTEN``: it is there.
    ``OVERTAKEN``: another program has written another one. What was read does
    not hold any more.
    ``FAILED``: it is not there, and the log says why.
    """

    WRITTEN = enum.auto()
    OVERTAKEN = enum.auto()
    FAILED = enum.auto()

    @property
    def is_well(self) -> bool:
        """Whether nothing failed."""
        return self is not Outcome.FAILED


class Chore(Protocol):
    """One part of a pass."""

    def run(self, reading: watch.Reading) -> bool:
        """Do all that is due.

        :returns: whether nothing failed
        :raises StoreError: the database cannot be used
        """


@runtime_checkable
class Closing(Protocol):
    """A part that goes on beside the passes."""

    def close(self, seconds: float = 0.0) -> None:
        """End it.

        :param seconds: how long to wait for that at most
        """


def write(
    database: databases.Database,
    one: progress.Unfinished,
    state: state_mod.State,
    now: int,
    reason: str,
    *,
    cause: cause_mod.Cause | None = None,
    consumers: Set[str] | None = None,
    also: Callable[[sa.Connection], None] | None = None,
) -> Outcome:
    """Write the next row of a reservation, and log it.

    :param now: seconds since the epoch
    :param consumers: as of :func:`.progress.advance`, as ``also`` is
    :returns: if it failed, it is tried again next time
    :raises StoreUnavailable: the database is out of reach
    """
    change = states.Change(
        state=state, changed_at=now, reason=reason, cause=cause
    )
    try:
        is_written = progress.advance(
            database, one, change, consumers=consumers, also=also
        )
    except exception.StoreUnavailable:
        raise
    except (exception.StoreError, exception.StateRefused) as err:
        LOG.error(
            'Could not set reservation %(key)s to %(state)s, and will try '
            'again: %(err)s',
            {'key': one.key, 'state': state, 'err': err},
        )
        return Outcome.FAILED
    if not is_written:
        return Outcome.OVERTAKEN
    report(one.key, change)
    return Outcome.WRITTEN


def degrade(
    database: databases.Database,
    one: progress.Unfinished,
    now: int,
    reason: str,
    cause: cause_mod.Cause,
) -> bool:
    """Write that a reservation has lost something, and log that as an error.

    :returns: whether nothing failed
    """
    LOG.error(
        'Reservation %(key)s is degraded: %(reason)s',
        {'key': one.key, 'reason': reason},
    )
    degraded = state_mod.State.DEGRADED
    return write(database, one, degraded, now, reason, cause=cause).is_well


def attempt(
    what: str,
    function: Callable[_P, bool],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> bool:
    """Do one thing of many, so that the others are done even if it fails.

    :param what: names it in the log
    :returns: what the function does; False if it failed
    :raises StoreUnavailable: the database is out of reach
    """
    try:
        return function(*args, **kwargs)
    except exception.StoreUnavailable:
        raise
    except exception.ExtResourcesError as err:
        LOG.error(
            'Reservations, %(what)s: the step failed, and is tried again in '
            'the next pass: %(err)s',
            {'what': what, 'err': err},
        )
    except Exception:
        LOG.exception(
            'Reservations, %(what)s: the step failed, and is tried again in '
            'the next pass. Please report this bug',
            {'what': what},
        )
    return False


def report(key: str, change: states.Change) -> None:
    """Log what was written."""
    LOG.info(
        'Reservation %(key)s is %(state)s: %(reason)s',
        {'key': key, 'state': change.state, 'reason': change.reason},
    )
