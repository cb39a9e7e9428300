# SPDX-License-Identifier: Apache-2.0

"""Tests of which hosts Nova can use."""

from collections.abc import Mapping
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection.audit import cloud
from nova_ext_resources.inspection import services
from tests import base


def make_nodes(**states: bool) -> Mapping[str, cloud.Hypervisor]:
    return {
        name: cloud.Hypervisor(
            name=name, uuid=getattr(uuids, name), host='ctl', is_up=is_up
        )
        for name, is_up in states.items()
    }


class ServicesTest(base.TestCase):
    def find_outage(self, name: str, **fields: Any) -> str:
        return services.Services(**fields).find_outage(name)

    def test_hypervisors_by_name(self) -> None:
        """A nova-compute of bare-metal nodes has another name."""
        nodes = make_nodes(up=True, down=False)
        for states in ({}, {'ctl': 'up'}):
            self.assertEqual('', self.find_outage('up', nodes=nodes))
            self.assertIn(
                'does not report',
                self.find_outage('down', nodes=nodes, states=states),
            )
            self.assertIn(
                'Nova has no hypervisor of this name',
                self.find_outage('gone', nodes=nodes, states=states),
            )

    def test_a_host_without_a_hypervisor(self) -> None:
        for state, wanted in (
            ('up', 'discover_hosts'),
            ('down', 'does not report'),
            (None, 'its cell does not answer'),
        ):
            found = self.find_outage(
                'host', nodes=make_nodes(up=True), states={'host': state}
            )

            self.assertIn(wanted, found)

    def test_services_decide_where_hypervisors_are_not_listed(self) -> None:
        for state, wanted in (
            ('up', ''),
            ('down', 'does not report'),
            (None, 'its cell does not answer'),
        ):
            found = self.find_outage('host', states={'host': state})

            self.assertEqual(bool(wanted), bool(found))
            self.assertIn(wanted, found)
        self.assertEqual('', self.find_outage('other', states={'host': 'up'}))

    def test_the_host_of_a_hypervisor(self) -> None:
        """Where Nova does not list these, their names may differ."""
        nodes = make_nodes(up=True)
        for name, fields, host in (
            ('up', {'nodes': nodes}, 'ctl'),
            ('other', {'nodes': nodes}, ''),
            ('h1', {'states': {'h1': 'up'}}, 'h1'),
            ('h1.example.org', {'states': {'h1': 'up'}}, ''),
        ):
            found = services.Services(**fields)

            self.assertEqual(host, found.find_host(name))

    def test_where_nothing_was_read_nothing_is_said(self) -> None:
        self.assertEqual('', self.find_outage('host'))
