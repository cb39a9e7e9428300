# SPDX-License-Identifier: Apache-2.0

"""What repair of a host finds, by the rules of the product."""

from collections.abc import Iterator
import functools

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host.reconcile.rules import drift
from nova_ext_resources.host.reconcile.rules import migrations
from nova_ext_resources.objects import assignment
from tests.explore import programs
from tests.explore import world
from tests.unit import builders

Role = consumer_role.Role
_Kind = drift.DriftKind

#: Instead of a program: all that is gone is being released.
COMPARED = 'compare with Nova'

_UUIDS = ('server0', 'server1', 'migration')
_CLASS, _PROVIDER = 'CUSTOM_UNIT', 'provider'
_FLAVORS = ('old', 'new')

#: What is found -> the program that repairs it.
_PROGRAMS = {
    _Kind.GONE: programs.GONE.name,
    _Kind.ORPHAN: programs.ORPHAN.name,
    _Kind.RELEASING: programs.FINISH.name,
    _Kind.UNWRITTEN: programs.REWRITE.name,
    _Kind.UNAPPLIED: programs.FINISH.name,
}

#: Codes of entries, and bits of consumers, of one host.
_Codes = tuple[int, ...]
_Bits = int


def list_repairs(
    state: world.Cells, host: int, switches: frozenset[str] = frozenset()
) -> Iterator[tuple[str, int]]:
    """Yield the programs that repair may begin now, and their consumers.

    Nova may be unreachable, and nothing is released then that it lacks.
    """
    own = host * world.HOST_SIZE
    is_first = state[own + world.PROCESS] == world.UP
    roles = [find_role(state, host, one) for one in world.CONSUMERS]
    found = [*_compare(state, host, None)]
    if is_first:
        live = sum(
            (role is not Role.LEFT) << one
            for one, role in enumerate(roles)
            if role is not None
        )
        if 'unknown is gone' in switches:
            live = 0
        found += [
            one
            for one in _compare(state, host, live)
            if one[0] in (_Kind.GONE, _Kind.ORPHAN)
        ]
        if not any(kind is _Kind.GONE for kind, _consumer in found):
            yield COMPARED, 0
    for kind, consumer in found:
        if kind in _PROGRAMS:
            yield _PROGRAMS[kind], consumer
    if not is_first:
        yield from _list_ended(state, host, roles, switches)
        yield from _list_missing(state, host, roles[world.MIGRATION])


def _list_ended(
    state: world.Cells,
    host: int,
    roles: list[Role | None],
    switches: frozenset[str],
) -> Iterator[tuple[str, int]]:
    """Yield what :mod:`.ended_migrations` does."""
    own = host * world.HOST_SIZE
    for consumer, role in enumerate(roles):
        if 'unknown is gone' in switches and role is not Role.SERVER:
            role = Role.LEFT
        if not state[own + world.MEMORY + consumer] or programs.is_starting(
            state, host, world.find_server(consumer)
        ):
            continue
        if role is Role.LEFT:
            yield programs.GONE.name, consumer
        elif role is Role.RETURNED:
            yield programs.TAKE_BACK.name, consumer
        elif role is Role.ARRIVED:
            yield programs.ARRIVE.name, consumer


def _list_missing(
    state: world.Cells, host: int, moved: Role | None
) -> Iterator[tuple[str, int]]:
    """Yield what :mod:`.rebuild_entries` does.

    :param moved: the role of the migration, which comes before
    """
    for server in world.SERVERS:
        if server == 0 and moved is Role.RETURNED:
            continue
        if is_missing(state, host, server) and (
            state[world.NOVA + server * world.SERVER_SIZE + world.ALLOCATED]
            & 1 << host
        ):
            own = host * world.HOST_SIZE
            is_applied = state[own + world.APPLIED + server] and not (
                state[own + world.RELEASED] & 1 << server
            )
            name = programs.RECOGNIZE if is_applied else programs.RESTORE
            yield name.name, server


def is_missing(state: world.Cells, host: int, server: int) -> bool:
    """Return whether a server is here, without an entry: there is an alarm."""
    own, nova = (
        host * world.HOST_SIZE,
        world.NOVA + server * world.SERVER_SIZE,
    )
    return (
        not state[own + world.MEMORY + server]
        and state[nova + world.PHASE] != world.ABSENT
        and state[nova + world.HOST] == host
        and not state[world.THREADS + server * world.THREAD_SIZE]
        and not state[own + world.GONE] & 1 << server
    )


def is_noticed(state: world.Cells, host: int, server: int) -> bool:
    """Return whether repair acts on a server, or raises an alarm."""
    return is_missing(state, host, server) or any(
        consumer == server for _kind, consumer in _compare(state, host, None)
    )


def _compare(
    state: world.Cells, host: int, live: _Bits | None
) -> tuple[tuple[_Kind, int], ...]:
    own = host * world.HOST_SIZE
    memory = tuple(state[own + world.MEMORY : own + world.LEDGER])
    ledger = state[own + world.LEDGER : own + world.APPLIED]
    applied = tuple(state[own + world.APPLIED : own + world.FORMER])
    starting = 0
    for server in world.SERVERS:
        if programs.is_starting(state, host, server):
            starting |= (1 << server) | (0 if server else 1 << world.MIGRATION)
    return _compare_codes(
        memory,
        sum((memory[n] != ledger[n]) << n for n in world.CONSUMERS),
        applied,
        state[own + world.RELEASED],
        live,
        starting if state[own + world.PROCESS] == world.COMPARED else -1,
    )


@functools.lru_cache(None)
def _compare_codes(
    memory: _Codes,
    unwritten: _Bits,
    applied: _Codes,
    released: _Bits,
    live: _Bits | None,
    starting: _Bits,
) -> tuple[tuple[_Kind, int], ...]:
    """Return what :func:`.drift.compare` finds, by consumer.

    :param starting: those that are being started; -1 before Nova was asked
        for its servers
    """
    entries = {
        _UUIDS[one]: _make_entry(_UUIDS[one], code)
        for one, code in enumerate(memory)
        if code
    }
    found = drift.compare(
        drift.Observation(
            before=entries,
            entries=entries,
            applied={
                'enforcer': frozenset(
                    _UUIDS[one] for one, unit in enumerate(applied) if unit
                )
            },
            unwritten=_name(unwritten),
            lost=[
                _UUIDS[one]
                for one, code in enumerate(memory)
                if world.STATE_OF[code] is world.State.APPLIED
                and applied[one] != world.UNIT_OF[code] + 1
            ],
            released=_name(released),
            live=None if live is None else frozenset(_name(live)),
            interrupted=[
                uuid
                for one, uuid in enumerate(_UUIDS)
                if world.STATE_OF[memory[one]] is world.State.CLAIMED
                and starting >= 0
                and not starting & 1 << one
            ],
        )
    )
    return tuple((one.kind, _UUIDS.index(one.consumer_uuid)) for one in found)


def _name(bits: _Bits) -> list[str]:
    return [uuid for one, uuid in enumerate(_UUIDS) if bits & 1 << one]


def _make_entry(uuid: str, code: int, flavor: str = 'old') -> assignment.Entry:
    state, purpose = world.STATE_OF[code], world.PURPOSE_OF[code]
    assert state is not None
    assert purpose is not None
    return assignment.Entry(
        consumer_uuid=uuid,
        server_uuid='server1' if uuid == 'server1' else 'server0',
        flavor=flavor,
        state=state,
        purpose=purpose,
        assignments=(
            assignment.Assignment(
                rp_uuid=_PROVIDER,
                rp_key='provider',
                resource_class=_CLASS,
                amount=1,
            ),
        ),
    )


def find_role(state: world.Cells, host: int, consumer: int) -> Role | None:
    """Return what a consumer is to a host, as ``virt/facts`` find it.

    None: nothing is known.
    """
    server = world.find_server(consumer)
    own = world.NOVA + server * world.SERVER_SIZE
    code = state[host * world.HOST_SIZE + world.MEMORY + consumer]
    if consumer == world.MIGRATION:
        return _find_migration_role(state, host, code)
    _kind, source, dest, status = state[world.MOVE : world.MOVE + 4]
    is_live = state[world.MOVE + world.KIND] == world.LIVE
    is_open = server == 0 and status in (world.OPEN, world.WAITING)
    if state[own + world.PHASE] and state[own + world.HOST] == host:
        has_arrived = (
            *(server, dest, is_live, is_open),
            world.PURPOSE_OF[code],
        ) == (0, host, True, False, world.Purpose.MIGRATION_DEST)
        return Role.ARRIVED if has_arrived and status else Role.SERVER
    if is_open and dest == host:
        return Role.DESTINATION
    if is_open and source == host and not is_live:
        return Role.SOURCE
    if state[own + world.GUEST] == host:
        return Role.ELSEWHERE
    # Of a live migration that goes on, the source is where Nova has it.
    return Role.LEFT


def _find_migration_role(
    state: world.Cells, host: int, code: int
) -> Role | None:
    status = state[world.MOVE + world.STATUS]
    if status in (world.OPEN, world.WAITING):
        return Role.SOURCE
    nova = state[world.NOVA : world.NOVA + world.SERVER_SIZE]
    if nova[world.PHASE] == world.ABSENT or nova[world.HOST] != host:
        return Role.LEFT
    if status == world.STUCK:
        return Role.IN_DOUBT
    if (
        world.PURPOSE_OF[code] is not world.Purpose.MIGRATION_SOURCE
        or status == world.ENDED
    ):
        return Role.LEFT
    own = state[host * world.HOST_SIZE + world.MEMORY]
    return _find_kept_role(
        code,
        own if world.IS_HELD[own] else 0,
        bool(nova[world.ALLOCATED] & 1 << host),
        bool(state[world.MOVE + world.KEPT_ALLOCATED] & 1 << host),
        state[world.MOVE + world.FLAVOR],
    )


@functools.lru_cache(None)
def _find_kept_role(
    kept: int, own: int, of_server: bool, of_migration: bool, flavor: int
) -> Role:
    given = {_PROVIDER: {_CLASS: 1}}
    return migrations.find_role(
        _make_entry('migration', kept),
        # Its move has brought it.
        _make_entry('server0', own, 'new') if own else None,
        assignment.ClaimRequest(
            consumer_uuid='server0',
            flavor=_FLAVORS[flavor],
            allocations={},
            requirement=builders.make_requirement(_={_CLASS: 1}),
        ),
        of_server=given if of_server else {},
        of_migration=given if of_migration else {},
        spreads=False,
    )
