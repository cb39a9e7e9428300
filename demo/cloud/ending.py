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
