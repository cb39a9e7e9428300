# SPDX-License-Identifier: Apache-2.0

"""Remembers which servers had lost resources that are applied again.

An audit repairs a loss at once, so that it would be no problem of any round.
The server has run without its resources all the same, and the cause of the
loss may come again: the operator has to hear of it.
"""

from collections.abc import Callable, Container
import time

from nova_ext_resources.objects import alarm

#: Seconds for which a repaired loss is reported: several rounds of the host,
#: and long enough for Prometheus to read it and to see that it lasts.
SHOWN = 600.0


class Recoveries:
    """The latest losses that were repaired, by consumer.

    :param monotonic: returns seconds that no step of the clock changes
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._noted: dict[str, tuple[float, alarm.Problem]] = {}

    def note(self, consumer_uuid: str, what: str) -> None:
        """Note that what a server had lost is applied again.

        :param what: the resources, with their units
        """
        problem = alarm.Problem(
            alarm=alarm.APPLIED_AGAIN,
            subject=consumer_uuid,
            text=f'server {consumer_uuid} did not get the resources that are '
            f'allocated to it: they were missing or changed, and are applied '
            f'again: {what}. Find out what has removed or changed them',
        )
        self._noted[consumer_uuid] = (self._monotonic(), problem)

    def list_recent(self, held: Container[str]) -> tuple[alarm.Problem, ...]:
        """Return what is reported now, and forget all else.

        :param held: consumers that hold something; of others nothing matters
        """
        oldest = self._monotonic() - SHOWN
        self._noted = {
            uuid: (at, problem)
            for uuid, (at, problem) in self._noted.items()
            if at > oldest and uuid in held
        }
        return tuple(problem for _at, problem in self._noted.values())
