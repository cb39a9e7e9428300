# SPDX-License-Identifier: Apache-2.0

"""The reservations of a store, kept open for all threads of a process."""

from collections.abc import Callable, Iterator
import contextlib
import threading

from nova_ext_resources.reservation import api


class Keeper:
    """Lets one thread after the other use the reservations.

    Nothing is opened before it is needed: Blazar makes its plugins in one
    process and uses them in another.

    :param open_: opens the store
    """

    def __init__(self, open_: Callable[[], api.Reservations]) -> None:
        self._open = open_
        self._lock = threading.Lock()
        self._opened: api.Reservations | None = None

    @contextlib.contextmanager
    def use(self) -> Iterator[api.Reservations]:
        """Wait for the reservations, and have them alone.

        :raises ExtResourcesError: they cannot be opened
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            yield self._opened

    def refresh(self) -> None:
        """Read the hosts anew, while others go on with those known before.

        :raises ExtResourcesError: they cannot be read
        """
        made = self._open()
        try:
            made.prepare()
        except BaseException:
            made.close()
            raise
        with self._lock:
            before, self._opened = self._opened, made
            if before is not None:
                before.close()
