# SPDX-License-Identifier: Apache-2.0

"""The quotas of projects: set, listed, and kept when several ask at once.

Whoever charges a project for a class raises the revision of that quota, if it
is still as it was read. So of two admissions that are allowed by what is left
of the same quota, one fails and reads anew. What only releases raises none.
"""

from collections.abc import Callable, Mapping
import dataclasses
import secrets

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import quota as quota_mod
from nova_ext_resources.reservation.store import charges
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import tables

#: Made once: an admission takes as long for making a statement as for it.
_READ = (
    sa.select(tables.QUOTAS)
    .where(tables.QUOTAS.c.project == sa.bindparam('project'))
    .order_by(tables.QUOTAS.c.resource_class)
)

#: No row begins with the revision of one that was deleted before it.
_REVISIONS = 1 << 48


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a project may reserve and has reserved, as it was read.

    :ivar revisions: resource class -> revision of the quota
    """

    account: quota_mod.Account = dataclasses.field(
        default_factory=quota_mod.Account
    )
    revisions: Mapping[str, int] = dataclasses.field(default_factory=dict)


def read(connection: sa.Connection, project: str, now: int) -> State:
    """Return what counts against the quotas of a project; '' has none.

    :param now: seconds since the epoch
    """
    if not project:
        return State()
    # First: what is charged later raises a revision that was read already.
    rows = connection.execute(_READ, {'project': project}).all()
    if not rows:
        return State()
    quotas = tuple(
        quota_mod.Quota(
            project=row.project,
            resource_class=row.resource_class,
            unit_hours=row.unit_hours,
            days=row.days,
        )
        for row in rows
    )
    revisions = {row.resource_class: row.revision for row in rows}
    oldest = now - max(one.window for one in quotas)
    found = charges.read_charges(connection, project, [*revisions], oldest)
    return State(
        account=quota_mod.Account(quotas=quotas, charges=found),
        revisions=revisions,
    )


def raise_revisions(
    connection: sa.Connection, request: plan_request.Request, state: State
) -> None:
    """Raise the revisions of all quotas that a request counts against.

    :raises RevisionMoved: one of them has changed since it was read
    """
    columns = tables.QUOTAS.c
    asked = request.demand.requirement.resources
    for name, revision in sorted(state.revisions.items()):
        if name not in asked:
            continue
        raised = connection.execute(
            sa.update(tables.QUOTAS)
            .where(
                columns.project == request.project,
                columns.resource_class == name,
                columns.revision == revision,
            )
            .values(revision=revision + 1)
        )
        if raised.rowcount != 1:
            raise exception.RevisionMoved(
                reason='another process has set or charged the quota of '
                f'project {request.project} for {name} since it was read; '
                'try again'
            )


class Quotas:
    """The quotas of all projects of one store.

    Each method may also raise ``StoreError``.

    :param clock: returns seconds since the epoch
    """

    def __init__(
        self, database: databases.Database, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._clock = clock

    def set_quota(
        self,
        project: str,
        resource_class: str,
        unit_hours: int,
        *,
        days: int = quota_mod.DEFAULT_DAYS,
    ) -> quota_mod.Use:
        """Limit what a project may reserve, from now on.

        What is reserved stays, also if it is more.

        :param project: its id
        :param days: for how long counts what is over
        :returns: the quota, and what is taken of it
        :raises InvalidQuota: there is no such class, or a number or the id
            makes no sense
        """
        try:
            quota_mod.check_names(project, resource_class)
            quota = quota_mod.Quota(
                project=project,
                resource_class=resource_class,
                unit_hours=unit_hours,
                days=days,
            )
        except ValueError as err:
            raise errors.InvalidQuota(
                project=project, resource_class=resource_class, reason=str(err)
            ) from err
        retry.call(_write, self._database, quota)
        (use,) = self.list_quotas(project, resource_class)
        return use

    def list_quotas(
        self, project: str | None = None, resource_class: str | None = None
    ) -> list[quota_mod.Use]:
        """Return quotas by project and class, and what is taken of each.

        :param project: only those of this one
        :param resource_class: only those for this one
        """
        columns = tables.QUOTAS.c
        query = sa.select(columns.project).distinct()
        if project is not None:
            query = query.where(columns.project == project)
        now = int(self._clock())
        with self._database.transaction() as connection:
            return [
                use
                for one in sorted(connection.scalars(query).all())
                for use in read(connection, one, now).account.list_uses(now)
                if resource_class in (None, use.quota.resource_class)
            ]

    def delete_quota(self, project: str, resource_class: str) -> None:
        """Let a project reserve as much of a class as there is.

        :raises QuotaNotFound: there is no such quota
        """
        if not retry.call(_delete, self._database, project, resource_class):
            raise errors.QuotaNotFound(
                project=project, resource_class=resource_class
            )


def _write(database: databases.Database, quota: quota_mod.Quota) -> None:
    columns = tables.QUOTAS.c
    values = {'unit_hours': quota.unit_hours, 'days': quota.days}
    with database.transaction() as connection:
        changed = connection.execute(
            sa.update(tables.QUOTAS)
            .where(
                columns.project == quota.project,
                columns.resource_class == quota.resource_class,
            )
            .values(**values, revision=columns.revision + 1)
        )
        if not changed.rowcount:
            connection.execute(
                sa.insert(tables.QUOTAS).values(
                    project=quota.project,
                    resource_class=quota.resource_class,
                    **values,
                    revision=secrets.randbelow(_REVISIONS),
                )
            )


def _delete(
    database: databases.Database, project: str, resource_class: str
) -> bool:
    columns = tables.QUOTAS.c
    with database.transaction() as connection:
        deleted = connection.execute(
            sa.delete(tables.QUOTAS).where(
                columns.project == project,
                columns.resource_class == resource_class,
            )
        )
    return bool(deleted.rowcount)
