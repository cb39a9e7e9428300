# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""Options of ``[ext_resources_placement]``: how to reach placement."""

import copy
import itertools

from keystoneauth1 import loading as ks_loading
from oslo_config import cfg

#: Seconds. keystoneauth's own default is to wait for ever.
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


def make_opts() -> list[cfg.Opt]:
    """Make what every authentication plugin needs, and how to connect."""
    opts = [
        *ks_loading.get_session_conf_options(),
        *ks_loading.get_adapter_conf_options(include_deprecated=False),
    ]
    for opt in opts:
        opt.default = _DEFAULTS.get(opt.dest, opt.default)
    return [*ks_loading.get_auth_common_conf_options(), *opts]


def register_opts(conf: cfg.ConfigOpts, group: str = GROUP.name) -> None:
    """Register what every authentication plugin needs.

    The options of the plugin itself are registered when it is loaded.

    :param group: another group that is written in the same way, such as
        Nova's ``[placement]``. Never in Nova's own global configuration:
        Nova has registered that group there with other defaults.
    """
    # oslo.config would share the options that a plugin adds to the group
    # between all that register this one.
    conf.register_group(
        copy.deepcopy(GROUP) if group == GROUP.name else cfg.OptGroup(group)
    )
    conf.register_opts(make_opts(), group=group)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Give the options for the sample file and the documentation."""
    plugin_opts = {
        opt.name: opt
        for opt in itertools.chain.from_iterable(
            ks_loading.get_auth_plugin_conf_options(name)
            for name in _SHOWN_PLUGINS
        )
    }
    return [(GROUP, [*make_opts(), *plugin_opts.values()])]
