# SPDX-License-Identifier: Apache-2.0

"""Whether ledger, placement, RMD, Nova and its flavors agree."""

import collections
from collections.abc import Iterator, Mapping
import dataclasses
from typing import Any, TYPE_CHECKING

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.crash import allocations
from tests.crash import misallocations
from tests.crash import novas
from tests.crash import placement
from tests.crash import promises
from tests.crash import records
from tests.crash import seen as seen_mod
from tests.crash import transfers
from tests import ledgers

if TYPE_CHECKING:
    from tests.crash import operations

State = assignment.State

WAYS = seen_mod.WAYS

#: Alarms about what placement has, which Nova may have left so.
_OF_PLACEMENT = (alarm.NOT_IN_PLACEMENT, alarm.NOT_RECORDED)

#: Alarms that say that placement has other than a host holds.
_OF_AMOUNTS = (*_OF_PLACEMENT, alarm.STALE_ALLOCATION)

#: Alarms that name a move, which Nova may have left.
_OF_MOVES = (*_OF_PLACEMENT, alarm.MIGRATION_UNCLEAR)

#: Alarms about what was claimed for a server that does not come.
_OF_COMING = (
    alarm.NOT_IN_NOVA,
    alarm.MIGRATION_UNCLEAR,
    alarm.NOT_IN_PLACEMENT,
)

#: Nova's record of a server has other CPUs than it has claimed.
_OTHERWISE = 'is pinned otherwise'

#: Placement has a server on another host than Nova.
_ELSEWHERE = 'allocations only on other hosts'


@dataclasses.dataclass
class Differences:
    """What is wrong.

    :ivar ours: what this package has to answer for
    :ivar novas: allocations that Nova has left, with its own resources
    :ivar kept: what no rule explains, where each promise is kept all the same
    """

    ours: list[str] = dataclasses.field(default_factory=list)
    novas: dict[str, str] = dataclasses.field(default_factory=dict)
    kept: list[str] = dataclasses.field(default_factory=list)

    def add(self, text: str, *, is_kept: bool) -> None:
        """Add what no rule explains."""
        (self.kept if is_kept else self.ours).append(text)


def compare(servers: 'operations.Servers') -> Differences:
    """Compare all; nothing may be under way."""
    site, made = servers.site, Differences()
    found = records.list_servers()
    reports = site.report()
    killed = frozenset(
        host for host, one in site.computes.items() if one.has_died
    )
    for host, said in reports.items():
        before = len(made.ours), len(made.kept)
        seen = seen_mod.Seen(
            site=site, host=host, said=said, found=found, killed=killed
        )
        _judge_alarms(seen, made)
        made.ours += _compare_ledger(seen)
        made.ours += _compare_applied(site.rmds[host].simulator, said)
        made.ours += promises.list_shared(seen)
        made.ours += _compare_guests(said)
        made.ours += _compare_view(said)
        _compare_nova(seen, reports, made)
        _compare_placement(seen, made)
        for texts, begin in zip((made.ours, made.kept), before, strict=True):
            texts[begin:] = [f'{host}: {one}' for one in texts[begin:]]
    for compute in site.computes.values():
        compute.note_compared()
    return made


# -- alarms ----------------------------------------------------------------


def _judge_alarms(seen: seen_mod.Seen, made: Differences) -> None:
    """An alarm is right where Nova has left what it is about."""
    for name, subject, text in seen.said['problems']:
        left = next(filter(None, _list_left(seen, name, subject, text)), None)
        if left is None:
            is_kept = name in _OF_AMOUNTS and promises.differs(seen, subject)
            made.add(f'{name}: {text}', is_kept=is_kept)
        else:
            made.novas[left] = f'{name}: {text}'


def _list_left(
    seen: seen_mod.Seen, name: str, subject: str, text: str
) -> Iterator[str | None]:
    """Yield what Nova may have left of what an alarm is about."""
    server_uuid = seen.find_server_uuid(subject)
    if name in _OF_MOVES:
        yield _find_named_move(seen, server_uuid, text)
        yield allocations.find_given_up(seen, server_uuid)
    if name in _OF_COMING:
        yield allocations.find_stuck(seen, server_uuid)
    if name == alarm.GUEST_HERE_SERVER_ELSEWHERE:
        yield transfers.find_arrived(seen, server_uuid)
    if name == alarm.NOT_RECORDED and novas.is_novas(seen, server_uuid):
        # Its next move has added what it was to get here.
        yield transfers.find_arrived(seen, server_uuid)
    if name == alarm.STALE_ALLOCATION and novas.is_left(seen, subject):
        yield subject
    if name in _OF_PLACEMENT and subject in seen.entries:
        yield allocations.find_failed_build(seen, server_uuid)
        yield allocations.find_failed_finish(seen, subject)
        yield allocations.find_taken_again(server_uuid)
    if name in _OF_PLACEMENT:
        yield _find_blocking(seen, server_uuid)
    yield _find_misallocated(seen, name, server_uuid, text)


def _find_misallocated(
    seen: seen_mod.Seen, name: str, server_uuid: str, text: str
) -> str | None:
    """Return the server if Nova has given too much, or the wrong thing."""
    if name == alarm.NOT_RECORDED:
        left = misallocations.find_doubled(seen, server_uuid)
        return left or misallocations.find_taken_back(seen, server_uuid)
    if name == alarm.NOT_IN_PLACEMENT and _ELSEWHERE in text:
        left = misallocations.find_elsewhere(seen, server_uuid)
        return left or transfers.find_arrived(seen, server_uuid)
    if name == alarm.NOT_IN_PLACEMENT:
        left = misallocations.find_taken_back(seen, server_uuid)
        return left or transfers.find_arrived(seen, server_uuid)
    if name == alarm.NOT_APPLIED:
        return misallocations.find_pinned_twice(seen, server_uuid)
    return None


def _find_named_move(
    seen: seen_mod.Seen, server_uuid: str, text: str
) -> str | None:
    """Return the move that a text names, if Nova has left it allocations.

    Those of the former host, where a nova-compute was killed on the way.
    """
    for one in records.list_moves(server_uuid):
        if one.uuid in text and placement.read_allocations(
            seen.site, one.uuid
        ):
            return str(one.uuid)
    return None


def _find_blocking(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the consumer whose allocations a server of the host cannot have.

    Nova has left them to it; see :func:`.novas.find_blocking`.
    """
    server = seen.found.get(server_uuid)
    if server is None or server.host != seen.host:
        return None
    entry = seen.entries.get(server_uuid)
    if entry is None:
        amount = _count_requested(server.flavor)
        providers = list(seen.said['providers'])
    else:
        amount = _count(entry)
        providers = [
            one.rp_uuid
            for one in entry.assignments
            if one.resource_class == WAYS
        ]
    return novas.find_blocking(seen, server_uuid, amount, providers)


# -- the host --------------------------------------------------------------


def _compare_ledger(seen: seen_mod.Seen) -> Iterator[str]:
    said = seen.said
    stored = ledgers.read_entries(said['ledger'])
    if {u: _sort(e) for u, e in stored.items()} != {
        u: _sort(e) for u, e in said['entries'].items()
    }:
        yield f'ledger has {stored}, memory {said["entries"]}'
    for uuid, entry in stored.items():
        if entry.state in (State.CLAIMED, State.RELEASING) and not (
            _is_reported(said, alarm.NOT_APPLIED, uuid)
            and misallocations.find_pinned_twice(seen, uuid)
        ):
            yield f'entry {uuid} stays {entry.state}'


def _is_reported(said: Mapping[str, Any], name: str, subject: str) -> bool:
    """Return whether the host has an alarm about a subject."""
    return any((name, subject) == one[:2] for one in said['problems'])


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


def _compare_nova(
    seen: seen_mod.Seen,
    reports: Mapping[str, Mapping[str, Any]],
    made: Differences,
) -> None:
    """Each server at rest has what its own flavor says."""
    host = seen.host
    for uuid, one in seen.found.items():
        if one.host != host or one.vm_state not in ('active', 'resized'):
            continue
        if one.task_state is not None:
            continue
        entry = seen.entries.get(uuid)
        text = _compare_server(one, entry)
        if not text:
            continue
        left, why = _find_excuse(seen, reports, one, text)
        if left is None:
            made.add(text, is_kept=_has_more(one, entry))
        else:
            made.novas[left] = f'{host}: {text}, {why}'
    for uuid, entry in seen.entries.items():
        if entry.server_uuid not in seen.found:
            made.ours.append(f'entry {uuid} of a server that is gone: {entry}')


def _find_excuse(
    seen: seen_mod.Seen,
    reports: Mapping[str, Mapping[str, Any]],
    one: Any,
    text: str,
) -> tuple[str | None, str]:
    """Return whom Nova has left so, and why; None: nobody."""
    uuid, entry = str(one.uuid), seen.entries.get(one.uuid)
    if entry is None:
        if _has_left(uuid, seen.host, reports):
            return uuid, 'and its guest is elsewhere'
        left = _find_blocking(seen, uuid)
        return left, f'and {left} has what it needs'
    if left := _find_allocated(seen, one, entry):
        return left, 'which Nova has allocated'
    if text.endswith(_OTHERWISE) and not _runs(seen, uuid):
        # It claims anew, or is refused, before it starts.
        return uuid, 'and its guest is off'
    return None, ''


def _runs(seen: seen_mod.Seen, uuid: str) -> bool:
    from nova.compute import power_state

    state: int | None = seen.said['guests'].get(uuid)
    return bool(state == power_state.RUNNING)


def _compare_server(one: Any, entry: assignment.Entry | None) -> str:
    from nova_ext_resources.virt.driver import request

    wanted = _count_requested(one.flavor)
    if entry is None:
        return f'server {one.uuid} {one.vm_state} has no entry'
    if entry.state is not State.APPLIED:
        return f'server {one.uuid} {one.vm_state} is {entry.state}'
    if _count(entry) != wanted:
        return f'server {one.uuid} has {_count(entry)}, flavor {wanted}'
    if entry.cpus != request.find_cpus(one):
        return f'server {one.uuid} {_OTHERWISE}'
    return ''


def _has_more(one: Any, entry: assignment.Entry | None) -> bool:
    """Return whether a server has all that its flavor says, and more."""
    return (
        entry is not None
        and entry.state is State.APPLIED
        and _count(entry) > _count_requested(one.flavor)
    )


def _has_left(
    uuid: str, host: str, reports: Mapping[str, Mapping[str, Any]]
) -> bool:
    """Return whether a guest has arrived elsewhere, and Nova does not know.

    The source of a live migration was killed before it told the destination.
    """
    return uuid not in reports[host]['guests'] and any(
        uuid in said['guests'] for said in reports.values()
    )


def _find_allocated(
    seen: seen_mod.Seen, one: Any, entry: assignment.Entry
) -> str | None:
    """Return who has got from Nova what a server has: it, or its move."""
    if entry.state is not State.APPLIED:
        return None
    if _count(entry) in {_count_of_move(one), *_list_counts_of_moves(one)}:
        return str(one.uuid)
    return misallocations.find_move_with_same(seen, entry)


def _count_of_move(one: Any) -> int | None:
    """Return what Nova allocates to a server when it is built again.

    That is of the flavor of a resize, also where the source was killed in it
    and the server has kept its former one. None: it is its own flavor.
    """
    spec = records.find_request(one.uuid)
    if spec.flavor.flavorid == one.flavor.flavorid:
        return None
    return _count_requested(spec.flavor)


def _list_counts_of_moves(one: Any) -> list[int]:
    """Return what a server was to get by moves that Nova never ended.

    The next one takes that from placement, and leaves no trace of the flavor
    in the request.
    """
    return [
        records.count_ways(move)
        for move in records.list_moves(one.uuid)
        if move.migration_type in records.COLD
        and move.status in novas.ON_ITS_WAY
    ]


def _count_requested(flavor: Any) -> int:
    return int(flavor.extra_specs[f'resources:{WAYS}'])


def _count(entry: assignment.Entry) -> int:
    return sum(
        one.amount
        for one in entry.assignments
        if one.resource_class == WAYS and one.is_allocated
    )


# -- placement ---------------------------------------------------------------


def _compare_placement(seen: seen_mod.Seen, made: Differences) -> None:
    for place, left, text in allocations.compare(seen):
        if left is None:
            made.add(text, is_kept=promises.is_kept(seen, place))
        else:
            made.novas[left] = f'{seen.host}: {text}'
