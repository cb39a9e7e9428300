# SPDX-License-Identifier: Apache-2.0

"""Options, a module per group. Nothing here reads the global CONF.

``opts`` finds a new module here by itself, for the sample file; whatever reads
a new group registers it. A plugin may keep its options beside its class, as
``drivers/static`` does.

* ``driver``: which driver nova-compute has
* ``drivers``: a module per group of a plugin
* ``host``: ``[ext_resources]``: the host side
* ``metrics``: ``[ext_resources_metrics]``: metrics and health
* ``monitoring``: ``[ext_resources_monitoring]``
* ``names``: finds misspelt names of options and groups
* ``placement``: ``[ext_resources_placement]``: how to reach placement
* ``reader``: parses Nova's configuration files for one host
* ``reservation``: ``[ext_resources_reservation]``: reservations
* ``scheduler``: ``[ext_resources_scheduler]``
* ``state``: where Nova keeps its state
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
