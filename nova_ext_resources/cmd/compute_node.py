# SPDX-License-Identifier: Apache-2.0

"""The compute node of this host, from where Nova keeps its uuid."""

from collections.abc import Iterable
import os
import uuid

from oslo_config import cfg
from oslo_utils import uuidutils

from nova_ext_resources.conf import state
from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client

#: Nova's name of the file (``nova.virt.node``).
_FILE = 'compute_id'

_ADVICE = 'name the node by its ID from "openstack hypervisor list"'


def list_paths(conf: cfg.ConfigOpts) -> list[str]:
    """Return where the file may be.

    That is the folder of a configuration file, or ``state_path``.
    """
    folders = [os.path.dirname(os.path.abspath(one)) for one in _list(conf)]
    folder = state.find_folder(conf)
    if folder:
        folders.append(os.path.dirname(folder))
    return [os.path.join(one, _FILE) for one in dict.fromkeys(folders)]


def _list(conf: cfg.ConfigOpts) -> Iterable[str]:
    return conf.config_file or ()


def read_uuid(conf: cfg.ConfigOpts) -> str | None:
    """Return the uuid of the compute node.

    :return: None: there is no file, which nova-compute makes when it starts
        first
    :raises InvalidConfiguration: the file has none, or cannot be read
    """
    for path in filter(os.path.exists, list_paths(conf)):
        try:
            with open(path, encoding='utf-8') as file:
                return str(uuid.UUID(file.read(40).strip()))
        except (OSError, ValueError) as err:
            raise exception.InvalidConfiguration(
                option='--node',
                value=None,
                reason=f'{path} has no uuid of a compute node: {err}; '
                f'{_ADVICE}',
            ) from err
    return None


def get_uuid(conf: cfg.ConfigOpts) -> str:
    """Return the uuid of the compute node.

    :raises InvalidConfiguration: no file has it
    """
    found = read_uuid(conf)
    if found is None:
        raise exception.InvalidConfiguration(
            option='--node',
            value=None,
            reason=f'there is no file {" or ".join(list_paths(conf))}, which '
            'nova-compute creates at its first start; if the file is '
            f'elsewhere, {_ADVICE}',
        )
    return found


def get(client: placement_client.Client, uuid_: str) -> host_provider.Node:
    """Return the compute node that has a uuid.

    :raises InvalidConfiguration: it is none, or another provider has it
    :raises PlacementError: placement does not show it
    """
    if not uuidutils.is_uuid_like(uuid_):
        raise exception.InvalidConfiguration(
            option='--node',
            value=uuid_,
            reason=f'the value is not a uuid; {_ADVICE}',
        )
    root = client.get_provider(uuid_)
    if root.parent_uuid or host_provider.SHARING_TRAIT in root.traits:
        raise exception.InvalidConfiguration(
            option='--node',
            value=uuid_,
            reason=f'the uuid belongs to provider {root.name}, which is not a '
            f'compute node; {_ADVICE}',
        )
    return host_provider.Node(uuid=uuid_, hypervisor_hostname=root.name)
