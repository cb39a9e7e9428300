# SPDX-License-Identifier: Apache-2.0

"""The releases of Nova that this package was tested with.

Everything here and in ``scheduler/`` uses internals of Nova, which may change
at any time (Nova's contributor policies, "Out Of Tree Support").
"""

from nova import version
from oslo_log import log as logging

from nova_ext_resources import exception

LOG = logging.getLogger(__name__)

#: Major versions that the functional tests run against.
TESTED = (34,)


def check_nova() -> None:
    """Refuse a Nova that is too old, and warn of one that was not tested.

    :raises InvalidConfiguration: it is older than all tested releases
    """
    found = version.version_string()
    major = int(found.split('.', 1)[0])
    if major < min(TESTED):
        raise exception.InvalidConfiguration(
            option='[DEFAULT] compute_driver',
            value='ext_resources.*',
            reason=f'it needs Nova {min(TESTED)} or newer, this is {found}',
        )
    if major > max(TESTED):
        LOG.warning(
            'nova-ext-resources was tested with Nova %(tested)s, this is '
            '%(found)s: try a server with extended resources before this '
            'host takes others',
            {'tested': ', '.join(map(str, TESTED)), 'found': found},
        )
