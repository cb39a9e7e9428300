# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource migrate``.

It moves classes of a host back to its compute node, by one ``POST /reshaper``:
placement carries out all of it or nothing. It can be done at any time, and
nova-compute moves the classes again when it starts with this package.
"""

import argparse
from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
from typing import Any

from osc_lib.cli import format_columns
from osc_lib.command import command
from osc_lib import exceptions
from oslo_utils import timeutils

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc import nova as nova_mod
from nova_ext_resources import exception
from nova_ext_resources.host.inventory import provider_config
from nova_ext_resources.inspection import relocated
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement import cloud_snapshot

#: How often a reading is overtaken by other software before it is given up.
_ATTEMPTS = 4

#: Seconds without a report after which a nova-compute that is forced down
#: counts as stopped. Nova itself waits for 60 where it is not forced down,
#: unless service_down_time says otherwise.
_SILENCE = 180.0

_Inventories = dict[str, class_inventory.Inventory]


def revert(
    placement: placement_client.Client,
    nova: nova_mod.Nova,
    host: str,
    classes: Collection[str],
) -> None:
    """Move them.

    :param host: name of the hypervisor
    :raises CommandError: it must not be done, or there is nothing to do
    :raises PlacementError: nothing was changed
    """
    _check_down(nova, host)
    for attempt in range(_ATTEMPTS):
        change = _read(placement, host, frozenset(classes))
        try:
            placement.reshape(change.inventories, change.allocations)
        except exception.ConcurrentUpdate:
            if attempt + 1 == _ATTEMPTS:
                raise
        else:
            return


def _check_down(nova: nova_mod.Nova, host: str) -> None:
    """Refuse while nova-compute may write the same, or undo it.

    :raises CommandError: it is not down
    """
    services = {one.name: one.host for one in nova.list_nodes()}
    if host not in services:
        raise exceptions.CommandError(
            f'Nova has no hypervisor {host}: see "openstack hypervisor list".'
        )
    service = nova.read_compute_services().get(services[host], {})
    state = service.get('state')
    if state == 'down' and service.get('forced_down'):
        _check_silent(services[host], service.get('updated_at'))
    elif state != 'down':
        raise exceptions.CommandError(
            f'nova-compute of host {services[host]} is {state or "unknown"} '
            'in Nova, and would move everything again. Stop nova-compute (and '
            'nova-ext-resources-agent, if it runs on the host), disable the '
            'plugins of these classes in its configuration, and name the '
            'classes in a provider configuration file. When "openstack '
            'compute service list" shows nova-compute as down, revert, and '
            'start nova-compute.'
        )


def _check_silent(host: str, updated_at: str | None) -> None:
    """Refuse while a nova-compute may run that is only forced down.

    :param updated_at: when it last reported, or was forced down; None: never
    :raises CommandError: that is not long ago
    """
    if updated_at is None:
        return
    at = timeutils.normalize_time(timeutils.parse_isotime(updated_at))
    age = timeutils.delta_seconds(at, timeutils.utcnow())
    if age < _SILENCE:
        raise exceptions.CommandError(
            f'nova-compute of host {host} is forced down, and its entry in '
            f'Nova changed {age:.0f} seconds ago: nova-compute may still run, '
            'and would move everything again. Stop nova-compute (and '
            'nova-ext-resources-agent, if it runs on the host), remove the '
            f'mark ("openstack compute service set --up {host} '
            'nova-compute"), and revert when "openstack compute service list" '
            'shows nova-compute as down.'
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What is sent to placement.

    :ivar inventories: see :meth:`.Client.reshape`
    :ivar allocations: all that each consumer holds then
    """

    inventories: Mapping[str, tuple[int, _Inventories]]
    allocations: Sequence[responses.Allocations]


def _read(
    placement: placement_client.Client, host: str, classes: frozenset[str]
) -> _Change:
    """Read a tree, and return it changed.

    :raises CommandError: there is nothing to do
    """
    tree = _read_tree(placement, host)
    root, below = (
        tree[0],
        [one for one in tree[1:] if not classes.isdisjoint(one.inventories)],
    )
    missing = classes - {name for one in below for name in one.inventories}
    if missing:
        raise exceptions.CommandError(
            f'No provider below compute node {host} has '
            f'{", ".join(sorted(missing))}: nothing was changed.'
        )
    consumers = {
        consumer
        for one in below
        for name, held in retry.call(
            placement.list_holders, one.rp_uuid
        ).items()
        if name in classes
        for consumer in held
    }
    allocations = [
        _move(
            retry.call(placement.get_allocations, one),
            root.rp_uuid,
            {one.rp_uuid for one in below},
            classes,
        )
        for one in sorted(consumers)
    ]
    inventories = {
        one.rp_uuid: (one.generation or 0, _without(one, classes))
        for one in below
    }
    inventories[root.rp_uuid] = (
        root.generation or 0,
        {
            **_unite(below, classes, _find_largest(allocations, root.rp_uuid)),
            # Nova's own file names it already.
            **root.inventories,
        },
    )
    return _Change(inventories=inventories, allocations=allocations)


def _read_tree(
    placement: placement_client.Client, host: str
) -> list[host_provider.Provider]:
    """Return the providers of a host, its compute node first.

    :raises CommandError: there is no such compute node
    """
    for root in retry.call(placement.list_providers, name=host):
        listed = retry.call(placement.list_providers, in_tree=root.rp_uuid)
        found = [retry.call(placement.read_provider, one) for one in listed]
        return sorted(found, key=lambda one: one.parent_uuid is not None)
    raise exceptions.CommandError(f'Placement has no compute node {host}.')


def _without(
    one: host_provider.Provider, classes: frozenset[str]
) -> _Inventories:
    return {n: inv for n, inv in one.inventories.items() if n not in classes}


def _move(
    allocations: responses.Allocations,
    root_uuid: str,
    below: Collection[str],
    classes: frozenset[str],
) -> responses.Allocations:
    """Return what a consumer holds, with these classes on the root."""
    moved: dict[str, dict[str, int]] = {}
    for rp_uuid, resources in allocations.resources.items():
        for name, amount in resources.items():
            is_moved = rp_uuid in below and name in classes
            held = moved.setdefault(root_uuid if is_moved else rp_uuid, {})
            held[name] = held.get(name, 0) + amount
    return dataclasses.replace(allocations, resources=moved)


def _find_largest(
    allocations: Sequence[responses.Allocations], root_uuid: str
) -> dict[str, int]:
    """Return the most that one consumer holds of each class then."""
    largest: dict[str, int] = {}
    for one in allocations:
        for name, amount in one.resources.get(root_uuid, {}).items():
            largest[name] = max(largest.get(name, 0), amount)
    return largest


def _unite(
    below: Sequence[host_provider.Provider],
    classes: frozenset[str],
    largest: Mapping[str, int],
) -> _Inventories:
    found = {}
    for name in classes:
        own = [
            one.inventories[name] for one in below if name in one.inventories
        ]
        united = provider_config.unite(name, own)
        found[name] = dataclasses.replace(
            united, max_unit=max(united.max_unit, largest.get(name, 0))
        )
    return found


_COLUMNS = (
    'Host',
    'Resource Class',
    'Compute Node',
    'Held There',
    'Below',
    'Held Below',
    'State',
    'What To Do',
)

_LEFT = 1


class Migrate(cloud.CloudCommand, command.Lister):
    """List inventories that compute nodes themselves still have, and holders.

    nova-compute moves these inventories to providers below the compute node
    when it starts. The command changes nothing without --revert.
    """

    status = 0

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--host', metavar='<host>', help='list only this hypervisor'
        )
        parser.add_argument(
            '--resource-class',
            metavar='<class>',
            action='append',
            default=[],
            help='list only this class; may be repeated (default: all custom '
            'classes that this package has on any host)',
        )
        acts = parser.add_mutually_exclusive_group()
        acts.add_argument(
            '--dry-run',
            action='store_true',
            help='list only, as without any option',
        )
        acts.add_argument(
            '--check',
            action='store_true',
            help='end with status 1 unless all classes are moved',
        )
        acts.add_argument(
            '--revert',
            action='store_true',
            help='move classes of one host back to its compute node, while '
            'its nova-compute is down. Needs --host and --resource-class',
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        return int(super().run(parsed_args) or self.status)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        host, classes = parsed_args.host, parsed_args.resource_class
        if parsed_args.revert:
            if not (host and classes):
                raise exceptions.CommandError(
                    '--revert needs --host and --resource-class: name the '
                    'classes to move back to the compute node'
                )
            with cloud.asking():
                revert(self.placement, self.nova, host, classes)
        with cloud.asking():
            rows = self._list_rows(host, classes)
        is_left = any(
            one.state is not relocated.RelocationState.MOVED for one in rows
        )
        if parsed_args.check and is_left:
            self.status = _LEFT
        names = self.read_names({one for row in rows for one in row.holders})
        return _COLUMNS, [
            (
                row.host,
                row.resource_class,
                row.capacity,
                format_columns.DictColumn(
                    {names.describe(u): n for u, n in row.holders.items()}
                ),
                row.below,
                row.used_below,
                str(row.state),
                relocated.REMEDIES[row.state],
            )
            for row in rows
        ]

    def _list_rows(
        self, host: str | None, wanted: list[str]
    ) -> list[relocated.RelocationRow]:
        trees = cloud_snapshot.list_hosts(self.placement, wanted)
        classes = frozenset(wanted) or relocated.list_classes(trees)
        if not classes:
            raise exceptions.CommandError(
                'No provider of this package has a custom class yet. Name the '
                'future classes with --resource-class.'
            )
        trees = tuple(one for one in trees if host in (None, one.name))
        if host and not trees:
            raise exceptions.CommandError(
                f'Placement has no compute node {host}. Use the name that '
                '"openstack hypervisor list" shows.'
            )
        roots = [
            one.root.rp_uuid
            for one in trees
            if not classes.isdisjoint(one.root.amounts)
        ]
        holders = cloud_snapshot.list_holders(self.placement, roots)
        return [*relocated.list_rows(trees, classes, holders)]
