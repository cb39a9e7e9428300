# SPDX-License-Identifier: Apache-2.0

"""The requests of reservations, read once for each of their rows."""

from collections.abc import Sequence

import sqlalchemy as sa

from nova_ext_resources.reservation import request as request_mod
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import reservations


class Requests:
    """Whoever changes a request writes a row, so that it is read again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, request_mod.Request]] = {}

    def read(
        self, connection: sa.Connection, found: Sequence[progress.Unfinished]
    ) -> dict[str, request_mod.Request]:
        """Return key -> request, of what is not over.

        :raises StoreError: one of them cannot be read
        """
        numbers = {one.key: one.number for one in found}
        known = {
            key: one
            for key, one in self._known.items()
            if numbers.get(key) == one[0]
        }
        read = reservations.read_requests(
            connection, numbers.keys() - known.keys()
        )
        known.update((key, (numbers[key], one)) for key, one in read.items())
        self._known = known
        return {key: one for key, (_number, one) in known.items()}
