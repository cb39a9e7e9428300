# SPDX-License-Identifier: Apache-2.0

"""A host that sells all that RMD has: claims, restarts, failures."""

from collections.abc import Mapping
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd import shared_pool
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirements
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit.host import backend
from tests.unit.host import late_rmd
from tests.unit.host import with_host

DOMAINS = with_host.DOMAINS

BURST = uuidsentinel.burst
SHARED = uuidsentinel.shared
ALSO_SHARED = uuidsentinel.also_shared
LIMITED = uuidsentinel.limited

#: Server -> what it is allocated on the first domain.
SERVERS: Mapping[str, Mapping[str, int]] = {
    BURST: {classes.BURST: 1},
    SHARED: {classes.SHARED: 1},
    ALSO_SHARED: {classes.SHARED: 1},
    LIMITED: {classes.WAYS: 2, classes.PERCENT: 50},
}


class RmdPoolsTestCase(with_host.RmdHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make()

    def make(self) -> manager.HostManager:
        return self.make_rmd_host(burst_ways=3, shared_servers=2)

    def run_server(
        self,
        uuid: str,
        *,
        held: Mapping[str, int] | None = None,
        attributes: Mapping[str, Mapping[str, str]] | None = None,
    ) -> assignment.Entry:
        number = list(SERVERS).index(uuid) if uuid in SERVERS else len(SERVERS)
        return self.start(
            self.host,
            uuid,
            cpus=frozenset({1 + number}),
            allocations={DOMAINS[0]: dict(held or SERVERS[uuid])},
            requirement=requirements.Requirement(attributes=attributes or {}),
        )

    def run_all(self) -> None:
        for uuid in SERVERS:
            self.run_server(uuid)

    def describe(self) -> dict[str, Any]:
        """Return what is in force of each server, as the kernel has it."""
        found: dict[str, Any] = {}
        for record in self.simulator.daemon.list_records():
            group = self.simulator.groups[record.cos_name]
            if ' ' in record.uuid or '=' in record.uuid:
                members = shared_pool.parse_members(record.uuid)
                self.assertEqual(
                    group.cpus, frozenset().union(*members.values())
                )
            else:
                members = {record.uuid: frozenset(group.cpus)}
            for uuid, cpus in members.items():
                found[uuid] = (
                    sorted(cpus),
                    f'{group.ways[0]:x}',
                    group.bandwidth[0],
                )
        return found

    def find_inventory(self, name: str) -> tuple[int, int]:
        one = backend.find_inventory(self.host, DOMAINS[0], name)
        return one.total, one.reserved


class RmdPoolsTest(RmdPoolsTestCase):
    def test_everybody_has_what_was_sold(self) -> None:
        self.run_all()

        self.assertEqual(
            {
                BURST: ([1], '380', 100),
                SHARED: ([2], '400', 100),
                ALSO_SHARED: ([3], '400', 100),
                LIMITED: ([4], '60', 50),
            },
            self.describe(),
        )

    def test_the_same_is_in_force_after_restarts_of_rmd(self) -> None:
        self.run_all()
        before = self.describe()
        for keep in (True, False, True):
            self.simulator.restart(keep_database=keep)

            self.host.heal()

            self.assertEqual(before, self.describe())
            self.assertEqual((), self.host.problems)

    def test_a_restart_that_kept_everything_changes_nothing(self) -> None:
        self.run_all()
        self.simulator.restart()
        before = len(self.simulator.requests)

        self.host.heal()

        self.assertEqual(
            [('GET', '/v1/workloads'), ('GET', '/v1/cache/l3')],
            self.simulator.requests[before:],
        )

    def test_a_restart_of_the_service_changes_nothing(self) -> None:
        self.run_all()
        before, entries = self.describe(), self.host.entries
        self.host.close()
        changes = sum(one != 'GET' for one, _ in self.simulator.requests)

        self.host = self.make()
        self.host.reconcile(SERVERS)

        self.assertEqual(before, self.describe())
        # One finds out whether these credentials may create workloads.
        self.assertEqual(
            changes + 1,
            sum(one != 'GET' for one, _ in self.simulator.requests),
        )
        self.assertEqual(
            {u: sorted(e.assignments, key=str) for u, e in entries.items()},
            {
                u: sorted(e.assignments, key=str)
                for u, e in self.host.entries.items()
            },
        )

    def test_servers_that_are_gone_leave_nothing_behind(self) -> None:
        self.run_all()
        self.host.close()

        self.host = self.make()
        self.host.reconcile([ALSO_SHARED])

        self.assertEqual({ALSO_SHARED: ([3], '400', 100)}, self.describe())
        self.assertEqual((), self.host.problems)

    def test_a_lost_ledger_loses_nobody_in_the_pool(self) -> None:
        self.run_all()
        before = self.describe()
        self.host.close()
        self.ledger_path += '.new'

        self.host = self.make()
        self.host.reconcile(SERVERS)

        self.assertEqual(before, self.describe())
        self.assertEqual(
            set(SERVERS), {one.subject for one in self.host.problems}
        )

    def test_what_a_burst_server_took_is_not_sold_again(self) -> None:
        self.assertEqual((3, 0), self.find_inventory(classes.BURST))
        self.run_server(BURST)

        self.host.refresh()

        # One is allocated; the other two, which it got as well, are reserved.
        self.assertEqual((3, 2), self.find_inventory(classes.BURST))
        self.host.release(BURST)
        self.host.refresh()
        self.assertEqual((3, 0), self.find_inventory(classes.BURST))

    def test_a_maximum_of_the_flavor_is_kept(self) -> None:
        entry = self.run_server(
            BURST, attributes={classes.BURST: {'max': '2'}}
        )

        (burst,) = classes.pick(entry.assignments, classes.BURST)
        self.assertEqual({'max': 2, 'mask': '300'}, burst.units)
        self.assertEqual(([1], '300', 100), self.describe()[BURST])

    def test_no_more_places_than_the_option_says_are_sold(self) -> None:
        self.run_server(SHARED)
        self.run_server(ALSO_SHARED)

        self.assertRaises(
            exception.CapacityExceeded,
            self.run_server,
            uuidsentinel.third,
            held={classes.SHARED: 1},
        )

    def test_the_pool_takes_one_class_of_service_for_all(self) -> None:
        self.run_server(SHARED)
        self.run_server(ALSO_SHARED)
        self.host.refresh()

        one = backend.find_inventory(self.host, with_host.RDT, with_host.CLOS)

        self.assertEqual((8, 3), (one.total, one.reserved))

    def test_bandwidth_without_ways_is_refused_for_good(self) -> None:
        self.assertRaises(
            exception.ConstraintsViolated,
            self.run_server,
            LIMITED,
            held={classes.PERCENT: 40},
        )

        self.assertEqual({}, self.describe())
        self.assertEqual({}, self.read_rows())

    def test_nothing_leaks_whichever_request_of_a_join_fails(self) -> None:
        self.run_server(SHARED)
        for number in range(1, 14):
            for kind in ('drop', 'status'):
                for when in ('before', 'after'):
                    self.check_failure_at(number, kind, when)

    def check_failure_at(
        self, number: int, kind: faults.Kind, when: faults.When
    ) -> None:
        self.fail_request(number, kind, when)
        with self.subTest(number=number, kind=kind, when=when):
            try:
                self.run_server(ALSO_SHARED)
            except exception.ExtResourcesError:
                self.simulator.faults.clear()
                self.host.heal()
                self.assertEqual({SHARED}, set(self.describe()))
            else:
                self.assertEqual({SHARED, ALSO_SHARED}, set(self.describe()))
            self.simulator.faults.clear()
        self.host.release(ALSO_SHARED)
        self.host.heal()
        self.assertEqual({SHARED: 'applied'}, self.read_rows())
        self.assertEqual({SHARED: ([2], '400', 100)}, self.describe())


class LatePoolTest(late_rmd.LateRmdTestCase, RmdPoolsTestCase):
    """RMD lets a server in long after the client has given up."""

    def test_those_in_the_pool_are_in_it_in_the_end(self) -> None:
        self.run_server(SHARED)
        self.late.count = 1
        self.assertRaises(
            exception.EnforcementFailed, self.run_server, ALSO_SHARED
        )
        # It may still come, so its place is not sold again.
        self.assertEqual(
            {SHARED: 'applied', ALSO_SHARED: 'releasing'}, self.read_rows()
        )

        self.late.arrive()
        for _ in range(3):
            self.host.heal()
            self.late.pass_timeout()

        self.assertEqual({SHARED: 'applied'}, self.read_rows())
        self.assertEqual({SHARED: ([2], '400', 100)}, self.describe())
        self.assertEqual((), self.host.problems)
