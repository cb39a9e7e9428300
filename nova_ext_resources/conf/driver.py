# SPDX-License-Identifier: Apache-2.0

"""What nova-compute of this host is configured with, for other programs."""

from oslo_config import cfg

#: Begins the names of the drivers of this package.
PREFIX = 'ext_resources.'

_OPTS = (cfg.StrOpt('compute_driver', default=''),)

_COMPUTE_OPTS = (
    cfg.StrOpt(
        'provider_config_location', default='/etc/nova/provider_config/'
    ),
)


def find(conf: cfg.ConfigOpts) -> str:
    """Return ``[DEFAULT] compute_driver``; '' if no file names one.

    :param conf: parsed, and not Nova's global one
    """
    conf.register_opts(_OPTS)
    return str(conf.compute_driver)


def is_ours(conf: cfg.ConfigOpts) -> bool:
    """Return whether it is one of this package."""
    return find(conf).startswith(PREFIX)


def find_provider_config(conf: cfg.ConfigOpts) -> str:
    """Return the folder of Nova's provider configuration files.

    :param conf: parsed, and not Nova's global one
    """
    conf.register_opts(_COMPUTE_OPTS, group='compute')
    return str(conf.compute.provider_config_location)
