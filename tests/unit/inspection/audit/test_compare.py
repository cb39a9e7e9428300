# SPDX-License-Identifier: Apache-2.0

"""Tests of whole clouds, and of two readings."""

import dataclasses
import uuid

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import compare
from nova_ext_resources.inspection.audit import finding
from tests import base
from tests.unit.inspection.audit import clouds

Remedy = finding.Remedy

#: Status, task and status of a migration of servers of a healthy cloud.
_STATES = (
    ('ACTIVE', '', ''),
    ('ACTIVE', '', 'confirmed'),
    ('ACTIVE', 'image_snapshot', ''),
    ('SHUTOFF', '', ''),
    ('SHELVED', '', ''),
    ('ERROR', '', ''),
    ('VERIFY_RESIZE', '', 'finished'),
    ('MIGRATING', 'migrating', 'running'),
    ('SHELVED_OFFLOADED', '', ''),
    ('BUILD', 'spawning', ''),
)

_OPEN = ('finished', 'running')


def add(
    cloud: cloud_mod.AuditedCloud,
    number: int,
    state: tuple[str, str, str],
    host: str,
) -> cloud_mod.AuditedCloud:
    """Add a server with all that it should hold."""
    status, task, move = state
    consumer = str(uuid.UUID(int=number, version=4))
    is_off = status == 'SHELVED_OFFLOADED'
    server = clouds.make_server(
        consumer, '' if is_off else host, status=status, task_state=task
    )
    cloud = clouds.add_server(cloud, server)
    if not is_off:
        cloud = clouds.allocate_all(cloud, consumer, host)
    if move:
        moving = str(uuid.UUID(int=number + 100, version=4))
        cloud = clouds.add_move(
            cloud, clouds.make_move(moving, consumer, move)
        )
        if move in _OPEN:
            cloud = clouds.allocate_all(cloud, moving, 'node2')
    return cloud


@st.composite
def healthy_clouds(draw: st.DrawFn) -> cloud_mod.AuditedCloud:
    cloud = clouds.make_cloud()
    states = draw(st.lists(st.sampled_from(_STATES), max_size=4))
    for number, state in enumerate(states):
        host = draw(st.sampled_from(clouds.HOSTS))
        cloud = add(cloud, number, state, host)
    return cloud


class CompareTest(base.TestCase):
    @hypothesis.given(healthy_clouds())
    def test_a_healthy_cloud(self, cloud: cloud_mod.AuditedCloud) -> None:
        self.assertEqual((), compare.compare(cloud))

    @hypothesis.given(healthy_clouds(), st.data())
    def test_what_a_server_has_on_its_host_is_never_taken(
        self, cloud: cloud_mod.AuditedCloud, data: st.DataObject
    ) -> None:
        """Nor anything of those that Nova is at work on."""
        consumers = [*cloud.allocations, *cloud.servers, uuids.gone]
        places = [
            (rp_uuid, name)
            for rp_uuid, one in cloud.owned.items()
            for name in one.provider.inventories
        ]
        for _ in range(data.draw(st.integers(1, 4))):
            cloud = clouds.allocate(
                cloud,
                data.draw(st.sampled_from(consumers)),
                *data.draw(st.sampled_from(places)),
                data.draw(st.integers(0, 8)),
            )

        for one in compare.compare(cloud):
            if one.remedy is not Remedy.REPAIR:
                continue
            self.assertNotEqual(uuids.gone, one.consumer)
            server = cloud.servers[one.server]
            self.assertEqual('', server.task_state)
            self.assertIsNone(finding.find_task(cloud, server))
            if one.consumer == server.uuid:
                home = cloud.find_home(server)
                self.assertFalse(cloud.is_at(home, one.rp_uuid))

    def confirm(
        self, before: cloud_mod.AuditedCloud, after: cloud_mod.AuditedCloud
    ) -> list[str]:
        found = compare.confirm(
            compare.compare(before), compare.compare(after)
        )
        return [one.remedy for one in found]

    def make_leftover(self, amount: int) -> cloud_mod.AuditedCloud:
        cloud = clouds.allocate(
            clouds.make_cloud(),
            uuids.gone,
            clouds.make_rp_uuid('node1', 'L3_0'),
            clouds.WAYS,
            amount,
        )
        return dataclasses.replace(cloud, absent=frozenset({uuids.gone}))

    def test_what_two_readings_show(self) -> None:
        one, other = self.make_leftover(1), self.make_leftover(2)
        none = clouds.make_cloud()

        self.assertEqual([Remedy.REPAIR], self.confirm(one, one))
        self.assertEqual([Remedy.WAIT], self.confirm(one, other))
        self.assertEqual([], self.confirm(one, none))
        self.assertEqual([], self.confirm(none, one))

    def test_parents_that_form_a_circle(self) -> None:
        key = clouds.make_rp_uuid('node1', 'L3_0')
        rdt = clouds.make_rp_uuid('node1', 'RDT')
        cloud = clouds.replace_provider(
            clouds.make_cloud(), rdt, parent_uuid=key
        )

        self.assertTrue(compare.compare(cloud))
