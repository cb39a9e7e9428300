# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_resctrl]``, for inventory and enforcer."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf

GROUP = cfg.OptGroup(
    'ext_resources_resctrl',
    title='Resource control of the kernel',
    help='Allocates ways of the last-level cache and memory bandwidth '
    'through the resctrl file system of the kernel.',
)

OPTS = (
    cfg.StrOpt(
        'path',
        default='/sys/fs/resctrl',
        regex='^/',
        help="""
Where the kernel's resctrl file system is mounted.

This package does not mount it: choose the mount options (``cdp``,
``mba_MBps``) as needed.
""",
    ),
    cfg.StrOpt(
        'cpu_path',
        default='/sys/devices/system/cpu',
        regex='^/',
        help="""
Folder in which the kernel shows which CPUs share a cache.

Change it for tests only.
""",
    ),
    cfg.ListOpt(
        'qemu_users',
        default=['libvirt-qemu', 'qemu'],
        help="""
Users that libvirt runs QEMU as, by name or by number.

If the CPUs of a server float, a process belongs to the server if the command
line of the process names the server, and the process runs as one of these
users, as root, or as the user of nova-compute. List the value of ``user`` in
libvirt's ``qemu.conf``. Use the number if nova-compute runs in a container
that does not know the name.

Do not list users that run other programs: a program of such a user can use the
cache ways and the bandwidth of a server if the command line of the program
names the server.
""",
    ),
    cfg.StrOpt(
        'pid_path',
        default='/run/libvirt/qemu',
        regex='^/',
        help="""
Folder in which libvirt writes the pid file of each guest, ``<name>.pid``.

It is one of several ways to find the processes of a server. If nova-compute
runs in a container, make the folder visible there.
""",
    ),
    cfg.IntOpt(
        'reserved_ways',
        default=1,
        min=1,
        max=64,
        help="""
Ways of each cache that the host keeps for itself.

The host's own processes, and servers that request no ways, share the ways that
are not allocated. The ways reserved here are never allocated, so that some are
always left. The same holds for ways that I/O devices fill too
(``shareable_bits`` of the kernel); they count towards this number. The option
applies to last-level and to level-2 caches.
""",
    ),
    cfg.IntOpt(
        'burst_ways',
        default=0,
        min=0,
        max=64,
        help="""
Ways of each last-level cache in the burst pool.

Burst ways are published as CUSTOM_LLC_WAYS_BURST, and not as CUSTOM_LLC_WAYS.
A server always has the burst ways that it requests, and uses more burst ways
while some are free. In a cache where no server of the pool runs, processes and
servers without ways of their own use the burst ways.

Before you decrease the number, move away the servers that would no longer fit:
otherwise their settings can no longer be applied. The option has no effect on
a CPU whose last-level cache the kernel does not control.

Possible values:

* 0: there is no burst pool
* at most the ways of the cache without ``reserved_ways``
""",
    ),
    cfg.IntOpt(
        'shared_ways',
        default=0,
        min=0,
        max=64,
        help="""
Ways of each last-level cache in the shared pool.

Places in this pool are published as CUSTOM_LLC_WAYS_SHARED. All servers in the
pool use the same ways of every last-level cache, and one class of service,
which is reserved if the option is not 0. While no server is in the pool,
processes and servers without ways of their own use the shared ways.

Possible values:

* 0: there is no shared pool
* at most the ways of the cache without ``reserved_ways`` and ``burst_ways``
""",
    ),
    cfg.IntOpt(
        'shared_servers',
        default=16,
        min=1,
        max=2147483647,
        help="""
Places in the pool of shared ways, for each last-level cache.

This is the largest number of servers in the pool. The option has no effect if
``shared_ways`` is 0.
""",
    ),
    cfg.IntOpt(
        'memory_bandwidth',
        default=0,
        min=0,
        max=2147483647,
        help="""
Memory bandwidth of each last-level cache domain in MB per second.

The kernel does not report this value. The value is needed to publish
CUSTOM_MEMORY_BANDWIDTH_MBPS where the kernel counts in MB per second (mounted
with ``mba_MBps``) or in the absolute units of AMD. Elsewhere bandwidth is
published in percent, and the value is needed only for fine tuning.

Possible values:

* 0: no bandwidth is published in MB per second, and fine tuning does not
  change bandwidth in percent
* the result of a benchmark such as STREAM on one domain
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
