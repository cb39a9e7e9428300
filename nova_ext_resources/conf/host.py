# SPDX-License-Identifier: Apache-2.0

"""Options of the host side, group ``[ext_resources]``."""

import functools

from oslo_config import cfg

from nova_ext_resources import conf

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

Without any, Nova behaves as if this package were not installed. If a plugin
is removed here, its resources are removed from placement too, unless servers
still hold them.

Possible values: names of entry points in
``nova_ext_resources.inventory_providers``, such as ``static`` and ``rmd``.
A name that is not installed stops the service.
""",
    ),
    cfg.ListOpt(
        'enforcers',
        default=[],
        help="""
Plugins that apply allocated resources on the host, in this order.

Some resources, such as cache ways, have no effect until the host applies them.
Each of these resources must be served by one of the plugins, otherwise the
service does not start.

Possible values: names of entry points in ``nova_ext_resources.enforcers``,
such as ``rmd``; ``noop`` serves everything and does nothing.
""",
    ),
    cfg.ListOpt(
        'claim_tests',
        default=[
            'granularity',
            'capacity',
            'cache_affinity',
            'numa_affinity',
        ],
        help="""
Tests that a server must pass on this host before it is built.

All of them run, and all reasons for a refusal are reported. The names are
published, and nova-scheduler runs the same tests if they are installed there.

Possible values: names of entry points in
``nova_ext_resources.claim_tests``.
""",
    ),
    cfg.StrOpt(
        'pins_across_caches',
        default='refuse',
        choices=[
            (
                'refuse',
                'the host refuses the server, and Nova tries another host',
            ),
            (
                'each',
                'the server gets the amount in each of the cache domains',
            ),
        ],
        help="""
How to serve a pinned server with CPUs in several cache domains.

Nova chooses the CPUs by NUMA cell, and placement allocates the resources of
one domain. With ``each``, this host also claims the same amount in the other
domains of the CPUs, and allocates this amount in placement: in two domains, a
server with ``resources:CUSTOM_LLC_WAYS=4`` gets eight ways. The host refuses
the server if one of the domains has too few units. A server with CPUs in one
domain gets the same amount with both values. Running servers keep their
resources when this option is changed.
""",
    ),
    cfg.StrOpt(
        'ledger_path',
        help="""
File of the ledger: the durable record of what servers hold on this host.

The file must be on a local file system that survives a reboot. Unset:
``ext_resources/<host>.sqlite`` below Nova's ``state_path``.
""",
    ),
    cfg.IntOpt(
        'refresh_interval',
        default=60,
        min=1,
        max=3600,
        help="""
Seconds between two refreshes of the host.

A refresh reads the host, restores missing settings, and publishes changes to
placement. Every claim and release causes a refresh at once.

Each refresh sends at least one request to placement, and one more for each
resource provider whose units servers hold. """,
    ),
    cfg.IntOpt(
        'orphaned_entry_age',
        default=7200,
        min=1800,
        help=""" Seconds after which the
entry of a missing server in the ledger is orphaned.

A server is missing if Nova has the server neither on this host nor in a
migration from or to this host, and the hypervisor does not know the server.
nova-compute compares every ten minutes, and the server must be missing in each
comparison. The time starts again if Nova or the hypervisor does not answer. In
the end, the alarm ``orphaned_entry`` replaces ``not_in_nova``.

The time must be at least ``[DEFAULT] long_rpc_timeout``, because Nova's
records may be late by one call, and at least the time of two comparisons,
which is longer if ``refresh_interval`` exceeds ten minutes. Otherwise
nova-compute logs a warning and uses the longest of these times. """,
    ),
    cfg.BoolOpt(
        'release_orphaned_entries',
        default=False,
        help=""" Release
orphaned entries while nova-compute runs.

Without this option, orphaned entries only raise an alarm, and a restart of
nova-compute releases them. With it, nova-compute asks Nova and the hypervisor
once more about each server. It releases an entry only if all answers prove
that the server is gone, at most five entries after each comparison. A missing
record in Nova is no proof. If more than three entries, and more than half of
all entries, have no server in Nova, nova-compute releases no entry, because
Nova's answer may be wrong. Allocations in placement are not changed. """,
    ),
    cfg.StrOpt(
        'host_config_dir',
        help=""" Folder with one more configuration file per compute
host, ``<host>.conf``.

Its groups of this package override those of nova.conf; other groups are
ignored. For machines on which several compute services share one nova.conf.
Unset: there is no such file.
""",
    ),
    cfg.BoolOpt(
        'allow_untested_nova',
        default=False,
        help="""
Start nova-compute with releases of Nova that this package was not tested with.

nova-compute then logs a warning. If a release of Nova lacks code that this
package changes, nova-compute does not start in any case.
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
