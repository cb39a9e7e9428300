# SPDX-License-Identifier: Apache-2.0

"""Tests of the identity of resource providers."""

import dataclasses
import uuid

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.objects import host_provider
from tests import base
from tests.unit import builders

NODE = host_provider.Node(uuid=uuidsentinel.node, hypervisor_hostname='host-1')


class TestMakeRpUuid(base.TestCase):
    def test_it_is_the_same_after_every_restart(self) -> None:
        # A change of this value would orphan the providers of every cloud.
        self.assertEqual(
            '568021ab-3078-5f46-a3e2-3711ef405aa7',
            host_provider.make_rp_uuid(str(uuid.UUID(int=1)), 'L3_0'),
        )

    @hypothesis.given(one=st.text(), other=st.text())
    def test_other_keys_give_other_uuids(self, one: str, other: str) -> None:
        hypothesis.assume(one != other)

        self.assertNotEqual(
            host_provider.make_rp_uuid(NODE.uuid, one),
            host_provider.make_rp_uuid(NODE.uuid, other),
        )

    def test_other_hosts_give_other_uuids(self) -> None:
        self.assertNotEqual(
            host_provider.make_rp_uuid(uuidsentinel.node, 'RDT'),
            host_provider.make_rp_uuid(uuidsentinel.other_node, 'RDT'),
        )

    def test_a_host_provider_gives_its_own(self) -> None:
        found = builders.make_host_provider(key='RDT')

        self.assertEqual(
            host_provider.make_rp_uuid(NODE.uuid, 'RDT'),
            found.make_rp_uuid(NODE),
        )


class TestValues(base.TestCase):
    def test_what_was_found_cannot_be_changed(self) -> None:
        found = builders.make_host_provider()

        self.assertRaises(
            dataclasses.FrozenInstanceError, setattr, found, 'key', 'other'
        )

    def test_a_wanted_provider_knows_no_generation(self) -> None:
        wanted = host_provider.Provider(
            rp_uuid=builders.RDT, name='host-1_RDT'
        )

        self.assertIsNone(wanted.generation)
