# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_hostdev]``."""

import functools

from oslo_config import cfg
from oslo_config import types

from nova_ext_resources import conf
from nova_ext_resources.conf.drivers import sysfs

GROUP = cfg.OptGroup(
    'ext_resources_hostdev',
    title='Devices in guests',
    help='Hands the PCI functions that a server holds to its guest. Needs '
    "Nova's libvirt driver.",
)

OPTS = (
    sysfs.PATH,
    cfg.ListOpt(
        'resource_classes',
        default=['SRIOV_NET_VF', 'FPGA'],
        item_type=types.String(regex='^[A-Z0-9_]{1,255}$'),
        help="""
Resource classes of the devices that guests get.

The guest of a server gets the held devices whose names are PCI addresses.
Other devices, such as the ports of an FPGA, are only counted. Compare
``resource_class`` in ``[ext_resources_sriov]`` and ``[ext_resources_fpga]``.

A change applies to a server when its guest is started the next time, by a hard
reboot for example.

Possible values: a list of resource classes
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
