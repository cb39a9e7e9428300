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

"""Options of the simulated host, group ``[ext_resources_fake]``.

The inventory provider ``fake`` and the virt driver
``ext_resources.FakeDriver`` show the same host, so they share the group.
"""

import copy
from typing import TypeAlias

from oslo_config import cfg

#: The threads of one core.
Core: TypeAlias = frozenset[int]

THREADS = 2

GROUP = cfg.OptGroup(
    'ext_resources_fake',
    title='Simulated host',
    help='The host that the fake inventory provider and the fake virt '
    'driver show. For demonstrations and tests.',
)

OPTS = (
    cfg.IntOpt(
        'sockets',
        default=2,
        min=1,
        max=64,
        help="""
Sockets of the host, each with one last-level cache and one NUMA cell.
""",
    ),
    cfg.IntOpt(
        'cpus',
        default=48,
        min=2,
        max=4096,
        help="""
CPUs (hardware threads) of the whole host, two to a core.

A multiple of twice the sockets. With 48 on two sockets, the first has
0-11 and 24-35.
""",
    ),
    cfg.IntOpt(
        'ways',
        default=11,
        min=1,
        max=32,
        help="""
Ways of each last-level cache.
""",
    ),
    cfg.IntOpt(
        'reserved_ways',
        default=1,
        min=0,
        max=31,
        help="""
How many ways of each cache, from the lowest, the host keeps for itself.

There must be fewer than ``ways``.
""",
    ),
    cfg.IntOpt(
        'num_closids',
        default=8,
        min=3,
        max=128,
        help="""
Classes of service of the host, of which it keeps two for itself.
""",
    ),
    cfg.StrOpt(
        'failure_file',
        help="""
While this file exists, discovery fails, for the reason that is in it.

Unset: it never fails.
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


def list_domains(
    options: cfg.ConfigOpts.GroupAttr,
) -> tuple[tuple[Core, ...], ...]:
    """Give the cores of each cache domain, numbered as Linux does.

    The first thread of every core comes first, then the second ones.
    """
    per_domain = max(options.cpus // (THREADS * options.sockets), 1)
    cores = per_domain * options.sockets
    return tuple(
        tuple(
            frozenset(core + thread * cores for thread in range(THREADS))
            for core in range(first, first + per_domain)
        )
        for first in range(0, cores, per_domain)
    )
