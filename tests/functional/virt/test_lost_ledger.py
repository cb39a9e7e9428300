# SPDX-License-Identifier: Apache-2.0

"""A host starts with servers, and without its ledger."""

from collections.abc import Iterable
import dataclasses
import pathlib
from typing import Any

import fixtures

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.testing import resctrl
from tests.functional.resctrl import mounting
from tests.functional.virt import base

_IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'

_SEATS = """
resources:
  - name: CUSTOM_SEAT
    units: seats
    description: Seats of a licence.
    inventory: {total: 3}
"""


def sort(entry: assignment.Entry) -> assignment.Entry:
    """Return an entry without its time, with its assignments in one order."""
    held: Iterable[assignment.Assignment] = sorted(
        entry.assignments, key=lambda one: (one.rp_uuid, one.resource_class)
    )
    return dataclasses.replace(entry, claimed_at=None, assignments=tuple(held))


class LostLedgerTestCase(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')

    @property
    def ext(self) -> Any:
        return self.service.driver._ext

    @property
    def host(self) -> Any:
        return self.ext.host

    def lose_ledger(self) -> None:
        """Delete it while nova-compute is down; the guests run on."""
        path = self.host._ledger.path
        self.stop_compute(self.service)
        for suffix in ('', '-wal', '-shm', '.lock'):
            pathlib.Path(f'{path}{suffix}').unlink(missing_ok=True)
        self.service = self.start_again(self.service)

    def list_alarms(self) -> list[tuple[str, str]]:
        return [
            (one.name, one.subject)
            for one in self.ext.metrics.read_health().alarms
        ]


class CountedTest(LostLedgerTestCase):
    """Nothing on the host shows what servers hold."""

    plugins = 'static'
    enforcers = ''

    def _write_conf(self) -> None:
        super()._write_conf()
        path = self.folder / 'definitions.yaml'
        path.write_text(_SEATS)
        with (self.folder / 'ext.conf').open('a') as conf:
            conf.write(f'[ext_resources_static]\ndefinitions_file = {path}\n')

    def test_servers_hold_what_placement_says(self) -> None:
        server = self.boot(self.make_flavor(resources__CUSTOM_SEAT=2))
        before = self.host.find_entry(server['id'])

        self.lose_ledger()

        self.wait_until(lambda: self.host.entries)
        entry = self.host.find_entry(server['id'])
        self.assertEqual(before.assignments, entry.assignments)
        self.wait_until(
            lambda: (
                self.host.entries[server['id']].state
                is assignment.State.APPLIED
            )
        )
        (tracked,) = self.host.view.tracked.values()
        self.assertEqual(1, tracked.state.free)
        self._delete_server(server)
        self.assertEqual({}, self.host.entries)


class RmdTest(LostLedgerTestCase):
    """RMD does not tell which ways a workload has."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_pinned_flavor(4))
        self.workloads = self.list_workloads('host1')
        self.lose_ledger()
        self.wait_until(self.is_reported)

    def is_reported(self) -> bool:
        return (alarm.NOT_RECORDED, self.server['id']) in self.list_alarms()

    def test_what_is_applied_stays_and_is_not_given_away(self) -> None:
        self.publish(self.service)

        self.assertEqual({}, self.host.entries)
        self.assertEqual(self.workloads, self.list_workloads('host1'))
        free = [
            tracked.state.free
            for (_uuid, name), tracked in self.host.view.tracked.items()
            if name == 'CUSTOM_LLC_WAYS'
        ]
        self.assertEqual([2, 6], sorted(free))

    def test_a_rebuild_is_not_in_its_own_way(self) -> None:
        claim = self.host.claim

        def claim_after_a_round(*args: Any, **kwargs: Any) -> Any:
            # It says nothing of a server that starts.
            self.ext._restore.run()
            return claim(*args, **kwargs)

        self.useFixture(
            fixtures.MockPatchObject(self.host, 'claim', claim_after_a_round)
        )

        self._rebuild_server(self.server, _IMAGE)

        self.assert_in_force(self.server, 4)
        self.publish(self.service)
        self.assertEqual((), self.host.problems)
        self.assertFalse(self.is_reported())

    def test_who_is_deleted_leaves_nothing_behind(self) -> None:
        self._delete_server(self.server)

        self.wait_until(lambda: not self.list_workloads('host1'))
        self.wait_until(lambda: not self.is_reported())
        self.assertEqual({}, self.host.entries)


class ResctrlTest(LostLedgerTestCase):
    """Control groups show what servers have."""

    plugins = 'resctrl'
    enforcers = 'resctrl'

    def setUp(self) -> None:
        mounting.require()
        self.machine = self.useFixture(
            resctrl.ResctrlFixture('skylake2', fuse=True)
        )
        self.host_options = (
            '[ext_resources_resctrl]\n'
            f'path = {self.machine.path}\n'
            f'cpu_path = {self.machine.cpu_path}\n'
        )
        super().setUp()

    def list_groups(self) -> dict[str, Any]:
        return {
            name: group
            for name, group in self.machine.kernel.list_groups().items()
            if name.startswith('nova-')
        }

    def test_servers_have_the_units_of_their_groups(self) -> None:
        servers = [self.boot(self.make_pinned_flavor(n)) for n in (3, 2)]
        before = {u: sort(one) for u, one in self.host.entries.items()}
        groups = self.list_groups()
        self.assertEqual(2, len(groups))

        self.lose_ledger()

        self.wait_until(lambda: len(self.host.entries) == 2)
        after = {u: sort(one) for u, one in self.host.entries.items()}
        self.assertEqual(before, after)
        self.assertEqual(groups, self.list_groups())
        self.wait_until(lambda: not self.list_alarms())
        for server in servers:
            self._delete_server(server)
        self.assertEqual({}, self.list_groups())
