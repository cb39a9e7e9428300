# SPDX-License-Identifier: Apache-2.0

"""An ordinary user, who is a member of a project."""

import dataclasses

from openstack import connection

from cloud.full import catalog
from cloud.full import cloud as clouds
from cloud.full import config
from cloud import sdk

#: The role of who uses a project; it implies that of a reader.
_ROLE = 'member'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A user of a project of the same name.

    :ivar project: its id
    :ivar sdk: a connection as this user
    """

    name: str
    project: str
    sdk: connection.Connection


def make(cloud: clouds.Cloud, name: str) -> Tenant:
    """Make project and user in keystone.

    :raises SDKException: keystone refuses it
    """
    project = catalog.make_project(cloud.sdk, name)
    catalog.make_user(cloud.sdk, name, name, (_ROLE,))
    return Tenant(
        name=name,
        project=project,
        sdk=sdk.connect_as(
            {
                'auth_url': f'{cloud.urls.identity}/v3',
                'username': name,
                'password': config.PASSWORD,
                'project_name': name,
                'user_domain_id': 'default',
                'project_domain_id': 'default',
            },
            region=config.REGION,
        ),
    )
