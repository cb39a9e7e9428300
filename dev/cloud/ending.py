# SPDX-License-Identifier: Apache-2.0

"""End a service's process when its main function fails."""

from collections.abc import Callable
import os
import sys
import traceback


def run(main: Callable[[], None]) -> None:
    """Call ``main``; when it raises, say why and end at once.

    Without this a failure would hide: oslo.log sends it to the log file
    instead of printing it, and the interpreter then waits for the threads
    of the services that did start.
    """
    try:
        main()
    except BaseException:
        # SystemExit too: Nova leaves that way when a driver does not load.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
