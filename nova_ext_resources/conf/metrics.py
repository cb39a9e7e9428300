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

"""Options of metrics and health, group ``[ext_resources_metrics]``."""

import copy

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'ext_resources_metrics',
    title='Metrics and health of this host',
    help='Where Prometheus finds the metrics of the extended resources of '
    'this host (/metrics), and whoever watches it its health (/health).',
)

OPTS = (
    cfg.StrOpt(
        'listen',
        default='127.0.0.1',
        help="""
Address that is listened on: one of this host's, IPv4 or IPv6.

Nobody is asked for credentials, and metrics name servers and projects. On
any other address than loopback, whoever can reach the port can read them. An
address that is not there at the start is tried again until it is.
""",
    ),
    cfg.PortOpt(
        'port',
        default=0,
        help="""
Port that is listened on. 0: nothing is listened on.
""",
    ),
    cfg.IntOpt(
        'max_servers',
        default=512,
        min=0,
        max=65536,
        help="""
Servers that have series of their own in the metrics.

Those that came first have them. What the others hold is summed up under
``server="other"``, and a metric says how many they are. 0: all of them.
""",
    ),
)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Declare them on ``conf``."""
    # oslo.config copies a group, but not the values in it: two ConfigOpts
    # would share their overrides.
    conf.register_group(copy.deepcopy(GROUP))
    conf.register_opts(OPTS, group=GROUP.name)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Give them to oslo-config-generator."""
    return [(GROUP, list(OPTS))]
