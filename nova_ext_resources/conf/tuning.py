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

This is the default, so that you can see what tuning would do before it does.
For each resource of each domain, only the next step is recorded: without that
step, the following ones are not known.
""",
    ),
    cfg.FloatOpt(
        'interval',
        default=10.0,
        min=1.0,
        max=3600.0,
        help="""
Seconds between two rounds.

A round makes at most one step for each resource of each domain. It needs a new
sweep of monitoring, so a shorter interval than that of monitoring has no
effect.
""",
    ),
    cfg.FloatOpt(
        'want_above',
        default=0.3,
        min=0.01,
        max=1.0,
        help="""
Pressure above which a server gets more, from 0 (no pressure) to 1.

The lower it is, the more servers are tuned.
""",
    ),
    cfg.FloatOpt(
        'give_below',
        default=0.2,
        min=0.0,
        max=0.99,
        help="""
Pressure below which a server no longer gets more. Less than ``want_above``.

A server whose pressure exceeds that of another server by more than the
difference of the two options gives it no units, unless more units did not help
the server earlier.
""",
    ),
    cfg.FloatOpt(
        'cool_down',
        default=30.0,
        min=1.0,
        max=3600.0,
        help="""
Seconds after a change of a server in which it is not changed again.

After that time, tuning decides whether the step stays. If the measurements
vary much, it waits for up to 32 of them. The time is never shorter than three
rounds. A cache of many megabytes takes seconds to fill.
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
of the domain's bandwidth. It is at least one unit of the hardware.
""",
    ),
    cfg.StrOpt(
        'audit_path',
        help="""
File with every change and its reason, one JSON object per line.

Before it reaches 10 MB it is renamed: ``.1`` is appended, and an earlier file
of that name is replaced. Unset: ``ext_resources/<host>-tuning.jsonl`` below
Nova's ``state_path``.
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
