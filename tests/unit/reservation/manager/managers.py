# SPDX-License-Identifier: Apache-2.0

"""Makes managers of reservations for tests."""

from typing import Any

from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import turn
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import states
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.store import stores


class Time:
    """Time as a manager sees it.

    :ivar clock: what the clock says
    :ivar passed: seconds that have passed
    :ivar skew: seconds by which the database's clock is ahead
    """

    def __init__(self, clock: float = 0) -> None:
        self.clock = clock
        self.passed = 0.0
        self.skew = 0.0

    def pass_by(self, seconds: float) -> None:
        self.clock += seconds
        self.passed += seconds


def make_watch(time: Time, wait: float = 0) -> watch.Watch:
    return watch.Watch(
        wait,
        clock=lambda: time.clock,
        passed=lambda: time.passed,
        shared=lambda _connection: int(time.clock + time.skew),
    )


def make_turn(
    url: str,
    time: Time,
    wait: float = 0,
    database: databases.Database | None = None,
    cloud: cloud_services.Cloud | None = None,
    **fields: Any,
) -> turn.Turn:
    """Make what one manager has."""
    database = database or databases.Database(url)
    return turn.Turn(
        database,
        make_watch(time, wait),
        turn.make_chores(database, cloud or clouds.FakeCloud(), **fields),
    )


def list_states(url: str, key: str) -> list[str]:
    """Return the states that a reservation has had."""
    return [one.state.value for one in list_changes(url, key)]


def list_changes(url: str, key: str) -> list[states.Change]:
    with databases.Database(url).transaction() as connection:
        return states.list_changes(connection, key)


def count_held(url: str) -> int:
    """Return how many servers are held."""
    return sum(one.is_held for one in stores.dump(url)['servers'])
