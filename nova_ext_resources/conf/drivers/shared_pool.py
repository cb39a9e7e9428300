# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_shared_pool]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf

GROUP = cfg.OptGroup(
    'ext_resources_shared_pool',
    title='Pools of several hosts',
    help='Reports pools of storage or licences that belong to no host, and '
    'connects this host to the pools that it reaches.',
)

OPTS = (
    cfg.StrOpt(
        'pools_file',
        default='/etc/nova_ext_resources/pools.yaml',
        help="""
Pools that this host reaches.

The file is read at the start, and after each change. Hosts that reach the same
pool must have the same entry for the pool. Move a new file into place (``mv``)
instead of writing into the old file: a host leaves a pool that is missing from
the file.

Possible values: path of a YAML file
""",
    ),
    cfg.IntOpt(
        'interval',
        default=60,
        min=1,
        max=86400,
        help="""
Seconds from one reading of a pool to the next.

Pools are read in the rounds of ``[ext_resources] refresh_interval``, so a
shorter time has no effect.
""",
    ),
    cfg.IntOpt(
        'timeout',
        default=10,
        min=1,
        max=600,
        help="""
Seconds that ``ceph df`` and HTTP servers get to answer. Until an answer comes,
the last good values are used. """,
    ),
    cfg.StrOpt(
        'ceph_command',
        default='ceph',
        help=""" Command to which ``df --format json`` is added.

Possible values: a command with arguments as in a shell, such as
``ceph --id nova --conf /etc/ceph/ceph.conf``. It runs as the user that
nova-compute runs as, without a shell.
""",
    ),
    cfg.StrOpt(
        'ca_file',
        default='',
        help="""
Certificates of authorities for ``https``.

Possible values:

* '': the certificates of the Python package ``certifi``, or of the system if
  ``certifi`` was changed to use these
* path of a file
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
