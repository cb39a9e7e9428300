# SPDX-License-Identifier: Apache-2.0

"""Which hosts Nova leaves out because of host aggregates.

An availability zone is metadata of an aggregate; Nova asks placement for the
members of those that have it (``map_az_to_placement_aggregate`` in
``nova/scheduler/request_filter.py``). Other metadata counts only where the
scheduler is configured so, which no API shows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
import dataclasses

#: Keys of AggregateMultiTenancyIsolation, and of the option
#: ``[scheduler] limit_tenants_to_placement_aggregate``.
_TENANT = 'filter_tenant_id'

#: Keys of ``[scheduler] enable_isolated_aggregate_filtering``.
_TRAIT = 'trait:'

#: Of AggregateInstanceExtraSpecsFilter, which also takes keys without one.
_SCOPE = 'aggregate_instance_extra_specs'

#: Aggregates that a note names.
_MAX_NAMED = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A host aggregate of Nova.

    :ivar zone: the availability zone that it is; '' for none
    :ivar hosts: of nova-compute services
    """

    name: str
    zone: str = ''
    hosts: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a server requests that aggregates have a say in.

    :ivar zone: availability zone; '' for any
    :ivar project: its id; '' if it is not known
    :ivar extra_specs: of the flavor
    """

    zone: str = ''
    project: str = ''
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A requested availability zone.

    :ivar name: '' where none is requested
    :ivar hosts: host of a nova-compute -> its zone; empty where all hosts may
        take the server
    """

    name: str = ''
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def find_exclusion(self, host: str) -> str:
        """Return why a host is not in the zone; '' if it may be used.

        :param host: of its nova-compute
        """
        own = self.hosts.get(host, '')
        if not self.hosts or own == self.name:
            return ''
        where = (
            f'in availability zone {own}'
            if own
            else 'in no host aggregate that is an availability zone'
        )
        return f'it is {where}; {self.name} is requested'


def find_zone(aggregates: Iterable[Aggregate], name: str) -> Zone:
    """Return a requested zone.

    One that no aggregate is, Nova asks of no host.

    :param name: '' where none is requested
    """
    hosts = {
        host: one.zone for one in aggregates if one.zone for host in one.hosts
    }
    if not name or name not in hosts.values():
        return Zone(name=name)
    return Zone(name=name, hosts=hosts)


def list_notes(aggregates: Collection[Aggregate], wish: Wish) -> Iterator[str]:
    """Return sentences: what could not be considered."""
    zones = {one.zone for one in aggregates} - {''}
    if wish.zone and wish.zone not in zones:
        yield (
            f'No host aggregate is availability zone {wish.zone}. Nova '
            'refuses servers that request it, unless it is [DEFAULT] '
            'default_availability_zone: then hosts of all zones take them.'
        )
    if zones and not wish.zone:
        yield (
            'Hosts of all availability zones are considered. If the Compute '
            'API has [DEFAULT] default_schedule_zone, name that zone with '
            '--availability-zone.'
        )
    found = [*_list_metadata(aggregates, wish)]
    if found:
        yield (
            'Nova may leave out hosts by metadata of aggregates. Whether its '
            'scheduler is configured so cannot be read from outside, and this '
            f'was not considered: {"; ".join(found)}.'
        )


def _list_metadata(
    aggregates: Iterable[Aggregate], wish: Wish
) -> Iterator[str]:
    """Return the keys that filters of Nova may use, with their aggregates."""
    wanted = _list_wanted(wish.extra_specs)
    named: dict[str, list[str]] = {}
    for one in aggregates:
        for key, value in one.metadata.items():
            if key.startswith(_TENANT):
                named.setdefault(_describe_tenants(value, wish), []).append(
                    one.name
                )
            elif key.startswith(_TRAIT) or key in wanted:
                named.setdefault(key, []).append(one.name)
    for key in wanted:
        if wanted[key].startswith(_SCOPE) and key not in named:
            yield f'{wanted[key]} of the flavor, which no aggregate has'
    for words, names in sorted(named.items()):
        yield f'{words} of {_join(names)}'


def _list_wanted(extra_specs: Mapping[str, str]) -> dict[str, str]:
    """Return key of metadata -> extra spec that may ask for it."""
    found = {}
    for spec in sorted(extra_specs):
        scope, colon, key = spec.partition(':')
        if not colon or scope == _SCOPE:
            found[key or scope] = spec
    return found


def _describe_tenants(value: str, wish: Wish) -> str:
    if not wish.project:
        return f'{_TENANT} (--project says whose)'
    if wish.project in value.split(','):
        return f'{_TENANT} with project {wish.project}'
    return f'{_TENANT} with projects other than {wish.project}'


def _join(names: list[str]) -> str:
    unique = [*dict.fromkeys(names)]
    more = len(unique) - _MAX_NAMED
    end = f' and {more} more' if more > 0 else ''
    return f'{", ".join(unique[:_MAX_NAMED])}{end}'
