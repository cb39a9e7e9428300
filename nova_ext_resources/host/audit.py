# SPDX-License-Identifier: Apache-2.0

"""Compares what should be on a host with what is there. Pure.

Four sources are compared: the ledger's entries, what enforcers have applied,
Nova's servers, and the hypervisor's own list. Doubt never means release: what
cannot be told is left alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
import dataclasses
import datetime
import enum
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.objects import alarm
from nova_ext_resources.claims import decide
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import view as view_obj

State = assignment.State
Entries = Mapping[str, assignment.Entry]

#: A consumer and what it holds.
_Held: TypeAlias = tuple[str, assignment.Assignment]


class Kind(enum.StrEnum):
    """What is wrong, in the order in which it is repaired.

    ``GONE``: an entry whose server is nowhere.
    ``ORPHAN``: applied, without an entry, and left by a server of this host.
    ``RELEASING``: an entry whose release was not finished.
    ``UNAPPLIED``: an entry that should be applied and is not.
    ``UNKNOWN``: applied, without an entry; nothing else is known of it.
    ``UNCOUNTED``: units that their tracker does not understand.
    ``OVERLAP``: units that another entry has too.
    """

    GONE = 'gone'
    ORPHAN = 'orphan'
    RELEASING = 'releasing'
    UNAPPLIED = 'unapplied'
    UNKNOWN = 'unknown'
    UNCOUNTED = 'uncounted'
    OVERLAP = 'overlap'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    :ivar text: for the operator; '' for what is repaired
    """

    kind: Kind
    consumer_uuid: str
    text: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is compared.

    :ivar before: the entries before all others were asked
    :ivar entries: the entries afterwards
    :ivar applied: enforcer -> consumer uuids; without enforcers that cannot
        tell
    :ivar lost: consumers of which an enforcer has not all that it should
    :ivar released: consumers that this process has released
    :ivar live: servers that Nova or the hypervisor has on this host; None
        while that is not known
    :ivar interrupted: consumer and time of claims that a former process left
        unapplied
    """

    before: Entries
    entries: Entries
    applied: Mapping[str, frozenset[str]]
    lost: Collection[str] = frozenset()
    released: Collection[str] = frozenset()
    live: frozenset[str] | None = None
    interrupted: Collection[tuple[str, datetime.datetime | None]] = ()

    @property
    def known(self) -> frozenset[str]:
        """Consumers that have had an entry at any time in between."""
        return frozenset(self.before) | frozenset(self.entries)

    def list_stable(self) -> list[assignment.Entry]:
        """Return the entries that nothing has changed in between."""
        return [
            entry
            for uuid, entry in self.entries.items()
            if self.before.get(uuid) == entry
        ]


def compare(seen: Seen) -> tuple[Finding, ...]:
    """Return all that is wrong with what servers hold, in order of repair.

    What is to be applied follows in the order of its units, the highest
    first, as RMD chooses them: a host that has lost all gives the same units
    to everyone again.
    """
    gone, releasing, unapplied = [], [], []
    for entry in seen.list_stable():
        uuid = entry.consumer_uuid
        if seen.live is not None and entry.server_uuid not in seen.live:
            gone.append(uuid)
        elif entry.state is State.RELEASING:
            releasing.append(uuid)
        elif uuid in seen.lost or _is_interrupted(seen, entry):
            unapplied.append(uuid)
    unapplied.sort(key=lambda uuid: _order(seen.entries[uuid]), reverse=True)
    return tuple(
        Finding(kind=kind, consumer_uuid=uuid)
        for kind, uuids in (
            (Kind.GONE, sorted(gone)),
            (Kind.ORPHAN, _list_orphans(seen)),
            (Kind.RELEASING, sorted(releasing)),
            (Kind.UNAPPLIED, unapplied),
        )
        for uuid in uuids
    ) + tuple(_list_unknown(seen))


def _is_interrupted(seen: Seen, entry: assignment.Entry) -> bool:
    claim = entry.consumer_uuid, entry.claimed_at
    return entry.state is State.CLAIMED and claim in seen.interrupted


def _list_orphans(seen: Seen) -> list[str]:
    """Return what is applied and can only be left from servers of this host.

    They were released by this process, and the host has carried out a
    request late; or no such server is here.
    """
    return sorted(
        uuid
        for uuid in frozenset[str]().union(*seen.applied.values())
        if uuid not in seen.known
        and (
            uuid in seen.released
            or (seen.live is not None and uuid not in seen.live)
        )
    )


def _list_unknown(seen: Seen) -> Iterator[Finding]:
    """Report the rest, which is left alone.

    A server whose entry was lost with the ledger may be running on it.
    """
    known = seen.known | frozenset(_list_orphans(seen))
    for name, uuids in sorted(seen.applied.items()):
        for uuid in sorted(uuids - known):
            yield Finding(
                kind=Kind.UNKNOWN,
                consumer_uuid=uuid,
                text=f'Enforcer {name} has settings for server {uuid}, but '
                'the ledger has no entry for it. They are counted as used by '
                'other software. If the server is on this host, shelve and '
                'unshelve it; otherwise restart nova-compute, which removes '
                'them.',
            )


def list_uncounted(
    view: view_obj.HostView,
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
) -> list[Finding]:
    """Report what servers hold in units of another tracker.

    A resource whose type was changed leaves them behind.
    """
    return [
        Finding(
            kind=Kind.UNCOUNTED,
            consumer_uuid=entry.consumer_uuid,
            text=f'server {entry.consumer_uuid} holds {one.amount} '
            f'{one.resource_class} of {one.rp_key} in units that tracker '
            f'{tracked.tracker} does not understand ({dict(one.units)}); '
            'they are not counted. Set the former type of the resource '
            'again, or delete or move the server',
        )
        for entry in entries
        for one in entry.assignments
        if (tracked := view.tracked.get((one.rp_uuid, one.resource_class)))
        and not trackers[tracked.tracker].understands(one.units)
    ]


def list_overallocated(
    view: view_obj.HostView, entries: Iterable[assignment.Entry]
) -> list[alarm.Problem]:
    """Report of what servers hold more than the host can allocate.

    A total became smaller, or more of it is reserved, while servers hold it.
    """
    holders: dict[view_obj.Place, dict[str, int]] = {}
    for entry in entries:
        for one in entry.assignments:
            amounts = holders.setdefault((one.rp_uuid, one.resource_class), {})
            amounts[entry.consumer_uuid] = one.amount
    return [
        _explain_overallocated(view.keys[place[0]], place[1], amounts, most)
        for place, amounts in sorted(holders.items())
        if (tracked := view.tracked.get(place)) and tracked.inventory
        if (most := tracked.inventory.capacity) < sum(amounts.values())
    ]


def _explain_overallocated(
    rp_key: str, resource_class: str, amounts: Mapping[str, int], most: int
) -> alarm.Problem:
    holders = ', '.join(
        f'{uuid} {amount}' for uuid, amount in sorted(amounts.items())
    )
    return alarm.Problem(
        alarm=alarm.OVERALLOCATED,
        subject=f'{rp_key} {resource_class}',
        text=f'servers hold {sum(amounts.values())} {resource_class} of '
        f'{rp_key}, and the host can allocate {most} ({holders}). No other '
        'server gets any, and nothing is taken from these. Correct the amount '
        'where it is configured, or restore the part that failed; otherwise '
        'delete or move servers',
    )


def list_overlaps(
    empty: view_obj.HostView,
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
) -> list[Finding]:
    """Report units that several servers hold, each of them alone.

    What is being released counts no longer.

    :param empty: the view in which no server holds anything
    """
    held: dict[decide.Place, list[_Held]] = {}
    for entry in entries:
        for one in entry.assignments:
            place = one.rp_uuid, one.resource_class
            tracked = empty.tracked.get(place)
            if (
                tracked is not None
                and entry.state is not State.RELEASING
                and trackers[tracked.tracker].understands(one.units)
            ):
                held.setdefault(place, []).append((entry.consumer_uuid, one))
    return [
        found
        for place, ours in held.items()
        for found in _list_overlaps_at(empty.tracked[place], ours, trackers)
    ]


def _list_overlaps_at(
    tracked: view_obj.Tracked,
    held: list[_Held],
    trackers: Mapping[str, base.Tracker],
) -> Iterator[Finding]:
    """Report those for which too little is left by the ones before."""
    tracker, state = trackers[tracked.tracker], tracked.state
    for index, (uuid, one) in enumerate(held):
        grown = _take(tracker, state, one)
        if _count(tracker, tracked.state, [one]) > grown.used - state.used:
            others = [
                (other, theirs)
                for other, theirs in held[:index]
                if _is_common(tracker, tracked.state, one, theirs)
            ]
            yield _make_overlap(uuid, one, others)
        state = grown


def _take(
    tracker: base.Tracker, state: view_obj.State, one: assignment.Assignment
) -> view_obj.State:
    return tracker.take(state, one.amount, one.units)[0]


def _count(
    tracker: base.Tracker,
    empty: view_obj.State,
    held: Iterable[assignment.Assignment],
) -> int:
    """Return how many units these have together."""
    state = empty
    for one in held:
        state = _take(tracker, state, one)
    return state.used - empty.used


def _is_common(
    tracker: base.Tracker,
    empty: view_obj.State,
    one: assignment.Assignment,
    other: assignment.Assignment,
) -> bool:
    apart = sum(_count(tracker, empty, [each]) for each in (one, other))
    return _count(tracker, empty, [one, other]) < apart


def _make_overlap(
    uuid: str, one: assignment.Assignment, others: Iterable[_Held]
) -> Finding:
    named = ' and '.join(
        f'server {other} ({_describe_units(theirs)})'
        for other, theirs in others
    )
    return Finding(
        kind=Kind.OVERLAP,
        consumer_uuid=uuid,
        text=f'server {uuid} ({_describe_units(one)}) holds units of '
        f'{one.resource_class} of {one.rp_key} that are allocated to '
        f'{named} too, so that no server has them alone; shelve and '
        'unshelve one of these servers, or move it to another host',
    )


def _describe_units(one: assignment.Assignment) -> str:
    return str(one.units.get('mask') or dict(one.units))


def _order(entry: assignment.Entry) -> tuple[tuple[str, int], ...]:
    """Return what to sort entries by: the height of their units."""
    return tuple(
        (one.rp_key, _find_height(one))
        for one in sorted(entry.assignments, key=lambda one: one.rp_key)
    )


def _find_height(one: assignment.Assignment) -> int:
    try:
        return bitmask.parse_mask(one.units['mask'])
    except (KeyError, TypeError, ValueError):
        return 0
