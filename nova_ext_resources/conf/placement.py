# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_placement]``: how to reach placement."""

from collections.abc import Iterator
import functools

from keystoneauth1 import loading as ks_loading
from oslo_config import cfg

from nova_ext_resources import conf

#: Seconds. keystoneauth's own default is to wait forever.
DEFAULT_TIMEOUT = 10.0

GROUP = cfg.OptGroup(
    'ext_resources_placement',
    title='Placement',
    help='How to reach placement, where extended resources are published. '
    'Leave the group empty on a compute host: then the whole [placement] '
    'group of nova.conf is used. "auth_section = placement" takes only the '
    'credentials from there.',
)

#: keystoneauth's plugins whose options the sample file shows.
_SHOWN_PLUGINS = ('password', 'v3password', 'admin_token', 'none')

_DEFAULTS = {
    'service_type': 'placement',
    'timeout': DEFAULT_TIMEOUT,
    'valid_interfaces': ['internal', 'public'],
}


def _make_opts() -> Iterator[cfg.Opt]:
    yield from ks_loading.get_auth_common_conf_options()
    for opt in (
        *ks_loading.get_session_conf_options(),
        *ks_loading.get_adapter_conf_options(include_deprecated=False),
    ):
        opt.default = _DEFAULTS.get(opt.dest, opt.default)
        yield opt


#: What every authentication plugin needs, and how to connect. The options of
#: a plugin itself are registered when it is loaded.
OPTS = tuple(_make_opts())

register_opts = functools.partial(conf.register, GROUP, OPTS)


def list_plugin_opts() -> list[cfg.Opt]:
    """Return the options of common authentication plugins, for the sample."""
    # Several of them declare an option of the same name.
    by_name = {
        opt.name: opt
        for plugin in _SHOWN_PLUGINS
        for opt in ks_loading.get_auth_plugin_conf_options(plugin)
    }
    return list(by_name.values())
