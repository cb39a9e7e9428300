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

"""Changes that RMD may still carry out, although nobody waits for them.

RMD goes on with a request whose client has given up. A workload that is not
there now may be there a moment later, on CPUs that somebody else has got
meanwhile. So a workload with such a change counts as gone only after it was
absent twice, with one timeout in between.
"""

from collections.abc import Callable
import http
import threading
import time

from nova_ext_resources.rmd import errors


def may_be_late(err: errors.RmdError) -> bool:
    """Tell whether RMD may still be busy with the request that failed.

    Not after a dropped connection: RMD drops it when it has panicked or
    ended, and is done with the request then.
    """
    if isinstance(err, errors.RmdTimeout):
        return err.was_sent
    return err.status == http.HTTPStatus.GATEWAY_TIMEOUT


class LateChanges:
    """Knows for which workloads a change may still come. Thread-safe.

    :param timeout: seconds between two looks that find nothing
    """

    def __init__(
        self, timeout: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        #: When it was first seen to be absent; None: not yet.
        self._absent: dict[str, float | None] = {}

    def expect(self, uuid: str) -> None:
        """Note that a change of a workload got no answer in time."""
        with self._lock:
            self._absent[uuid] = None

    def forget(self, uuid: str) -> None:
        """Note that the change has been carried out."""
        with self._lock:
            self._absent.pop(uuid, None)

    def is_expected(self, uuid: str) -> bool:
        """Tell whether a change may still come."""
        with self._lock:
            return uuid in self._absent

    def see_absent(self, uuid: str) -> bool:
        """Note that a workload is not there; tell whether it stays so."""
        with self._lock:
            if uuid not in self._absent:
                return True
            now = self._clock()
            first = self._absent[uuid]
            if first is None:
                self._absent[uuid] = now
            elif now - first >= self.timeout:
                del self._absent[uuid]
                return True
            return False
