# SPDX-License-Identifier: Apache-2.0

"""Whether a manager may see the servers of all projects.

To whoever may not, Nova says that they are not there.
"""

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import watch

LOG = logging.getLogger(__name__)


class Rights:
    """Asks Nova until it has answered once."""

    def __init__(self, cloud: cloud_services.Cloud) -> None:
        self._cloud = cloud
        self._is_checked = False
        #: Whether the manager may see all servers; False until it is known.
        self._is_there = False

    def are_there(self) -> bool:
        """Return whether a server that Nova does not show is gone."""
        return self._is_there

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`. What is missing is no failure.

        Where nothing is lent, and no server goes with its reservation, Nova
        is not needed.
        """
        if self._is_checked:
            return True
        try:
            missing = self._cloud.find_missing_right()
        except exception.ExtResourcesError:
            return True  # Whoever needs Nova says what is wrong.
        self._is_checked = True
        self._is_there = not missing
        if missing:
            LOG.error(
                'The user of [ext_resources_placement] or [placement] may '
                'not see the servers of all projects (%(missing)s). So no '
                'server is shelved or deleted for a reservation, and no '
                'place of a deleted server is freed; give this user the role '
                'of an administrator of Nova, and restart this program.',
                {'missing': missing},
            )
        return True
