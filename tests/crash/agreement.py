# SPDX-License-Identifier: Apache-2.0

"""Whether ledger, placement, RMD, Nova and its flavors agree."""

import collections
from collections.abc import Iterator, Mapping
import dataclasses
from typing import Any, TypeAlias

import requests

from cloud.lite import config
from nova_ext_resources.host import ledger
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.crash import operations
from tests.crash import site as site_mod

State = assignment.State

#: Consumer, provider, resource class -> amount.
Held: TypeAlias = dict[tuple[str, str, str], int]

WAYS = 'CUSTOM_LLC_WAYS'

#: Alarms about what placement has, which Nova may have left so.
_OF_PLACEMENT = (alarm.NOT_IN_PLACEMENT, alarm.NOT_RECORDED)

#: Alarms that name a move, which Nova may have left.
_OF_MOVES = (*_OF_PLACEMENT, alarm.MOVE_IN_DOUBT)


@dataclasses.dataclass
class Differences:
    """What is wrong.

    :ivar ours: what this package has to answer for
    :ivar novas: allocations that Nova has left, with its own resources
    """

    ours: list[str] = dataclasses.field(default_factory=list)
    novas: dict[str, str] = dataclasses.field(default_factory=dict)


def compare(servers: operations.Servers) -> Differences:
    """Compare all; nothing may be under way."""
    site, made = servers.site, Differences()
    found = _list_instances()
    reports = site.report()
    for host, said in reports.items():
        before = len(made.ours)
        _judge_alarms(site, said, made)
        made.ours += _compare_ledger(said)
        made.ours += _compare_applied(site.rmds[host].simulator, said)
        made.ours += _compare_guests(said)
        made.ours += _compare_view(said)
        _compare_nova(host, reports, found, made)
        _compare_placement(site, host, said, found, made)
        made.ours[before:] = [f'{host}: {one}' for one in made.ours[before:]]
    return made


# -- alarms ----------------------------------------------------------------


def _judge_alarms(
    site: site_mod.Site, said: Mapping[str, Any], made: Differences
) -> None:
    """An alarm is right where Nova has left what it is about."""
    for name, subject, text in said['problems']:
        left, server_uuid = None, _get_server(subject, said)
        if name in _OF_MOVES:
            left = _find_named_move(site, server_uuid, text)
        if subject in said['entries'] and name in _OF_PLACEMENT:
            left = left or _find_failed_rebuild(site, server_uuid)
            left = left or _find_taken_again(server_uuid)
        if left is None:
            made.ours.append(f'{name}: {text}')
        else:
            made.novas[left] = f'{name}: {text}'


def _find_named_move(
    site: site_mod.Site, server_uuid: str, text: str
) -> str | None:
    """Return the move that a text names, if Nova has left it allocations.

    Those of the former host, where a nova-compute was killed on the way.
    """
    for one in list_moves(server_uuid):
        if one.uuid in text and read_allocations(site, one.uuid):
            return str(one.uuid)
    return None


def _find_failed_rebuild(site: site_mod.Site, server_uuid: str) -> str | None:
    """Return the server if Nova has deleted all of its allocations.

    Nova does, its own as well, when it fails to rebuild a server: also when
    it takes the request again that its former process was killed with.
    """
    actions = _list_actions(server_uuid)
    has_any = read_allocations(site, server_uuid)
    if has_any or all(one.action != 'rebuild' for one in actions):
        return None
    return server_uuid


def _find_taken_again(server_uuid: str) -> str | None:
    """Return the server if Nova took a migration of its again.

    Nova does that with one that a killed nova-compute has left
    pre-migrating, and replaces what the migration has in placement: nothing
    is allocated any more for what the server holds. A resize or a cold
    migration without a migration of its own tells.
    """
    made = [
        one.created_at
        for one in list_moves(server_uuid)
        if one.migration_type in ('resize', 'migration')
    ]
    begun = [
        one.start_time
        for one in _list_actions(server_uuid)
        if one.action in ('resize', 'migrate')
    ]
    is_taken = made and begun and max(begun) > max(made)
    return server_uuid if is_taken else None


def _list_actions(server_uuid: str) -> Any:
    from nova import context
    from nova import objects

    return objects.InstanceActionList.get_by_instance_uuid(
        context.get_admin_context(), server_uuid
    )


def list_moves(server_uuid: str) -> Any:
    from nova import context
    from nova import objects

    return objects.MigrationList.get_by_filters(
        context.get_admin_context(read_deleted='yes'),
        {'instance_uuid': server_uuid},
    )


# -- the host --------------------------------------------------------------


def _compare_ledger(said: Mapping[str, Any]) -> Iterator[str]:
    stored = ledger.read_entries(said['ledger'])
    if {u: _sort(e) for u, e in stored.items()} != {
        u: _sort(e) for u, e in said['entries'].items()
    }:
        yield f'ledger has {stored}, memory {said["entries"]}'
    for uuid, entry in stored.items():
        if entry.state in (State.CLAIMED, State.RELEASING):
            yield f'entry {uuid} stays {entry.state}'


def _sort(entry: assignment.Entry) -> assignment.Entry:
    return dataclasses.replace(
        entry,
        assignments=tuple(
            sorted(
                entry.assignments,
                key=lambda one: (one.rp_key, one.resource_class),
            )
        ),
    )


def _compare_applied(simulator: Any, said: Mapping[str, Any]) -> Iterator[str]:
    applied = {
        uuid
        for group in simulator.list_groups()
        for uuid in group['workloads']
    }
    wanted = {
        uuid
        for uuid, one in said['entries'].items()
        if one.state is State.APPLIED
    }
    if applied != wanted:
        yield f'applied for {applied}, entries {wanted}'
    for uuid in applied & wanted:
        masks = {
            one.rp_key: int(one.units['mask'], 16)
            for one in said['entries'][uuid].assignments
            if 'mask' in one.units
        }
        ways = {f'L3_{n}': mask for n, mask in simulator.ways_of(uuid).items()}
        real = {key: ways.get(key) for key in masks}
        if masks != real:
            yield f'{uuid} has ways {real}, entry {masks}'


def _compare_guests(said: Mapping[str, Any]) -> Iterator[str]:
    """No guest runs without, also where Nova has the server elsewhere."""
    from nova.compute import power_state

    for uuid, state in said['guests'].items():
        entry = said['entries'].get(uuid)
        has_all = entry is not None and entry.state is State.APPLIED
        if state == power_state.RUNNING and not has_all:
            yield f'guest {uuid} runs, and has {entry}'


def _compare_view(said: Mapping[str, Any]) -> Iterator[str]:
    used: collections.Counter[Any] = collections.Counter()
    for entry in said['entries'].values():
        for one in entry.assignments:
            used[one.rp_uuid, one.resource_class] += one.amount
    if dict(used) != said['used']:
        yield f'used {said["used"]}, entries {dict(used)}'


# -- Nova ------------------------------------------------------------------


def _list_instances() -> dict[str, Any]:
    from nova import context
    from nova import objects

    found = objects.InstanceList.get_by_filters(
        context.get_admin_context(),
        {'deleted': False, 'soft_deleted': True},
        expected_attrs=['flavor', 'numa_topology', 'migration_context'],
    )
    return {one.uuid: one for one in found}


def _compare_nova(
    host: str,
    reports: Mapping[str, Mapping[str, Any]],
    found: Mapping[str, Any],
    made: Differences,
) -> None:
    """Each server at rest has what its own flavor says."""
    said = reports[host]
    for uuid, one in found.items():
        if one.host != host or one.vm_state not in ('active', 'resized'):
            continue
        if one.task_state is not None:
            continue
        entry = said['entries'].get(uuid)
        text = _compare_server(one, entry)
        if text and not entry and _has_left(uuid, host, reports):
            made.novas[uuid] = f'{host}: {text}, and its guest is elsewhere'
        elif text and entry and _count(entry) == _count_of_move(one):
            made.novas[uuid] = f'{host}: {text}, which Nova has allocated'
        elif text:
            made.ours.append(text)
    for uuid, entry in said['entries'].items():
        if entry.server_uuid not in found:
            made.ours.append(f'entry {uuid} of a server that is gone: {entry}')


def _compare_server(one: Any, entry: assignment.Entry | None) -> str:
    from nova_ext_resources.virt import request

    wanted = _count_requested(one.flavor)
    if entry is None:
        return f'server {one.uuid} {one.vm_state} has no entry'
    if entry.state is not State.APPLIED:
        return f'server {one.uuid} {one.vm_state} is {entry.state}'
    if _count(entry) != wanted:
        return f'server {one.uuid} has {_count(entry)}, flavor {wanted}'
    if entry.cpus != request.find_cpus(one):
        return f'server {one.uuid} is pinned otherwise'
    return ''


def _has_left(
    uuid: str, host: str, reports: Mapping[str, Mapping[str, Any]]
) -> bool:
    """Return whether a guest has arrived elsewhere, and Nova does not know.

    The source of a live migration was killed before it told the destination.
    """
    return uuid not in reports[host]['guests'] and any(
        uuid in said['guests'] for said in reports.values()
    )


def _count_of_move(one: Any) -> int | None:
    """Return what Nova allocates to a server when it is built again.

    That is of the flavor of a resize, also where the source was killed in it
    and the server has kept its former one. None: it is its own flavor.
    """
    from nova import context
    from nova import objects

    spec = objects.RequestSpec.get_by_instance_uuid(
        context.get_admin_context(), one.uuid
    )
    if spec.flavor.flavorid == one.flavor.flavorid:
        return None
    return _count_requested(spec.flavor)


def _count_requested(flavor: Any) -> int:
    return int(flavor.extra_specs[f'resources:{WAYS}'])


def _count(entry: assignment.Entry) -> int:
    return sum(
        one.amount
        for one in entry.assignments
        if one.resource_class == WAYS and one.is_allocated
    )


# -- placement ---------------------------------------------------------------


def _compare_placement(
    site: site_mod.Site,
    host: str,
    said: Mapping[str, Any],
    found: Mapping[str, Any],
    made: Differences,
) -> None:
    held: Held = {
        (uuid, one.rp_uuid, one.resource_class): one.amount
        for uuid, entry in said['entries'].items()
        for one in entry.assignments
        if one.is_allocated
    }
    allocated: Held = {
        (uuid, rp_uuid, name): amount
        for rp_uuid in said['providers']
        for uuid, one in _read(site, rp_uuid).items()
        for name, amount in one['resources'].items()
    }
    for place in sorted(held.keys() | allocated.keys()):
        if held.get(place) == allocated.get(place):
            continue
        uuid = place[0]
        text = (
            f'{place} held {held.get(place)}, allocated {allocated.get(place)}'
        )
        if held.get(place) is None and _is_novas(site, host, uuid, found):
            made.novas[uuid] = f'{host}: {text}'
        elif move := _find_move(place, held, allocated, said):
            made.novas[move] = f'{host}: {text}, and its move {move} has it'
        elif server := _find_server(place, held, allocated, said, found):
            made.novas[server] = f'{host}: {text}, and {server} has it again'
        elif server := _find_stuck(uuid, host, said, found):
            made.novas[server] = f'{host}: {text}, and {server} has a task'
        elif allocated.get(place) is None and (
            server := _find_failed_rebuild(site, uuid)
        ):
            made.novas[server] = f'{host}: {text}, its rebuild has failed'
        elif allocated.get(place) is None and (
            server := _find_taken_again(_get_server(uuid, said))
        ):
            made.novas[server] = f'{host}: {text}, its move was taken again'
        else:
            made.ours.append(text)


def _find_move(
    place: tuple[str, str, str],
    held: Held,
    allocated: Held,
    said: Mapping[str, Any],
) -> str | None:
    """Return the move of a server that has what is held for the server.

    A source that is killed does not give the server its allocations back:
    Nova leaves them with the move, and does not give them to the next one
    either. They are counted once, as the units are.
    """
    uuid, *where = place
    for one in list_moves(_get_server(uuid, said)):
        kept = (one.uuid, where[0], where[1])
        if kept not in held and allocated.get(kept) == held.get(place):
            return str(one.uuid)
    return None


def _get_server(uuid: str, said: Mapping[str, Any]) -> str:
    entry = said['entries'].get(uuid)
    return entry.server_uuid if entry else uuid


def _find_server(
    place: tuple[str, str, str],
    held: Held,
    allocated: Held,
    said: Mapping[str, Any],
    found: Mapping[str, Any],
) -> str | None:
    """Return the server that has got back what is kept for it.

    Its host was killed in a revert: Nova has given the allocations back, not
    started the guest, and still has the server in a task. As long as it has,
    the host does not give the units back. They are counted once.
    """
    entry = said['entries'].get(place[0])
    if entry is None or entry.purpose is not assignment.Purpose.KEPT:
        return None
    one = found.get(entry.server_uuid)
    if one is None or one.task_state != 'resize_reverting':
        return None
    own = (entry.server_uuid, place[1], place[2])
    if own in held or allocated.get(own) != held.get(place):
        return None
    return str(entry.server_uuid)


def _find_stuck(
    uuid: str, host: str, said: Mapping[str, Any], found: Mapping[str, Any]
) -> str | None:
    """Return the server that was to come here, and has a task elsewhere.

    Its move has ended, and a host was killed in the server's next task. As
    long as Nova has that, this host does not release what it has claimed.
    """
    entry = said['entries'].get(uuid)
    if entry is None or entry.purpose is not assignment.Purpose.INCOMING:
        return None
    one = found.get(entry.server_uuid)
    if one is None or one.host == host or one.task_state is None:
        return None
    return str(one.uuid)


def _is_novas(
    site: site_mod.Site, host: str, uuid: str, found: Mapping[str, Any]
) -> bool:
    """Return whether Nova has left its own resources with the same.

    Of a server that is not on the host, or of a move.
    """
    one = found.get(uuid)
    if one is not None and one.host == host and one.vm_state == 'active':
        return False
    node = _find_node(site, host)
    return uuid in _read(site, node)


def _find_node(site: site_mod.Site, host: str) -> str:
    found = _get(site, f'/resource_providers?name={host}')
    return str(found['resource_providers'][0]['uuid'])


def _read(site: site_mod.Site, rp_uuid: str) -> dict[str, Any]:
    path = f'/resource_providers/{rp_uuid}/allocations'
    found: dict[str, Any] = _get(site, path).get('allocations', {})
    return found


def read_allocations(site: site_mod.Site, uuid: str) -> dict[str, Any]:
    """Return the resources of each provider that a consumer has."""
    found = _get(site, f'/allocations/{uuid}').get('allocations', {})
    return {rp_uuid: one['resources'] for rp_uuid, one in found.items()}


def _get(site: site_mod.Site, path: str) -> Any:
    answer = requests.get(site.urls.placement + path, **_options())
    return answer.json()


def remove_allocations(site: site_mod.Site, uuid: str) -> None:
    """Do what ``nova-manage placement audit --delete`` does of a consumer."""
    requests.delete(f'{site.urls.placement}/allocations/{uuid}', **_options())


def _options() -> dict[str, Any]:
    return {
        'headers': {
            'X-Auth-Token': config.TOKEN,
            'OpenStack-API-Version': 'placement 1.39',
        },
        'timeout': 30,
    }
