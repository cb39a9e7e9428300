# SPDX-License-Identifier: Apache-2.0

"""What a start accepts: releases of Nova, and the class of the driver.

Everything here and in ``scheduler/`` uses internals of Nova, which may change
at any time (Nova's contributor policies, "Out Of Tree Support").
"""

from collections.abc import Iterator
import importlib.util
import inspect
from typing import Any

from nova.compute import claims
from nova.compute import resource_tracker
from nova import objects
from nova import version
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources import virt

LOG = logging.getLogger(__name__)

#: Where Nova looks for our drivers.
_SHIM = 'nova.virt.ext_resources'

#: Major versions that the functional tests run against.
TESTED = (34,)

#: What Nova passes to ``ResourceTracker.resize_claim``, in this order.
_RESIZE_CLAIM = (
    'context',
    'instance',
    'flavor',
    'nodename',
    'migration',
    'allocations',
)


def check_nova() -> None:
    """Refuse a Nova that is too old, and warn of one that was not tested.

    :raises InvalidConfiguration: it is older than all tested releases, or
        has not what this package changes
    """
    found = version.version_string()
    major = int(found.split('.', 1)[0])
    if major < min(TESTED):
        raise exception.InvalidConfiguration(
            option='[DEFAULT] compute_driver',
            value='ext_resources.*',
            reason=f'it needs Nova {min(TESTED)} or newer, this is {found}',
        )
    if missing := ', '.join(_list_missing()):
        raise exception.InvalidConfiguration(
            option='[DEFAULT] compute_driver',
            value='ext_resources.*',
            reason=f'this is Nova {found}, which has no {missing} as this '
            'package expects: servers could be resized and migrated without '
            f'a claim. Install Nova {max(TESTED)}, or a release of '
            f'nova-ext-resources for {found}',
        )
    if major > max(TESTED):
        LOG.warning(
            'nova-ext-resources was tested with Nova %(tested)s, this is '
            '%(found)s: try a server with extended resources before this '
            'host takes others',
            {'tested': ', '.join(map(str, TESTED)), 'found': found},
        )


def _list_missing() -> Iterator[str]:
    """Yield what ``virt/tracker`` and ``virt/roles`` rely on."""
    claim = getattr(resource_tracker.ResourceTracker, 'resize_claim', None)
    if claim is None or tuple(inspect.signature(claim).parameters)[1:7] != (
        _RESIZE_CLAIM
    ):
        yield 'ResourceTracker.resize_claim'
    if not hasattr(claims.MoveClaim, 'abort'):
        yield 'MoveClaim.abort'
    if 'cross_cell_move' not in objects.Migration.fields:
        yield 'Migration.cross_cell_move'
    name = 'get_in_progress_by_host_and_node'
    if not hasattr(objects.MigrationList, name):
        yield f'MigrationList.{name}'


def check_driver(name: str) -> None:
    """Make sure that nova-compute can make its driver, which is of ours.

    As Nova's ``load_compute_driver`` does, without making it.

    :param name: ``[DEFAULT] compute_driver``
    :raises InvalidConfiguration: nova-compute would end at its start
    """
    if importlib.util.find_spec(_SHIM) is None:
        LOG.warning(
            'nova-compute does not find %(shim)s, because Nova or '
            'nova-ext-resources is installed in develop mode. Start '
            'nova-compute-ext instead of nova-compute.',
            {'shim': _SHIM},
        )
    try:
        _load(name.partition('.')[2]).check_start()
    except ImportError as err:
        raise exception.InvalidConfiguration(
            option='[DEFAULT] compute_driver',
            value=name,
            reason=f'nova-compute cannot import it ({err}); install what it '
            'needs into the Python environment of Nova',
        ) from err


def _load(name: str) -> Any:
    if name in virt.DRIVERS:
        return getattr(virt, name)
    raise exception.InvalidConfiguration(
        option='[DEFAULT] compute_driver',
        value=f'ext_resources.{name}',
        reason='this package has no driver of that name, and nova-compute '
        'does not start; set it to ext_resources.LibvirtDriver',
    )
