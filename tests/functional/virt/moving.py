# SPDX-License-Identifier: Apache-2.0

"""Two hosts between which servers move; one check of all that they hold."""

import collections
from collections.abc import Callable, Mapping
import contextlib
import functools
import time
from typing import Any

import fixtures
from nova import context as nova_context
from nova import objects
from nova.virt import fake as nova_fake

from nova_ext_resources.host.reconcile import missing_allocations as allocated
from nova_ext_resources.host.reconcile import stale_allocations
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.testing import fake_clock
from nova_ext_resources.virt.driver import request
from tests.functional.virt import base
from tests import ledgers

State = assignment.State

#: Seconds for Nova to delete what a migration had, the last step of a move.
_DELETED = 20.0


def find_instance(uuid: str) -> Any:
    return objects.Instance.get_by_uuid(
        make_context(uuid),
        uuid,
        expected_attrs=['flavor', 'numa_topology', 'migration_context'],
    )


def make_context(uuid: str, **options: Any) -> Any:
    """Return a context for the cell in which users see a server."""
    context = nova_context.get_admin_context(**options)
    found = objects.InstanceMapping.get_by_instance_uuid(context, uuid)
    nova_context.set_target_cell(context, found.cell_mapping)
    return context


def list_servers() -> list[str]:
    """Return the uuids of all that Nova has, or can restore."""
    context = nova_context.get_admin_context()
    found: list[str] = []
    for cell in objects.CellMappingList.get_all(context):
        nova_context.set_target_cell(context, cell)
        listed = objects.InstanceList.get_by_filters(
            context, {'deleted': False, 'soft_deleted': True}
        )
        found.extend(one.uuid for one in listed)
    return found


class OneDomainFirst(fixtures.Fixture):
    """The scheduler allocates ways of one domain wherever it can."""

    def __init__(self, rp_uuid: str) -> None:
        self._rp_uuid = rp_uuid

    def _setUp(self) -> None:
        def order(_filter: Any, found: Any, _spec: Any) -> list[Any]:
            hosts: list[Any] = list(found)
            for one in hosts:
                one.allocation_candidates.sort(
                    key=lambda made: self._rp_uuid not in made['allocations']
                )
            return hosts

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.scheduler.filters.'
                'ExtendedResourcesFilter.filter_all',
                order,
            )
        )


class MovesTestCase(base.NovaTestCase):
    """``self.services`` has host1 and host2."""

    HOSTS: tuple[str, ...] = ('host1', 'host2')

    #: State of an entry for a guest that is not there.
    WAITS = State.PARKED

    #: In how many domains a server has what its flavor requests.
    DOMAINS = 1

    def setUp(self) -> None:
        super().setUp()
        self.services = {host: self.start_host(host) for host in self.HOSTS}

    # -- what a backend says ---------------------------------------------

    def make_own_flavor(self, amount: int) -> str:
        """Make a flavor that requests extended resources."""
        return self.make_pinned_flavor(amount)

    def list_applied(self, host: str) -> dict[str, dict[str, int]] | None:
        """Return consumer -> provider -> mask; None: nothing shows them."""
        simulator = self.rmds[host].simulator
        return {
            uuid: {f'L3_{n}': m for n, m in simulator.ways_of(uuid).items()}
            for group in simulator.list_groups()
            for uuid in group['workloads']
        }

    # -- what a test does --------------------------------------------------

    def tell(self, *steps: Callable[[], None]) -> None:
        """Play steps of a story, each with servers of its own.

        Hosts are dear to start. After each step all agree that none of its
        servers has left anything. A traceback has the step that failed.
        """
        version = self.admin_api.microversion
        for step in steps:
            step()
            self.admin_api.microversion = version
            self._delete_all()

    def forget(self, server: Any) -> None:
        """Delete what Nova leaves of a server that was deleted on its way."""
        for uuid in (server['id'], self.find_migration(server).uuid):
            self._delete_server_allocations(uuid)

    def _delete_all(self) -> None:
        for one in self.admin_api.get_servers():
            self._delete_server(one)
        self.assert_agreement()

    def get_ext(self, host: str) -> Any:
        return self.services[host].driver._ext

    def get_host(self, host: str) -> Any:
        return self.get_ext(host).host

    def act(self, server: Any, action: str, **body: Any) -> None:
        self.admin_api.post_server_action(server['id'], {action: body or None})

    def resize(self, server: Any, flavor: str) -> Any:
        self.act(server, 'resize', flavorRef=flavor)
        return self._wait_for_state_change(server, 'VERIFY_RESIZE')

    def migrate(self, server: Any) -> Any:
        self.act(server, 'migrate')
        return self._wait_for_state_change(server, 'VERIFY_RESIZE')

    def migrate_live(self, server: Any, host: str | None = None) -> Any:
        self.act(server, 'os-migrateLive', host=host, block_migration='auto')
        moved = self._wait_for_state_change(server, 'ACTIVE')
        # Nova ends it after that; a former one may be completed, too.
        self.wait_until(
            lambda: self.find_migration(server).status == 'completed'
        )
        return moved

    def confirm(self, server: Any) -> Any:
        self.act(server, 'confirmResize')
        self._wait_for_migration_status(server, ['confirmed'])
        return self._wait_for_state_change(server, 'ACTIVE')

    def revert(self, server: Any, state: str = 'ACTIVE') -> Any:
        self.act(server, 'revertResize')
        # That of the new cell is, before the former host goes on.
        self.wait_until(
            lambda: self.find_migration(server).status in ('reverted', 'error')
        )
        return self._wait_for_state_change(server, state)

    def settle(self, server: Any) -> Any:
        """Return a server when Nova has deleted what its migration had."""
        move = self.find_migration(server).uuid
        self.wait_until(lambda: not self._get_allocations_by_server_uuid(move))
        return server

    def find_migration(self, server: Any) -> Any:
        """Return the last one of a server.

        Nova copies them to the next cell in another order.
        """
        found = objects.MigrationList.get_by_filters(
            make_context(server['id'], read_deleted='yes'),
            {'instance_uuid': server['id']},
        )
        return max(found, key=lambda one: (one.created_at, one.id))

    def set_by_hand(self, migration_uuid: str) -> None:
        """Allocate to a server what its migration has, as the manual says."""
        held = self._get_allocations_by_server_uuid(migration_uuid)
        (instance,) = map(find_instance, list_servers())
        self._delete_server_allocations(migration_uuid)
        self._delete_server_allocations(instance.uuid)
        self.placement.put(
            f'/allocations/{instance.uuid}',
            {
                'allocations': {
                    rp_uuid: {'resources': one['resources']}
                    for rp_uuid, one in held.items()
                },
                'project_id': instance.project_id,
                'user_id': instance.user_id,
                'consumer_generation': None,
            },
            version='1.28',
        )

    def restart(self, host: str) -> None:
        self.stop_compute(self.services[host])
        self.services[host] = self.start_again(self.services[host])
        self.publish(self.services[host])

    def compare(self, host: str) -> None:
        """Have a host compare what it holds with Nova, as time goes by.

        The answer is used whole, by this round, and not piece by piece by
        those of the host's thread.
        """
        loop = self.get_ext(host).periodic
        with fixtures.MockPatchObject(loop, 'wake'):
            loop._ask(is_first=False)
            loop._asking.join(base.SECONDS)
        loop.run_round()

    # -- what agrees afterwards --------------------------------------------

    def assert_agreement(self, **expected: dict[str, State]) -> None:
        """Ledger, placement, backend and the flavors of Nova's servers agree.

        :param expected: host -> consumer -> state of its entry
        """
        servers = list_servers()
        for host in self.HOSTS:
            entries = self.get_host(host).entries
            states = {uuid: one.state for uuid, one in entries.items()}
            self.assertEqual(expected.get(host, {}), states, host)
            self._assert_ledger(host, entries)
            self._assert_placement(host, entries)
            self._assert_applied(host, entries)
            self._assert_flavors(host, entries, servers)
            self._assert_view(host, entries)
            self._assert_no_alarm(host)
            self.assert_no_difference(host)

    def assert_no_difference(self, *hosts: str) -> None:
        """The hosts find none to placement, however long they look."""
        for host in hosts:
            self.assertEqual((), self.list_differences(host))
            self.assertEqual((), self.list_unheld(host))
            self.assertEqual({}, self.get_host(host).state.unallocated)

    def list_differences(self, host: str) -> tuple[alarm.Problem, ...]:
        """Return what a host has found after it has looked for long."""
        return self._look_for_long(self.get_ext(host).missing_allocations)

    def list_unheld(self, host: str) -> tuple[alarm.Problem, ...]:
        """Return what is allocated there to consumers that hold nothing."""
        return self._look_for_long(
            self.get_ext(host).stale_allocations, stale_allocations.PATIENCE
        )

    def assert_named(self, host: str, server: Any, migration: str) -> None:
        """The host tells that a migration has what its server holds."""
        (told,) = self.list_differences(host)
        self.assertEqual(
            (alarm.NOT_IN_PLACEMENT, server['id']), (told.alarm, told.subject)
        )
        self.assertIn(f'its migration {migration}', told.text)
        self.assertEqual({}, self.get_host(host).state.unallocated)

    def _look_for_long(
        self,
        made: allocated.MissingAllocations
        | stale_allocations.StaleAllocations,
        seconds: float = allocated.LASTING,
    ) -> tuple[alarm.Problem, ...]:
        for now in (time.monotonic(), time.monotonic() + seconds + 1):
            with fixtures.MockPatchObject(
                made._debounce,
                '_clock',
                fake_clock.FakeClock(functools.partial(float, now)),
            ):
                made.run_round()
        return made.problems

    def _assert_ledger(
        self, host: str, entries: Mapping[str, assignment.Entry]
    ) -> None:
        path = self.get_ext(host)._ledger_path
        stored = ledgers.read_entries(path)
        self.assertEqual(
            {uuid: _sort(one) for uuid, one in entries.items()},
            {uuid: _sort(one) for uuid, one in stored.items()},
        )

    def _assert_placement(
        self, host: str, entries: Mapping[str, assignment.Entry]
    ) -> None:
        held = {
            (uuid, one.rp_uuid, one.resource_class): one.amount
            for uuid, entry in entries.items()
            for one in entry.assignments
            if one.is_allocated
        }
        deadline = time.monotonic() + _DELETED
        while (allocated := self._list_allocated(host)) != held:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.assertEqual(allocated, held, host)

    def _list_allocated(self, host: str) -> dict[tuple[str, str, str], int]:
        return {
            (uuid, rp_uuid, name): amount
            for rp_uuid in self.get_host(host).view.keys
            for uuid, found in self._get_allocations_by_provider_uuid(
                rp_uuid
            ).items()
            for name, amount in found['resources'].items()
        }

    def _assert_applied(
        self, host: str, entries: Mapping[str, assignment.Entry]
    ) -> None:
        applied = self.list_applied(host)
        if applied is None:
            return
        wanted = {
            uuid: entry
            for uuid, entry in entries.items()
            if entry.state is State.APPLIED
        }
        self.assertEqual(set(wanted), set(applied), host)
        for uuid, entry in wanted.items():
            masks = {
                one.rp_key: int(one.units['mask'], 16)
                for one in entry.assignments
                if 'mask' in one.units
            }
            there = {key: applied[uuid].get(key) for key in masks}
            self.assertEqual(masks, there, host)

    def _assert_flavors(
        self,
        host: str,
        entries: Mapping[str, assignment.Entry],
        servers: list[str],
    ) -> None:
        """Each has what its flavor said when it was booted or resized."""
        grammar = self.get_ext(host).grammar
        ours = self.get_host(host).view.resource_classes
        here = set()
        for server_uuid in servers:
            instance = find_instance(server_uuid)
            kept = self.find_kept(instance)
            sides = [(instance.uuid, instance.host, instance.flavor)]
            if kept:
                sides.append(kept)
            for uuid, where, flavor in sides:
                asked = request.make_requirement(flavor, grammar).resources
                wanted = {
                    name: self.DOMAINS * amount
                    for name, amount in asked.items()
                    if name in ours
                }
                if where == host and wanted:
                    here.add(uuid)
                    self.assertEqual(wanted, _add_up(entries[uuid]), host)
            own = entries.get(instance.uuid)
            if instance.host == host and own is not None:
                self.assertEqual(request.find_cpus(instance), own.cpus)
        self.assertEqual(here, set(entries), host)

    def assert_gone(self, server: Any) -> None:
        """Make sure that a server deleted on its way leaves nothing behind.

        But for what Nova leaves in placement, under the migration's uuid: it
        gives that back to a server that it has deleted. Then the audits of
        Nova and of this package find the allocation.
        """
        uuids = {server['id'], self.find_migration(server).uuid}
        self.wait_for_failure(server)
        for host in self.HOSTS:
            self.compare(host)
            self.assertEqual({}, self.get_host(host).entries)
            self._assert_view(host, {})
            self._assert_applied(host, {})
            self._assert_no_alarm(host)
            # Nova gives the allocations back after it has ended the move.
            self.wait_until(functools.partial(self._has_left, host, uuids))

    def wait_for_evacuation(self, server: Any) -> Any:
        """Return a server when it is on its next host, where it is off.

        Nova says that it is off before it records the host.
        """
        self._wait_for_server_parameter(
            server, {'status': 'SHUTOFF', 'OS-EXT-STS:task_state': None}
        )
        self._wait_for_migration_status(server, ['done', 'completed'])
        return self.admin_api.get_server(server['id'])

    def wait_for_failure(self, server: Any) -> None:
        """Return when Nova has given a move up."""
        self.wait_until(lambda: self.find_migration(server).status == 'error')

    def _has_left(self, host: str, uuids: set[str]) -> bool:
        """Return whether placement has ours only of what Nova leaves."""
        node = self._get_provider_uuid_by_host(host)
        own = self._get_allocations_by_provider_uuid(node).keys() & uuids
        return all(
            self._get_allocations_by_provider_uuid(one).keys() <= own
            for one in self.get_host(host).view.keys
        )

    def find_kept(self, instance: Any) -> tuple[str, str, Any] | None:
        """Return what the source keeps of a server: consumer, host, flavor."""
        if instance.vm_state != 'resized':
            return None
        migration = self.find_migration({'id': instance.uuid})
        return migration.uuid, migration.source_compute, instance.old_flavor

    def _assert_view(
        self, host: str, entries: Mapping[str, assignment.Entry]
    ) -> None:
        used: collections.Counter[Any] = collections.Counter()
        for entry in entries.values():
            for one in entry.assignments:
                used[one.rp_uuid, one.resource_class] += one.amount
        counted = {
            place: tracked.state.used
            for place, tracked in self.get_host(host).view.tracked.items()
            if tracked.state.used
        }
        self.assertEqual(dict(used), counted, host)

    def _assert_no_alarm(self, host: str) -> None:
        self.assertEqual((), self.list_problems(host))

    def list_problems(self, host: str) -> tuple[alarm.Problem, ...]:
        """Return what a round of a host finds wrong with it or a server."""
        ext = self.get_ext(host)
        loop = ext.periodic
        loop.run_round()
        return (
            *ext.host.problems,
            *loop._restore.problems,
            *loop._absent.problems,
        )


def _sort(entry: assignment.Entry) -> tuple[Any, ...]:
    held = sorted(
        (one.rp_key, one.resource_class, one.amount, str(dict(one.units)))
        for one in entry.assignments
    )
    return entry.consumer_uuid, entry.server_uuid, entry.state, held


def _add_up(entry: assignment.Entry) -> dict[str, int]:
    """Return how much of each class is allocated to it."""
    total: collections.Counter[str] = collections.Counter()
    for one in entry.assignments:
        if one.is_allocated:
            total[one.resource_class] += one.amount
    return dict(total)


@contextlib.contextmanager
def failing(method: str, text: str = 'the disk is gone') -> Any:
    """Let a method of Nova's fake driver fail."""
    original = getattr(nova_fake.FakeDriver, method)

    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError(text)

    setattr(nova_fake.FakeDriver, method, fail)
    try:
        yield
    finally:
        setattr(nova_fake.FakeDriver, method, original)
