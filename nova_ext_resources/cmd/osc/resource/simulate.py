# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource simulate``."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from osc_lib.cli import format_columns
from osc_lib import exceptions

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc.reservation import window_arguments
from nova_ext_resources.cmd.osc.resource import request_arguments
from nova_ext_resources.inspection import aggregates as aggregates_mod
from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import flavor_request
from nova_ext_resources.inspection import placing as placing_mod
from nova_ext_resources.inspection import simulation
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.placement import cloud_snapshot
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import server_demand

#: Servers that are tried on each host, or rounds of a mix, unless --count
#: says so.
_MOST = 1000

_Aggregates: TypeAlias = Sequence[aggregates_mod.Aggregate] | None
_Data = tuple[Sequence[str], Iterable[Any]]


class Simulate(cloud.DrawnCommand):
    """Count how many more servers fit, and show which resource runs out first.

    With several flavors, servers arrive in the proportion that you give.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        choice = parser.add_mutually_exclusive_group(required=True)
        request_arguments.add_flavor(parser, choice)
        choice.add_argument(
            '--mix',
            metavar='<flavor>=<number>',
            action='append',
            type=_read_part,
            help='number of servers of a flavor in each round; repeat the '
            'option for each flavor of the mix',
        )
        parser.add_argument(
            '--count',
            metavar='<number>',
            type=window_arguments.number,
            help='stop on each host at this number of servers, or of rounds '
            f'of a mix (default: {_MOST})',
        )
        cloud.add_units(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> _Data:
        self._promises = promise_ledger.Promises()
        if parsed_args.mix:
            return self._mix(parsed_args)
        request, filters = self._read(parsed_args, parsed_args.flavor)
        aggregates = self.read_aggregates()
        wish = request_arguments.make_wish(parsed_args, request)
        with cloud.asking():
            found, left_out = self._simulate(parsed_args, filters, aggregates)
        data = {
            'flavor': parsed_args.flavor,
            'image': parsed_args.image or '',
            'availability_zone': wish.zone,
            'notes': format_columns.ListColumn(
                [
                    *left_out,
                    *request_arguments.list_notes(
                        parsed_args,
                        request,
                        aggregates_mod.list_notes(aggregates, wish),
                    ),
                ]
            ),
            'servers': sum(one['servers'] for one in found),
            'hosts': format_columns.ListDictColumn(found),
        }
        return tuple(data), tuple(data.values())

    def _mix(self, arguments: argparse.Namespace) -> _Data:
        parts = _unite(arguments.mix)
        read = {name: self._read(arguments, name) for name in parts}
        aggregates = self.read_aggregates()
        requests = [request for request, _filters in read.values()]
        wish = request_arguments.make_wish(arguments, *requests)
        notes = [
            note
            for request in requests
            for note in request_arguments.list_notes(
                arguments,
                request,
                aggregates_mod.list_notes(aggregates, wish),
            )
        ]
        with cloud.asking():
            filters = {name: one for name, (_, one) in read.items()}
            found, hosts, left_out = self._simulate_mix(
                arguments, parts, filters, aggregates
            )
        data = {
            'mix': format_columns.DictColumn(parts),
            'image': arguments.image or '',
            'availability_zone': wish.zone,
            'notes': format_columns.ListColumn(
                [*dict.fromkeys((*left_out, *notes))]
            ),
            'rounds': found.rounds,
            'servers': sum(sum(n.values()) for n in found.numbers.values()),
            'runs_out_for': found.flavor,
            'hosts': format_columns.ListDictColumn(hosts),
        }
        return tuple(data), tuple(data.values())

    def _read(
        self, arguments: argparse.Namespace, name: str
    ) -> tuple[flavor_request.FlavorRequest, fit_mod.Filters]:
        """Return what a flavor requests, and what decides about that.

        :raises CommandError: it has mistakes
        """
        request = request_arguments.read_request(self, arguments, name)
        if request.mistakes or request.demand is None:
            raise exceptions.CommandError(
                '\n'.join((f'Correct flavor {name}:', *request.mistakes))
            )
        return request, request_arguments.make_filters(
            request.demand, request.extra_specs, self._promises
        )

    def _simulate(
        self,
        arguments: argparse.Namespace,
        filters: fit_mod.Filters,
        aggregates: _Aggregates,
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Return rows, and why the one host that is asked for is left out."""
        made = simulation.Simulation(
            cloud.read_published(arguments, self._promises) or {}
        )
        placing, demand = placing_mod.Placing(filters), filters.demand
        found, offered, _refusal = request_arguments.read_hosts(
            self.placement, arguments.host, demand
        )
        hosts, left_out = self._list_usable(arguments, found, aggregates)
        refused = self._find_refused(hosts, demand, offered)
        most = arguments.count or _MOST
        simulated = (
            simulation.Simulated(number=0, fit=refused[one.name], is_sure=True)
            if one.name in refused
            else made.run(one, placing, most)
            for one in hosts
        )
        return [
            _make_host(host, one.number, one.is_sure, one.fit)
            for host, one in zip(hosts, simulated, strict=True)
        ], left_out

    def _simulate_mix(
        self,
        arguments: argparse.Namespace,
        parts: Mapping[str, int],
        filters: Mapping[str, fit_mod.Filters],
        aggregates: _Aggregates,
    ) -> tuple[simulation.Mixed, list[dict[str, Any]], list[str]]:
        made = simulation.Simulation(
            cloud.read_published(arguments, self._promises) or {}
        )
        demands = {name: one.demand for name, one in filters.items()}
        # With the sharing providers of all that any of them requests.
        hosts, left_out = self._list_usable(
            arguments,
            request_arguments.list_hosts(
                self.placement, arguments.host, *demands.values()
            ),
            aggregates,
        )
        found = simulation.mix(
            made,
            hosts,
            {
                name: (placing_mod.Placing(filters[name]), number)
                for name, number in parts.items()
            },
            arguments.count or _MOST,
            {
                name: self._find_refused(
                    hosts, demand, self._ask(hosts, demand, arguments.host)
                )
                for name, demand in demands.items()
            },
        )
        rows = [
            _make_host(
                one,
                found.numbers[one.name],
                made.is_sure(one),
                found.refused.get(one.name, fit_mod.Fit(host=one)),
            )
            for one in hosts
        ]
        return found, rows, left_out

    def _list_usable(
        self,
        arguments: argparse.Namespace,
        hosts: Sequence[host_tree.HostTree],
        aggregates: _Aggregates,
    ) -> tuple[list[host_tree.HostTree], list[str]]:
        """Return the hosts that are enabled and up, of the zone if any.

        :returns: and why the one that is asked for is not among them
        """
        services = self.read_services(one.name for one in hosts)
        zone = request_arguments.read_zone(
            self.placement, aggregates, arguments.availability_zone or ''
        )
        reasons = {
            one.name: fit_mod.find_exclusion(one, services, zone)[1]
            for one in hosts
        }
        left_out = [
            f'{name} is left out: {reason}.'
            for name, reason in reasons.items()
            if reason and name == arguments.host
        ]
        return [one for one in hosts if not reasons[one.name]], left_out

    def _ask(
        self,
        hosts: Sequence[host_tree.HostTree],
        demand: server_demand.Demand,
        name: str | None,
    ) -> fit_mod.Offered:
        """Return what placement offers of hosts."""
        if not hosts:
            return {}
        offered, _refusal = request_arguments.ask_placement(
            self.placement, hosts, demand, name
        )
        return offered

    def _find_refused(
        self,
        hosts: Sequence[host_tree.HostTree],
        demand: server_demand.Demand,
        offered: fit_mod.Offered,
    ) -> dict[str, fit_mod.Fit]:
        """Return hosts that placement does not offer though enough is free.

        Their inventories say why, such as a ``max_unit``.
        """
        unclear = [
            one
            for one in hosts
            if one.root.rp_uuid not in offered
            and fit_mod.explain_absence(one, demand).step
            is fit_mod.FitStep.PLACEMENT
        ]
        return {
            one.name: fit_mod.explain_absence(one, demand)
            for one in cloud_snapshot.add_inventories(
                self.placement, unclear, lambda one: True
            )
        }

    def draw(self, data: Mapping[str, Any]) -> Iterator[str]:
        hosts = data['hosts'].machine_readable()
        draw = _draw_mix if 'mix' in data else _draw_flavor
        yield from draw(data, hosts)
        for note in data['notes'].machine_readable():
            yield from request_arguments.wrap(f'Note: {note}')
        what = f'one more {data.get("runs_out_for", "")}'.rstrip()
        for one in hosts:
            how = '' if one['units_known'] else ', by amounts alone'
            yield f'{one["host"]}: {_join(one["servers"])}{how}'
            for reason in one['runs_out']:
                yield from request_arguments.wrap(f'{what}: {reason}', '  ')


def _draw_flavor(
    data: Mapping[str, Any], hosts: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    yield from request_arguments.wrap(
        f'{data["servers"]} more servers of flavor {data["flavor"]} fit on '
        f'{sum(one["servers"] > 0 for one in hosts)} of {len(hosts)} '
        f'{_describe_hosts(data)}.'
    )


def _draw_mix(
    data: Mapping[str, Any], hosts: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    used = sum(any(one['servers'].values()) for one in hosts)
    yield from request_arguments.wrap(
        f'{data["rounds"]} more rounds of '
        f'{_join(data["mix"].machine_readable())} fit, '
        f'{data["servers"]} servers in all, on {used} of {len(hosts)} '
        f'{_describe_hosts(data)}.'
    )
    if data['runs_out_for']:
        yield (
            'After these, no host takes another server of flavor '
            f'{data["runs_out_for"]}.'
        )


def _describe_hosts(data: Mapping[str, Any]) -> str:
    zone = data['availability_zone']
    where = f' of availability zone {zone}' if zone else ''
    return f'hosts{where} that are enabled and up'


def _join(servers: int | Mapping[str, int]) -> str:
    if isinstance(servers, int):
        return str(servers)
    return ', '.join(f'{name} {number}' for name, number in servers.items())


def _read_part(text: str) -> tuple[str, int]:
    """Return flavor and number of a part of a mix.

    :raises ArgumentTypeError: it is none
    """
    name, _, number = text.rpartition('=')
    if not name:
        raise argparse.ArgumentTypeError(
            f'{text}: write a flavor and a number, such as gold=2'
        )
    return name, window_arguments.number(number)


def _unite(parts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the mix: a flavor that is named again counts as often."""
    made: dict[str, int] = {}
    for name, number in parts:
        made[name] = made.get(name, 0) + number
    return made


def _make_host(
    host: host_tree.HostTree,
    servers: int | Mapping[str, int],
    is_sure: bool,
    fit: fit_mod.Fit,
) -> dict[str, Any]:
    return {
        'host': host.name,
        'servers': servers,
        'units_known': is_sure,
        'step': fit.step.value if fit.step else '',
        'runs_out': [str(one) for one in fit.shortfalls],
    }
