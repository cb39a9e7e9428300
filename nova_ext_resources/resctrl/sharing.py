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

"""Who is in the group of the shared pool. Pure.

All servers of the pool are in one control group, so its members are told from
what the host's servers hold, and not from the group's name.
"""

from collections.abc import Collection, Mapping

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import choosing
from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import members
from nova_ext_resources.resctrl import schemata


def list_members(
    entries: Mapping[str, assignment.Entry], *, without: str
) -> list[assignment.Entry]:
    """Give the servers with a place in the pool, but for one.

    Those that are being released have none any more: when all of them are,
    each would leave the group to the others, and it would stay for ever.
    """
    return [
        entry
        for uuid, entry in entries.items()
        if uuid != without
        and choosing.is_shared(entry)
        and entry.state is not assignment.State.RELEASING
    ]


def list_floating(members: Collection[assignment.Entry]) -> list[str]:
    return [one.consumer_uuid for one in members if not one.cpus]


def find_cpus(
    tree: groups.Tree, members: Collection[assignment.Entry]
) -> frozenset[int]:
    """Give the CPUs in the group that are its servers'.

    Those of a server that is on its way in are not there yet.
    """
    group = tree.groups.get(groups.SHARED)
    cpus = frozenset[int]().union(*(one.cpus or () for one in members))
    return group.cpus & cpus if group else frozenset()


def list_applied(
    tree: groups.Tree, entries: Mapping[str, assignment.Entry]
) -> frozenset[str]:
    """Give the servers that may be in the group; more is seen by looking.

    The name of the group where the ledger knows nobody who could be in it:
    it is left over.
    """
    if groups.SHARED not in tree.groups:
        return frozenset()
    if not any(map(choosing.is_shared, entries.values())):
        return frozenset({groups.SHARED})
    return frozenset(
        uuid
        for uuid, entry in entries.items()
        if choosing.is_shared(entry)
        and entry.state is assignment.State.APPLIED
    )


def check_left(
    tree: groups.Tree,
    entry: assignment.Entry,
    inside: Mapping[str, members.Membership],
) -> None:
    """Make sure that a group that is left over serves nobody.

    :param entry: to be released; matters when it stands for the group
    :param inside: who was in which group
    :raises ResctrlRefused: servers of a lost ledger may be in it
    """
    group = tree.groups.get(groups.SHARED)
    if entry.consumer_uuid != groups.SHARED or group is None:
        return
    seen = inside.get(groups.SHARED, members.Membership())
    if group.cpus or seen.inside:
        raise errors.ResctrlRefused(
            action=f'remove {groups.SHARED}',
            reason='it has CPUs or threads, and the ledger knows no server '
            'that is in it; remove it by hand (rmdir) when no server of this '
            'host was sold a place in the shared pool',
        )


def find_fault(scene: choosing.Scene, entry: assignment.Entry) -> str:
    """Say in what the pool is not what it should be for a server, or ''."""
    group = scene.tree.groups.get(groups.SHARED)
    if group is None:
        return 'the control group of the shared pool is not there'
    missing = (entry.cpus or frozenset()) & scene.layout.online - group.cpus
    if missing:
        return (
            f'its CPUs {bitmask.format_list(missing)} are not in the group of '
            'the shared pool'
        )
    plan = layout.plan(scene.tree, scene.layout, sold={})
    return schemata.find_deviation(
        plan[group.name], group.schemata
    ) or _find_intruder(scene, entry)


def _find_intruder(scene: choosing.Scene, entry: assignment.Entry) -> str:
    for one in rdt.pick(entry.assignments, rdt.SHARED):
        cache = choosing.find_cache(one)
        pools = layout.find_pools(scene.tree, cache, scene.layout)
        room = layout.find_shared_room(scene.tree, cache, scene.layout)
        if not room:
            return f'{pools.shared:x} of {cache.key} is not left to the pool'
        for name in layout.find_intruders(
            scene.tree, groups.SHARED, cache, room
        ):
            return f'{name} may fill ways {room:x} of the pool of {cache.key}'
    return ''
