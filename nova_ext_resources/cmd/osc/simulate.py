# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource simulate``."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from osc_lib.cli import format_columns
from osc_lib import exceptions

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc import wanted
from nova_ext_resources.cmd.osc import window
from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import simulation
from nova_ext_resources.objects import host_tree
from nova_ext_resources.placement import overview
from nova_ext_resources import plugins
from nova_ext_resources.reservation import demand as demand_mod

#: Servers that are tried on each host, unless --count says so.
_MOST = 1000


class Simulate(cloud.DrawnCommand):
    """Count how many more servers of a flavor fit, and what runs out first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        wanted.add_flavor(parser)
        parser.add_argument(
            '--count',
            metavar='<number>',
            type=window.number,
            help=f'stop on each host at this many (default: {_MOST})',
        )
        cloud.add_units(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        request = wanted.read_request(self, parsed_args)
        if request.mistakes or request.demand is None:
            raise exceptions.CommandError(
                '\n'.join(
                    (
                        f'Correct flavor {parsed_args.flavor}:',
                        *request.mistakes,
                    )
                )
            )
        with cloud.asking():
            found = self._simulate(parsed_args, request.demand)
        data = {
            'flavor': parsed_args.flavor,
            'image': parsed_args.image or '',
            'notes': format_columns.ListColumn(
                wanted.list_notes(parsed_args, request)
            ),
            'servers': sum(one['servers'] for one in found),
            'hosts': format_columns.ListDictColumn(found),
        }
        return tuple(data), tuple(data.values())

    def _simulate(
        self, arguments: argparse.Namespace, demand: demand_mod.Demand
    ) -> list[dict[str, Any]]:
        trackers = plugins.load_trackers()
        made = simulation.Simulation(
            demand,
            trackers=trackers,
            tests=plugins.load_claim_tests(trackers),
            published=cloud.read_published(arguments) or {},
            most=arguments.count or _MOST,
        )
        down = self.list_down()
        hosts = [
            one
            for one in wanted.list_hosts(
                self.placement, arguments.host, demand
            )
            if one.name not in down
            and fit_mod.DISABLED_TRAIT not in one.root.traits
        ]
        refused = self._find_refused(hosts, demand, arguments.host)
        return [
            _make_host(one, refused.get(one.name) or made.run(one))
            for one in hosts
        ]

    def _find_refused(
        self,
        hosts: Sequence[host_tree.HostTree],
        demand: demand_mod.Demand,
        name: str | None,
    ) -> dict[str, simulation.Simulated]:
        """Return hosts that placement does not offer though enough is free.

        Their inventories say why, such as a ``max_unit``.

        :param name: of the only host that matters; None for all
        """
        if not hosts:
            return {}
        offered, _refusal = wanted.ask_placement(
            self.placement, hosts, demand, name
        )
        unclear = [
            one
            for one in hosts
            if one.root.rp_uuid not in offered
            and fit_mod.explain_absence(one, demand).step
            is fit_mod.Step.PLACEMENT
        ]
        return {
            one.name: simulation.Simulated(
                number=0,
                fit=fit_mod.explain_absence(one, demand),
                is_sure=True,
            )
            for one in overview.add_inventories(
                self.placement, unclear, lambda one: True
            )
        }

    def draw(self, data: Mapping[str, Any]) -> Iterator[str]:
        hosts = data['hosts'].machine_readable()
        yield (
            f'{data["servers"]} more servers of flavor {data["flavor"]} fit '
            f'on {sum(one["servers"] > 0 for one in hosts)} of {len(hosts)} '
            'hosts that are enabled and up.'
        )
        for note in data['notes'].machine_readable():
            yield from wanted.wrap(f'Note: {note}')
        for one in hosts:
            how = '' if one['units_known'] else ', by amounts alone'
            yield f'{one["host"]}: {one["servers"]}{how}'
            for reason in one['runs_out']:
                yield from wanted.wrap(f'one more: {reason}', '  ')


def _make_host(
    host: host_tree.HostTree, found: simulation.Simulated
) -> dict[str, Any]:
    return {
        'host': host.name,
        'servers': found.number,
        'units_known': found.is_sure,
        'step': found.fit.step.value if found.fit.step else '',
        'runs_out': [str(one) for one in found.fit.shortfalls],
    }
