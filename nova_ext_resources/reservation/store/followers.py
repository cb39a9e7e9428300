# SPDX-License-Identifier: Apache-2.0

"""The rows of subscriptions, and how far each of them has been told.

Whoever tells one writes its revision before, and has it until ``due_at``. What
it writes afterwards is refused if another program has written meanwhile.
"""

from collections.abc import Collection
import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from nova_ext_resources.reservation import event as event_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import tables
from nova_ext_resources.reservation import subscription as subscription_mod

Subscription = subscription_mod.Subscription


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """A subscription, and what was done for it.

    Times are those of the database, in seconds since the epoch.

    :ivar position: of the last event that it was told of, or has passed
    :ivar sent: how many it was told of
    :ivar is_low: whether it was told last that less than its threshold is
        available
    :ivar due_at: before that nothing is sent
    :ivar failures: how often in a row it could not be told
    :ivar failing_since: of the first of these; None without any
    :ivar failure: why not, as of the last of these
    :ivar suspended_at: since then it is told no more; None if it is
    """

    subscription: Subscription
    position: int
    sent: int = 0
    is_low: bool = False
    due_at: int = 0
    failures: int = 0
    failing_since: int | None = None
    failure: str | None = None
    suspended_at: int | None = None
    revision: int = 0

    @property
    def state(self) -> str:
        """How it goes on: active, failing or suspended."""
        if self.suspended_at is not None:
            return 'suspended'
        return 'failing' if self.failures else 'active'

    @property
    def uuid(self) -> str:
        """Of the subscription."""
        return self.subscription.uuid


#: What changes of a follower; the columns have the same names.
_CHANGING = tuple(
    one.name
    for one in dataclasses.fields(Follower)
    if one.name != 'subscription'
)


def add(connection: sa.Connection, follower: Follower) -> None:
    """Write a new one."""
    one = follower.subscription
    watched = one.watched
    connection.execute(
        sa.insert(tables.SUBSCRIPTIONS),
        {
            'subscription': one.uuid,
            'project': one.project,
            'url': one.url,
            'kinds': json.dumps(sorted(one.kinds)),
            'subject': one.reservation,
            'zone': watched and watched.zone,
            'resource_class': watched and watched.resource_class,
            'threshold': watched and watched.threshold,
            'remaining': json.dumps(one.remaining),
            'secret': one.secret,
            'created_at': one.created_at,
            **{name: getattr(follower, name) for name in _CHANGING},
        },
    )


def read(
    connection: sa.Connection,
    *,
    uuid: str | None = None,
    project: str | None = None,
    is_active: bool = False,
) -> list[Follower]:
    """Return followers, the oldest first.

    :param uuid: only this one
    :param project: only those of a project
    :param is_active: only those that are not suspended
    """
    columns = tables.SUBSCRIPTIONS.c
    query = sa.select(tables.SUBSCRIPTIONS).order_by(
        columns.created_at, columns.subscription
    )
    if uuid is not None:
        query = query.where(columns.subscription == uuid)
    if project is not None:
        query = query.where(columns.project == project)
    if is_active:
        query = query.where(columns.suspended_at.is_(None))
    return [_parse(row) for row in connection.execute(query)]


def has_any(connection: sa.Connection) -> bool:
    """Return whether there is one that is not suspended."""
    columns = tables.SUBSCRIPTIONS.c
    query = sa.select(columns.subscription).where(
        columns.suspended_at.is_(None)
    )
    return connection.execute(query.limit(1)).first() is not None


def change(
    database: database_mod.Database, follower: Follower, **values: Any
) -> Follower | None:
    """Write how one goes on.

    :param follower: as it was read
    :returns: as it is now; None if another program has written meanwhile, or
        it was deleted
    :raises StoreError: the database refused it, or could not be reached
    """
    return retry.call(_try_change, database, follower, values)


def _try_change(
    database: database_mod.Database, follower: Follower, values: Any
) -> Follower | None:
    with database.transaction() as connection:
        return write(connection, follower, **values)


def write(
    connection: sa.Connection, follower: Follower, **values: Any
) -> Follower | None:
    """Do what :func:`change` does, as a part of a transaction."""
    columns = tables.SUBSCRIPTIONS.c
    after = dataclasses.replace(
        follower, **values, revision=follower.revision + 1
    )
    written = connection.execute(
        sa.update(tables.SUBSCRIPTIONS)
        .where(
            columns.subscription == follower.uuid,
            columns.revision == follower.revision,
        )
        .values(**{name: getattr(after, name) for name in _CHANGING})
    )
    return after if written.rowcount == 1 else None


def delete(connection: sa.Connection, uuid: str) -> bool:
    """Delete one; return whether there was one."""
    columns = tables.SUBSCRIPTIONS.c
    deleted = connection.execute(
        sa.delete(tables.SUBSCRIPTIONS).where(columns.subscription == uuid)
    )
    return bool(deleted.rowcount)


def find_floor(found: Collection[Follower], last: int) -> int:
    """Return the position up to which no event is needed any more.

    :param found: all that are not suspended
    :param last: the last position that was given
    """
    return min((one.position for one in found), default=last)


def _parse(row: Any) -> Follower:
    watched = None
    if row.zone is not None:
        watched = subscription_mod.Watched(
            zone=row.zone,
            resource_class=row.resource_class,
            threshold=row.threshold,
        )
    return Follower(
        subscription=Subscription(
            uuid=row.subscription,
            project=row.project,
            url=row.url,
            kinds=frozenset(map(event_mod.Kind, json.loads(row.kinds))),
            reservation=row.subject,
            watched=watched,
            remaining=tuple(json.loads(row.remaining)),
            secret=row.secret,
            created_at=row.created_at,
        ),
        **{name: getattr(row, name) for name in _CHANGING},
    )
