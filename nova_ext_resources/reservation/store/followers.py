# SPDX-License-Identifier: Apache-2.0

"""The rows of subscriptions, and how far each of them has been told.

Whoever tells one writes its revision before, and has it until ``due_at``. What
it writes afterwards is refused if another program has written meanwhile.
"""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import json
from typing import Any, NamedTuple

from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.reservation import event
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import tables
from nova_ext_resources.reservation import subscription as subscription_mod

LOG = logging.getLogger(__name__)

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
    :ivar failing_since: since when it fails, or is told what is long past;
        without the time for which no manager has tried
    :ivar failure: why not, as of the last failure
    :ivar suspended_at: since then nothing is sent to it; None if it is active
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


class Asking(NamedTuple):
    """A subscription that is told how much time remains."""

    uuid: str
    project: str
    reservation: str | None
    remaining: Sequence[int]
    created_at: int


#: What changes of a follower; the columns have the same names.
_CHANGING = tuple(
    one.name
    for one in dataclasses.fields(Follower)
    if one.name != 'subscription'
)

#: Those who send write it all but this, which :func:`turn` writes.
_SENT = tuple(name for name in _CHANGING if name != 'is_low')


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
) -> list[Follower]:
    """Return followers, the oldest first.

    One that cannot be read is logged, and left out.

    :param uuid: only this one
    :param project: only those of a project
    :raises StoreError: the only one cannot be read
    """
    columns = tables.SUBSCRIPTIONS.c
    query = sa.select(tables.SUBSCRIPTIONS).order_by(
        columns.created_at, columns.subscription
    )
    if uuid is not None:
        query = query.where(columns.subscription == uuid)
    if project is not None:
        query = query.where(columns.project == project)
    found = connection.execute(query).all()
    return [_parse(row) for row in found] if uuid else [*parse_all(found)]


def read_watching(connection: sa.Connection) -> list[Follower]:
    """Return those that are told of capacity, and are not suspended."""
    columns = tables.SUBSCRIPTIONS.c
    query = sa.select(tables.SUBSCRIPTIONS).where(
        columns.suspended_at.is_(None), columns.zone.is_not(None)
    )
    return [*parse_all(connection.execute(query))]


def list_asking(connection: sa.Connection) -> list[Asking]:
    """Return those that are told how much time remains."""
    columns = tables.SUBSCRIPTIONS.c
    rows = connection.execute(
        sa.select(
            columns.subscription,
            columns.project,
            columns.subject,
            columns.remaining,
            columns.created_at,
        ).where(columns.suspended_at.is_(None), columns.remaining != '[]')
    )
    found = []
    for uuid, project, subject, remaining, created_at in rows:
        # What is no list is logged when something is sent.
        with contextlib.suppress(*foreign_data.UNREADABLE):
            seconds = foreign_data.load_json(remaining)
            found.append(Asking(uuid, project, subject, seconds, created_at))
    return found


def count(connection: sa.Connection, project: str) -> int:
    """Return how many a project has."""
    columns = tables.SUBSCRIPTIONS.c
    query = sa.select(sa.func.count()).where(columns.project == project)
    return int(connection.scalar(query) or 0)


def has_any(connection: sa.Connection) -> bool:
    """Return whether there is one that is not suspended."""
    columns = tables.SUBSCRIPTIONS.c
    query = sa.select(columns.subscription).where(
        columns.suspended_at.is_(None)
    )
    return connection.execute(query.limit(1)).first() is not None


def change(
    database: databases.Database, follower: Follower, **values: Any
) -> Follower | None:
    """Write how one goes on.

    :param follower: as it was read
    :returns: as it is now; None if another program has written meanwhile, or
        it was deleted
    :raises StoreError: the database refused it, or could not be reached
    """
    return retry.call(_try_change, database, follower, values)


def _try_change(
    database: databases.Database, follower: Follower, values: Any
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
        .values(**{name: getattr(after, name) for name in _SENT})
    )
    return after if written.rowcount == 1 else None


def turn(connection: sa.Connection, uuid: str, *, is_low: bool) -> bool:
    """Write what a subscription was told last of what is available.

    Whoever sends at the same time keeps its claim.

    :returns: whether it was told something else before
    """
    columns = tables.SUBSCRIPTIONS.c
    written = connection.execute(
        sa.update(tables.SUBSCRIPTIONS)
        .where(columns.subscription == uuid, columns.is_low != is_low)
        .values(is_low=is_low)
    )
    return written.rowcount == 1


def delete(
    connection: sa.Connection, uuid: str, project: str | None = None
) -> bool:
    """Delete one; return whether there was one.

    :param project: only if it is of this one
    """
    columns = tables.SUBSCRIPTIONS.c
    query = sa.delete(tables.SUBSCRIPTIONS).where(columns.subscription == uuid)
    if project is not None:
        query = query.where(columns.project == project)
    return bool(connection.execute(query).rowcount)


def find_floor(connection: sa.Connection, last: int) -> int:
    """Return the position up to which no event is needed any more.

    :param last: the last position that was given
    """
    columns = tables.SUBSCRIPTIONS.c
    query = sa.select(sa.func.min(columns.position)).where(
        columns.suspended_at.is_(None)
    )
    floor = connection.scalar(query)
    return last if floor is None else int(floor)


def parse_all(rows: Any) -> Iterator[Follower]:
    """Make followers of their rows; log which of them are none."""
    for row in rows:
        try:
            yield _parse(row)
        except exception.StoreError as err:
            LOG.error('No notification is sent: %(err)s', {'err': err})


def _parse(row: Any) -> Follower:
    """Make a follower of its row.

    :raises StoreError: it is none
    """
    try:
        return _try_parse(row)
    except foreign_data.UNREADABLE as err:
        raise exception.StoreError(
            reason=f'subscription {row.subscription} cannot be read: {err}. '
            'Delete the subscription, and make another one'
        ) from err


def _try_parse(row: Any) -> Follower:
    known = {one.value for one in event.Kind}
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
            # Another release may know more.
            kinds=frozenset(
                event.Kind(one)
                for one in foreign_data.load_json(row.kinds)
                if one in known
            ),
            reservation=row.subject,
            watched=watched,
            remaining=tuple(foreign_data.load_json(row.remaining)),
            secret=row.secret,
            created_at=row.created_at,
        ),
        **{name: getattr(row, name) for name in _CHANGING},
    )
