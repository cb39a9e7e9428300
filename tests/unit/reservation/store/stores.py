# SPDX-License-Identifier: Apache-2.0

"""Makes stores for tests, and looks into them."""

import functools
import json
from typing import Any

import sqlalchemy as sa

from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import tables
from tests import base
from tests import statements
from tests.unit.reservation import hosts
from tests.unit.reservation.store import migrated

REASON = 'asked for by a test'


def make_admission(url: str, *fleet: host_mod.Host) -> admission_mod.Admission:
    """Make what one process has; by default of two hosts of eight CPUs."""
    planner = hosts.make_planner(
        *(fleet or (hosts.make_host('a'), hosts.make_host('b')))
    )
    return admission_mod.Admission(databases.Database(url), planner)


def count_peak(url: str, host: str) -> int:
    """Return the most VCPU that are promised of a host at any time.

    Computed of the rows, second by second where something changes.
    """
    server = tables.SERVERS.c
    with databases.Database(url).transaction() as connection:
        rows = connection.execute(
            sa.select(
                server.starts_at, server.ends_at, server.assignments
            ).where(server.is_held, server.host == host)
        ).all()
    taken = [
        (start, end, sum(one['amount'] for one in json.loads(text)))
        for start, end, text in rows
    ]
    return max(
        (
            sum(amount for start, end, amount in taken if start <= at < end)
            for at, _end, _amount in taken
        ),
        default=0,
    )


def dump(url: str) -> dict[str, list[Any]]:
    """Return all rows of all tables."""
    with databases.Database(url).transaction() as connection:
        return {
            table.name: [
                *connection.execute(
                    sa.select(table).order_by(*table.primary_key)
                )
            ]
            for table in tables.METADATA.sorted_tables
        }


@functools.cache
def share_statements() -> None:
    """Let the databases of this process share what SQLAlchemy compiles.

    Tests make many for one file: each process that uses it has its own.
    """
    make = databases.Database.__init__

    @functools.wraps(make)
    def make_and_share(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        statements.share(self.engine)

    databases.Database.__init__ = make_and_share  # type: ignore[method-assign]


class StoreTestCase(base.TestCase):
    """With a database of its own, and its tables.

    :ivar url: of it
    """

    def setUp(self) -> None:
        super().setUp()
        share_statements()
        self.url = self.make_url()
        self.make_tables(databases.Database(self.url))

    def make_url(self) -> str:
        return f'sqlite:///{self.make_folder()}/reservations.db'

    def make_tables(self, database: databases.Database) -> None:
        migrated.make_tables(database)

    def admit(
        self,
        admission: admission_mod.Admission,
        key: str,
        during: interval.Interval,
        now: int = 0,
        **fields: Any,
    ) -> planner_mod.Plan | planner_mod.Refusal:
        request = hosts.make_request(key, during, **fields)
        return self.ask(admission, request, now)

    def ask(
        self,
        admission: admission_mod.Admission,
        request: plan_request.Request,
        now: int = 0,
    ) -> planner_mod.Plan | planner_mod.Refusal:
        return admission.admit(request, now=now, reason=REASON)
