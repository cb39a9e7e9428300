# SPDX-License-Identifier: Apache-2.0

"""Those who are told something: subscribers, and whoever reads the log."""

import enum
import json
import logging
from typing import Any

from nova_ext_resources.reservation.webhook import sender


class Mood(enum.Enum):
    """How receivers are: the last one gets what is sent, and says not so."""

    WELL = enum.auto()
    AWAY = enum.auto()
    FORGETFUL = enum.auto()


class Receivers:
    """Gets what is sent, in place of what sends it.

    :ivar got: subscription -> what has arrived, in order
    """

    timeout = 5.0

    def __init__(self) -> None:
        self.got: dict[str, list[dict[str, Any]]] = {}
        self.mood = Mood.WELL

    @property
    def is_well(self) -> bool:
        return self.mood is Mood.WELL

    def send(
        self, url: str, headers: dict[str, str], body: bytes, *, until: float
    ) -> None:
        """See :meth:`.sender.Sender.send`."""
        if self.mood is Mood.AWAY:
            raise sender.NotDelivered('it is away')
        event = json.loads(body)
        self.got.setdefault(event['subscription'], []).append(event)
        if self.mood is Mood.FORGETFUL:
            raise sender.NotDelivered('it has not answered')


class Bugs(logging.Handler):
    """Collects what the log says of bugs.

    :ivar texts: all of it
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if 'report' in str(record.msg):
            self.texts.append(self.format(record))
