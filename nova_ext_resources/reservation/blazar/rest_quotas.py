# SPDX-License-Identifier: Apache-2.0

"""Quotas and limits by the API extension: own ones are seen, all are set."""

from collections.abc import Mapping
from typing import Any

from blazar.api.v1 import utils as api_utils

from nova_ext_resources.reservation.blazar import asking
from nova_ext_resources.reservation.blazar import policies

rest = asking.rest


@rest.get('/quotas', query=True)
def list_quotas(_req: object, query: Mapping[str, str]) -> Any:
    """List the quotas of the project, and what is taken of them."""
    policies.authorise('quotas_get')
    found = asking.ask('list_quotas', project=_find_project(query))
    return api_utils.render(quotas=found)


@rest.put('/quotas/<project>/<resource_class>')
def set_quota(
    _req: object, project: str, resource_class: str, data: Mapping[str, Any]
) -> Any:
    """Limit what a project may reserve of a resource class."""
    policies.authorise('quotas_put')
    found = asking.ask(
        'set_quota',
        project=project,
        resource_class=resource_class,
        document=data,
    )
    return api_utils.render(quota=found)


@rest.delete('/quotas/<project>/<resource_class>')
def delete_quota(_req: object, project: str, resource_class: str) -> Any:
    """Let it reserve as much as there is."""
    policies.authorise('quotas_delete')
    asking.ask('delete_quota', project=project, resource_class=resource_class)
    return api_utils.render()


@rest.get('/limits', query=True)
def list_limits(_req: object, query: Mapping[str, str]) -> Any:
    """Show how far ahead, and how long, the project may reserve."""
    policies.authorise('quotas_get')
    found = asking.ask('list_limits', project=_find_project(query))
    return api_utils.render(limits=found)


@rest.put('/limits/<project>')
def set_limits(_req: object, project: str, data: Mapping[str, Any]) -> Any:
    """Bound it for one project."""
    policies.authorise('quotas_put')
    found = asking.ask('set_limits', project=project, document=data)
    return api_utils.render(limit=found)


@rest.delete('/limits/<project>')
def delete_limits(_req: object, project: str) -> Any:
    """Let it have the limits of all others."""
    policies.authorise('quotas_delete')
    asking.ask('delete_limits', project=project)
    return api_utils.render()


def _find_project(query: Mapping[str, str]) -> str | None:
    """Return the project that is asked for, None for all.

    :raises PolicyNotAuthorized: it is another one, or all
    """
    is_all = asking.read_flag(query, 'all')
    own = policies.get_project()
    project = query.get('project', own)
    if is_all or project != own:
        policies.authorise('quotas_all')
    return None if is_all else project
