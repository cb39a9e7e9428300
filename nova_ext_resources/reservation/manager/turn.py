# SPDX-License-Identifier: Apache-2.0

"""One pass over all reservations.

Each step is one transaction, which leaves the tables as the next pass, of any
manager, can go on with.
"""

from collections.abc import Callable, Sequence
import dataclasses
from typing import TypeAlias

from nova_ext_resources.claims import extra_specs
from nova_ext_resources.reservation.manager import chores as chores_mod
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import draining
from nova_ext_resources.reservation.manager import ending
from nova_ext_resources.reservation.manager import expiring
from nova_ext_resources.reservation.manager import freeing
from nova_ext_resources.reservation.manager import holding
from nova_ext_resources.reservation.manager import holds
from nova_ext_resources.reservation.manager import outages
from nova_ext_resources.reservation.manager import purging
from nova_ext_resources.reservation.manager import rights
from nova_ext_resources.reservation.manager import starting
from nova_ext_resources.reservation.manager import systemd
from nova_ext_resources.reservation.manager import waking
from nova_ext_resources.reservation.manager import watch as watch_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import schema

#: Makes what tells subscribers. It gets what returns, for seconds since the
#: epoch, whether too many hosts are lost for placement to be believed.
MakeNotifying: TypeAlias = Callable[[Callable[[int], bool]], chores_mod.Chore]

#: Seconds after which it is reported within a pass that it goes on.
ALIVE_SECONDS = 10.0


class Turn:
    """Brings the store up to the time that it is.

    :param chores: in their order
    """

    def __init__(
        self,
        database: databases.Database,
        watch: watch_mod.Watch,
        chores: Sequence[chores_mod.Chore],
    ) -> None:
        self._database = database
        self._watch = watch
        self._chores = chores
        self._is_checked = False
        self._alive_at = watch_mod.read_passed()

    def run(self) -> bool:
        """Do all that is due.

        What fails for one reservation, because a service does not answer or
        by a bug, is logged and tried again next time. All else goes on.

        :returns: whether nothing failed
        :raises StoreError: the database cannot be used, or its tables are not
            those of this release
        """
        if not self._is_checked:
            schema.check(self._database)
            self._is_checked = True
        done = [self._run(one) for one in self._chores]
        return all(done)

    def _run(self, chore: chores_mod.Chore) -> bool:
        """Do one part, by the clock of now: those before may take minutes."""
        if watch_mod.read_passed() >= self._alive_at + ALIVE_SECONDS:
            self._alive_at = watch_mod.read_passed()
            systemd.notify(systemd.ALIVE)
        with self._database.transaction() as connection:
            reading = self._watch.read(connection)
        if not reading.is_right:
            return False
        name = type(chore).__name__.lower()
        return chores_mod.attempt(name, chore.run, reading)

    def close(self, seconds: float = 0.0) -> None:
        """Close the database, and end what goes on beside the passes.

        :param seconds: how long to wait for the latter at most
        """
        for one in self._chores:
            if isinstance(one, chores_mod.Closing):
                one.close(seconds)
        self._database.close()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """How room is held where the scheduler does not keep it.

    :ivar lead: seconds before the start from which on; ``FOREVER`` from when
        it is reserved
    :ivar grammar: of extra specs
    """

    lead: int
    grammar: extra_specs.Grammar


def make_chores(
    database: databases.Database,
    cloud: cloud_services.Cloud,
    *,
    notice: int = 0,
    keep_ended: int | None = None,
    blocking: Blocking | None = None,
    make_notifying: MakeNotifying | None = None,
    is_once: bool = False,
) -> list[chores_mod.Chore]:
    """Make all parts of a pass, in their order.

    :param notice: seconds before the end at which a row says so; 0 for none
    :param keep_ended: seconds for which the rows of what is over are kept;
        None keeps them for good
    :param blocking: how room is held where the scheduler does not keep it;
        None holds nothing
    :param make_notifying: makes what tells subscribers; None if there are none
    :param is_once: there is one pass only
    """
    right = rights.Rights(cloud)
    watched = outages.Outages(database, cloud, is_once=is_once)
    held = holds.Holds(cloud)
    lead, wakers = None, list[chores_mod.Chore]()
    if blocking is not None:
        lead = blocking.lead
        wakers.append(waking.Waking(database, cloud, held, blocking.grammar))
    found: list[chores_mod.Chore] = [
        right,
        starting.Starting(database),
        freeing.Freeing(
            database, cloud, is_once=is_once, sees_all=right.are_there
        ),
        *wakers,
        watched,
        expiring.Expiring(database),
        ending.Ending(database, cloud, notice, is_once=is_once),
        holding.Holding(database, cloud, held, lead),
        draining.Draining(
            database,
            cloud,
            watched.has_doubts,
            has_metadata=blocking is not None,
        ),
    ]
    if make_notifying is not None:
        found.append(make_notifying(watched.has_doubts))
    if keep_ended is not None:
        found.append(purging.Purging(database, keep_ended))
    return found
