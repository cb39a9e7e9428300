# SPDX-License-Identifier: Apache-2.0

"""What does not agree between Nova, ledgers, placement and machines. Pure."""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
from typing import TypeAlias

WAYS = 'CUSTOM_LLC_WAYS'

#: (consumer, provider, resource class) -> amount.
Held: TypeAlias = Mapping[tuple[str, str, str], int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What Nova says of a server that must have its resources.

    :ivar host: where it is, or an empty string
    :ivar ways: that its flavor gives it
    """

    uuid: str
    host: str
    ways: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the others say of a host.

    :ivar ledger: what placement must have too
    :ivar allocated: in placement, from all providers of the host
    :ivar own: the providers that this package has published
    :ivar applied: server -> ways that the machine gives it
    """

    name: str
    ledger: Held
    allocated: Held
    own: frozenset[str]
    applied: Mapping[str, int]


def find(servers: Sequence[Server], hosts: Sequence[Host]) -> list[str]:
    """Return a sentence for everything that does not agree."""
    return [
        difference
        for host in hosts
        for compare in (_find_orphans, _compare_amounts, _compare_ways)
        for difference in compare(host, servers)
    ]


def _find_orphans(host: Host, servers: Sequence[Server]) -> Iterator[str]:
    hosts = {one.uuid: one.host for one in servers}
    for consumer in sorted({key[0] for key in host.allocated}):
        if hosts.get(consumer) != host.name:
            yield (
                f'{host.name}: placement has allocations of {consumer}, which '
                f'Nova has {hosts.get(consumer) or "on no host"}'
            )


def _compare_amounts(host: Host, _servers: Sequence[Server]) -> Iterator[str]:
    ours = {key: n for key, n in host.allocated.items() if key[1] in host.own}
    for key in sorted(host.ledger.keys() | ours.keys()):
        if host.ledger.get(key) != ours.get(key):
            yield (
                f'{host.name}: {" ".join(key)}: ledger '
                f'{host.ledger.get(key)}, placement {ours.get(key)}'
            )


def _compare_ways(host: Host, servers: Sequence[Server]) -> Iterator[str]:
    wanted = {one.uuid: one.ways for one in servers if one.host == host.name}
    held = _count_ways(host.ledger)
    for uuid in sorted(wanted.keys() | held.keys() | host.applied.keys()):
        counts = {one.get(uuid, 0) for one in (wanted, held, host.applied)}
        if len(counts) > 1 or uuid not in wanted:
            yield (
                f'{host.name}: ways of {uuid}: flavor {wanted.get(uuid)}, '
                f'ledger {held.get(uuid)}, applied {host.applied.get(uuid)}'
            )


def _count_ways(held: Held) -> dict[str, int]:
    ways: dict[str, int] = {}
    for (consumer, _rp, resource_class), amount in held.items():
        own = amount if resource_class == WAYS else 0
        ways[consumer] = ways.get(consumer, 0) + own
    return ways
