# SPDX-License-Identifier: Apache-2.0

"""What the parts of a pass have in common."""

from typing import Protocol

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import watch as watch_mod
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)


class Chore(Protocol):
    """One part of a pass."""

    def run(self, reading: watch_mod.Reading) -> bool:
        """Do all that is due.

        :returns: whether nothing failed
        :raises StoreError: the database cannot be used
        """


def write(
    database: database_mod.Database,
    one: progress.Unfinished,
    state: state_mod.State,
    now: int,
    reason: str,
) -> bool:
    """Write the next row of a reservation, and log it.

    :param now: seconds since the epoch
    :returns: whether nothing failed; if so, it is tried again next time
    :raises StoreUnavailable: the database is out of reach
    """
    change = states.Change(state=state, changed_at=now, reason=reason)
    try:
        is_written = progress.advance(database, one, change)
    except exception.StoreUnavailable:
        raise
    except (exception.StoreError, exception.StateRefused) as err:
        LOG.error(
            'Reservation %(key)s does not become %(state)s, which is tried '
            'again: %(err)s',
            {'key': one.key, 'state': state, 'err': err},
        )
        return False
    if is_written:
        report(one.key, change)
    return True


def report(key: str, change: states.Change) -> None:
    """Log what was written."""
    LOG.info(
        'Reservation %(key)s is %(state)s: %(reason)s',
        {'key': key, 'state': change.state, 'reason': change.reason},
    )
