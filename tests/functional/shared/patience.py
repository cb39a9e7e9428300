# SPDX-License-Identifier: Apache-2.0

"""Nova's test base waits for seconds; a busy machine takes longer."""

from collections.abc import Callable
import time
from typing import Any

#: Seconds for Nova's threads to get their turn on a busy machine.
_PATIENCE = 60.0


def _wait_longer(wait: Callable[..., Any]) -> Callable[..., Any]:
    """Have a method that waits and fails wait again on a busy machine."""

    def wait_again(*args: Any, **kwargs: Any) -> Any:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return wait(*args, **kwargs)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    return wait_again


def make_patient(waiting: Any, prefix: str) -> None:
    """Have all methods that wait, by their names, wait longer."""
    for name in dir(waiting):
        if name.startswith(prefix):
            setattr(waiting, name, _wait_longer(getattr(waiting, name)))
