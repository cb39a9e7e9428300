# SPDX-License-Identifier: Apache-2.0

"""Options of metrics and health, group ``[ext_resources_metrics]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf

GROUP = cfg.OptGroup(
    'ext_resources_metrics',
    title='Metrics and health of this host',
    help='The HTTP server for metrics of the extended resources of this host '
    '(/metrics, for Prometheus) and for its health (/health).',
)

OPTS = (
    cfg.IPOpt(
        'listen',
        default='127.0.0.1',
        help="""
Address on which to listen: an IPv4 or IPv6 address of this host.

There is no authentication, and metrics name servers and projects. On any
address other than loopback, everyone who can reach the port can read the
metrics. If the host does not have the address at the start, the service tries
again until the host has the address. """,
    ),
    cfg.PortOpt(
        'port',
        default=0,
        help=""" Port on which to
listen. 0: metrics and health are not served. """,
    ),
    cfg.IntOpt(
        'max_servers',
        default=512,
        min=0,
        max=65536,
        help=""" Largest number of
servers with their own series in the metrics. 0: no limit.

The servers that came first get their own series. The resources of all other
servers are added up under ``server="other"``, and
``nova_ext_resources_servers_left_out`` counts these servers.
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
