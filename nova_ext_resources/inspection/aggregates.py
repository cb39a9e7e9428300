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

    :ivar uuid: of the aggregate in placement, too
    :ivar zone: the availability zone that it is; '' for none
    :ivar hosts: of nova-compute services
    """

    name: str
    uuid: str = ''
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
    :ivar hosts: host of a nova-compute -> its zone, by Nova
    :ivar members: root providers that placement has in the zone; None where
        all hosts may take the server
    """

    name: str = ''
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    members: frozenset[str] | None = None

    def find_exclusion(self, rp_uuid: str, host: str) -> str:
        """Return why a host is not in the zone; '' if it may be used.

        Placement decides. Nova's aggregates give the reason.

        :param rp_uuid: its root provider
        :param host: of its nova-compute; '' where that is not known
        """
        if self.members is None or rp_uuid in self.members:
            return ''
        own = self.hosts.get(host, '')
        if own == self.name:
            return (
                f'the host is in availability zone {own}, but placement does '
                'not have the host in the aggregate; run "nova-manage '
                'placement sync_aggregates"'
            )
        if own:
            where = f'the host is in availability zone {own}'
        elif host:
            where = (
                'the host is in no host aggregate that is an availability zone'
            )
        else:
            where = (
                'placement does not have the host in an aggregate of the zone'
            )
        return f'{where}; {self.name} is requested'


def list_uuids(aggregates: Iterable[Aggregate], name: str) -> list[str]:
    """Return the uuids of the aggregates that are a zone.

    One that no aggregate is, Nova asks of no host.

    :param name: '' where none is requested
    """
    return [one.uuid for one in aggregates if name and one.zone == name]


def find_zone(
    aggregates: Iterable[Aggregate], name: str, members: Iterable[str]
) -> Zone:
    """Return a zone that an aggregate is, with hosts or without.

    :param members: root providers that placement has in its aggregates
    """
    hosts = {
        host: one.zone for one in aggregates if one.zone for host in one.hosts
    }
    return Zone(name=name, hosts=hosts, members=frozenset(members))


def list_notes(
    aggregates: Collection[Aggregate] | None, wish: Wish
) -> Iterator[str]:
    """Return sentences: what could not be considered.

    :param aggregates: None where they are not known
    """
    if aggregates is None:
        yield (
            'Nova does not show its host aggregates: hosts of all '
            'availability zones are considered, without the metadata of '
            'aggregates.'
        )
        return
    zones = {one.zone for one in aggregates} - {''}
    if wish.zone and wish.zone not in zones:
        yield (
            f'No host aggregate is availability zone {wish.zone}. Nova '
            'refuses servers that request this zone. But if the zone is '
            '[DEFAULT] default_availability_zone, hosts of all zones take '
            'these servers.'
        )
    elif wish.zone and not any(
        one.hosts for one in aggregates if one.zone == wish.zone
    ):
        yield (
            f'Availability zone {wish.zone} has no hosts. Nova refuses '
            'servers that request it.'
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
            "Nova's scheduler may leave out hosts because of metadata of "
            'aggregates. Its configuration cannot be read from outside, so '
            f'this metadata was not considered: {"; ".join(found)}. Metadata '
            'that AggregateImagePropertiesIsolation compares with properties '
            'of the image was not considered either.'
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
        return f'{_TENANT} (--project names the project)'
    if wish.project in value.split(','):
        return f'{_TENANT} with project {wish.project}'
    return f'{_TENANT} with projects other than {wish.project}'


def _join(names: list[str]) -> str:
    unique = [*dict.fromkeys(names)]
    more = len(unique) - _MAX_NAMED
    end = f' and {more} more' if more > 0 else ''
    return f'{", ".join(unique[:_MAX_NAMED])}{end}'
