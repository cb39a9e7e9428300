# SPDX-License-Identifier: Apache-2.0

"""The limits of single projects: set, listed, deleted and found."""

import dataclasses

import sqlalchemy as sa

from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import limits
from nova_ext_resources.reservation import quota
from nova_ext_resources.reservation.store import databases
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

    def fill(self, others: limits.Limits) -> limits.Limits:
        """Return what holds for the project.

        :param others: what holds for all others
        """
        own = {'ahead': self.ahead, 'duration': self.duration}
        return dataclasses.replace(
            others,
            **{name: one for name, one in own.items() if one is not None},
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
        self, database: databases.Database, others: limits.Limits
    ) -> None:
        self._database = database
        self.others = others

    def find(self, project: str) -> limits.Limits:
        """Return what holds for a project.

        :param project: its id; '' for reservations of none, which are the
            operators' and not bounded
        """
        if not project:
            return limits.Limits()
        own = OwnLimits(project=project)
        for found in self.list_limits(project):
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
            quota.check_project(project)
            own.fill(self.others)
        except ValueError as err:
            raise errors.InvalidLimits(
                project=project, reason=str(err)
            ) from err
        retry.call(_replace, self._database, project, own)
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
        if not retry.call(_replace, self._database, project):
            raise errors.LimitsNotFound(project=project)


def _replace(
    database: databases.Database, project: str, own: OwnLimits | None = None
) -> bool:
    """Write what a project has of its own; return whether it had any."""
    query = sa.delete(tables.LIMITS).where(tables.LIMITS.c.project == project)
    with database.transaction() as connection:
        deleted = connection.execute(query)
        if own is not None:
            connection.execute(
                sa.insert(tables.LIMITS).values(**dataclasses.asdict(own))
            )
    return bool(deleted.rowcount)
