# SPDX-License-Identifier: Apache-2.0

"""What is done beside the passes of a manager, and may take long."""

from collections.abc import Callable
from concurrent import futures
import threading
from typing import TypeVar

_T = TypeVar('_T')


def start(function: Callable[[], _T], name: str) -> futures.Future[_T]:
    """Call it in a thread of its own, which keeps no program from ending.

    Threads of an executor would: the end of the program waits for them.

    :param name: of the thread
    """
    future: futures.Future[_T] = futures.Future()

    def run() -> None:
        try:
            result = function()
        except BaseException as err:
            future.set_exception(err)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
