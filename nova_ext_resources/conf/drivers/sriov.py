# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_sriov]``, and of Nova's ``[pci]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf
from nova_ext_resources.conf.drivers import sysfs

GROUP = cfg.OptGroup(
    'ext_resources_sriov',
    title='Virtual functions of network cards',
    help='Reports the virtual functions (SR-IOV) of the network cards of this '
    'host, one resource provider for each physical function.',
)

OPTS = (
    sysfs.PATH,
    cfg.StrOpt(
        'resource_class',
        default='SRIOV_NET_VF',
        regex='^(SRIOV_NET_VF|CUSTOM_[A-Z0-9_]{1,248})$',
        help="""
Resource class of the virtual functions.

Use a class that Nova does not report: compare ``resource_class`` in ``[pci]
device_spec``. Change the class only while no server holds virtual functions.

Possible values:

* SRIOV_NET_VF
* a name that begins with ``CUSTOM_``
""",
    ),
    cfg.ListOpt(
        'physical_networks',
        default=[],
        help="""
Physical networks to which the cards are connected.

A resource provider gets the trait ``CUSTOM_PHYSNET_<NAME>`` of each network,
like the resource providers of Neutron.

Possible values: a list of ``network:device``, where the device is the name of
an interface or the PCI address of a physical function, such as
``physnet1:ens1f0, physnet2:0000:3b:00.1``. Addresses do not change when
interfaces are renamed. A device that this host does not have is ignored.
""",
    ),
    cfg.ListOpt(
        'excluded_devices',
        default=[],
        help="""
Functions that this host keeps for itself.

Virtual functions with an interface that has an address or a route, or belongs
to a bond, bridge, VLAN or macvlan of the host, are kept without an entry here.
Other functions that the host uses, such as functions of its own DPDK programs,
look like free functions.

Possible values: PCI addresses, or names of interfaces. A physical function
stands for all its virtual functions. A PCI address is better than a name: an
interface vanishes while its function is in use, and then no virtual function
without an interface is reported.
""",
    ),
    cfg.ListOpt(
        'neutron_config_files',
        default=['/etc/neutron/plugins/ml2/sriov_agent.ini'],
        help="""
Configuration files of the SR-IOV agent of Neutron on this host.

Virtual functions that the agent manages (``[sriov_nic]
physical_device_mappings``, without ``exclude_devices``) are not reported. The
files must be readable for the user that nova-compute runs as.

Possible values: paths; a file that does not exist is ignored
""",
    ),
)

#: As Nova declares it.
NOVA_OPTS = {
    'pci': (
        cfg.MultiStrOpt(
            'device_spec',
            default=[],
            deprecated_opts=[
                cfg.DeprecatedOpt('passthrough_whitelist', group='pci'),
                cfg.DeprecatedOpt(
                    'pci_passthrough_whitelist', group='DEFAULT'
                ),
            ],
        ),
    )
}

register_opts = functools.partial(conf.register, GROUP, OPTS)
