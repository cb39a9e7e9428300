# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource explain``."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from osc_lib.cli import format_columns
from osc_lib import exceptions

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc.resource import request_arguments
from nova_ext_resources.cmd.osc.resource import server_events
from nova_ext_resources.inspection import aggregates as aggregates_mod
from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import flavor_request
from nova_ext_resources.inspection import names as names_mod
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.placement import cloud_snapshot
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import server_demand

#: Providers of which is asked who holds them, unless --holders says more.
_MAX_ASKED = 40

#: What is left after each step.
_STEPS = {
    None: 'known to placement',
    fit_mod.FitStep.SERVICE: 'enabled, and up',
    fit_mod.FitStep.ZONE: 'in the availability zone',
    fit_mod.FitStep.CLASSES: 'have each resource class',
    fit_mod.FitStep.TRAITS: 'have the classes with the traits, in one group',
    fit_mod.FitStep.AMOUNTS: 'have enough free',
    fit_mod.FitStep.POLICY: 'have a provider for each group',
    fit_mod.FitStep.PLACEMENT: 'are offered by placement',
    fit_mod.FitStep.UNITS: 'can give the units, as far as units are published',
    fit_mod.FitStep.RESERVATIONS: 'keep the capacity promised to reservations',
}

#: Their reasons are not about one resource.
_OF_HOST = (
    fit_mod.FitStep.SERVICE,
    fit_mod.FitStep.ZONE,
    fit_mod.FitStep.POLICY,
    fit_mod.FitStep.PLACEMENT,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What becomes of a request on each host.

    :ivar zone: the availability zone that is requested; '' for any
    :ivar refusal: mistakes for which placement refuses the request
    :ivar notes: what could not be considered
    """

    zone: str
    fits: Sequence[fit_mod.Fit] = ()
    refusal: Sequence[str] = ()
    notes: Sequence[str] = ()


class Explain(cloud.DrawnCommand):
    """Explain for each host whether a server of a flavor fits, or why not.

    With --server: why a server did not start, or why a move was refused.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        choice = parser.add_mutually_exclusive_group(required=True)
        choice.add_argument(
            '--server',
            metavar='<server>',
            help='uuid or name of a server: show the failures of the server '
            'that Nova has recorded, and explain its flavor at the time of a '
            'refusal',
        )
        request_arguments.add_flavor(parser, choice)
        parser.add_argument(
            '--holders',
            action='store_true',
            help='show the holders of missing resources on every host, with '
            'a request for each provider (default: only for at most '
            f'{_MAX_ASKED} providers)',
        )
        cloud.add_units(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        if parsed_args.server:
            data = self._explain_server(parsed_args)
        else:
            request = request_arguments.read_request(self, parsed_args)
            wish = request_arguments.make_wish(parsed_args, request)
            answer = self._ask(parsed_args, request, wish)
            data = self._make_table(
                parsed_args, parsed_args.flavor, request, answer
            )
        return tuple(data), tuple(data.values())

    def _explain_server(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """Return what Nova has recorded, and why no host took the server."""
        if arguments.image:
            raise exceptions.CommandError(
                'Use --image only with --flavor: a server has its own image.'
            )
        record = server_events.read(self, arguments.server)
        request = record.read_request() if record.is_refused else None
        if request is None:
            return server_events.make_data(record)
        wish = request_arguments.make_wish(arguments, request)
        wish = dataclasses.replace(
            wish,
            zone=wish.zone or record.zone,
            project=wish.project or record.server['tenant_id'],
        )
        answer, hidden = _Answer(zone=wish.zone), []
        groups = server_events.list_group_notes(self, record)
        request = dataclasses.replace(request, notes=(*request.notes, *groups))
        try:
            answer = self._ask(arguments, request, wish)
        except cloud.AdministratorsOnly as err:
            hidden.append(f'the hosts that have room. {err}'.rstrip('.'))
        return {
            **server_events.make_data(record, *hidden),
            **self._make_table(arguments, record.flavor, request, answer),
        }

    def _ask(
        self,
        arguments: argparse.Namespace,
        request: flavor_request.FlavorRequest,
        wish: aggregates_mod.Wish,
    ) -> _Answer:
        """Return what becomes of the request on each host."""
        if request.demand is None:
            return _Answer(zone=wish.zone)
        with cloud.asking():
            return self._examine(arguments, request.demand, wish)

    def _make_table(
        self,
        arguments: argparse.Namespace,
        flavor: str,
        request: flavor_request.FlavorRequest,
        answer: _Answer,
    ) -> dict[str, Any]:
        holders, names = self._find_holders(
            answer.fits, is_all=arguments.holders
        )
        return {
            'flavor': flavor,
            'image': arguments.image or '',
            'availability_zone': answer.zone,
            'requested': format_columns.DictColumn(
                request.demand.requirement.resources if request.demand else {}
            ),
            'mistakes': format_columns.ListColumn(
                [*request.mistakes, *answer.refusal]
            ),
            'notes': format_columns.ListColumn(
                request_arguments.list_notes(arguments, request, answer.notes)
            ),
            'steps': format_columns.ListDictColumn(_count_steps(answer)),
            'hosts': format_columns.ListDictColumn(
                [_make_host(one, holders, names) for one in answer.fits]
            ),
        }

    def _examine(
        self,
        arguments: argparse.Namespace,
        demand: server_demand.Demand,
        wish: aggregates_mod.Wish,
    ) -> _Answer:
        promises = promise_ledger.Promises()
        published = cloud.read_published(arguments, promises) or {}
        hosts, offered, refusal = request_arguments.read_hosts(
            self.placement, arguments.host, demand
        )
        aggregates = self.read_aggregates()
        examiner = fit_mod.Examiner(
            request_arguments.make_filters(demand, wish.extra_specs, promises),
            offered,
            published=published,
            services=self.read_services(one.name for one in hosts),
            zone=request_arguments.read_zone(
                self.placement, aggregates, wish.zone
            ),
        )
        fits = [examiner.examine(one) for one in hosts]
        # Inventories say whether so much may be allocated at once.
        unclear = [
            one.host for one in fits if one.step is fit_mod.FitStep.PLACEMENT
        ]
        read = cloud_snapshot.add_inventories(
            self.placement, unclear, lambda one: True
        )
        again = {one.name: examiner.examine(one) for one in read}
        fits = [again.get(one.host.name, one) for one in fits]
        return _Answer(
            zone=wish.zone,
            fits=sorted(fits, key=_order),
            refusal=refusal,
            notes=[*aggregates_mod.list_notes(aggregates, wish)],
        )

    def _find_holders(
        self, fits: Iterable[fit_mod.Fit], *, is_all: bool
    ) -> tuple[Mapping[str, Any], names_mod.Names]:
        """Return who holds what is short, and their names."""
        short = {
            one.rp_uuid: None
            for fit in fits
            for one in fit.shortfalls
            if one.rp_uuid and not one.is_permanent
        }
        if not is_all and len(short) > _MAX_ASKED:
            return {}, names_mod.Names()
        with cloud.asking():
            holders = cloud_snapshot.list_holders(self.placement, [*short])
        consumers = {
            consumer
            for classes in holders.values()
            for held in classes.values()
            for consumer in held
        }
        return holders, self.read_names(consumers)

    def draw(self, data: Mapping[str, Any]) -> Iterator[str]:
        values = {
            key: getattr(value, '_value', value) for key, value in data.items()
        }
        if 'server' in values:
            yield from server_events.draw(values)
        if 'flavor' in values:
            yield from _draw_hosts(values)


def _draw_hosts(values: Mapping[str, Any]) -> Iterator[str]:
    yield from request_arguments.wrap(_head(values))
    for one in values['mistakes']:
        yield from request_arguments.wrap(f'Mistake: {one}')
    for one in values['notes']:
        yield from request_arguments.wrap(f'Note: {one}')
    if values['steps']:
        corrected = (
            ', if the mistakes are corrected' if values['mistakes'] else ''
        )
        yield f'Hosts that are left, step by step{corrected}:'
    for one in values['steps']:
        yield f'  {one["hosts"]:5}  {one["step"]}'
    for one in values['hosts']:
        yield from _draw_host(one)


def _order(one: fit_mod.Fit) -> tuple[bool, int, Any]:
    """Sort hosts that fit first, then those that come far."""
    steps = [*fit_mod.FitStep]
    place = -steps.index(one.step) if one.step else 0
    return one.step is not None, place, host_tree.sort_name(one.host.name)


def _count_steps(answer: _Answer) -> list[dict[str, Any]]:
    left = len(answer.fits)
    counted = []
    for step, words in _STEPS.items():
        out = sum(one.step is step for one in answer.fits if step)
        if step is fit_mod.FitStep.ZONE and not answer.zone:
            continue
        # As without reservations, or where they are not known.
        if step is fit_mod.FitStep.RESERVATIONS and not out:
            continue
        left -= out
        counted.append({'step': words, 'hosts': left})
    return counted if answer.fits else []


def _make_host(
    fit: fit_mod.Fit,
    holders: Mapping[str, Mapping[str, Mapping[str, int]]],
    names: names_mod.Names,
) -> dict[str, Any]:
    keys = {one.rp_uuid: fit.host.make_key(one) for one in fit.host.offering}
    return {
        'host': fit.host.name,
        'fits': fit.step is None,
        'step': fit.step.value if fit.step else '',
        'units_known': fit.is_sure,
        'uses': {
            keys.get(rp_uuid, rp_uuid): dict(resources)
            for rp_uuid, resources in fit.places.items()
        },
        'shortfalls': [
            {
                'provider': '' if fit.step in _OF_HOST else one.rp_key,
                'resource_class': ''
                if fit.step in _OF_HOST
                else one.resource_class,
                'requested': one.requested,
                'available': one.available,
                'short_by': max(one.requested - one.available, 0),
                'is_permanent': one.is_permanent,
                'reason': one.reason,
                'held_by': [
                    {
                        'consumer': consumer,
                        'name': names.describe(consumer),
                        'amount': amount,
                    }
                    for consumer, amount in holders.get(one.rp_uuid, {})
                    .get(one.resource_class, {})
                    .items()
                ],
            }
            for one in fit.shortfalls
        ],
    }


def _head(values: Mapping[str, Any]) -> str:
    image = f' with image {values["image"]}' if values['image'] else ''
    zone = values['availability_zone']
    where = f' in availability zone {zone}' if zone else ''
    asked = ', '.join(
        f'{amount} {name}' for name, amount in values['requested'].items()
    )
    asked = asked or 'nothing'
    return f'Flavor {values["flavor"]}{image} requests {asked}{where}.'


def _draw_host(one: Mapping[str, Any]) -> Iterator[str]:
    if one['fits']:
        how = '' if one['units_known'] else ', by amounts alone'
        yield f'{one["host"]}: fits{how}'
        return
    yield f'{one["host"]}: does not fit'
    for each in one['shortfalls']:
        yield from request_arguments.wrap(_describe(each), '  ')
        held = ', '.join(
            f'{holder["name"]} ({holder["amount"]})'
            for holder in sorted(
                each['held_by'],
                key=lambda holder: host_tree.sort_name(holder['name']),
            )
        )
        if held:
            yield from request_arguments.wrap(f'held by {held}', '    ')


def _describe(one: Mapping[str, Any]) -> str:
    if not one['resource_class']:
        return str(one['reason'])
    where = f' of {one["provider"]}' if one['provider'] else ''
    left = '' if one['is_permanent'] else f', {one["available"]} available'
    return (
        f'{one["resource_class"]}{where}: {one["requested"]} requested{left}: '
        f'{one["reason"]}'
    )
