# SPDX-License-Identifier: Apache-2.0

"""Options of fine tuning, group ``[ext_resources_tuning]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf

GROUP = cfg.OptGroup(
    'ext_resources_tuning',
    title='Fine tuning',
    help='Moves burst ways and memory bandwidth between running servers, '
    'within the minimum and the maximum of their flavors.',
)

OPTS = (
    cfg.BoolOpt(
        'enabled',
        default=False,
        help="""
Whether units move between running servers, according to their needs.

Tuning needs monitoring, and an enforcer that can change the units of a running
server, such as ``resctrl``: otherwise the service does not start. If tuning is
disabled, free units are divided evenly.
""",
    ),
    cfg.BoolOpt(
        'dry_run',
        default=True,
        help="""
Only record what tuning would change, and why.

This is the default, so that you can see the steps of tuning before it changes
servers. For each resource of each domain, only the next step is recorded: the
steps after it depend on its effect, and are not known.
""",
    ),
    cfg.FloatOpt(
        'interval',
        default=10.0,
        min=1.0,
        max=3600.0,
        help="""
Seconds between two rounds.

A round makes at most one step for each resource of each domain. Each round
needs a new sweep of monitoring, so an interval shorter than the interval of
monitoring has no effect.
""",
    ),
    cfg.FloatOpt(
        'want_above',
        default=0.3,
        min=0.01,
        max=1.0,
        help="""
Pressure above which a server gets more units, from 0 (no pressure) to 1.

The lower the value, the more servers are tuned.
""",
    ),
    cfg.FloatOpt(
        'give_below',
        default=0.2,
        min=0.0,
        max=0.99,
        help="""
Pressure below which a server gets no more units. Less than ``want_above``.

A server gives no units to a server whose pressure is lower by more than the
difference of the two options. Exception: earlier, more units did not help the
giving server.
""",
    ),
    cfg.FloatOpt(
        'cool_down',
        default=30.0,
        min=1.0,
        max=3600.0,
        help="""
Seconds after a change during which the same server is not changed again.

After this time, tuning decides whether to keep the change. If the measurements
vary much, tuning waits for up to 32 measurements. The time is never shorter
than three rounds. A cache of many megabytes takes seconds to fill.
""",
    ),
    cfg.IntOpt(
        'max_ways',
        default=1,
        min=1,
        max=64,
        help="""
The most cache ways that one server gains or loses in a step.
""",
    ),
    cfg.IntOpt(
        'max_bandwidth',
        default=10,
        min=1,
        max=100,
        help="""
The most memory bandwidth that one server gains or loses in a step, in percent
of the domain's bandwidth. The step is at least one unit of the hardware.
""",
    ),
    cfg.StrOpt(
        'audit_path',
        help="""
File with every change and its reason, one JSON object per line.

Before the file reaches 10 MB, ``.1`` is appended to its name, and an earlier
file of this name is replaced. Unset: ``ext_resources/<host>-tuning.jsonl``
below Nova's ``state_path``.
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
