# SPDX-License-Identifier: Apache-2.0

"""Lets servers leave their hosts, step by step, pass by pass.

What a pass has read may be old by the time it acts. So whoever has a server
removed says what must still hold, and that is looked at directly before Nova
is asked.
"""

from collections.abc import Callable
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import pauses
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation import nova_server

LOG = logging.getLogger(__name__)

#: How many servers Nova is asked to remove in one pass for one purpose.
MOST = 50

#: Seconds until Nova is asked again for the same step of a server in the same
#: status: first, and at most.
FIRST_PAUSE = 15
LONGEST_PAUSE = 300

#: Called with a server as Nova shows it now; returns why it is left alone, ''
#: if it is removed.
Check: TypeAlias = Callable[[nova_server.NovaServer], str]


class Removal:
    """Asks Nova, for a bounded number of servers in each pass.

    For what was in vain it is asked again after pauses that grow.
    """

    def __init__(self, cloud: cloud_services.Cloud) -> None:
        self._cloud = cloud
        self._pauses = pauses.Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        self.begin(time_budget.Effort(), 0)

    def begin(self, effort: time_budget.Effort, now: int) -> None:
        """Begin a pass.

        :param effort: of the part of the pass that removes servers
        :param now: seconds since the epoch
        """
        self._effort = effort
        self._now = now
        self._pauses.forget(now)
        self._left = MOST
        #: Server -> what was missing when Nova was asked in this pass.
        self._missing: dict[str, str] = {}
        self._put_off: set[str] = set()

    def has_put_off(self, uuid: str) -> bool:
        """Return whether a server had not its turn in this pass."""
        return uuid in self._put_off

    def remove(self, uuid: str, check: Check, *, is_deleted: bool) -> str:
        """Ask Nova for the next step of a server, once in a pass.

        :param check: what must still hold
        :param is_deleted: whether it is deleted, or else shelved and offloaded
        :returns: what is missing, in words; '' if it has left its host
        :raises StoreError: of the check
        """
        if uuid not in self._missing:
            self._missing[uuid] = self._try_remove(
                uuid, check, is_deleted=is_deleted
            )
        return self._missing[uuid]

    def _try_remove(self, uuid: str, check: Check, *, is_deleted: bool) -> str:
        if self._effort.is_over:
            return self._put_it_off(uuid)
        try:
            return self._remove(uuid, check, is_deleted=is_deleted)
        except (exception.ComputeUnavailable, exception.PlacementError) as err:
            self._effort.note(err)
            return f'server {uuid}: {err}'

    def _remove(self, uuid: str, check: Check, *, is_deleted: bool) -> str:
        server = self._cloud.find_server(uuid)
        step = nova_server.find_step(server, is_deleted=is_deleted)
        if server is None or step.action is None:
            return step.missing or self._find_rest(uuid, server)
        state = server.host, server.status, step.action
        waiting = self._pauses.find(uuid, state, self._now)
        if waiting is not None:
            return waiting
        if not self._left:
            return self._put_it_off(uuid)
        if reason := check(server):
            LOG.info(
                'Server %(uuid)s is left alone: %(reason)s',
                {'uuid': uuid, 'reason': reason},
            )
            return f'server {uuid} is left alone: {reason}'
        self._act(uuid, step.action, state)
        self._left -= 1
        LOG.info(
            'Asked Nova for %(action)s of server %(uuid)s',
            {'action': step.action.value, 'uuid': uuid},
        )
        return step.missing

    def _act(
        self, uuid: str, action: nova_server.Action, state: object
    ) -> None:
        """Ask Nova, and not again before a pause is over.

        Unless it is away as a whole.
        """
        words = f'{action.value} of server {uuid}'
        try:
            self._cloud.act(uuid, action)
        except exception.ComputeUnavailable as err:
            if not err.is_away:
                words = f'server {uuid}: {err}'
                self._pauses.begin(uuid, state, self._now, words)
            raise
        self._pauses.begin(uuid, state, self._now, words)

    def _put_it_off(self, uuid: str) -> str:
        self._put_off.add(uuid)
        return f'server {uuid} is handled in the next pass'

    def _find_rest(
        self, uuid: str, server: nova_server.NovaServer | None
    ) -> str:
        """Return what is missing of a server that Nova does not have.

        To whoever may not see it, Nova says that it is not there.
        """
        if server is not None or not self._cloud.has_allocations(uuid):
            return ''
        return (
            f'Nova does not show server {uuid}, but placement has its '
            'allocations: check that the credentials are those of an '
            'administrator of the same cloud'
        )
