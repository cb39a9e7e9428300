# SPDX-License-Identifier: Apache-2.0

"""What a start accepts: releases of Nova, and the class of the driver.

Everything in ``virt/`` and ``scheduler/`` uses internals of Nova, which may
change at any time (Nova's contributor policies, "Out Of Tree Support").
"""

import importlib.util
from typing import Any

from nova.compute import resource_tracker  # noqa: F401  to be checked
from nova import objects
from nova import version
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources import virt
from nova_ext_resources.virt.compat import private_api
from nova_ext_resources.virt.compat import releases

LOG = logging.getLogger(__name__)

#: Where Nova looks for our drivers.
_SHIM = 'nova.virt.ext_resources'


def check_nova(*, allow_untested: bool) -> None:
    """Refuse a Nova that was not tested, or that has not what is used of it.

    :param allow_untested: only warn of one that was not tested
    :raises InvalidConfiguration: nova-compute must not start beside it
    """
    found = version.version_string()
    # As each of Nova's services does; before, their classes are not there.
    objects.register_all()
    if missing := private_api.find_missing():
        raise exception.InvalidConfiguration(
            option='[DEFAULT] compute_driver',
            value='ext_resources.*',
            reason=f'this Nova {found} lacks functions that this package '
            f'uses: {"; ".join(missing)}. Servers could be built or moved '
            f'without a claim. {_advise(found)}',
        )
    if releases.is_supported(found):
        return
    if not allow_untested:
        raise exception.InvalidConfiguration(
            option='[DEFAULT] compute_driver',
            value='ext_resources.*',
            reason=f'this package was not tested with this Nova {found}. '
            f'{_advise(found)}; or set [ext_resources] allow_untested_nova '
            'to true, and test one server with extended resources before '
            'this host takes others',
        )
    LOG.warning(
        'nova-ext-resources was tested with Nova %(tested)s, but not with '
        'this Nova %(found)s; nova-compute starts because of [ext_resources] '
        'allow_untested_nova. Test one server with extended resources before '
        'this host takes others',
        {'tested': releases.describe(), 'found': found},
    )


def _advise(found: str) -> str:
    return (
        f'Install Nova {releases.describe()}, or a release of '
        f'nova-ext-resources for Nova {found}'
    )


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
            reason=f'nova-compute cannot import this driver ({err}); install '
            'what the driver needs into the Python environment of Nova',
        ) from err


def _load(name: str) -> Any:
    if name in virt.DRIVERS:
        return getattr(virt, name)
    raise exception.InvalidConfiguration(
        option='[DEFAULT] compute_driver',
        value=f'ext_resources.{name}',
        reason='this package has no driver of that name, and nova-compute '
        'does not start; set the option to ext_resources.LibvirtDriver',
    )
