# SPDX-License-Identifier: Apache-2.0

"""A store, its managers, and a cloud, as they live for some hours."""

from collections.abc import Sequence

from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import subscriptions
from tests.unit.reservation.manager import askers
from tests.unit.reservation.manager import boots
from tests.unit.reservation.manager import breaking
from tests.unit.reservation.manager import hearing
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import notifiers
from tests.unit.reservation.manager import processes
from tests.unit.reservation.manager import views
from tests.unit.reservation.manager import worlds

#: Seconds by which the clock of each manager is ahead.
OFFSETS = (0, 30)

#: A subscription that is told when less VCPU than that are available.
THRESHOLD = 10

_HOOK = {'url': 'http://127.0.0.1:1/hook'}


class Life:
    """All that there is.

    :param lead: as of :class:`.processes.Around`
    :ivar follower: a subscription to all that happens to reservations
    :ivar watcher: one to what is available
    """

    def __init__(self, url: str, lead: int | None) -> None:
        self.time = managers.Time(notifiers.NOW)
        self.steps = breaking.Steps()
        self.world = worlds.World(
            self.time, self.steps, keeps_room=lead is None
        )
        self.database = databases.Database(url)
        self.receivers = hearing.Receivers()
        self.askers = askers.Askers(self.database, self.world, self.time)
        self.boots = boots.Boots(self.database, self.world, self.time)
        self._subscribe()
        around = processes.Around(
            url=url,
            lead=lead,
            steps=self.steps,
            world=self.world,
            receivers=self.receivers,
            read_amounts=self._read_amounts,
        )
        self.managers = [
            processes.Process(around, self.time.clock, offset)
            for offset in OFFSETS
        ]

    def _subscribe(self) -> None:
        made = subscriptions.Subscriptions(
            self.database, notifiers.Rules(), lambda: self.time.clock
        )
        self.follower = made.create({**_HOOK})
        self.watcher = made.create(
            {
                **_HOOK,
                'events': ['capacity'],
                'zone': 'one',
                'resource_class': 'VCPU',
                'threshold': THRESHOLD,
            }
        )

    def close(self) -> None:
        for one in self.managers:
            one.close()
        self.database.close()

    def read(self) -> views.View:
        return views.read(self.database)

    @property
    def now(self) -> int:
        """Seconds since the epoch, as users see it."""
        return int(self.time.clock)

    @property
    def _times(self) -> list[managers.Time]:
        return [self.time, *(one.time for one in self.managers)]

    def pass_by(self, seconds: int) -> None:
        for time in self._times:
            time.pass_by(seconds)

    def step_clock(self, seconds: int) -> None:
        """Have all clocks set at once."""
        for time in self._times:
            time.clock += seconds

    def recover(self) -> None:
        """Have managers reach all."""
        self.world.is_nova_away = self.world.is_placement_away = False
        for one in self.managers:
            one.recover()

    def count_available(self) -> int:
        """Return how much is held by nobody on hosts that are up."""
        return sum(
            max(self.world.count_free(host), 0)
            for host in worlds.HOSTS
            if self.world.is_up(host)
        )

    def _read_amounts(self, now: int) -> Sequence[amounts.Amounts]:
        return [
            amounts.Amounts(
                zone='one',
                resource_class='VCPU',
                during=interval.Interval(now, now + 1),
                total=24,
                used=0,
                reserved=0,
                available=self.count_available(),
            )
        ]

    def read_due(self) -> int:
        """Return when all subscribers may be told what is next."""
        with self.database.transaction() as connection:
            found = followers.read(connection)
        return max(one.due_at for one in found)
