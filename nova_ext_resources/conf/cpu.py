# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_cpu]``, and of Nova's ``[libvirt]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf

GROUP = cfg.OptGroup(
    'ext_resources_cpu',
    title='Frequency and idle states of CPUs',
    help='Reports how the CPUs of this host change their frequency and how '
    'they idle, as traits of the compute node.',
)

OPTS = (
    cfg.StrOpt(
        'path',
        default='/sys',
        regex='^/',
        help="""
Where the kernel's sysfs is mounted.

Change it for tests only.
""",
    ),
)

#: As Nova declares them.
NOVA_OPTS = {
    'libvirt': (
        cfg.BoolOpt('cpu_power_management', default=False),
        cfg.StrOpt('cpu_power_management_strategy', default='cpu_state'),
    )
}

register_opts = functools.partial(conf.register, GROUP, OPTS)
