# SPDX-License-Identifier: Apache-2.0

"""Whether placement has allocated what a host holds, or Nova has left it so.

Nothing counts as left by Nova but by what Nova's database and placement say.
"""

from collections.abc import Callable, Iterator
import dataclasses
from typing import Any, TypeAlias

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.crash import misallocations
from tests.crash import novas
from tests.crash import placement
from tests.crash import records
from tests.crash import seen as seen_mod
from tests.crash import transfers

Purpose = assignment.Purpose

#: Actions that neither allocate anything nor free it, unless they succeed.
_OF_POWER = ('start', 'stop', 'reboot', 'delete')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """A place of which the host does not hold what placement has allocated."""

    place: seen_mod.Place
    held: seen_mod.Held
    allocated: seen_mod.Held
    seen: seen_mod.Seen

    def __str__(self) -> str:
        return (
            f'{self.place} held {self.held.get(self.place)}, '
            f'allocated {self.allocated.get(self.place)}'
        )

    @property
    def server_uuid(self) -> str:
        return self.seen.find_server_uuid(self.place[0])

    def make_place(self, uuid: str) -> seen_mod.Place:
        """Return the same of another consumer."""
        return uuid, self.place[1], self.place[2]


def compare(
    seen: seen_mod.Seen,
) -> Iterator[tuple[seen_mod.Place, str | None, str]]:
    """Yield what differs, with the consumer that Nova has left; None: none."""
    held, allocated = seen.list_held(), seen.list_allocated()
    for place in sorted(held.keys() | allocated.keys()):
        if held.get(place) == allocated.get(place):
            continue
        one = _Difference(
            place=place, held=held, allocated=allocated, seen=seen
        )
        text = str(one)
        for find, why in _RULES:
            if left := find(one):
                yield place, left, f'{text}, {why.format(left)}'
                break
        else:
            yield place, None, text


# -- what Nova leaves --------------------------------------------------------


def _find_own(one: _Difference) -> str | None:
    """Return the consumer if Nova has left its own resources with the same."""
    uuid = one.place[0]
    if one.place in one.held or not novas.is_novas(one.seen, uuid):
        return None
    # What a host has released in a confirmation, it has to report.
    move = records.find_move(uuid)
    is_silent = move is not None and novas.is_being_confirmed(one.seen, move)
    return None if is_silent and not _is_told(one, uuid) else uuid


def _find_move(one: _Difference) -> str | None:
    """Return the move of a server that has what is held for the server.

    A source that is killed does not give the server its allocations back:
    Nova leaves them with the move, and does not give them to the next one
    either. They are counted once, as the units are. A move may have more: of
    the larger flavor that the server had before.
    """
    amount = one.held.get(one.place)
    if amount is None or one.place in one.allocated:
        return None
    for move in records.list_moves(one.server_uuid):
        kept = one.make_place(move.uuid)
        if kept not in one.held and one.allocated.get(kept, 0) >= amount:
            return str(move.uuid)
    return None


def _find_returned(one: _Difference) -> str | None:
    """Return the server that has got back what is kept for it.

    Its host was killed in a revert: Nova has given the allocations back, not
    started the guest, and still has the server in a task. Or the resize
    failed on its way to the next host: Nova gives them back, has the server
    there in ERROR, and leaves it its task. As long as it has one, the host
    does not give the units back. They are counted once.
    """
    entry = one.seen.entries.get(one.place[0])
    if entry is None or entry.purpose is not Purpose.MIGRATION_SOURCE:
        return None
    server = one.seen.found.get(entry.server_uuid)
    if server is None or not novas.is_resizing(server):
        return None
    if server.task_state != 'resize_reverting' and server.vm_state != 'error':
        return None
    own = one.make_place(entry.server_uuid)
    if own in one.held or one.allocated.get(own) != one.held.get(one.place):
        return None
    return str(entry.server_uuid)


def _find_exchanged(one: _Difference) -> str | None:
    """Return the server that moves on its own host, and has a task for ever.

    Until its guest is off, Nova has what it has and what it is to get under
    the other one's uuid each. Both are held, and both are allocated.
    """
    server = one.seen.found.get(one.server_uuid)
    if server is None or not server.task_state or server.host != one.seen.host:
        return None
    consumers = {
        uuid: entry.purpose
        for uuid, entry in one.seen.entries.items()
        if entry.server_uuid == server.uuid
    }
    others = consumers.keys() - {one.place[0]}
    if len(consumers) != 2 or Purpose.MIGRATION_DEST not in consumers.values():
        return None
    if consumers.get(server.uuid) is not Purpose.OWN:
        return None
    other = one.make_place(*others)
    held = one.held.get(one.place), one.held.get(other)
    allocated = one.allocated.get(other), one.allocated.get(one.place)
    return str(server.uuid) if held == allocated else None


def _find_stuck(one: _Difference) -> str | None:
    entry = one.seen.entries.get(one.place[0])
    if entry is None or entry.purpose is not Purpose.MIGRATION_DEST:
        return None
    return find_stuck(one.seen, entry.server_uuid)


def find_stuck(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the server that was to come here, and has a task elsewhere.

    Of whatever kind, ``resize_prep`` as well: a host was killed in its move,
    or in the server's next task. As long as Nova has that, this host does not
    release what it has claimed, unless Nova has recorded that a cold move
    failed. Nor does it as long as Nova has the server on its way to here,
    live: for ever, after a kill.
    """
    server = seen.found.get(server_uuid)
    if server is None or server.host == seen.host:
        return None
    is_live = records.is_coming_live(server_uuid, seen.host)
    if not is_live and not server.task_state:
        return None
    is_coming = any(
        (entry.server_uuid, entry.purpose)
        == (server_uuid, Purpose.MIGRATION_DEST)
        and (is_live or not _has_failed(seen.host, entry))
        for entry in seen.entries.values()
    )
    return server_uuid if is_coming else None


def _has_failed(host: str, entry: assignment.Entry) -> bool:
    """Return whether Nova has given up the cold move of an entry."""
    if entry.consumer_uuid != entry.server_uuid:
        move = records.find_move(entry.consumer_uuid)
    else:
        move = records.find_last_move(entry.server_uuid, host)
    return (
        move is not None
        and move.migration_type in records.COLD
        and move.status == 'error'
    )


def _find_failed_build(one: _Difference) -> str | None:
    if one.place in one.allocated:
        return None
    return find_failed_build(one.seen, one.place[0])


def find_failed_build(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the server if Nova has deleted all of its allocations.

    Nova does, its own as well, when it fails to rebuild a server: also when
    it takes the request again that its former process was killed with. And it
    does when it does not hear that a build was recorded as done: then it may
    also miss how the build has ended, and has the server on no host. The
    server may have been started and stopped since.
    """
    actions = [
        one
        for one in records.list_actions(server_uuid)
        if one.action not in _OF_POWER
    ]
    last = (actions[0].action, actions[0].message) if actions else ('', '')
    server = seen.found.get(server_uuid)
    is_nowhere = server is not None and (server.vm_state, server.host) == (
        'error',
        None,
    )
    has_failed = last[0] == 'rebuild' or last == ('create', 'Error')
    has_failed |= last[0] == 'create' and is_nowhere
    has_any = placement.read_allocations(seen.site, server_uuid)
    return server_uuid if has_failed and not has_any else None


def _find_failed_finish(one: _Difference) -> str | None:
    if one.place in one.allocated:
        return None
    return find_failed_finish(one.seen, one.place[0])


def find_failed_finish(seen: seen_mod.Seen, consumer_uuid: str) -> str | None:
    """Return the move whose last step has failed without a record of that.

    Nova then deletes what the move has of the former host, and a kill or an
    outage kept it from giving the move another status.
    """
    entry = seen.entries.get(consumer_uuid)
    if entry is None or entry.purpose is not Purpose.MIGRATION_SOURCE:
        return None
    move = records.find_move(consumer_uuid)
    server = seen.found.get(entry.server_uuid)
    if move is None or server is None or server.vm_state == 'resized':
        return None
    is_last = move.status in ('post-migrating', 'finished')
    has_any = placement.read_allocations(seen.site, consumer_uuid)
    return consumer_uuid if is_last and not has_any else None


def _find_given_up(one: _Difference) -> str | None:
    return find_given_up(one.seen, one.server_uuid)


def find_given_up(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the move that Nova's conductor has given up, and its host not.

    The conductor did not hear that the host had its request: it gave the
    server its former allocations back, and calls it active. The host has
    finished the move, and the server has what it was to get.
    """
    server = seen.found.get(server_uuid)
    if server is None or (server.host, server.vm_state) != (
        seen.host,
        'active',
    ):
        return None
    move = records.find_last_move(server_uuid, seen.host)
    if move is None or move.status != 'finished':
        return None
    has_any = placement.read_allocations(seen.site, move.uuid)
    return None if has_any else str(move.uuid)


def _find_taken_again(one: _Difference) -> str | None:
    return find_taken_again(one.server_uuid)


def find_taken_again(server_uuid: str) -> str | None:
    """Return the server if Nova took a migration of its again.

    Nova does that with one that a killed nova-compute has left
    pre-migrating, and replaces what the migration has in placement: nothing
    is allocated any more for what the server holds, whoever moves it next. A
    resize or a cold migration without a migration of its own tells.
    """
    made = [
        one
        for one in records.list_moves(server_uuid)
        if one.migration_type in records.COLD
    ]
    begun = [
        one
        for one in records.list_actions(server_uuid)
        if one.action in ('resize', 'migrate')
    ]
    return server_uuid if made and len(begun) > len(made) else None


def _find_abandoned(one: _Difference) -> str | None:
    """Return the resize on this host with which Nova does not go on.

    It took the task away from the server when the host started, or could not
    give the server its former allocations back, and leaves it what it was to
    get. The next move to elsewhere takes that with it, under its own uuid. The
    host has to report that, unless Nova may go on with that move: the server
    has its task, as for ever after another kill. It may have got a task of
    another kind since.
    """
    taker = records.find_move(one.place[0])
    uuid = one.server_uuid if taker is None else taker.instance_uuid
    server = one.seen.found.get(uuid)
    if server is None:
        return None
    is_open = novas.is_resizing(server)
    if is_open and (
        taker is None or records.list_moves(uuid)[-1].uuid != taker.uuid
    ):
        return None
    amount = one.allocated.get(one.place)
    if amount is None or (not is_open and not _is_told(one, uuid)):
        return None
    for move in records.list_moves(uuid):
        if taker is not None and move.id >= taker.id:
            break
        hosts = {move.source_compute, move.dest_compute} - {None}
        if taker is None:
            hosts.add(server.host)
        if hosts != {one.seen.host} or not _is_abandoned(one, move):
            continue
        if amount == records.count_ways(move):
            return str(move.uuid)
    return None


def _is_told(one: _Difference, server_uuid: str) -> bool:
    """Return whether the host says that placement has too much.

    For the server, or for a move of it.
    """
    subjects = {server_uuid, one.place[0]}
    return any(
        name in (alarm.NOT_RECORDED, alarm.STALE_ALLOCATION)
        and (
            subjects & {subject, one.seen.find_server_uuid(subject)}
            or f'of server {server_uuid} ' in text
        )
        for name, subject, text in one.seen.said['problems']
    )


def _is_abandoned(one: _Difference, move: Any) -> bool:
    if move.migration_type not in records.COLD:
        return False
    if move.status == 'error':
        # Placement was away when Nova would have given them back.
        return bool(placement.read_allocations(one.seen.site, move.uuid))
    return move.status in novas.ON_ITS_WAY


def _find_elsewhere(one: _Difference) -> str | None:
    if one.place in one.allocated:
        return None
    return misallocations.find_elsewhere(one.seen, one.place[0])


def _find_transferred(one: _Difference) -> str | None:
    """Return the server whose guest has gone where Nova does not know it.

    Nova may give such a server back what it had on its former host, where it
    has nothing, and nothing of the host where it is. That host reports it.
    """
    seen, uuid = one.seen, one.place[0]
    if one.place not in one.allocated:
        is_told = any(
            (name, subject) == (alarm.NOT_IN_PLACEMENT, uuid)
            for name, subject, _text in seen.said['problems']
        )
        return transfers.find_arrived(seen, uuid) if is_told else None
    if one.place in one.held:
        return None
    return transfers.find_departed(seen, uuid)


def _find_taken_back(one: _Difference) -> str | None:
    if one.place in one.allocated:
        return None
    return misallocations.find_taken_back(one.seen, one.place[0])


def _find_blocked(one: _Difference) -> str | None:
    """Return the consumer whose ways the server of this host cannot have.

    The host has moved the server to another provider, where placement refuses
    as much: then it has it on the former one.
    """
    seen, uuid = one.seen, one.place[0]
    server = seen.found.get(uuid)
    if server is None or server.host != seen.host:
        return None
    for place, amount in one.held.items():
        is_missing = place[0] == uuid and place not in one.allocated
        if is_missing and place[2] == seen_mod.WAYS:
            if left := novas.find_blocking(seen, uuid, amount, [place[1]]):
                return left
    return None


_Find: TypeAlias = Callable[[_Difference], str | None]

#: What finds whom Nova has left, and how that is told.
_RULES: tuple[tuple[_Find, str], ...] = (
    (_find_own, 'with its own resources'),
    (_find_move, 'and its move {} has it'),
    (_find_returned, 'and {} has it again'),
    (_find_exchanged, 'and {} has a task on its own host'),
    (_find_stuck, 'and {} has a task'),
    (_find_failed_build, 'its build has failed'),
    (_find_failed_finish, 'its last step has failed'),
    (_find_given_up, 'and the conductor has given {} up'),
    (_find_taken_again, 'its move was taken again'),
    (_find_abandoned, 'for resize {}, which nobody goes on with'),
    (_find_blocked, 'and {} has what it needs'),
    (_find_elsewhere, 'and Nova has it elsewhere in placement'),
    (_find_taken_back, 'which Nova has taken back from {}'),
    (_find_transferred, 'and its guest is where Nova does not know it'),
)
