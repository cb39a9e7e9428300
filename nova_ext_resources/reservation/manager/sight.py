# SPDX-License-Identifier: Apache-2.0

"""Whether what placement shows can be taken for this cloud."""

from collections.abc import Mapping

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def can_trust(enabled: Mapping[str, bool]) -> bool:
    """Return whether placement has a host that is enabled, or log that not.

    An empty placement is more likely the wrong one, or one that was restored,
    than the loss of all hosts.

    :param enabled: name of each host -> whether its compute is enabled
    """
    if any(enabled.values()):
        return True
    LOG.error(
        'Placement has no host that is enabled. Reservations stay where they '
        'are, nothing is freed and no server is told to go; check that it is '
        'the right placement.'
    )
    return False
