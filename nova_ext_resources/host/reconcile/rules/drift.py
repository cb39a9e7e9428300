# SPDX-License-Identifier: Apache-2.0

"""Compares what should be on a host with what is there. Pure.

Four sources are compared: the ledger's entries, what enforcers have applied,
Nova's servers, and the hypervisor's own list. Doubt never means release: what
cannot be told is left alone.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
import enum

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import foreign_data

State = assignment.State
Entries = Mapping[str, assignment.Entry]


class DriftKind(enum.StrEnum):
    """What is wrong, in the order in which it is repaired.

    ``GONE``: an entry whose consumer is nowhere.
    ``ORPHAN``: applied, without an entry, and left by a server of this host.
    ``RELEASING``: an entry whose release was not finished.
    ``UNWRITTEN``: an entry of which the ledger has something else.
    ``UNAPPLIED``: an entry that should be applied and is not.
    ``UNKNOWN``: applied, without an entry; nothing else is known of it.
        None is while Nova's servers are unknown, nor of those that
        :mod:`.rebuild_entries` looks after.
    """

    GONE = 'gone'
    ORPHAN = 'orphan'
    RELEASING = 'releasing'
    UNWRITTEN = 'unwritten'
    UNAPPLIED = 'unapplied'
    UNKNOWN = 'unknown'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One thing that is wrong.

    :ivar text: for the operator; '' for what is repaired
    """

    kind: DriftKind
    consumer_uuid: str
    text: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is compared.

    :ivar before: the entries before all others were asked
    :ivar entries: the entries afterwards
    :ivar applied: enforcer -> consumer uuids; without enforcers that cannot
        tell
    :ivar unwritten: consumers of which the ledger has not what is in
        ``entries``
    :ivar lost: consumers of which an enforcer has not all that it should
    :ivar released: consumers that this process has released
    :ivar live: consumers that Nova or the hypervisor has on this host:
        servers, and moves in progress; None while that is not known
    :ivar hosts: consumer -> its host in Nova, '' for none, of those that Nova
        was asked for; None: those that are not live are on none
    :ivar interrupted: consumers whose claim nothing under way will apply
    :ivar waiting: servers without an entry that will get one, or an alarm;
        None while they are not known
    """

    before: Entries
    entries: Entries
    applied: Mapping[str, frozenset[str]]
    unwritten: Collection[str] = frozenset()
    lost: Collection[str] = frozenset()
    released: Collection[str] = frozenset()
    live: frozenset[str] | None = None
    hosts: Mapping[str, str] | None = None
    interrupted: Collection[str] = ()
    waiting: frozenset[str] | None = frozenset()

    @property
    def known(self) -> frozenset[str]:
        """Consumers that have had an entry at any time in between."""
        return frozenset(self.before) | frozenset(self.entries)

    def is_nowhere(self, uuid: str) -> bool:
        """Return whether a server is certainly on no host."""
        if self.live is None or uuid in self.live:
            return False
        return self.hosts is None or self.hosts.get(uuid) == ''

    def list_stable(self) -> list[assignment.Entry]:
        """Return the entries that nothing has changed in between."""
        return [
            entry
            for uuid, entry in self.entries.items()
            if self.before.get(uuid) == entry
        ]


def compare(seen: Observation) -> tuple[Drift, ...]:
    """Return all that is wrong with what servers hold, in order of repair.

    What is to be applied follows in the order of its units, the highest
    first, as RMD chooses them: a host that has lost all gives the same units
    to everyone again.
    """
    gone, releasing, unapplied = [], [], []
    unwritten = {
        uuid
        for uuid in seen.unwritten
        if seen.before.get(uuid) == seen.entries.get(uuid)
    }
    for entry in seen.list_stable():
        uuid = entry.consumer_uuid
        if seen.live is not None and uuid not in seen.live:
            gone.append(uuid)
        elif entry.state is State.RELEASING:
            releasing.append(uuid)
        elif uuid in seen.lost or uuid in seen.interrupted:
            unapplied.append(uuid)
    unapplied.sort(key=lambda uuid: _order(seen.entries[uuid]), reverse=True)
    return tuple(
        Drift(kind=kind, consumer_uuid=uuid)
        for kind, uuids in (
            (DriftKind.GONE, sorted(gone)),
            (DriftKind.ORPHAN, _list_orphans(seen)),
            (DriftKind.RELEASING, sorted(releasing)),
            (
                DriftKind.UNWRITTEN,
                sorted(unwritten.difference(gone, releasing)),
            ),
            (DriftKind.UNAPPLIED, unapplied),
        )
        for uuid in uuids
    ) + tuple(_list_unknown(seen))


def _list_orphans(seen: Observation) -> list[str]:
    """Return what is applied and can only be left from servers of this host.

    They were released by this process, and the host has carried out a
    request late; or there is no such server. One that Nova has on another
    host may run there by a second nova-compute of this machine.
    """
    return sorted(
        uuid
        for uuid in frozenset[str]().union(*seen.applied.values())
        if uuid not in seen.known
        and (uuid in seen.released or seen.is_nowhere(uuid))
    )


def _list_unknown(seen: Observation) -> Iterator[Drift]:
    """Report the rest, which is left alone.

    A server whose entry was lost with the ledger may be running on it.
    """
    if seen.waiting is None:
        return
    known = seen.known | seen.waiting | frozenset(_list_orphans(seen))
    for name, uuids in sorted(seen.applied.items()):
        for uuid in sorted(uuids - known):
            yield Drift(
                kind=DriftKind.UNKNOWN,
                consumer_uuid=uuid,
                text=_explain_unknown(
                    name, uuid, (seen.hosts or {}).get(uuid, '')
                ),
            )


def _explain_unknown(name: str, uuid: str, host: str) -> str:
    if host:
        return (
            f'Enforcer {name} has settings for server {uuid}, which Nova has '
            f'on host {host}. If nova-compute of {host} and of this host use '
            f'the same {name}, each service counts and changes the settings '
            f'of the other: stop one service, and give it its own {name}. '
            'Otherwise the settings are orphaned: remove them.'
        )
    return (
        f'Enforcer {name} has settings for server {uuid}, but the ledger has '
        'no entry for the server. The settings count as used by other '
        'software. If the server is on this host, reboot it hard, so that it '
        'claims its resources again; if the reboot is refused, shelve and '
        'unshelve it. If the server is not on this host, restart '
        'nova-compute, which removes the settings.'
    )


def _order(entry: assignment.Entry) -> tuple[tuple[str, int], ...]:
    """Return what to sort entries by: the height of their units."""
    return tuple(
        (one.rp_key, _find_height(one))
        for one in sorted(entry.assignments, key=lambda one: one.rp_key)
    )


def _find_height(one: assignment.Assignment) -> int:
    try:
        return bitmask.parse_mask(one.units['mask'])
    except foreign_data.UNREADABLE:
        return 0
