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

"""Options of ``[ext_resources_rmd]``, for the inventory and the enforcer."""

import copy

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'ext_resources_rmd',
    title='Resource Management Daemon',
    help='How to reach the RMD of this host. RMD gives out ways of the '
    'last-level cache and memory bandwidth.',
)

OPTS = (
    cfg.StrOpt(
        'url',
        default='https://127.0.0.1:8443',
        help="""
Where RMD listens: scheme, address and port. User and password go into
``username`` and ``password``.

Possible values:

* ``https://ADDRESS:8443``: RMD's normal mode. RMD's sample certificate is
  made out to 127.0.0.1, not to localhost.
* ``http://127.0.0.1:8081``: RMD's debug mode. RMD then asks nobody for
  credentials and every local process may use it.
""",
    ),
    cfg.FloatOpt(
        'timeout',
        default=10.0,
        min=0.1,
        max=300.0,
        help="""
Seconds after which RMD counts as hung.

It bounds one request. A reading request that fails sooner is repeated, see
``retries``, but not beyond this time.
""",
    ),
    cfg.IntOpt(
        'retries',
        default=3,
        min=0,
        max=10,
        help="""
How often a reading request is repeated when RMD does not answer.

Requests that change something are never repeated blindly: RMD is asked
first whether they took effect. 0 repeats nothing.
""",
    ),
    cfg.StrOpt(
        'ca_file',
        help="""
File with the certificates (PEM) that vouch for RMD's certificate.

Unset: those that Python's ``certifi`` trusts. Used with https only.
""",
    ),
    cfg.StrOpt(
        'cert_file',
        help="""
File with the certificate (PEM) that this host shows to RMD.

Needed when RMD runs with ``clientauth = challenge``, which is its default.
With ``authorization = signature`` it must be one of RMD's admin
certificates: no other may ask for everything that is needed here.
""",
    ),
    cfg.StrOpt(
        'key_file',
        help="""
File with the key (PEM, not encrypted) of ``cert_file``.

Unset: the key is in ``cert_file``, which must be set in any case.
""",
    ),
    cfg.StrOpt(
        'username',
        help="""
User name for RMD with ``clientauth = no``, which asks PAM.

RMD's ``policy.csv`` must allow the user everything that is needed here; as
shipped it lets nobody GET /mba.
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

RMD does not report it. RMD keeps two of them for itself, so that this many
less two are published as CUSTOM_RDT_CLOS. 8 is right for Skylake and
Cascade Lake.
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
What ``[rdt] mbaMode`` in RMD's rmd.toml says.

RMD does not report it, and refuses a limit in the other unit. Where RMD says
that it can limit memory bandwidth, it is sold as
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

RMD does not tell it. Needed to sell CUSTOM_MEMORY_BANDWIDTH_MBPS with
``mba_mode = mbps``; with other modes it is not used.

Possible values:

* 0: no memory bandwidth is sold in MB per second
* what a benchmark such as STREAM reaches on one domain
""",
    ),
    cfg.IntOpt(
        'burst_ways',
        default=0,
        min=0,
        max=64,
        help="""
Ways of RMD's best-effort pool, ``[CachePool] besteffort`` of rmd.toml.

RMD reports only which of them are free. They are sold as
CUSTOM_LLC_WAYS_BURST. What RMD has once given to a server beyond its minimum
it never takes back while the server runs.

Possible values:

* 0: no burst ways are sold
* what rmd.toml says
""",
    ),
    cfg.IntOpt(
        'shared_servers',
        default=0,
        min=0,
        max=1024,
        help="""
How many servers may share RMD's shared pool on each last-level cache.

RMD does not count them. They are sold as CUSTOM_LLC_WAYS_SHARED, and become
one workload of RMD together, because RMD does not start again when it has two
shared workloads on record. Nobody else may make one.

Possible values:

* 0: no places are sold
* any other: ``[CachePool] shared`` of rmd.toml must be 1 or more
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
