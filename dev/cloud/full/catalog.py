# SPDX-License-Identifier: Apache-2.0

"""Users, roles and endpoints in keystone."""

from openstack import connection

from dev.cloud import endpoints
from dev.cloud.full import config
from dev.cloud import options

_DOMAIN = 'default'

#: The project of all services.
_PROJECT = 'service'

#: What a service's user may do.
_ROLES = ('admin', 'service')


def make(sdk: connection.Connection, urls: endpoints.Urls) -> None:
    """Make what a new keystone lacks.

    :param sdk: as the administrator
    :raises SDKException: keystone refuses it
    """
    sdk.identity.create_project(name=_PROJECT, domain_id=_DOMAIN)
    for name in config.USERS:
        make_user(sdk, name, _PROJECT, _ROLES)
    for kind, url in urls.catalog.items():
        _make_endpoints(sdk, kind, url)


def make_service(
    sdk: connection.Connection, user: str, kind: str, url: str
) -> None:
    """Make the user and the endpoints of one service more.

    :param kind: the type of the service; a former one of it is forgotten
    :raises SDKException: keystone refuses it
    """
    if former := sdk.identity.find_service(kind):
        sdk.identity.delete_service(former)
    if not sdk.identity.find_user(user):
        make_user(sdk, user, _PROJECT, _ROLES)
    _make_endpoints(sdk, kind, url)


def make_user(
    sdk: connection.Connection,
    name: str,
    project_name: str,
    role_names: tuple[str, ...],
) -> None:
    """Make a user with roles in a project that there is.

    :raises SDKException: keystone refuses it
    """
    project = sdk.identity.find_project(project_name)
    user = sdk.identity.create_user(
        name=name, password=config.PASSWORD, domain_id=_DOMAIN
    )
    for one in role_names:
        role = sdk.identity.find_role(one)
        sdk.identity.assign_project_role_to_user(
            project, user, role or sdk.identity.create_role(name=one)
        )


def make_project(sdk: connection.Connection, name: str) -> str:
    """Make a project; return its id.

    :raises SDKException: keystone refuses it
    """
    made = sdk.identity.create_project(name=name, domain_id=_DOMAIN)
    return str(made.id)


def _make_endpoints(sdk: connection.Connection, kind: str, url: str) -> None:
    service = sdk.identity.create_service(type=kind, name=kind)
    for interface in ('public', 'internal', 'admin'):
        sdk.identity.create_endpoint(
            service_id=service.id,
            interface=interface,
            region_id=options.REGION,
            url=url,
        )
