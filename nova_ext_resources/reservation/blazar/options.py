# SPDX-License-Identifier: Apache-2.0

"""The options of ``[extended:instance]`` in Blazar's configuration."""

from typing import Any

from oslo_config import cfg

#: What leases call our reservations; Blazar names the group after it.
RESOURCE_TYPE = 'extended:instance'

OPTS = (
    cfg.MultiStrOpt(
        'config_file',
        default=[],
        help='Files with [ext_resources_reservation] and with the '
        'credentials for placement, [ext_resources_placement] or '
        '[placement], such as /etc/nova/nova.conf. Empty: the files of '
        'Blazar itself.',
    ),
    cfg.IntOpt(
        'hosts_interval',
        default=60,
        min=10,
        help='Seconds between two readings of the hosts from placement, and '
        'between two comparisons of leases with reservations.',
    ),
    cfg.IntOpt(
        'max_priority',
        default=0,
        min=-1000,
        max=1000,
        help='The highest priority that a lease may ask for. Blazar does not '
        'tell the plugin which roles a user has; its API extension does.',
    ),
    cfg.BoolOpt(
        'show_hosts',
        default=False,
        help='Whether the user who asks for a lease is told, if the lease is '
        'refused, which host lacks which resource. The log always has these '
        'details.',
    ),
)


def get(conf: cfg.ConfigOpts) -> Any:
    """Return the values of the options.

    :param conf: Blazar's, in which it has registered them
    """
    return conf[RESOURCE_TYPE]


def list_files(conf: cfg.ConfigOpts) -> tuple[list[str], list[str]]:
    """Return the files and the folders to read.

    :param conf: Blazar's, as of :func:`get`
    """
    if named := get(conf).config_file:
        return [*named], []
    return [*(conf.config_file or ())], [*(conf.config_dir or ())]
