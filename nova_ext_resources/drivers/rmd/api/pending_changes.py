# SPDX-License-Identifier: Apache-2.0

"""Changes that RMD may still carry out after their request timed out.

RMD does not stop when its client gives up. A workload that does not exist
now may exist a moment later, on CPUs that another server has got meanwhile.
So a workload with such a change counts as gone only after it was absent
twice, with one timeout in between.
"""

import http
import threading

from nova_ext_resources import clocks
from nova_ext_resources import debounce
from nova_ext_resources.drivers.rmd.api import errors


def may_be_pending(err: errors.RmdError) -> bool:
    """Return whether RMD may still be busy with the request that failed.

    Not after a dropped connection: RMD drops it when it has panicked or
    ended, and has finished with the request then.
    """
    if isinstance(err, errors.RmdTimeout):
        return err.was_sent
    return err.status == http.HTTPStatus.GATEWAY_TIMEOUT


class PendingChanges:
    """The workloads for which a change may still come. Thread-safe.

    :param timeout: seconds between two readings that both find nothing
    """

    def __init__(
        self, timeout: float, *, clock: clocks.Clock = clocks.MACHINE
    ) -> None:
        self.timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        #: uuid -> whether it was seen to be absent for long enough.
        self._absent: dict[str, debounce.Debounce[str, None]] = {}

    def expect(self, uuid: str) -> None:
        """Note that a change of a workload got no response in time."""
        with self._lock:
            self._absent[uuid] = debounce.Debounce(
                confirmations=2, age=self.timeout, clock=self._clock
            )

    def forget(self, uuid: str) -> None:
        """Note that the change has been carried out."""
        with self._lock:
            self._absent.pop(uuid, None)

    def is_expected(self, uuid: str) -> bool:
        """Return whether a change may still come."""
        with self._lock:
            return uuid in self._absent

    def see_absent(self, uuid: str) -> bool:
        """Note that a workload is absent; return whether it stays absent."""
        with self._lock:
            pending = self._absent.get(uuid)
            if pending and not pending.observe({uuid: None}):
                return False
            self._absent.pop(uuid, None)
            return True
