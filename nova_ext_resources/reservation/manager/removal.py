# SPDX-License-Identifier: Apache-2.0

"""Lets servers leave their hosts, step by step, pass by pass."""

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import cloud as cloud_mod
from nova_ext_resources.reservation import nova_server

LOG = logging.getLogger(__name__)


def remove(cloud: cloud_mod.Cloud, uuid: str, *, is_deleted: bool) -> str:
    """Ask Nova for the next step of a server.

    :param is_deleted: whether it is deleted, or else shelved and offloaded
    :returns: what is missing, in words; '' if it has left its host
    """
    try:
        server = cloud.find_server(uuid)
        step = nova_server.find_step(server, is_deleted=is_deleted)
        if step.action is not None:
            cloud.act(uuid, step.action)
            LOG.info(
                'Asked Nova for %(action)s of server %(uuid)s',
                {'action': step.action.value, 'uuid': uuid},
            )
    except exception.ComputeUnavailable as err:
        return f'server {uuid}: {err}'
    return step.missing
