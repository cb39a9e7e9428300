# SPDX-License-Identifier: Apache-2.0

"""Says what still has to go from a host; as a warning, if it is late."""

from oslo_log import log as logging

from nova_ext_resources.reservation.manager import need as need_mod
from nova_ext_resources.reservation.manager import pauses

LOG = logging.getLogger(__name__)

#: Seconds between two warnings of a host for the same reservations.
WARN_SECONDS = 60


class Lateness:
    """Warns for each host and what has begun there, once in a while."""

    def __init__(self) -> None:
        self._pauses = pauses.Pauses(WARN_SECONDS, WARN_SECONDS)

    def report(self, need: need_mod.Need, waiting: str, now: int) -> None:
        """Log what is missing.

        :param waiting: in words
        :param now: seconds since the epoch
        """
        facts = {'host': need.host, 'waiting': waiting}
        self._pauses.forget(now)
        # What has begun has one start for all: now.
        key = ' '.join([need.host, *need.keys])
        if now < need.start or self._pauses.find(key, None, now) is not None:
            LOG.info('Host %(host)s is being drained: %(waiting)s', facts)
            return
        self._pauses.begin(key, None, now)
        LOG.warning(
            'Host %(host)s is not free for reservations %(keys)s, which have '
            'begun: %(waiting)s. Nova is asked again. If Nova fails, see '
            '"openstack server event list" for the server; if Nova does '
            'nothing any more, "openstack server set --state active" ends '
            'the task of the server.',
            {'keys': ', '.join(need.keys), **facts},
        )
