# SPDX-License-Identifier: Apache-2.0

"""Nova switches CPUs off that no server uses, if its options say so."""

from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources import plugins


def check(
    options: cfg.ConfigOpts.GroupAttr, nova: cfg.ConfigOpts.GroupAttr
) -> None:
    """Make sure that Nova does not switch off CPUs that are needed.

    :param options: of ``[ext_resources]``
    :param nova: of ``[libvirt]``
    :raises InvalidConfiguration: it would, and an enforcer can apply and
        release nothing for CPUs that are offline
    :raises PluginError: an enforcer cannot be loaded
    """
    strategy = nova.cpu_power_management_strategy
    if not nova.cpu_power_management or strategy != 'cpu_state':
        return
    enabled = plugins.load_classes(plugins.ENFORCERS, options.enforcers)
    for name, enforcer in enabled.items():
        if enforcer.NEEDS_ONLINE_CPUS:
            raise exception.InvalidConfiguration(
                option='[libvirt] cpu_power_management_strategy',
                value=strategy,
                reason=f'the enabled enforcer {name} can neither apply nor '
                'release anything for CPUs that Nova has switched off; set '
                'this option to governor, or cpu_power_management to false, '
                'or use the enforcer resctrl',
            )
