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

"""Options of ``[ext_resources_resctrl]``, for inventory and enforcer."""

import copy

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'ext_resources_resctrl',
    title='Resource control of the kernel',
    help='How this host gives out ways of the last-level cache and memory '
    'bandwidth through the resctrl file system of the kernel.',
)

OPTS = (
    cfg.StrOpt(
        'path',
        default='/sys/fs/resctrl',
        regex='^/',
        help="""
Where the kernel's resctrl file system is mounted.

It is not mounted by this package: its mount options (``cdp``, ``mba_MBps``)
are the deployer's choice.
""",
    ),
    cfg.StrOpt(
        'cpu_path',
        default='/sys/devices/system/cpu',
        regex='^/',
        help="""
Where the kernel shows which CPUs share a cache. Other values serve trials.
""",
    ),
    cfg.IntOpt(
        'reserved_ways',
        default=1,
        min=1,
        max=64,
        help="""
Ways of each cache that the host keeps for itself.

The host's own processes, and servers that ask for no ways, share what is not
sold; these ways are never sold, so that something is always left to them.
Where the kernel names ways that I/O devices fill too (``shareable_bits``),
those are never sold either and count towards this number. It holds for
last-level and for level-2 caches.
""",
    ),
    cfg.IntOpt(
        'burst_ways',
        default=0,
        min=0,
        max=64,
        help="""
Ways of each last-level cache for servers that may use more of them.

They are sold as CUSTOM_LLC_WAYS_BURST: what a server asks for it always has,
and while others leave some of the pool free it uses more. These ways are not
sold as CUSTOM_LLC_WAYS. In a cache where no server of the pool runs, everybody
who has no ways of its own uses them.

Changing it while servers have burst ways is an error for those that no longer
fit; let them go first. It has no effect on a CPU whose last-level cache the
kernel does not control.

Possible values:

* 0: there is no such pool
* a number that the cache has besides those of the host
""",
    ),
    cfg.IntOpt(
        'shared_ways',
        default=0,
        min=0,
        max=64,
        help="""
Ways of each last-level cache that many servers share.

Places in this pool are sold as CUSTOM_LLC_WAYS_SHARED. All servers in it fill
the same ways of every last-level cache, and one class of service does for all
of them; it is reserved as soon as this is not 0. These ways are not sold
otherwise. While no server is in the pool, everybody who has no ways of its own
uses them.

Possible values:

* 0: there is no such pool
* a number that the cache has besides those of the host and ``burst_ways``
""",
    ),
    cfg.IntOpt(
        'shared_servers',
        default=16,
        min=1,
        max=2147483647,
        help="""
Places in the pool of shared ways, for each last-level cache.

No more servers than these share the pool of one cache. It has no effect where
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

The kernel does not tell it. Needed to sell CUSTOM_MEMORY_BANDWIDTH_MBPS where
the kernel counts in MB per second (mounted with ``mba_MBps``) or in the
absolute units of AMD. Elsewhere percent are sold, and what 100 percent are is
needed for fine tuning of bandwidth only.

Possible values:

* 0: no memory bandwidth is sold in MB per second, and where percent are sold,
  fine tuning leaves bandwidth as it was divided
* what a benchmark such as STREAM reaches on one domain
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
