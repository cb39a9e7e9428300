# SPDX-License-Identifier: Apache-2.0

"""An ordinary user, who is a member of a project."""

import dataclasses

from openstack import connection

from dev.cloud.full import catalog
from dev.cloud.full import cloud as clouds
from dev.cloud.full import config
from dev.cloud import options
from dev.cloud import sdk

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
            options.credentials(cloud.urls, name, config.PASSWORD, name),
            region=options.REGION,
        ),
    )
