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

"""Options of fine tuning, group ``[ext_resources_tuning]``."""

import copy

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'ext_resources_tuning',
    title='Fine tuning',
    help='How burst ways and memory bandwidth go from one running server to '
    'another, between the minimum and the maximum that their flavors name.',
)

OPTS = (
    cfg.BoolOpt(
        'enabled',
        default=False,
        help="""
Whether this host looks for servers that could do with more, or with less.

It needs monitoring, and an enforcer that can change what a running server has,
such as ``resctrl``: the service does not start otherwise. Where it is off,
what is left is divided evenly.
""",
    ),
    cfg.BoolOpt(
        'dry_run',
        default=True,
        help="""
Only write down what would be changed, and why.

It is the default, so that whoever switches tuning on sees first what it would
do. Of each resource and domain only the next step is shown, as nothing follows
from a step that is not made.
""",
    ),
    cfg.FloatOpt(
        'interval',
        default=10.0,
        min=1.0,
        max=3600.0,
        help="""
Seconds between two rounds, in each of which at most one step is made for each
resource of each domain.

A round comes after a sweep of monitoring: shorter than its interval is no use.
""",
    ),
    cfg.FloatOpt(
        'want_above',
        default=0.3,
        min=0.01,
        max=1.0,
        help="""
Pressure from which on a server gets more, from 0 (suffers nothing) to 1.

The lower, the more servers are tuned.
""",
    ),
    cfg.FloatOpt(
        'give_below',
        default=0.2,
        min=0.0,
        max=0.99,
        help="""
Pressure at which a server that wanted more has enough. Below ``want_above``.

The distance of the two is also how much better off a server must be than
another one to give it something: the larger it is, the fewer steps there are.
""",
    ),
    cfg.FloatOpt(
        'cool_down',
        default=30.0,
        min=1.0,
        max=3600.0,
        help="""
Seconds for which a server is left as it is after something of it was changed.

In that time a step must show that it is of use, or it is undone. At least
three rounds are waited for in any case. A cache of many megabytes takes
seconds to fill.
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
of what the domain has. It is never less than what the hardware counts in.
""",
    ),
    cfg.StrOpt(
        'audit_path',
        help="""
File with every change and its reason, one JSON object a line.

At 10 MB it is renamed to the same name with ``.1`` at the end, which replaces
the one before. Unset: ``ext_resources/<host>-tuning.jsonl`` below Nova's
``state_path``.
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
