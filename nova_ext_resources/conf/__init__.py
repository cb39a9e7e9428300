# SPDX-License-Identifier: Apache-2.0

"""Options, a module per group. Nothing here reads the global CONF.

``opts`` finds a new module here by itself, for the sample file; whatever reads
a new group registers it. A plugin may keep its options beside its class, as
``drivers/static`` does.

* ``cpu``: ``[ext_resources_cpu]``
* ``driver``: which driver nova-compute has
* ``fake``: ``[ext_resources_fake]``: the simulated host
* ``fpga``: ``[ext_resources_fpga]``
* ``host``: ``[ext_resources]``: the host side
* ``hostdev``: ``[ext_resources_hostdev]``
* ``metrics``: ``[ext_resources_metrics]``: metrics and health
* ``monitoring``: ``[ext_resources_monitoring]``
* ``names``: finds misspelt names of options and groups
* ``placement``: ``[ext_resources_placement]``: how to reach placement
* ``reader``: parses Nova's configuration files for one host
* ``reservation``: ``[ext_resources_reservation]``: reservations
* ``resctrl``: ``[ext_resources_resctrl]``, for inventory and enforcer
* ``rmd``: ``[ext_resources_rmd]``, for inventory and enforcer
* ``scheduler``: ``[ext_resources_scheduler]``
* ``shared_pool``: ``[ext_resources_shared_pool]``
* ``sriov``: ``[ext_resources_sriov]``
* ``state``: where Nova keeps its state
* ``sysfs``: the option of each plugin that reads sysfs
* ``tuning``: ``[ext_resources_tuning]``
* ``values``: explains which option has a value that cannot be used, and why
"""

from collections.abc import Iterable
import copy

from oslo_config import cfg


def register(
    group: cfg.OptGroup, options: Iterable[cfg.Opt], conf: cfg.ConfigOpts
) -> None:
    """Declare options on ``conf``; to do so again changes nothing."""
    # oslo.config copies a group, but not the values in it: two ConfigOpts
    # would share their overrides.
    conf.register_group(copy.deepcopy(group))
    conf.register_opts(options, group=group.name)
