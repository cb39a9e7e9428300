# SPDX-License-Identifier: Apache-2.0

"""Whether what placement and Nova show can be taken for this cloud."""

from collections.abc import Mapping

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def can_trust(enabled: Mapping[str, bool]) -> bool:
    """Return whether any host can be used, or log that not.

    An empty placement is more likely the wrong one, or one that was restored,
    than the loss of all hosts; and if no compute reports, it is more likely
    the message bus.

    :param enabled: name of each host -> whether its compute is enabled, and up
        where that matters
    """
    if any(enabled.values()):
        return True
    LOG.error(
        'No host in placement is enabled and up. Reservations stay on their '
        'hosts, no place is freed and no server is told to leave; check that '
        'the configured placement is the right one, and that the message bus '
        'and nova-conductor work.'
    )
    return False
