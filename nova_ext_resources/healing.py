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

"""Makes ledger and host agree: after a crash, a restart, a loss.

Nothing here decides what a server may hold; it finishes what was begun and
restores what the ledger says.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from oslo_log import log as logging

from nova_ext_resources import enforcement
from nova_ext_resources import exception

if TYPE_CHECKING:
    from nova_ext_resources import host as host_mod

LOG = logging.getLogger(__name__)

#: How many servers one line of the log names.
_MAX_LISTED = 20


def reconcile(
    host: 'host_mod.HostResources', live: frozenset[str]
) -> list[str]:
    """Make ledger and host agree at the start, before Nova has work.

    What servers that are gone hold is released. What was claimed, or should
    be in force and is not, is put into force.

    :param live: uuids of the servers that Nova has on this host
    :return: what could not be mended, one sentence each
    """
    gone = sorted(set(host.entries) - live)
    if gone:
        LOG.warning(
            'Host %(host)s: releasing what %(count)d servers hold that are '
            'gone, such as %(uuids)s',
            {
                'host': host.host,
                'count': len(gone),
                'uuids': ', '.join(gone[:_MAX_LISTED]),
            },
        )
        try:
            host.release_all(gone)
        except exception.ExtResourcesError as err:
            LOG.error(
                'Host %(host)s: not all could be released: %(err)s',
                {'host': host.host, 'err': err},
            )
    return heal(host, live=live)


def heal(
    host: 'host_mod.HostResources', *, live: Collection[str] | None = None
) -> list[str]:
    """Finish releases, and restore what the host has lost.

    :param live: at the start, uuids of the servers that Nova has here. No
        claim is under way then, so what is claimed and not applied was left
        by a crash
    :return: what could not be mended, one sentence each
    """
    before = host.entries
    applied, problems = host.enforcement.list_applied()
    after = host.entries
    known = before.keys() | after.keys()
    for uuid in host.enforcement.list_leftovers(applied, known, live):
        try:
            host.clear(uuid, applied)
            known.add(uuid)
        except exception.ExtResourcesError as err:
            problems.append(str(err))
    stable = {u: e for u, e in after.items() if before.get(u) == e}
    plan = host.enforcement.plan_healing(
        stable, applied, is_start=live is not None
    )
    for uuid in plan:
        try:
            host.mend(uuid)
        except exception.ExtResourcesError as err:
            problems.append(str(err))
    problems += enforcement.list_strangers(applied, known)
    problems += host.list_unbookable()
    return problems
