# SPDX-License-Identifier: Apache-2.0

"""Options of the simulated host, group ``[ext_resources_fake]``.

The inventory provider ``fake`` and the virt driver
``ext_resources.FakeDriver`` show the same host, so they share the group.
"""

import functools
from typing import TypeAlias

from oslo_config import cfg

from nova_ext_resources import conf

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
        help='Ways of each last-level cache.',
    ),
    cfg.IntOpt(
        'reserved_ways',
        default=1,
        min=0,
        max=31,
        help="""
How many ways of each cache, from the lowest, are kept for the host.

The number must be less than ``ways``.
""",
    ),
    cfg.IntOpt(
        'num_closids',
        default=8,
        min=3,
        max=128,
        help="""
Classes of service of the host; two of them are reserved.
""",
    ),
    cfg.StrOpt(
        'failure_file',
        help="""
While this file exists, discovery fails; its text is the reason.

If unset, discovery never fails.
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)


def list_domains(
    options: cfg.ConfigOpts.GroupAttr,
) -> tuple[tuple[Core, ...], ...]:
    """Return the cores of each cache domain, numbered as Linux does.

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
