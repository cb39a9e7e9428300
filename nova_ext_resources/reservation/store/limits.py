# SPDX-License-Identifier: Apache-2.0

"""The limits of single projects: set, listed, deleted and found."""

import dataclasses

import sqlalchemy as sa

from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import limits as limits_mod
from nova_ext_resources.reservation import quota as quota_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import tables


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnLimits:
    """What was set for one project.

    :ivar project: its id
    :ivar ahead: see :class:`~..limits.Limits`; None: as for all projects
    :ivar duration: the same
    """

    project: str
    ahead: int | None = None
    duration: int | None = None

    def fill(self, others: limits_mod.Limits) -> limits_mod.Limits:
        """Return what holds for the project.

        :param others: what holds for all others
        """
        return limits_mod.Limits(
            ahead=others.ahead if self.ahead is None else self.ahead,
            duration=(
                others.duration if self.duration is None else self.duration
            ),
        )


#: Made once: an admission takes as long for making a statement as for it.
_READ = sa.select(tables.LIMITS).order_by(tables.LIMITS.c.project)
_READ_ONE = sa.select(tables.LIMITS).where(
    tables.LIMITS.c.project == sa.bindparam('project')
)


class Limits:
    """The limits of all projects of one store.

    Each method may also raise ``StoreError``.

    :ivar others: what holds where nothing else was set
    """

    def __init__(
        self, database: database_mod.Database, others: limits_mod.Limits
    ) -> None:
        self._database = database
        self.others = others

    def find(self, project: str) -> limits_mod.Limits:
        """Return what holds for a project.

        :param project: its id; '' for reservations of none
        """
        own = OwnLimits(project=project)
        for found in self.list_limits(project) if project else ():
            own = found
        return own.fill(self.others)

    def set_limits(
        self,
        project: str,
        *,
        ahead: int | None = None,
        duration: int | None = None,
    ) -> OwnLimits:
        """Set the limits of a project, in place of those that it had.

        What is reserved stays, also if it goes beyond them.

        :param project: its id
        :param ahead: seconds from now within which its reservations start;
            ``FOREVER`` for any, None: as for all projects
        :param duration: seconds that they last at most, the same
        :raises InvalidLimits: the id or a number makes no sense
        """
        own = OwnLimits(project=project, ahead=ahead, duration=duration)
        try:
            quota_mod.check_project(project)
            own.fill(self.others)
        except ValueError as err:
            raise errors.InvalidLimits(
                project=project, reason=str(err)
            ) from err
        retry.call(_write, self._database, own)
        return own

    def list_limits(self, project: str | None = None) -> list[OwnLimits]:
        """Return what was set, by project.

        :param project: only of this one
        """
        query = _READ if project is None else _READ_ONE
        with self._database.transaction() as connection:
            return [
                OwnLimits(
                    project=row.project,
                    ahead=row.ahead,
                    duration=row.duration,
                )
                for row in connection.execute(query, {'project': project})
            ]

    def delete_limits(self, project: str) -> None:
        """Let a project have the limits of all others.

        :raises LimitsNotFound: it has these
        """
        if not retry.call(_delete, self._database, project):
            raise errors.LimitsNotFound(project=project)


def _write(database: database_mod.Database, own: OwnLimits) -> None:
    with database.transaction() as connection:
        _remove(connection, own.project)
        connection.execute(
            sa.insert(tables.LIMITS).values(**dataclasses.asdict(own))
        )


def _delete(database: database_mod.Database, project: str) -> bool:
    with database.transaction() as connection:
        return _remove(connection, project)


def _remove(connection: sa.Connection, project: str) -> bool:
    deleted = connection.execute(
        sa.delete(tables.LIMITS).where(tables.LIMITS.c.project == project)
    )
    return bool(deleted.rowcount)
