# SPDX-License-Identifier: Apache-2.0

"""Ends what moves have left, when Nova has ended them elsewhere.

Nova tells a host nothing when the other host fails, or when a server is
deleted on its way or while the host counts as down. The comparison with Nova
shows it later.
"""

from collections.abc import Mapping

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host.claims import manager
from nova_ext_resources.host.reconcile.rules import drift
from nova_ext_resources.objects import assignment

LOG = logging.getLogger(__name__)

Role = consumer_role.Role


def is_any(entries: drift.Entries) -> bool:
    """Return whether any entry is of a server that moves."""
    return any(
        one.purpose is not assignment.Purpose.OWN for one in entries.values()
    )


def finish(
    host: manager.ClaimManager,
    before: drift.Entries,
    roles: Mapping[str, Role],
) -> None:
    """Release or give back what moves that have ended still hold.

    So is released what a server holds that is deleted, or on no host.

    What fails is logged, and tried again after Nova's next answer.

    :param before: the entries before Nova was asked; those that have changed
        since are left alone
    :param roles: Nova's answer
    """
    for uuid, role in roles.items():
        entry = before.get(uuid)
        if entry is None or not _is_as_before(host, before, entry):
            continue
        # Nova ends a build that it has deleted the server of.
        if host.is_starting(uuid):
            continue
        try:
            _finish_one(host, before, entry, role)
        except exception.ExtResourcesError as err:
            LOG.error(
                'Host %(host)s: could not release or give back resources of '
                'server %(uuid)s, or resources kept for its move; this will '
                'be retried: %(err)s',
                {'host': host.host, 'uuid': entry.server_uuid, 'err': err},
            )


def _is_as_before(
    host: manager.ClaimManager,
    before: drift.Entries,
    entry: assignment.Entry,
) -> bool:
    """Return whether nothing has changed of it or of its server's own."""
    return all(
        host.find_entry(uuid) == before.get(uuid)
        for uuid in (entry.consumer_uuid, entry.server_uuid)
    )


def _finish_one(
    host: manager.ClaimManager,
    before: drift.Entries,
    entry: assignment.Entry,
    role: Role,
) -> None:
    is_done = True
    if role is Role.LEFT:
        _log(host, entry, 'releasing its resources here')
        is_done = bool(host.release_gone([entry]))
    elif role is Role.RETURNED:
        _log(host, entry, 'the server gets its resources back')
        is_done = host.unpark(
            entry.server_uuid, entry.consumer_uuid, before=before
        )
    elif role is Role.ARRIVED:
        _log(host, entry, 'the server has arrived, and keeps its resources')
        is_done = host.apply(entry.server_uuid, before=before)
    if not is_done:
        _log(
            host,
            entry,
            'nothing is done, because the server is being started, or its '
            'entry has changed',
        )


def _log(
    host: manager.ClaimManager, entry: assignment.Entry, what: str
) -> None:
    LOG.warning(
        'Host %(host)s: a move of server %(uuid)s has ended, or the server '
        'was deleted or is on no host, without a notice from Nova; %(what)s',
        {'host': host.host, 'uuid': entry.server_uuid, 'what': what},
    )
