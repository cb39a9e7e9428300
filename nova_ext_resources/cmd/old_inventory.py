# SPDX-License-Identifier: Apache-2.0

"""What the compute node of this host itself has of what plugins report."""

from collections.abc import Collection

from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client


#: Where something is to be moved.
_MAY_NOT = (
    'Placement refuses POST /reshaper to this user. nova-compute needs this '
    'request to move allocations. The user of Nova needs the role "service".'
)


def list_problems(
    client: placement_client.Client,
    node_uuid: str,
    classes: Collection[str],
    location: str,
) -> list[str]:
    """Return sentences: on each class to be moved, and what is in the way.

    :param classes: what plugins report
    :param location: folder of Nova's provider configuration files
    :raises PlacementError: placement cannot be read
    :raises InvalidConfiguration: Nova cannot read a file
    """
    try:
        root = client.get_provider(node_uuid)
    except exception.NotFound:
        # nova-compute has never reported it.
        return []
    old = sorted(
        name
        for name in root.inventories
        if name in classes and name.startswith(host_provider.CUSTOM)
    )
    if not old:
        return []
    holders = client.list_holders(node_uuid)
    named = _list_named(location, root)
    refused = [] if client.may_reshape() else [_MAY_NOT]
    return [
        f'{name} is in the inventory of compute node {root.name} itself, and '
        f'{len(holders.get(name, ()))} consumers hold units of the class. '
        f'{_advise(name, named)}'
        for name in old
    ] + refused


def _advise(name: str, named: dict[str, str]) -> str:
    if name in named:
        return (
            f'Remove the class from {named[name]}; otherwise nova-compute '
            'does not move the class at its start.'
        )
    return (
        'At its start, nova-compute moves the class to the providers below '
        'the compute node.'
    )


def _list_named(location: str, root: host_provider.Provider) -> dict[str, str]:
    try:
        from nova_ext_resources.virt.provider_config import files
    except ImportError:
        # Which has failed the check of Nova.
        return {}
    return files.list_named(location, root.rp_uuid, root.name)
