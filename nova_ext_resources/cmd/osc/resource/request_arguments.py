# SPDX-License-Identifier: Apache-2.0

"""The arguments that name a flavor, and the hosts that it is for."""

import argparse
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent import futures
import textwrap
from typing import Any
import urllib.parse

from osc_lib import exceptions
from oslo_utils import timeutils
from oslo_utils import uuidutils

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc.render import host_text
from nova_ext_resources import exception
from nova_ext_resources.inspection import aggregates
from nova_ext_resources.inspection import fit
from nova_ext_resources.inspection import flavor_request
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement import cloud_snapshot
from nova_ext_resources import plugins
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import server_demand

_NOT_FOUND = 404

#: What is not counted where no configuration file is named.
_WITHOUT_DATABASE = (
    'Only amounts are compared, not units (for example whether ways are side '
    'by side), and not the rules of hosts: a host with RMD takes only servers '
    'with CPUs of their own. To compare these, name the database of the '
    'reservations, in which schedulers record the published state of hosts, '
    'with --config-file.',
    'Reservations are not counted: name their database with --config-file.',
)

_NOT_ASKED = (
    'Not considered: server groups, PCI devices, networks, volumes, and all '
    'other filters of Nova.'
)


def add_flavor(parser: argparse.ArgumentParser, choice: Any = None) -> None:
    """Add the arguments.

    :param choice: group of arguments of which one is required; None: the
        flavor is required
    """
    (choice or parser).add_argument(
        '--flavor',
        metavar='<flavor>',
        required=choice is None,
        help='name or id of the flavor',
    )
    parser.add_argument(
        '--image',
        metavar='<image>',
        help='name or id of the image, whose properties count in addition to '
        'the flavor',
    )
    parser.add_argument(
        '--host', metavar='<host>', help='consider only this host'
    )
    parser.add_argument(
        '--availability-zone',
        metavar='<zone>',
        help='consider only hosts of this availability zone',
    )
    parser.add_argument(
        '--project',
        metavar='<project>',
        help="id of the server's project; aggregates with filter_tenant_id "
        'are compared with it',
    )


def read_request(
    command: cloud.CloudCommand,
    arguments: argparse.Namespace,
    name: str | None = None,
) -> flavor_request.FlavorRequest:
    """Return what the flavor and the image request.

    :param name: of the flavor; None: the one that the arguments name
    :raises CommandError: there is no such flavor or image
    :raises ComputeUnavailable: Nova does not answer
    """
    name = name or arguments.flavor
    flavor = command.nova.find_flavor(name)
    if flavor is None:
        raise exceptions.CommandError(
            f'There is no flavor {name}; "openstack flavor list --all" shows '
            'all flavors.'
        )
    image: Mapping[str, str] = {}
    if arguments.image:
        image = _find_image(command.make_adapter('image'), arguments.image)
    return flavor_request.read(flavor, image, plugins.load_grammar())


def make_filters(
    demand: server_demand.Demand,
    extra_specs: Mapping[str, str],
    promises: promise_ledger.Promises,
) -> fit.Filters:
    """Return what decides about a request, as schedulers do now.

    :param extra_specs: of the flavor, which may say when its servers end
    :param promises: to reservations; empty where they are not known
    """
    trackers = plugins.load_trackers()
    now = int(timeutils.utcnow_ts())
    return fit.Filters(
        demand=demand,
        trackers=trackers,
        tests=plugins.load_claim_tests(trackers),
        promises=promises,
        now=now,
        end=lending.find_end(extra_specs, now),
    )


def make_wish(
    arguments: argparse.Namespace, *requests: flavor_request.FlavorRequest
) -> aggregates.Wish:
    """Return what servers request that host aggregates have a say in."""
    return aggregates.Wish(
        zone=arguments.availability_zone or '',
        project=arguments.project or '',
        extra_specs={
            key: value
            for one in requests
            for key, value in one.extra_specs.items()
        },
    )


def read_zone(
    client: placement_client.Client,
    found: Collection[aggregates.Aggregate] | None,
    name: str,
) -> aggregates.Zone:
    """Return a requested availability zone, as placement has it.

    :param found: all host aggregates; None where they are not known
    :param name: '' where none is requested
    :raises PlacementError: placement cannot be read
    """
    found = found or ()
    uuids = aggregates.list_uuids(found, name)
    if not uuids:
        return aggregates.Zone(name=name)
    members = retry.call(
        client.list_providers, member_of=f'in:{",".join(uuids)}'
    )
    return aggregates.find_zone(found, name, (one.rp_uuid for one in members))


def list_hosts(
    client: placement_client.Client,
    name: str | None,
    *demands: server_demand.Demand,
) -> list[host_tree.HostTree]:
    """Return all hosts, or the one of a name.

    :raises CommandError: there is none of that name
    :raises PlacementError: placement cannot be read
    """
    classes = {
        one for demand in demands for one in demand.requirement.resources
    }
    # What offers nothing is short of it, whatever of it is allocated.
    hosts = cloud_snapshot.list_hosts(client, classes, has_closed_usages=False)
    found = [one for one in hosts if name in (None, one.name)]
    if name is not None and not found:
        raise exceptions.CommandError(
            f'There is no host {name}; "openstack hypervisor list" shows all '
            'hosts.'
        )
    return found


def read_hosts(
    client: placement_client.Client,
    name: str | None,
    demand: server_demand.Demand,
) -> tuple[list[host_tree.HostTree], fit.Offered, list[str]]:
    """Return hosts, what placement offers, and why it refuses the request.

    Both at the same time: of a thousand hosts, either takes a second or more.

    :raises CommandError: see :func:`list_hosts`, as is PlacementError
    """
    if name is not None:
        hosts = list_hosts(client, name, demand)
        return hosts, *ask_placement(client, hosts, demand, name)
    with futures.ThreadPoolExecutor(max_workers=1) as pool:
        query = flavor_request.make_query(demand, None)
        asked = pool.submit(_list_candidates, client, query)
        hosts = list_hosts(client, None, demand)
    found, refusal = asked.result()
    return hosts, _group(hosts, found), refusal


def ask_placement(
    client: placement_client.Client,
    hosts: Sequence[host_tree.HostTree],
    demand: server_demand.Demand,
    name: str | None,
) -> tuple[fit.Offered, list[str]]:
    """Return what placement offers, and why it refuses the request.

    :param name: of the only host that matters; None for all
    """
    query = flavor_request.make_query(demand, hosts[0] if name else None)
    found, refusal = _list_candidates(client, query)
    return _group(hosts, found), refusal


def _list_candidates(
    client: placement_client.Client, query: Sequence[tuple[str, str]]
) -> tuple[Sequence[fit.Places], list[str]]:
    """Return candidates, and why placement refuses the request."""
    try:
        return retry.call(client.list_candidates, query).allocations, []
    except exception.PlacementRefused as err:
        return (), [f'Placement refuses the request: {err.detail}']


def _group(
    hosts: Sequence[host_tree.HostTree], found: Sequence[fit.Places]
) -> fit.Offered:
    """Return the root of each host -> its candidates.

    Without those that use nothing of a root: Nova's scheduler looks for the
    candidates of a host by the uuid of its compute node.
    """
    offered: dict[str, list[fit.Places]] = {}
    roots = {host.root.rp_uuid for host in hosts}
    for allocations in found:
        for root in roots.intersection(allocations):
            offered.setdefault(root, []).append(allocations)
    return offered


def list_notes(
    arguments: argparse.Namespace,
    request: flavor_request.FlavorRequest,
    more: Iterable[str] = (),
) -> list[str]:
    """Return what is not counted."""
    is_read = (arguments.config_file, arguments.config_dir) != (None, None)
    return [
        *request.notes,
        *(() if is_read else _WITHOUT_DATABASE),
        *more,
        _NOT_ASKED,
    ]


def wrap(text: str, indent: str = '') -> list[str]:
    """Return the lines of a sentence, further lines behind the first."""
    return textwrap.wrap(
        text,
        host_text.WIDTH,
        initial_indent=indent,
        subsequent_indent=f'{indent}  ',
        break_long_words=False,
        break_on_hyphens=False,
    )


def _ask_glance(adapter: Any, url: str) -> dict[str, Any]:
    """Return what Glance says, nothing where it knows no such image.

    :raises CommandError: it does not answer so
    """
    response = adapter.get(url, raise_exc=False)
    if response.status_code == _NOT_FOUND:
        return {}
    if not response.ok:
        raise exceptions.CommandError(
            f'The image service answers GET {url} with '
            f'{response.status_code} {response.reason}. Try again, or leave '
            '--image out.'
        )
    return dict(response.json())


def _find_image(adapter: Any, name: str) -> Mapping[str, str]:
    """Return the properties of an image.

    :param adapter: for the service type ``image``
    """
    if uuidutils.is_uuid_like(name):
        image = _ask_glance(adapter, f'/images/{name}')
        found = [image] if image else []
    else:
        query = urllib.parse.urlencode({'name': name})
        found = _ask_glance(adapter, f'/images?{query}').get('images', [])
    if len(found) != 1:
        raise exceptions.CommandError(
            f'There are {len(found)} images {name}; "openstack image list" '
            'shows all images. Name the image by its uuid.'
        )
    return {
        key: value for key, value in found[0].items() if isinstance(value, str)
    }
