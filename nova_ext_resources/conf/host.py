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

"""Options of the host side, group ``[ext_resources]``."""

import copy

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'ext_resources',
    title='Extended resources of this host',
    help='What this host offers beyond CPUs, memory and disk.',
)

OPTS = (
    cfg.ListOpt(
        'inventory_providers',
        default=[],
        help="""
Plugins that find resources of this host, in this order.

With none, Nova behaves as if this package were not installed. What is
taken out here is taken out of placement, unless servers still hold it.

Possible values: names of entry points in
``nova_ext_resources.inventory_providers``, such as ``static`` and ``rmd``.
A name that is not installed stops the service.
""",
    ),
    cfg.ListOpt(
        'enforcers',
        default=[],
        help="""
Plugins that put assignments into force, in this order.

Every resource that means nothing until the host acts on it, such as cache
ways, must be served by one of them, or the service does not start.

Possible values: names of entry points in ``nova_ext_resources.enforcers``,
such as ``rmd``; ``noop`` serves everything and does nothing.
""",
    ),
    cfg.ListOpt(
        'claim_tests',
        default=['granularity', 'capacity', 'cache_affinity'],
        help="""
Tests that a server must pass on this host before it is built.

All of them run and all their reasons are reported.

Possible values: names of entry points in
``nova_ext_resources.claim_tests``.
""",
    ),
    cfg.StrOpt(
        'ledger_path',
        help="""
File of the ledger, the durable record of what servers hold on this host.

It must survive a reboot and be on a local file system. Unset:
``ext_resources/<host>.sqlite`` below Nova's ``state_path``.
""",
    ),
    cfg.IntOpt(
        'refresh_interval',
        default=60,
        min=1,
        max=3600,
        help="""
Seconds between two looks at the host, after each of which placement gets
what has changed. A claim or a release causes one at once.
""",
    ),
    cfg.StrOpt(
        'host_config_dir',
        help="""
Folder with one more configuration file per compute host, ``<host>.conf``.

It is read on top of nova.conf, for the groups of this package only. For
machines on which several compute services share one nova.conf. Unset: none.
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
