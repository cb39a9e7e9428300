# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_rmd]``, for the inventory and the enforcer."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf

GROUP = cfg.OptGroup(
    'ext_resources_rmd',
    title='Resource Management Daemon',
    help='How to reach the RMD of this host. RMD allocates ways of the '
    'last-level cache and memory bandwidth.',
)

OPTS = (
    cfg.StrOpt(
        'url',
        default='https://127.0.0.1:8443',
        help="""
Where RMD listens: scheme, address and port. Set user and password in
``username`` and ``password``.

Possible values:

* ``https://ADDRESS:8443``: RMD's normal mode. RMD's sample certificate is
  valid for 127.0.0.1, not for localhost.
* ``http://127.0.0.1:8081``: RMD's debug mode. RMD then checks no
  credentials, and every local process can use it.
""",
    ),
    cfg.FloatOpt(
        'timeout',
        default=10.0,
        min=0.1,
        max=300.0,
        help="""
Seconds that one request to RMD may take.

A reading request that fails sooner is repeated (see ``retries``), but not
beyond this time.
""",
    ),
    cfg.IntOpt(
        'retries',
        default=3,
        min=0,
        max=10,
        help="""
How often a reading request is repeated when RMD does not respond.

A request that changes something is not repeated: instead, RMD's workloads
are read to find out whether it took effect. 0 disables repetition.
""",
    ),
    cfg.StrOpt(
        'ca_file',
        help="""
File with the CA certificates (PEM) that RMD's certificate is verified with.

If unset, the certificates of Python's ``certifi`` are used. Used with https
only.
""",
    ),
    cfg.StrOpt(
        'cert_file',
        help="""
File with the client certificate (PEM) of this host.

Required if RMD runs with ``clientauth = challenge``, which is its default.
With ``authorization = signature`` it must be one of RMD's admin certificates,
because only admin certificates have all permissions that are needed here.
""",
    ),
    cfg.StrOpt(
        'key_file',
        help="""
File with the key (PEM, not encrypted) of ``cert_file``.

If unset, the key is in ``cert_file``, which must be set in any case.
""",
    ),
    cfg.StrOpt(
        'username',
        help="""
User name for RMD with ``clientauth = no``, which authenticates with PAM.

RMD's ``policy.csv`` must give the user all permissions that are needed here.
As shipped, it permits no user to GET /mba.
""",
    ),
    cfg.StrOpt(
        'password',
        secret=True,
        help="""
Password of ``username``, which must be set too.

Refused over plain http to another host.
""",
    ),
    cfg.IntOpt(
        'num_closids',
        default=8,
        min=3,
        max=128,
        help="""
Classes of service of this host: the smaller ``num_closids`` of
``/sys/fs/resctrl/info/L3`` and ``/sys/fs/resctrl/info/MB``.

RMD does not report this number. RMD keeps two classes of service for itself,
which are published as reserved units of CUSTOM_RDT_CLOS. 8 is right for
Skylake and Cascade Lake.
""",
    ),
    cfg.StrOpt(
        'mba_mode',
        default='percentage',
        choices=(
            ('percentage', 'percent of the maximum, 1 to 100'),
            ('mbps', 'MB per second, 1 to 4294967290'),
            ('none', 'RMD does not manage memory bandwidth'),
        ),
        help="""
The value of ``[rdt] mbaMode`` in RMD's rmd.toml.

RMD does not report its mode, and refuses a limit in the other unit. If RMD
reports that it can limit memory bandwidth, the bandwidth is published as
CUSTOM_MEMORY_BANDWIDTH_PERCENT or CUSTOM_MEMORY_BANDWIDTH_MBPS.
""",
    ),
    cfg.IntOpt(
        'memory_bandwidth',
        default=0,
        min=0,
        max=2147483647,
        help="""
Memory bandwidth of each last-level cache domain in MB per second.

RMD does not report this value. Required to publish
CUSTOM_MEMORY_BANDWIDTH_MBPS with ``mba_mode = mbps``; not used with other
modes.

Possible values:

* 0: no memory bandwidth is published in MB per second
* the result of a benchmark such as STREAM on one domain
""",
    ),
    cfg.IntOpt(
        'burst_ways',
        default=0,
        min=0,
        max=64,
        help="""
Ways of RMD's best-effort pool, ``[CachePool] besteffort`` of rmd.toml.

RMD reports only the free ways of the pool. The ways are published as
CUSTOM_LLC_WAYS_BURST. Ways that RMD has allocated to a server beyond its
minimum stay allocated while the server runs.

Possible values:

* 0: no burst ways are published
* the number in rmd.toml
""",
    ),
    cfg.IntOpt(
        'shared_servers',
        default=0,
        min=0,
        max=1024,
        help="""
How many servers may share RMD's shared pool on each last-level cache.

RMD does not count these servers. The places are published as
CUSTOM_LLC_WAYS_SHARED. All servers of the pool become one workload of RMD,
because RMD cannot restart with two shared workloads on record. Other software
must not create shared workloads.

Possible values:

* 0: no places are published
* any other: ``[CachePool] shared`` of rmd.toml must be 1 or more
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
