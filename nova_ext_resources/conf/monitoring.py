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

"""Options of ``[ext_resources_monitoring]``."""

import copy

from oslo_config import cfg

CLAIMED = 'claimed'
ALL = 'all'

GROUP = cfg.OptGroup(
    'ext_resources_monitoring',
    title='Monitoring of servers',
    help='What this host finds out about cache, memory bandwidth and '
    'frequency of its servers, through the resctrl file system of the '
    'kernel at ``[ext_resources_resctrl] path``.',
)

OPTS = (
    cfg.BoolOpt(
        'enabled',
        default=False,
        help="""
Whether servers are monitored at all.

Servers without a control group of their own get a monitoring group in
resctrl, which takes one of the CPU's monitoring ids. Where it is switched off
again, these groups are removed with the next start of the service.
""",
    ),
    cfg.IntOpt(
        'interval',
        default=10,
        min=1,
        max=3600,
        help="""
Seconds between two looks at all servers; rates are means over this time.

Each look reads three small files per server and last-level cache. The kernel
reads a counter on a CPU of that cache, so every file is a short interruption
there.
""",
    ),
    cfg.StrOpt(
        'servers',
        default=CLAIMED,
        choices=[
            (CLAIMED, 'servers that hold resources of this package'),
            (ALL, 'every server of this host, as far as monitoring ids go'),
        ],
        help="""
Which servers are monitored.

The CPU has few monitoring ids, and as many as there are free classes of
service are kept for servers that take one. Servers that hold resources come
first; for whom none is left is reported.
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
