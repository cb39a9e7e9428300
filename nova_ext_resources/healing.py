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

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from oslo_log import log as logging

from nova_ext_resources import alarms
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment

if TYPE_CHECKING:
    from nova_ext_resources import host as host_mod

LOG = logging.getLogger(__name__)

#: How many servers one line of the log names.
_MAX_LISTED = 20


def reconcile(
    host: 'host_mod.HostResources', live: frozenset[str]
) -> list[alarms.Problem]:
    """Make ledger and host agree at the start, before Nova has work.

    What servers that are gone hold is released. What was claimed, or should
    be in force and is not, is put into force.

    :param live: uuids of the servers that Nova has on this host
    :return: what could not be mended
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
) -> list[alarms.Problem]:
    """Finish releases, and restore what the host has lost.

    :param live: at the start, uuids of the servers that Nova has here. No
        claim is under way then, so what is claimed and not applied was left
        by a crash
    :return: what could not be mended
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
            problems.append(_make_problem(err, uuid, alarms.LEFTOVER_IN_FORCE))
    stable = {u: e for u, e in after.items() if before.get(u) == e}
    plan = host.enforcement.plan_healing(
        stable, applied, is_start=live is not None
    )
    mended = []
    for uuid in plan:
        try:
            host.mend(uuid)
        except exception.ExtResourcesError as err:
            is_going = after[uuid].state is assignment.State.RELEASING
            alarm = alarms.RELEASE_PENDING if is_going else alarms.NOT_IN_FORCE
            problems.append(_make_problem(err, uuid, alarm))
        else:
            mended.append(uuid)
    problems += _list_unmended(host, mended)
    problems += list_strangers(applied, known)
    problems += host.list_unbookable()
    return problems


def _list_unmended(
    host: 'host_mod.HostResources', consumer_uuids: Collection[str]
) -> list[alarms.Problem]:
    """Tell who still lacks something when all that could be done is done."""
    problems = []
    for uuid in consumer_uuids:
        entry = host.find_entry(uuid)
        if entry is None or entry.state is not assignment.State.APPLIED:
            continue
        try:
            host.enforcement.check_in_force(entry)
        except exception.ExtResourcesError as err:
            problems.append(_make_problem(err, uuid, alarms.NOT_IN_FORCE))
    return problems


def _make_problem(
    err: exception.ExtResourcesError, consumer_uuid: str, alarm: str
) -> alarms.Problem:
    """Tell what could not be written down from what is not in force."""
    is_ledger = isinstance(err, exception.LedgerError)
    return alarms.Problem(
        alarm=alarms.LEDGER_FAILED if is_ledger else alarm,
        subject=consumer_uuid,
        text=str(err),
    )


def list_strangers(
    applied: Mapping[str, frozenset[str]], known: Iterable[str]
) -> list[alarms.Problem]:
    """Report what is in force in our name and not in the ledger.

    It is left alone: a server may be running on it whose ledger was lost.
    """
    servers = frozenset(known)
    return [
        alarms.Problem(
            alarm=alarms.STRANGER_IN_FORCE,
            subject=uuid,
            text=f'enforcer {name} has server {uuid} in force, which the '
            'ledger does not know; what it holds counts as foreign use. '
            'Remove it by hand if no such server runs here',
        )
        for name, uuids in sorted(applied.items())
        for uuid in sorted(uuids - servers)
    ]
