# SPDX-License-Identifier: Apache-2.0

"""``nova-ext-resources-status diff``: what nova-compute would publish anew.

Reads the configuration, the host, a copy of the ledger and placement, and
changes none of them.
"""

import argparse
from collections.abc import Iterator, Mapping
import os
import sys
from typing import Any

from oslo_config import cfg

from nova_ext_resources.claims import base
from nova_ext_resources.cmd import compute_node
from nova_ext_resources.cmd import configuration
from nova_ext_resources.conf import state
from nova_ext_resources import exception
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.inventory import node_traits
from nova_ext_resources.host.inventory import preview
from nova_ext_resources.host.inventory import quarantine
from nova_ext_resources.host.ledger import snapshot
from nova_ext_resources.host.service import paths
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import diff
from nova_ext_resources.placement.publish import plan_text
from nova_ext_resources.placement.publish import tree_writer
from nova_ext_resources import plugins

#: As of diff(1).
SAME, DIFFERENT, TROUBLE = 0, 1, 2

DESCRIPTION = """\
Show what nova-compute of this host would change in placement if it were
started with this configuration and these files now. Changes nothing."""

EXIT_STATUS = """\
Exit status: 0, nothing would change; 1, something would change; 2, the changes
are not known, or not all of them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command alone."""
    parser.add_argument(
        '--node',
        help='uuid of the compute node (default: the uuid in the file '
        'compute_id of nova-compute)',
    )


def main(options: argparse.Namespace) -> int:
    """Print the changes; return the exit status."""
    try:
        configured = configuration.read(options)
        node_uuid = options.node or compute_node.get_uuid(configured.conf)
        found, plan, traits = _Comparison(*configured).run(node_uuid)
    except exception.ExtResourcesError as err:
        _complain(str(err))
        return TROUBLE
    for line in [*_describe(traits), *plan_text.describe(plan)]:
        print(line)
    for problem in found.failures.values():
        _complain(problem)
    for name in sorted(found.left_out):
        _complain(
            f'{name} cannot be reported; nothing is deleted from placement '
            'meanwhile'
        )
    if found.failures or found.left_out:
        return TROUBLE
    return DIFFERENT if plan.changes or any(_describe(traits)) else SAME


def _describe(traits: host_provider.NodeTraits) -> Iterator[str]:
    if traits != host_provider.NodeTraits():
        yield 'change the compute node'
    for word in ('added', 'removed'):
        if some := getattr(traits, word):
            yield f'  traits {word}: {", ".join(sorted(some))}'


def _complain(text: str) -> None:
    print(f'nova-ext-resources-status diff: {text}', file=sys.stderr)


class _Comparison:
    """Of one host with placement, for one run."""

    def __init__(self, conf: cfg.ConfigOpts, host: str) -> None:
        self._conf, self._host = conf, host
        self._trackers: Mapping[str, base.Tracker] = plugins.load_trackers()

    def run(
        self, node_uuid: str
    ) -> tuple[
        discovery.DiscoveredResources,
        diff.PublishPlan,
        host_provider.NodeTraits,
    ]:
        """Return what was found, and what would be written.

        The last by nova-compute itself.

        :raises ExtResourcesError: placement or the ledger cannot be read, or
            a plugin cannot be loaded
        """
        path = self._find_ledger()
        client = placement_client.from_conf(self._conf)
        node = compute_node.get(client, node_uuid)
        content = snapshot.Content()
        if os.path.lexists(path):
            content = snapshot.read(path)
        found = self._discover(path, content)
        providers = preview.make_providers(
            found,
            host=self._host,
            node=node,
            content=content,
            trackers=self._trackers,
        )
        plan = tree_writer.TreeWriter(client, closes_doubles=True).plan(
            node, providers, may_delete=found.is_complete
        )
        traits = node_traits.preview(
            found,
            content.published,
            node,
            client.get_provider(node_uuid).traits,
        )
        return found, plan, traits

    def _find_ledger(self) -> str:
        """Return the ledger's file, which need not exist.

        :raises InvalidConfiguration: no option says where it is
        """
        folder = state.find_folder(self._conf)
        options = self._conf.ext_resources
        if not folder and not options.ledger_path:
            raise exception.InvalidConfiguration(
                option='[DEFAULT] state_path',
                value='',
                reason='the option is not set, and Nova is not installed '
                'here, so the path of the ledger is not known; name all '
                'configuration files of nova-compute with --config-file',
            )
        return os.path.abspath(
            paths.find_ledger_path(options, folder, self._host)
        )

    def _discover(
        self, path: str, content: snapshot.Content
    ) -> discovery.DiscoveredResources:
        inventories: dict[str, Any] = plugins.load_with_options(
            plugins.INVENTORY_PROVIDERS,
            self._conf.ext_resources.inventory_providers,
            self._conf,
            self._host,
            lambda: content.entries,
        )
        found = discovery.Discovery(
            inventories, self._host, trackers=self._trackers
        ).scan()
        # It has seen nothing, so that it finds nothing lost to note.
        unavailable = quarantine.Quarantine(path, self._host, self._trackers)
        return unavailable.apply(found, content.entries.values())
