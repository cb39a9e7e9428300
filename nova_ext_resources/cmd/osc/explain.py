# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource explain``."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from osc_lib.cli import format_columns
from osc_lib import exceptions

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc import recorded
from nova_ext_resources.cmd.osc import wanted
from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import flavor_request
from nova_ext_resources.inspection import names as names_mod
from nova_ext_resources.objects import host_tree
from nova_ext_resources.placement import overview
from nova_ext_resources import plugins
from nova_ext_resources.reservation import demand as demand_mod

#: Providers of which is asked who holds them, unless --holders says more.
_MAX_ASKED = 40

#: What is left after each step.
_STEPS = {
    None: 'known to placement',
    fit_mod.Step.SERVICE: 'enabled, and up',
    fit_mod.Step.CLASSES: 'have each resource class',
    fit_mod.Step.TRAITS: 'have them with the traits, in one group',
    fit_mod.Step.AMOUNTS: 'have enough free',
    fit_mod.Step.POLICY: 'have a provider for each group',
    fit_mod.Step.PLACEMENT: 'are offered by placement',
    fit_mod.Step.UNITS: 'can give the units, as far as they publish them',
}

#: Their reasons are not about one resource.
_OF_HOST = (
    fit_mod.Step.SERVICE,
    fit_mod.Step.POLICY,
    fit_mod.Step.PLACEMENT,
)


class Explain(cloud.DrawnCommand):
    """Explain for each host whether a server of a flavor fits, or why not.

    Or why a server did not start, or was refused a move.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        choice = parser.add_mutually_exclusive_group(required=True)
        choice.add_argument(
            '--server',
            metavar='<server>',
            help='uuid or name of a server: what Nova has recorded of its '
            'failures, and where it was refused, its flavor as it was then',
        )
        wanted.add_flavor(parser, choice)
        parser.add_argument(
            '--holders',
            action='store_true',
            help='show who holds what is short on every host; a request for '
            f'each provider (default: only if they are {_MAX_ASKED} or fewer)',
        )
        cloud.add_units(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        if parsed_args.server:
            data = self._explain_server(parsed_args)
        else:
            request = wanted.read_request(self, parsed_args)
            fits, refusal = self._ask(parsed_args, request)
            data = self._make_table(
                parsed_args, parsed_args.flavor, request, fits, refusal
            )
        return tuple(data), tuple(data.values())

    def _explain_server(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """Return what Nova has recorded, and why no host took the server."""
        if arguments.image:
            raise exceptions.CommandError(
                '--image is for --flavor: a server has its image.'
            )
        record = recorded.read(self, arguments.server)
        request = record.read_request() if record.is_refused else None
        if request is None:
            return recorded.make_data(record)
        found: tuple[list[fit_mod.Fit], list[str]] = [], []
        hidden = []
        try:
            found = self._ask(arguments, request)
        except cloud.AdministratorsOnly as err:
            hidden.append(f'which hosts have room. {err}'.rstrip('.'))
        return {
            **recorded.make_data(record, *hidden),
            **self._make_table(arguments, record.flavor, request, *found),
        }

    def _ask(
        self,
        arguments: argparse.Namespace,
        request: flavor_request.FlavorRequest,
    ) -> tuple[list[fit_mod.Fit], list[str]]:
        """Return what becomes of the request on each host, and mistakes."""
        if request.demand is None:
            return [], []
        with cloud.asking():
            return self._examine(arguments, request.demand)

    def _make_table(
        self,
        arguments: argparse.Namespace,
        flavor: str,
        request: flavor_request.FlavorRequest,
        fits: Sequence[fit_mod.Fit],
        refusal: Sequence[str],
    ) -> dict[str, Any]:
        holders, names = self._find_holders(fits, is_all=arguments.holders)
        return {
            'flavor': flavor,
            'image': arguments.image or '',
            'requested': format_columns.DictColumn(
                request.demand.requirement.resources if request.demand else {}
            ),
            'mistakes': format_columns.ListColumn(
                [*request.mistakes, *refusal]
            ),
            'notes': format_columns.ListColumn(
                wanted.list_notes(arguments, request)
            ),
            'steps': format_columns.ListDictColumn(_count_steps(fits)),
            'hosts': format_columns.ListDictColumn(
                [_make_host(one, holders, names) for one in fits]
            ),
        }

    def _examine(
        self, arguments: argparse.Namespace, demand: demand_mod.Demand
    ) -> tuple[list[fit_mod.Fit], list[str]]:
        """Return what becomes of the request on each host, and mistakes."""
        published = cloud.read_published(arguments) or {}
        hosts, offered, refusal = wanted.read_hosts(
            self.placement, arguments.host, demand
        )
        trackers = plugins.load_trackers()
        examiner = fit_mod.Examiner(
            demand,
            offered,
            trackers=trackers,
            tests=plugins.load_claim_tests(trackers),
            published=published,
            services=self.read_services(one.name for one in hosts),
        )
        fits = [examiner.examine(one) for one in hosts]
        # Inventories say whether so much may be allocated at once.
        unclear = [
            one.host for one in fits if one.step is fit_mod.Step.PLACEMENT
        ]
        read = overview.add_inventories(
            self.placement, unclear, lambda one: True
        )
        again = {one.name: examiner.examine(one) for one in read}
        fits = [again.get(one.host.name, one) for one in fits]
        return sorted(fits, key=_order), refusal

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
            holders = overview.list_holders(self.placement, [*short])
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
            yield from recorded.draw(values)
        if 'flavor' in values:
            yield from _draw_hosts(values)


def _draw_hosts(values: Mapping[str, Any]) -> Iterator[str]:
    yield from wanted.wrap(_head(values))
    for one in values['mistakes']:
        yield from wanted.wrap(f'Mistake: {one}')
    for one in values['notes']:
        yield from wanted.wrap(f'Note: {one}')
    if values['steps']:
        corrected = ', if that is corrected' if values['mistakes'] else ''
        yield f'Hosts that are left, step by step{corrected}:'
    for one in values['steps']:
        yield f'  {one["hosts"]:5}  {one["step"]}'
    for one in values['hosts']:
        yield from _draw_host(one)


def _order(one: fit_mod.Fit) -> tuple[bool, int, Any]:
    """Sort hosts that fit first, then those that come far."""
    steps = [*fit_mod.Step]
    place = -steps.index(one.step) if one.step else 0
    return one.step is not None, place, host_tree.sort_name(one.host.name)


def _count_steps(fits: Sequence[fit_mod.Fit]) -> list[dict[str, Any]]:
    left = len(fits)
    counted = []
    for step, words in _STEPS.items():
        left -= sum(step is not None and one.step is step for one in fits)
        counted.append({'step': words, 'hosts': left})
    return counted if fits else []


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
    asked = ', '.join(
        f'{amount} {name}' for name, amount in values['requested'].items()
    )
    return f'Flavor {values["flavor"]}{image} requests {asked or "nothing"}.'


def _draw_host(one: Mapping[str, Any]) -> Iterator[str]:
    if one['fits']:
        how = '' if one['units_known'] else ', by amounts alone'
        yield f'{one["host"]}: fits{how}'
        return
    yield f'{one["host"]}: does not fit'
    for each in one['shortfalls']:
        yield from wanted.wrap(_describe(each), '  ')
        held = ', '.join(
            f'{holder["name"]} ({holder["amount"]})'
            for holder in sorted(
                each['held_by'],
                key=lambda holder: host_tree.sort_name(holder['name']),
            )
        )
        if held:
            yield from wanted.wrap(f'held by {held}', '    ')


def _describe(one: Mapping[str, Any]) -> str:
    if not one['resource_class']:
        return str(one['reason'])
    where = f' of {one["provider"]}' if one['provider'] else ''
    left = '' if one['is_permanent'] else f', {one["available"]} available'
    return (
        f'{one["resource_class"]}{where}: {one["requested"]} requested{left}: '
        f'{one["reason"]}'
    )
