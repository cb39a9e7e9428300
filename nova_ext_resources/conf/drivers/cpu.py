# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_cpu]``, and of Nova's ``[libvirt]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf
from nova_ext_resources.conf.drivers import sysfs

GROUP = cfg.OptGroup(
    'ext_resources_cpu',
    title='Frequency and idle states of CPUs',
    help='Reports how the CPUs of this host change their frequency and how '
    'they idle, as traits of the compute node.',
)

OPTS = (sysfs.PATH,)

#: As Nova declares them.
NOVA_OPTS = {
    'libvirt': (
        cfg.BoolOpt('cpu_power_management', default=False),
        cfg.StrOpt('cpu_power_management_strategy', default='cpu_state'),
    )
}

register_opts = functools.partial(conf.register, GROUP, OPTS)
