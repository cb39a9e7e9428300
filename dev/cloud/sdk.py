# SPDX-License-Identifier: Apache-2.0

"""Clients of the cloud's public APIs."""

from collections.abc import Mapping

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exceptions
import openstack
import openstack.config
from openstack import connection
from openstack import exceptions

from dev.cloud import errors
from dev.cloud import folder as folders
from dev.cloud import told

#: Nova's microversion: names of networks 'none' (2.37), flavors with their
#: extra specs (2.61), validation of extra specs (2.86).
COMPUTE_MICROVERSION = '2.96'

#: Placement's microversion: codes in errors, consumer generations and types.
PLACEMENT_MICROVERSION = '1.39'

#: A service that hangs must not hang its client too. Nova's slowest answer
#: here takes two seconds on a busy machine.
_TIMEOUT_SECONDS = 30


#: With what a story ends early that is not at fault itself.
FAILURES = (
    told.NotAsTold,
    errors.CloudError,
    exceptions.SDKException,
    ks_exceptions.ClientException,
    OSError,
)


def connect(folder: folders.Folder) -> connection.Connection:
    """Return an openstacksdk connection as the administrator."""
    loader = openstack.config.OpenStackConfig(
        config_files=[str(folder.clouds_yaml)],
        secure_files=[],
        vendor_files=[],
        load_envvars=False,
    )
    return _prepare(
        connection.Connection(
            config=loader.get_one(folders.CLOUD, api_timeout=_TIMEOUT_SECONDS)
        )
    )


def connect_as(
    auth: Mapping[str, str], *, region: str
) -> connection.Connection:
    """Return an openstacksdk connection as another user.

    :param auth: what keystone asks for
    """
    return _prepare(
        connection.Connection(
            auth=dict(auth),
            region_name=region,
            identity_api_version='3',
            api_timeout=_TIMEOUT_SECONDS,
        )
    )


def _prepare(made: connection.Connection) -> connection.Connection:
    made.compute.default_microversion = COMPUTE_MICROVERSION
    return made


def placement(made: connection.Connection, url: str) -> adapter.Adapter:
    """Return a plain adapter for placement; every status is an answer."""
    return adapter.Adapter(
        made.session,
        service_type='placement',
        endpoint_override=url,
        default_microversion=PLACEMENT_MICROVERSION,
        raise_exc=False,
        additional_headers={'Accept': 'application/json'},
    )
