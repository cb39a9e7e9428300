# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_fpga]``, and of Nova's ``[pci]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf
from nova_ext_resources.conf.drivers import sriov
from nova_ext_resources.conf.drivers import sysfs

GROUP = cfg.OptGroup(
    'ext_resources_fpga',
    title='Regions of FPGAs',
    help='Reports the regions of the FPGAs of this host, one resource '
    'provider for each.',
)

OPTS = (
    sysfs.PATH,
    cfg.StrOpt(
        'resource_class',
        default='FPGA',
        regex='^(FPGA|CUSTOM_[A-Z0-9_]{1,248})$',
        help="""
Resource class of the regions.

Use a custom class if Cyborg reports ``FPGA`` in the same cloud and flavors
must distinguish the two. Change the class only while no server holds regions.

Possible values:

* FPGA
* a name that begins with ``CUSTOM_``
""",
    ),
    cfg.ListOpt(
        'excluded_devices',
        default=[],
        help="""
Cards and regions that this host keeps for itself.

Possible values: PCI addresses of cards, such as ``0000:3b:00.0``, which stand
for all their regions, or names of regions, such as ``0000:3b:00.0-port1``.
The name of a region's resource provider ends with the name of the region.
""",
    ),
)

NOVA_OPTS = sriov.NOVA_OPTS

register_opts = functools.partial(conf.register, GROUP, OPTS)
