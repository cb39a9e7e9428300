# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""The one way in which a call to placement is tried again."""

from collections.abc import Callable
import time
from typing import ParamSpec, TypeVar

import tenacity

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

    ``function`` has to read every generation that it writes with: who
    passes one in from outside means that very state, and has to be told.

    :raises Exception: what the last attempt raised
    """
    return make_strategy(time.sleep)(function, *args, **kwargs)


def make_strategy(sleep: Callable[[float], None]) -> tenacity.Retrying:
    """Make the strategy, with a ``sleep`` that a stop can cut short."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(exception.Retriable),
        stop=tenacity.stop_any(
            tenacity.stop_after_attempt(MAX_ATTEMPTS),
            tenacity.stop_after_delay(MAX_SECONDS),
        ),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=2),
        sleep=sleep,
        reraise=True,
    )
