# SPDX-License-Identifier: Apache-2.0

"""How a call to placement is repeated; the only place."""

from typing import ParamSpec, TypeVar
from collections.abc import Callable

import tenacity

from nova_ext_resources import clocks
from nova_ext_resources import exception

_P = ParamSpec('_P')
_T = TypeVar('_T')

#: A server waits for some of these calls: give up while it still matters.
MAX_ATTEMPTS = 4
MAX_SECONDS = 30.0


def call(
    function: Callable[_P, _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """Call until it does not raise ``Retriable``, a few times at most.

    ``function`` has to read every generation that it writes with. A caller
    that passes one in means that very state, and must see the conflict.

    :raises Exception: what the last attempt raised
    """
    return make_strategy(clocks.MACHINE)(function, *args, **kwargs)


def make_strategy(clock: clocks.Clock) -> tenacity.Retrying:
    """Make the strategy, with a clock whose sleep a stop can cut short."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(exception.Retriable),
        stop=tenacity.stop_any(
            tenacity.stop_after_attempt(MAX_ATTEMPTS),
            tenacity.stop_after_delay(MAX_SECONDS),
        ),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=2),
        sleep=clock.sleep,
        reraise=True,
    )
