# SPDX-License-Identifier: Apache-2.0

"""Managers as processes, each with a clock and a connection of its own."""

from collections.abc import Callable, Sequence
import dataclasses

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation.manager import courier
from nova_ext_resources.reservation.manager import deliveries
from nova_ext_resources.reservation.manager import notifying
from nova_ext_resources.reservation.manager import shortages
from nova_ext_resources.reservation.manager import turn
from tests.unit.reservation.manager import breaking
from tests.unit.reservation.manager import hearing
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import worlds

#: Seconds for which a clock must go steadily.
WAIT = 60

#: Seconds for which what is over is kept.
KEPT = 7200

#: Seconds before the end at which a row says so.
NOTICE = 600

#: A receiver is given up after so long: not here.
PATIENCE = 10**9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Around:
    """What all managers share.

    :ivar lead: seconds before the start from which on room is held; None if
        the scheduler keeps it
    """

    url: str
    lead: int | None
    steps: breaking.Steps
    world: worlds.World
    receivers: hearing.Receivers
    read_amounts: Callable[[int], Sequence[amounts.Amounts]]


class Process:
    """A manager, which is started again when it dies.

    :param offset: seconds by which its clock is ahead
    :ivar time: as it sees it
    """

    def __init__(self, around: Around, clock: float, offset: int) -> None:
        self._around = around
        self.time = managers.Time(clock + offset)
        self.time.skew = -offset
        self.start()

    def start(self) -> None:
        around = self._around
        self.database = breaking.FaultyDatabase(around.url, around.steps)
        blocking = None
        if around.lead is not None:
            blocking = turn.Blocking(
                lead=around.lead, grammar=extra_specs.Grammar()
            )
        self._turn = managers.make_turn(
            around.url,
            self.time,
            WAIT,
            self.database,
            around.world,
            notice=NOTICE,
            keep_ended=KEPT,
            blocking=blocking,
            make_notifying=self._make_notifying,
        )

    def _make_notifying(
        self, has_doubts: Callable[[int], bool]
    ) -> notifying.Notifying:
        return notifying.Notifying(
            self.database,
            shortages.Shortages(
                self.database,
                self._around.read_amounts,
                60,
                has_doubts=has_doubts,
                is_once=True,
            ),
            courier.Courier(
                deliveries.Deliveries(
                    self.database,
                    PATIENCE,
                    clock=lambda _connection: int(
                        self.time.clock + self.time.skew
                    ),
                ),
                self._around.receivers,
                is_once=True,
            ),
        )

    @property
    def now(self) -> int:
        """Seconds since the epoch, by its clock."""
        return int(self.time.clock)

    def run(self) -> None:
        """Make a pass."""
        try:
            self._turn.run()
        except exception.StoreError:
            pass  # As in its loop.
        except breaking.Died:
            self.close()
            self.start()
        self._around.steps.forget()

    def recover(self) -> None:
        """Have it reach its database."""
        self.database.is_away, self.database.fault = False, None

    def close(self) -> None:
        self._turn.close()
