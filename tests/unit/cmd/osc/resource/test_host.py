# SPDX-License-Identifier: Apache-2.0

"""Tests of the list of hosts; the rest is functional."""

from collections.abc import Mapping
from unittest import mock

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc.resource import host
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.placement import cloud_snapshot
from nova_ext_resources.reservation import publication
from tests import base
from tests.unit.inspection import trees


class ListHostsTest(base.TestCase):
    def list_hosts(
        self,
        *words: str,
        published: Mapping[str, publication.Publication] | None = None,
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        tree = trees.make_tree()
        command = host.ListHosts(None, None)  # type: ignore[arg-type]
        command.placement = mock.Mock()
        with (
            mock.patch.multiple(
                cloud_snapshot,
                list_hosts=lambda _client: [tree],
                add_inventories=lambda _client, hosts, _is_shown: hosts,
            ),
            mock.patch.object(
                cloud, 'read_published', lambda _arguments: published
            ),
        ):
            arguments = command.get_parser('list').parse_args(words)
            columns, rows = command.take_action(arguments)
            return columns, [*rows]

    def test_what_a_host_takes_none_of_now(self) -> None:
        published = {
            'compute-1': trees.make_publication(
                rules=host_constraints.Constraints(
                    refused={trees.WAYS: 'stalled'}
                )
            )
        }
        for words in ((), ('--summary',)):
            columns, rows = self.list_hosts(*words, published=published)

            self.assertEqual('Takes None Now', columns[-1])
            place = columns.index('Resource Class')
            self.assertEqual(
                {trees.WAYS: 'stalled', trees.CLOS: ''},
                {row[place]: row[-1] for row in rows},
            )

    def test_hosts_of_which_nothing_is_known(self) -> None:
        columns, rows = self.list_hosts(published={})

        self.assertEqual('Takes None Now', columns[-1])
        self.assertEqual({''}, {row[-1] for row in rows})

    def test_amounts_alone_without_a_database(self) -> None:
        columns, rows = self.list_hosts()

        self.assertEqual('Free', columns[-1])
        self.assertEqual({len(columns)}, {len(row) for row in rows})
