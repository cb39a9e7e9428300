# SPDX-License-Identifier: Apache-2.0

"""Which driver nova-compute of this host has, for programs without Nova."""

from oslo_config import cfg

#: Begins the names of the drivers of this package.
PREFIX = 'ext_resources.'

_OPTS = (cfg.StrOpt('compute_driver', default=''),)


def find(conf: cfg.ConfigOpts) -> str:
    """Return ``[DEFAULT] compute_driver``; '' if no file names one.

    :param conf: parsed, and not Nova's global one
    """
    conf.register_opts(_OPTS)
    return str(conf.compute_driver)


def is_ours(conf: cfg.ConfigOpts) -> bool:
    """Return whether it is one of this package."""
    return find(conf).startswith(PREFIX)
