# SPDX-License-Identifier: Apache-2.0

"""The requests of reservations, each text made a request once."""

from collections.abc import Sequence

from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import reservations

LOG = logging.getLogger(__name__)


class Requests:
    """Reads the texts each time: a name can be that of another one later."""

    def __init__(self) -> None:
        #: Reservation -> its text, and the request; None if it is none.
        self._known: dict[str, tuple[str, plan_request.Request | None]] = {}

    def read(
        self, connection: sa.Connection, found: Sequence[progress.Unfinished]
    ) -> dict[str, plan_request.Request]:
        """Return key -> request, of what is not over.

        One that cannot be read is logged, once, and left out.
        """
        texts = reservations.read_texts(connection, [one.key for one in found])
        self._known = {
            key: self._parse(key, text) for key, text in texts.items()
        }
        return {
            key: request
            for key, (_text, request) in self._known.items()
            if request is not None
        }

    def _parse(
        self, key: str, text: str
    ) -> tuple[str, plan_request.Request | None]:
        known = self._known.get(key)
        if known is not None and known[0] == text:
            return known
        try:
            return text, reservations.parse_request(key, text)
        except exception.StoreError as err:
            LOG.error(
                'Reservation %(key)s is left unchanged: %(err)s',
                {'key': key, 'err': err},
            )
            return text, None
