# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_monitoring]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf

CLAIMED = 'claimed'
ALL = 'all'

GROUP = cfg.OptGroup(
    'ext_resources_monitoring',
    title='Monitoring of servers',
    help='Measures cache, memory bandwidth and CPU frequency of servers, '
    'through the resctrl file system of the kernel at '
    '``[ext_resources_resctrl] path``.',
)

OPTS = (
    cfg.BoolOpt(
        'enabled',
        default=False,
        help="""
Whether servers are monitored.

Servers without a control group of their own get a monitoring group in
resctrl, which uses one of the CPU's monitoring ids. When monitoring is
disabled again, these groups are removed at the next start of the service.
""",
    ),
    cfg.IntOpt(
        'interval',
        default=10,
        min=1,
        max=3600,
        help="""
Seconds between two sweeps over all servers. Rates are means over this time.

A sweep reads three small files per server and last-level cache. For each file,
the kernel interrupts a CPU of the cache for a moment to read the counter.
""",
    ),
    cfg.StrOpt(
        'servers',
        default=CLAIMED,
        choices=[
            (CLAIMED, 'servers that hold resources of this package'),
            (ALL, 'every server of this host, while monitoring ids are left'),
        ],
        help="""
Which servers are monitored.

The CPU has few monitoring ids. One monitoring id is kept for each free class
of service. Servers that hold resources come first. An alarm reports servers
for which no monitoring id is left.
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
