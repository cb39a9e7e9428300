# SPDX-License-Identifier: Apache-2.0

"""Commands that read placement and Nova as the user of the client.

They need no access to hosts, and change nothing.
"""

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
import contextlib
import functools
import importlib
from typing import Any

from osc_lib.command import command
from osc_lib import exceptions

from nova_ext_resources.cmd.osc import config_files
from nova_ext_resources.cmd.osc import nova as nova_mod
from nova_ext_resources import exception
from nova_ext_resources.inspection import aggregates
from nova_ext_resources.inspection.audit import cloud
from nova_ext_resources.inspection import names
from nova_ext_resources.inspection import services
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import publication

_FORBIDDEN = 403


class AdministratorsOnly(exceptions.CommandError):
    """Placement does not show this user what the command needs."""


def make_no_server(name: str) -> exceptions.CommandError:
    """Return what a user is told of a server that Nova does not have."""
    return exceptions.CommandError(
        f'There is no server {name}, or it was deleted; "openstack server '
        'list --all-projects" lists the existing servers.'
    )


class CloudCommand(command.Command):
    """Has what the client knows of the cloud: credentials and endpoints."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add those that only this command has: none by default."""

    @functools.cached_property
    def placement(self) -> placement_client.Client:
        return placement_client.Client(self.make_adapter('placement'))

    @functools.cached_property
    def nova(self) -> nova_mod.Nova:
        return nova_mod.Nova(self.make_adapter('compute'))

    def make_adapter(self, service_type: str) -> Any:
        """Return an adapter of keystoneauth for a service."""
        return getattr(self.app.client_manager.sdk_connection, service_type)

    def find_uuid(self, name: str) -> str:
        """Return the uuid of the server that has a uuid or a name.

        :raises CommandError: there is none, or more than one
        :raises ComputeUnavailable: Nova does not answer
        """
        found = self.nova.find_uuids(name)
        if len(found) == 1:
            return found[0]
        if found:
            raise exceptions.CommandError(
                f'{len(found)} servers have the name {name}; name the server '
                f'by its uuid: {", ".join(found)}'
            )
        raise make_no_server(name)

    def read_names(
        self, consumers: Collection[str], host: str = ''
    ) -> names.Names:
        """Return what consumers are, as far as the caller may see it.

        :param host: only servers of this one; '' for all
        """
        if not consumers:
            return names.Names()
        try:
            servers = self.nova.list_servers_of_all(host)
            unknown = set(consumers) - servers.keys()
            moves = self.nova.find_moves(unknown)
            if set(moves.values()) - servers.keys():
                servers = self.nova.list_servers_of_all()
        except exception.ComputeUnavailable as err:
            self.log.warning(
                'Names of servers are not known, uuids are shown: %s', err
            )
            return names.Names()
        return names.Names(servers=servers, moves=moves)

    def read_services(self, hosts: Iterable[str]) -> services.Services:
        """Return which hosts are up, as far as the caller may see it.

        Services are asked for only where the list of hypervisors does not
        have all hosts.

        :param hosts: hypervisors' hostnames, by placement
        """
        nodes: dict[str, cloud.Hypervisor] | None = None
        states: Mapping[str, str | None] = {}
        try:
            nodes = {one.name: one for one in self.nova.list_nodes()}
        except exception.ComputeUnavailable as err:
            # So Nova answers when the database of a cell is away.
            self.log.warning(
                'Nova does not list its hypervisors. Hosts are compared with '
                'compute services of the same name; hosts with other names '
                'count as up: %s',
                err,
            )
        if nodes is None or not nodes.keys() >= {*hosts}:
            try:
                states = self.nova.list_compute_services()
            except exception.ComputeUnavailable as err:
                self.log.warning(
                    'The states of compute services are not known: %s', err
                )
        return services.Services(nodes=nodes, states=states)

    def read_aggregates(self) -> list[aggregates.Aggregate] | None:
        """Return the host aggregates; None where Nova does not show them."""
        try:
            return self.nova.list_aggregates()
        except exception.ComputeUnavailable as err:
            self.log.warning(
                'Host aggregates are not known, so that availability zones '
                'are not considered: %s',
                err,
            )
            return None


def add_units(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where to read what hosts have published."""
    config_files.add_arguments(
        parser,
        title='units of servers',
        use='of Nova, for the database of the reservations, in which '
        'schedulers record the published state of hosts; may be repeated '
        '(default: only amounts are shown)',
    )


def read_published(
    arguments: argparse.Namespace,
    promises: promise_ledger.Promises | None = None,
) -> publication.Publications | None:
    """Return what hosts have published.

    :param promises: takes what is promised to reservations
    :returns: host -> its publication; None where no configuration is named
    :raises CommandError: there is no such file
    :raises ExtResourcesError: the database cannot be read
    """
    if arguments.config_file is None and arguments.config_dir is None:
        return None
    # What it imports for the database takes a second.
    published = importlib.import_module(
        'nova_ext_resources.cmd.osc.reservation.published_hosts'
    )
    found: publication.Publications = published.read(
        config_files.read(arguments), promises
    )
    return found


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Explain to a user of the client why placement does not answer.

    :raises AdministratorsOnly: placement shows that to these alone
    """
    try:
        yield
    except exception.PlacementError as err:
        if err.status != _FORBIDDEN:
            raise
        raise AdministratorsOnly(
            f'Placement does not let this user {err.action}: only '
            'administrators may do this. Use the credentials of an '
            'administrator, for example with --os-cloud.'
        ) from err


class DrawnCommand(CloudCommand, command.ShowOne):
    """Shows one thing: in words by default, and as data in other formats."""

    def draw(self, data: Mapping[str, Any]) -> Iterator[str]:
        """Return the lines of the default format."""
        raise NotImplementedError

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Any,
    ) -> int:
        if parsed_args.formatter != self.formatter_default or (
            parsed_args.columns
        ):
            return int(super().produce_output(parsed_args, column_names, data))
        for line in self.draw(dict(zip(column_names, data, strict=True))):
            self.app.stdout.write(f'{line}\n')
        return 0
