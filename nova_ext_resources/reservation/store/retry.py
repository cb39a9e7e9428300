# SPDX-License-Identifier: Apache-2.0

"""How a change of the store is repeated; the only place."""

from collections.abc import Callable
import time
from typing import ParamSpec, TypeVar

import tenacity

from nova_ext_resources import exception

_P = ParamSpec('_P')
_T = TypeVar('_T')

#: Of many that change the same shard at the same time, one succeeds each time.
#: The pauses grow, so that they come apart.
MAX_ATTEMPTS = 40
MAX_SECONDS = 60.0
FIRST_PAUSE = 0.005
LONGEST_PAUSE = 1.0


def call(
    function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """Call until it does not raise ``Retriable``, within bounds.

    ``function`` has to read everything that it plans with.

    :raises Exception: what the last attempt raised
    """
    return call_within(MAX_SECONDS, function, *args, **kwargs)


def call_within(
    seconds: float,
    function: Callable[_P, _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """Do what :func:`call` does, for so many seconds at most."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(exception.Retriable),
        stop=tenacity.stop_any(
            tenacity.stop_after_attempt(MAX_ATTEMPTS),
            tenacity.stop_after_delay(seconds),
        ),
        wait=tenacity.wait_random_exponential(
            multiplier=FIRST_PAUSE, max=LONGEST_PAUSE
        ),
        before_sleep=_prepare,
        reraise=True,
    )
    return retrying(function, *args, **kwargs)


def _prepare(state: tenacity.RetryCallState) -> None:
    """Read what the last attempt lacked, whatever time that takes."""
    error = state.outcome and state.outcome.exception()
    if isinstance(error, exception.InventoriesUnread):
        begun = time.monotonic()
        error.read()
        state.start_time += time.monotonic() - begun
