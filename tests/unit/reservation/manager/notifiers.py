# SPDX-License-Identifier: Apache-2.0

"""Managers that tell receivers on this machine."""

from collections.abc import Callable, Sequence
import socket
from typing import Any

from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import courier
from nova_ext_resources.reservation.manager import deliveries
from nova_ext_resources.reservation.manager import notifying
from nova_ext_resources.reservation.manager import shortages
from nova_ext_resources.reservation.manager import turn
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import subscriptions
from nova_ext_resources.reservation.webhook import rules
from nova_ext_resources.reservation.webhook import sender
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import stores
from tests.unit.reservation.webhook import receivers

#: Seconds since the epoch: with a date, and late enough for all durations.
NOW = 1_000_000_000

PATIENCE = 86400


class Rules(rules.Rules):
    """Allows receivers of this machine, on any port."""

    def check_url(self, url: str) -> rules.Target:
        return rules.parse(url)

    def check_address(self, address: rules.Address) -> None:
        assert address.is_loopback


class NotifyingTestCase(stores.StoreTestCase):
    """With one receiver, and nothing that it is told of.

    :ivar amounts: what there is
    """

    def setUp(self) -> None:
        super().setUp()
        self.time = managers.Time(NOW)
        self.admission = stores.make_admission(self.url)
        self.receiver = receivers.Receiver(self)
        self.database = databases.Database(self.url)
        self.subscriptions = subscriptions.Subscriptions(
            self.database, Rules(), lambda: self.time.clock
        )
        self.amounts: Sequence[amounts.Amounts] = ()
        self.read = 0

    def subscribe(
        self,
        *,
        project: str = '',
        receiver: receivers.Receiver | None = None,
        **document: Any,
    ) -> followers.Follower:
        url = (receiver or self.receiver).url
        return self.subscriptions.create(
            {'url': url, **document}, project=project
        )

    def read_amounts(self, now: int) -> Sequence[amounts.Amounts]:
        self.read += 1
        return self.amounts

    def have(self, available: int, zone: str = 'one') -> None:
        """Let so many VCPU be available."""
        self.amounts = [
            amounts.Amounts(
                zone=zone,
                resource_class='VCPU',
                during=interval.Interval(NOW, NOW + 1),
                total=100,
                used=0,
                reserved=100 - available,
                available=available,
            )
        ]

    def make_manager(
        self,
        database: databases.Database | None = None,
        timeout: float = 20.0,
        **fields: Any,
    ) -> turn.Turn:
        used = database or databases.Database(self.url)

        def make_notifying(
            has_doubts: Callable[[int], bool],
        ) -> notifying.Notifying:
            return notifying.Notifying(
                used,
                shortages.Shortages(
                    used,
                    self.read_amounts,
                    60,
                    has_doubts=has_doubts,
                    is_once=True,
                ),
                self.make_courier(used, timeout),
            )

        return managers.make_turn(
            self.url,
            self.time,
            database=used,
            make_notifying=make_notifying,
            **fields,
        )

    def make_courier(
        self,
        database: databases.Database,
        timeout: float = 20.0,
        *,
        is_once: bool = True,
        resolve: Callable[..., Any] = socket.getaddrinfo,
    ) -> courier.Courier:
        return courier.Courier(
            deliveries.Deliveries(
                database,
                PATIENCE,
                clock=lambda _connection: int(self.time.clock),
            ),
            sender.Sender(Rules(), timeout=timeout, resolve=resolve),
            is_once=is_once,
        )

    def reserve(
        self, key: str, after: int = 100, seconds: int = 100, **fields: Any
    ) -> None:
        start = int(self.time.clock) + after
        answer = self.admit(
            self.admission,
            key,
            hosts.span(start, start + seconds),
            int(self.time.clock),
            **fields,
        )
        assert isinstance(answer, planner.Plan), answer

    def read_follower(
        self, follower: followers.Follower
    ) -> followers.Follower:
        return self.subscriptions.get(follower.uuid)
