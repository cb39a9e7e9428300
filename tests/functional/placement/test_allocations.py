# SPDX-License-Identifier: Apache-2.0


"""Moving an allocation in real placement, and adding to it."""

import dataclasses

from oslo_utils.fixture import uuidsentinel as uuids
from oslo_utils import uuidutils

from nova_ext_resources import exception
from nova_ext_resources.placement import allocations
from nova_ext_resources.placement.api import responses
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.publish import tree_writer
from tests.functional.placement import hosts


class MoveAllocationTest(hosts.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        writer = tree_writer.TreeWriter(self.client)
        writer.publish(hosts.NODE, hosts.make_host(ways=8))
        self.allocate(
            {hosts.NODE.uuid: {'VCPU': 2}, hosts.L3_0: {hosts.WAYS: 4}}
        )

    def move(self, partner: str = '') -> None:
        allocations.move_allocations(
            self.client,
            uuids.server,
            from_rp_uuid=hosts.L3_0,
            to_rp_uuid=hosts.L3_1,
            resource_classes={hosts.WAYS},
            find_partner=lambda _amounts: (
                self.client.get_allocations(partner) if partner else None
            ),
        )

    def read_resources(self) -> object:
        return self.client.get_allocations(uuids.server).resources

    def test_it_moves_and_everything_else_stays(self) -> None:
        before = self.client.get_allocations(uuids.server)

        self.move()

        after = self.client.get_allocations(uuids.server)
        self.assertEqual(
            {hosts.NODE.uuid: {'VCPU': 2}, hosts.L3_1: {hosts.WAYS: 4}},
            after.resources,
        )
        self.assertEqual(
            (before.project_id, before.user_id, before.consumer_type),
            (after.project_id, after.user_id, after.consumer_type),
        )

    def test_moving_twice_is_moving_once(self) -> None:
        self.move()
        self.move()

        self.assertEqual(
            {hosts.NODE.uuid: {'VCPU': 2}, hosts.L3_1: {hosts.WAYS: 4}},
            self.read_resources(),
        )

    def test_it_adds_to_what_is_there_and_leaves_other_classes(self) -> None:
        self.allocate(
            {
                hosts.L3_0: {hosts.WAYS: 4},
                hosts.L3_1: {hosts.WAYS: 2},
                hosts.RDT: {hosts.CLOS: 1},
            }
        )

        self.move()

        self.assertEqual(
            {hosts.L3_1: {hosts.WAYS: 6}, hosts.RDT: {hosts.CLOS: 1}},
            self.read_resources(),
        )

    def test_a_change_in_between_is_kept(self) -> None:
        self.app.before_next(
            'PUT',
            uuids.server,
            lambda: self.allocate(
                {hosts.NODE.uuid: {'VCPU': 3}, hosts.L3_0: {hosts.WAYS: 5}}
            ),
        )

        self.move()

        self.assertEqual(
            {hosts.NODE.uuid: {'VCPU': 3}, hosts.L3_1: {hosts.WAYS: 5}},
            self.read_resources(),
        )

    def test_what_does_not_fit_there_stays_where_it_is(self) -> None:
        self.allocate({hosts.L3_1: {hosts.WAYS: 6}}, uuids.another)

        self.assertRaises(exception.AllocationRejected, self.move)

        self.assertEqual(
            {hosts.NODE.uuid: {'VCPU': 2}, hosts.L3_0: {hosts.WAYS: 4}},
            self.read_resources(),
        )

    def test_a_server_that_holds_none_of_it_is_reported(self) -> None:
        self.allocate({hosts.NODE.uuid: {'VCPU': 2}})

        error = self.assertRaises(exception.NotFound, self.move)

        self.assertIn(uuids.server, str(error))

    def fill_other(self, *amounts: int) -> list[str]:
        """Fill the other provider with one server for each amount."""
        servers = [uuidutils.generate_uuid() for _ in amounts]
        for server, amount in zip(servers, amounts, strict=True):
            self.allocate(
                {
                    hosts.NODE.uuid: {'VCPU': 1},
                    hosts.L3_1: {hosts.WAYS: amount},
                },
                server,
            )
        return servers

    def list_where(self, *servers: str) -> list[list[str]]:
        return [
            sorted(
                {hosts.L3_0, hosts.L3_1}
                & self.client.get_allocations(one).resources.keys()
            )
            for one in servers
        ]

    def test_it_is_exchanged_with_a_partner(self) -> None:
        first, second = self.fill_other(4, 4)

        self.move(second)

        self.assertEqual(
            [[hosts.L3_1], [hosts.L3_1], [hosts.L3_0]],
            self.list_where(uuids.server, first, second),
        )
        after = self.client.get_allocations(second)
        self.assertEqual({'VCPU': 1}, after.resources[hosts.NODE.uuid])
        self.assertEqual('unknown', after.consumer_type)

    def test_an_exchange_that_something_comes_between_is_repeated(
        self,
    ) -> None:
        first, second = self.fill_other(4, 4)
        self.app.before_next(
            'POST',
            '/allocations',
            lambda: self.allocate(
                {
                    hosts.NODE.uuid: {'VCPU': 2},
                    hosts.L3_1: {hosts.WAYS: 4},
                },
                second,
            ),
        )

        self.move(second)

        self.assertEqual(
            [[hosts.L3_1], [hosts.L3_1], [hosts.L3_0]],
            self.list_where(uuids.server, first, second),
        )
        after = self.client.get_allocations(second)
        self.assertEqual({'VCPU': 2}, after.resources[hosts.NODE.uuid])

    def test_a_partner_that_confirms_what_it_holds_keeps_it(self) -> None:
        """Nothing of it changes, and who has read it before cannot write."""
        _first, second = self.fill_other(4, 4)
        before = self.client.get_allocations(second)
        generation = before.generation
        assert generation is not None
        confirmed = []

        def confirm() -> None:
            confirmed.append(
                allocations.confirm_allocations(self.client, second)
            )

        self.app.before_next('POST', '/allocations', confirm)
        # It has claimed before it is looked at again.
        partners = iter([before, None])

        self.assertRaises(
            exception.AllocationRejected,
            allocations.move_allocations,
            self.client,
            uuids.server,
            from_rp_uuid=hosts.L3_0,
            to_rp_uuid=hosts.L3_1,
            resource_classes={hosts.WAYS},
            find_partner=lambda _amounts: next(partners),
        )

        self.assertEqual([before], confirmed)
        self.assertEqual(
            dataclasses.replace(before, generation=generation + 1),
            self.client.get_allocations(second),
        )

    def test_confirming_nothing_writes_nothing(self) -> None:
        held = allocations.confirm_allocations(self.client, uuids.nobody)

        self.assertEqual({}, held.resources)


class SetAllocationsTest(hosts.HostTestCase):
    """The server has ways of one cache, and gets them of both."""

    def setUp(self) -> None:
        super().setUp()
        writer = tree_writer.TreeWriter(self.client)
        writer.publish(hosts.NODE, hosts.make_host(ways=8))
        self.other = {hosts.NODE.uuid: {'VCPU': 2}, hosts.RDT: {hosts.CLOS: 1}}
        self.allocate({**self.other, hosts.L3_0: {hosts.WAYS: 4}})

    def set_ways(self, **amounts: int) -> None:
        allocations.set_allocations(
            self.client,
            uuids.server,
            {(getattr(hosts, k), hosts.WAYS): n for k, n in amounts.items()},
            {hosts.L3_0, hosts.L3_1, hosts.RDT},
        )

    def read(self) -> responses.Allocations:
        return self.client.get_allocations(uuids.server)

    def assert_ways(self, **amounts: int) -> None:
        ways = {getattr(hosts, k): {hosts.WAYS: n} for k, n in amounts.items()}
        self.assertEqual({**self.other, **ways}, self.read().resources)

    def test_all_else_stays(self) -> None:
        before = self.read()

        self.set_ways(L3_0=4, L3_1=4)

        self.assert_ways(L3_0=4, L3_1=4)
        after = self.read()
        self.assertEqual(
            (before.project_id, before.user_id, before.consumer_type),
            (after.project_id, after.user_id, after.consumer_type),
        )
        self.set_ways(L3_0=4, L3_1=4)
        self.assertEqual(after, self.read())

    def test_what_is_no_longer_wanted_goes(self) -> None:
        self.set_ways(L3_0=4, L3_1=4)

        self.set_ways(L3_1=4)

        self.assert_ways(L3_1=4)

    def test_a_change_in_between_is_kept(self) -> None:
        def change() -> None:
            self.other = {hosts.NODE.uuid: {'VCPU': 3}}
            self.allocate({**self.other, hosts.L3_1: {hosts.WAYS: 4}})

        self.app.before_next('PUT', uuids.server, change)

        self.set_ways(L3_0=4, L3_1=4)

        self.assert_ways(L3_0=4, L3_1=4)

    def test_it_gives_up_in_the_end(self) -> None:
        tries: list[int] = []

        def change() -> None:
            tries.append(1)
            self.allocate({**self.other, hosts.L3_0: {hosts.WAYS: 4}})
            self.app.before_next('PUT', uuids.server, change)

        self.app.before_next('PUT', uuids.server, change)

        self.assertRaises(
            exception.ConcurrentUpdate, self.set_ways, L3_0=4, L3_1=4
        )

        self.assertEqual(retry.MAX_ATTEMPTS, len(tries))
        self.assert_ways(L3_0=4)

    def test_all_or_nothing(self) -> None:
        self.allocate({hosts.L3_1: {hosts.WAYS: 6}}, uuids.another)

        self.assertRaises(
            exception.AllocationRejected, self.set_ways, L3_0=4, L3_1=4
        )

        self.assert_ways(L3_0=4)

    def test_a_server_that_nova_has_given_up_gets_nothing(self) -> None:
        """Nor one that has the amount of another flavor by now."""
        for held in (
            {hosts.L3_0: {hosts.WAYS: 2}},
            {hosts.NODE.uuid: {'VCPU': 2}},
            {},
        ):
            self.client.put_allocations(
                dataclasses.replace(self.read(), resources=held)
            )

            self.assertRaises(exception.NotFound, self.set_ways, L3_0=4)

            self.assertEqual(held, self.read().resources)
