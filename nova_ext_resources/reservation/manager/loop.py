# SPDX-License-Identifier: Apache-2.0

"""One pass after the other, until a signal comes."""

from collections.abc import Callable

from oslo_log import log as logging
import tenacity

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import signals
from nova_ext_resources.reservation.manager import systemd

LOG = logging.getLogger(__name__)

#: Seconds: how long a pass that failed is put off, twice as long each time,
#: with a random part, so that several managers do not come back at once.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


def run(
    turn: Callable[[], object],
    interval: float,
    *,
    wait: Callable[[float], None] = signals.wait,
) -> int:
    """Run passes until a signal comes.

    :param interval: seconds between two passes
    :param wait: raises ``Signalled``
    :returns: the signal
    """
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(exception.ExtResourcesError),
        wait=tenacity.wait_random_exponential(
            multiplier=FIRST_PAUSE, max=LONGEST_PAUSE
        ),
        sleep=wait,
        before_sleep=_report,
    )
    try:
        while True:
            retrying(turn)
            systemd.notify(systemd.ALIVE, 'STATUS=the last pass succeeded')
            wait(interval)
    except signals.Signalled as err:
        return err.number


def _report(state: tenacity.RetryCallState) -> None:
    err = state.outcome and state.outcome.exception()
    pause = state.next_action.sleep if state.next_action else 0.0
    LOG.error(
        'A pass over the reservations failed and is tried again in '
        '%(pause).1f s. All reservations stay in the database; until a pass '
        'succeeds, no server is told to leave, or removed from its host, for '
        'a reservation: %(err)s',
        {'pause': pause, 'err': err},
    )
    first_line, _newline, _rest = str(err).partition('\n')
    systemd.notify(systemd.ALIVE, f'STATUS=the last pass failed: {first_line}')
