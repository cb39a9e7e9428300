# SPDX-License-Identifier: Apache-2.0

"""Users, roles and endpoints in keystone."""

from openstack import connection

from cloud import endpoints
from cloud.full import config

_DOMAIN = 'default'

#: What a service's user may do.
_ROLES = ('admin', 'service')


def make(sdk: connection.Connection, urls: endpoints.Urls) -> None:
    """Make what a new keystone lacks.

    :param sdk: as the administrator
    :raises SDKException: keystone refuses it
    """
    project = sdk.identity.create_project(name='service', domain_id=_DOMAIN)
    roles = [
        sdk.identity.find_role(name) or sdk.identity.create_role(name=name)
        for name in _ROLES
    ]
    for name in config.USERS:
        user = sdk.identity.create_user(
            name=name, password=config.PASSWORD, domain_id=_DOMAIN
        )
        for role in roles:
            sdk.identity.assign_project_role_to_user(project, user, role)
    for kind, url in urls.catalog.items():
        _make_endpoints(sdk, kind, url)


def _make_endpoints(sdk: connection.Connection, kind: str, url: str) -> None:
    service = sdk.identity.create_service(type=kind, name=kind)
    for interface in ('public', 'internal', 'admin'):
        sdk.identity.create_endpoint(
            service_id=service.id,
            interface=interface,
            region_id=config.REGION,
            url=url,
        )
