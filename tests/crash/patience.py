# SPDX-License-Identifier: Apache-2.0

"""How long the harness waits, and what it says then."""

from collections.abc import Callable
import time
from typing import Any

#: Seconds for anything that a loaded machine does.
PATIENCE = 240.0


class Died(Exception):
    """A nova-compute did not come up."""


class Ended(Died):
    """A nova-compute has ended by itself."""


def wait_until(
    is_so: Callable[[], Any], what: str, seconds: float = PATIENCE
) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Died(f'no {what} after {seconds:.0f} s')
        time.sleep(0.03)
