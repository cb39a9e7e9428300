# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource definition diff``."""

import argparse
import dataclasses
from typing import Any

from osc_lib.command import command
from osc_lib import exceptions
from oslo_config import cfg

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.drivers.static import definitions
from nova_ext_resources.drivers.static import inventory
from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.publish import plan_text
from nova_ext_resources.placement.publish import tree_writer
from nova_ext_resources import plugins

_SAME, _DIFFERENT, _TROUBLE = range(3)


class DiffDefinitions(cloud.CloudCommand, command.Command):
    """Show how definitions would change placement, for one host.

    The command compares the providers that the definitions name, and the
    default provider of definitions that name none. It changes nothing. Exit
    status: 0, placement would stay as it is; 1, placement would change; 2, the
    answer is not known, or is not complete.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--file',
            metavar='<path>',
            required=True,
            help='file of resource definitions for the host, or a folder of '
            'such files',
        )
        parser.add_argument(
            '--host',
            metavar='<host>',
            required=True,
            help='name of the hypervisor, as "openstack hypervisor list" '
            'shows it',
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return int(super().run(parsed_args))
        except (exception.ExtResourcesError, exceptions.CommandError) as err:
            self.log.error('%s', err)
            return _TROUBLE

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        host: str = parsed_args.host
        static = _load(parsed_args.file, host)
        found = static.discover()
        with cloud.asking():
            node = self._find_node(host)
            # What other plugins of the host publish stays.
            owned = {
                host_provider.make_rp_uuid(node.uuid, key)
                for key in (definitions.DEFAULT_KEY, *(p.key for p in found))
            }
            plan = tree_writer.TreeWriter(self.placement).plan(
                node,
                [one.make_wanted(node, one.inventories) for one in found],
                owned=owned,
            )
        undeleted = tuple(
            one for one in plan.undeleted if one.rp_uuid in owned
        )
        for line in plan_text.describe(
            dataclasses.replace(plan, undeleted=undeleted)
        ):
            self.app.stdout.write(f'{line}\n')
        if others := {one.name for one in plan.undeleted} - {
            p.name for p in undeleted
        }:
            self.log.warning(
                'Not compared: %s. Servers hold these resources, and the '
                'definitions do not name them. If former definitions named '
                'them, the host closes these resources to other servers.',
                ', '.join(sorted(others)),
            )
        if static.left_out:
            # Each has a line in the log, with its reason.
            return _TROUBLE
        return _DIFFERENT if plan.changes else _SAME

    def _find_node(self, host: str) -> host_provider.Node:
        """Return the compute node of a hypervisor.

        :raises CommandError: placement has none
        :raises PlacementError: placement cannot be read
        """
        for one in retry.call(self.placement.list_providers, name=host):
            if one.parent_uuid is None:
                return host_provider.Node(
                    uuid=one.rp_uuid, hypervisor_hostname=host
                )
        raise exceptions.CommandError(
            f'Placement has no host {host}; "openstack hypervisor list" shows '
            'the names.'
        )


def _load(path: str, host: str) -> inventory.StaticInventory:
    """Return the plugin of a host with these definitions.

    :raises InvalidConfiguration: there is no such file
    """
    conf = cfg.ConfigOpts()
    options: Any = plugins.register_opts(
        conf, 'static', inventory.StaticInventory.OPTIONS
    )
    conf.set_override('definitions_file', path, 'ext_resources_static')
    return inventory.StaticInventory(options, host)
