# SPDX-License-Identifier: Apache-2.0

"""What the API extension asks of the plugin about quotas and limits."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from nova_ext_resources.reservation import api
from nova_ext_resources.reservation.blazar import documents
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import limits as limits_mod
from nova_ext_resources.reservation import quota


class Quoting:
    """Answers Blazar's API; Blazar finds its methods by their names.

    Each may raise ``InvalidInput`` (400), ``NotFound`` (404) and
    ``CantUpdateParameter`` (409), all of Blazar, in an ``ExpectedException``.
    """

    def _answer(self) -> AbstractContextManager[api.Reservations]:
        raise NotImplementedError

    def list_quotas(
        self, project: str | None = None
    ) -> list[documents.Document]:
        """Return quotas, and what is taken of each.

        :param project: only those of this one; None for all
        """
        with self._answer() as reservations:
            found = reservations.quotas.list_quotas(project)
            return [*map(documents.describe_quota, found)]

    def set_quota(
        self, project: str, resource_class: str, document: Mapping[str, Any]
    ) -> documents.Document:
        """Set one.

        :param document: has ``unit_hours``, and may have ``days``
        """
        with self._answer() as reservations:
            unknown = document.keys() - {'unit_hours', 'days'}
            if unknown or 'unit_hours' not in document:
                raise errors.InvalidQuota(
                    project=project,
                    resource_class=resource_class,
                    reason='write unit_hours, optionally days, and nothing '
                    'else',
                )
            reservations.check_project(project)
            use = reservations.quotas.set_quota(
                project,
                resource_class,
                document['unit_hours'],
                days=document.get('days', quota.DEFAULT_DAYS),
            )
            return documents.describe_quota(use)

    def delete_quota(self, project: str, resource_class: str) -> None:
        """Take one away."""
        with self._answer() as reservations:
            reservations.quotas.delete_quota(project, resource_class)

    def list_limits(
        self, project: str | None = None
    ) -> list[documents.Document]:
        """Return limits as they hold.

        :param project: of this one; None for all that have their own
        """
        with self._answer() as reservations:
            limits = reservations.limits
            if project is not None:
                found = limits.find(project)
                return [documents.describe_limits(project, found)]
            return [
                documents.describe_limits(one.project, one.fill(limits.others))
                for one in limits.list_limits()
            ]

    def set_limits(
        self, project: str, document: Mapping[str, Any]
    ) -> documents.Document:
        """Set those of a project.

        :param document: may have ``max_ahead`` and ``max_duration``: a
            duration, or ``none`` for any; without them that of all holds
        """
        with self._answer() as reservations:
            reservations.check_project(project)
            reservations.limits.set_limits(
                project, **_read_limits(project, document)
            )
            found = reservations.limits.find(project)
            return documents.describe_limits(project, found)

    def delete_limits(self, project: str) -> None:
        """Let a project have those of all."""
        with self._answer() as reservations:
            reservations.limits.delete_limits(project)


def _read_limits(project: str, document: Mapping[str, Any]) -> dict[str, int]:
    """Return the arguments of ``set_limits``.

    :raises InvalidLimits: they make no sense
    """
    names = {'max_ahead': 'ahead', 'max_duration': 'duration'}
    if unknown := document.keys() - names.keys():
        raise errors.InvalidLimits(
            project=project,
            reason=f'unknown keys: {", ".join(sorted(unknown))}; write '
            'max_ahead and max_duration',
        )
    try:
        return {
            names[key]: limits_mod.parse_seconds(str(value))
            for key, value in document.items()
            if value is not None
        }
    except ValueError as err:
        raise errors.InvalidLimits(project=project, reason=str(err)) from err
