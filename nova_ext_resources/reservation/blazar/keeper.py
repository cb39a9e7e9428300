# SPDX-License-Identifier: Apache-2.0

"""The reservations of a store, kept open for all threads of a process."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import threading
from typing import Any

from nova_ext_resources.reservation import api
from nova_ext_resources.reservation import needs


class Keeper:
    """Lets one thread after the other use the reservations.

    Nova and placement may be slow: who needs what they say asks first, with
    :meth:`prepare` and :meth:`read_flavors`, while others go on.

    Nothing is opened before it is needed: Blazar makes its plugins in one
    process and uses them in another.

    :param open_: opens the store
    """

    def __init__(self, open_: Callable[[], api.Reservations]) -> None:
        self._open = open_
        self._lock = threading.Lock()
        #: Held while hosts are read.
        self._reading = threading.Lock()
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

    def read_flavors(self, order: Mapping[str, Any]) -> needs.Flavors:
        """Ask Nova for what an order names.

        :param order: or changes of one; they may make no sense
        :raises ExtResourcesError: it does not say
        """
        with self.use() as reservations:
            pass
        return reservations.read_flavors(order)

    def prepare(self) -> None:
        """Wait until hosts are known.

        :raises ExtResourcesError: they cannot be read
        """
        if self._has_hosts():
            return
        with self._reading:
            if not self._has_hosts():
                self._read()

    def refresh(self) -> None:
        """Read the hosts anew, while others go on with those known before.

        :raises ExtResourcesError: they cannot be read
        """
        with self._reading:
            self._read()

    def _has_hosts(self) -> bool:
        with self.use() as reservations:
            return reservations.has_hosts

    def _read(self) -> None:
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
