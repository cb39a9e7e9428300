# SPDX-License-Identifier: Apache-2.0

"""What Nova does with a server when it calls a method of the driver."""

from typing import Any

from nova.compute import task_states
from nova.compute import vm_states
from nova.objects import instance as instance_obj
from nova.virt.libvirt import driver as libvirt_driver

from nova_ext_resources.facts import operation
from nova_ext_resources.virt.driver import operations
from tests import base

Operation = operation.Operation

HERE = 'host1'
ELSEWHERE = 'host2'

#: Calls of methods that mean the same in every state.
ALWAYS = {
    'boot': ('prepare_for_spawn', Operation.BOOT),
    'boot refused early': ('failed_spawn_cleanup', Operation.BUILD_FAILED),
    'reboot': ('reboot', Operation.RESTART),
    'start': ('power_on', Operation.RESTART),
    'resume': ('resume', Operation.RESTART),
    'rescue': ('rescue', Operation.RESTART),
    'unrescue': ('unrescue', Operation.RESTART),
    'start of the host': ('resume_state_on_host_boot', Operation.RESTART),
    'resize, source': ('migrate_disk_and_power_off', Operation.MOVE_OUT),
    'resize, destination': ('finish_migration', Operation.MOVE_IN),
    'resize confirmed': ('confirm_migration', Operation.CONFIRM),
    'resize reverted': ('finish_revert_migration', Operation.REVERT_IN),
    'live 1': ('check_can_live_migrate_destination', Operation.MOVE_IN),
    'live 2': ('pre_live_migration', Operation.MOVE_IN),
    'live 3': ('live_migration', Operation.MOVE_OUT),
    'live 4': ('post_live_migration', Operation.MOVE_OUT),
    'live 5': ('post_live_migration_at_source', Operation.MOVE_OUT),
    'live 6': ('post_live_migration_at_destination', Operation.MOVE_IN),
    'live, failed': (
        'rollback_live_migration_at_destination',
        Operation.REVERT_OUT,
    ),
}

#: What Nova's calls of ``spawn`` mean: host, task state, state of the server.
SPAWNS = {
    'boot': ((HERE, 'spawning', 'building'), Operation.BOOT),
    'unshelve': ((HERE, 'spawning', 'shelved_offloaded'), Operation.UNSHELVE),
    'rebuild': ((HERE, 'rebuild_spawning', 'active'), Operation.REBUILD),
    'reboot of a guest that is missing': (
        (HERE, 'reboot_started_hard', 'error'),
        Operation.RESTART,
    ),
    'evacuate': (
        (ELSEWHERE, 'rebuild_spawning', 'active'),
        Operation.EVACUATE_IN,
    ),
    'resize from another cell': (
        (ELSEWHERE, 'resize_finish', 'active'),
        Operation.MOVE_IN,
    ),
    'its revert': ((HERE, 'resize_reverting', 'resized'), Operation.REVERT_IN),
}

#: The same for ``destroy``.
DESTROYS = {
    'delete': ((HERE, 'deleting', 'active'), Operation.DELETE),
    'delete on a host that came back': (
        (HERE, None, 'deleted'),
        Operation.DELETE,
    ),
    'delete before it had a host': ((None, None, 'error'), Operation.DELETE),
    'shelve': (
        (HERE, 'shelving_offloading', 'shelved'),
        Operation.SHELVE_OFFLOAD,
    ),
    'boot failed': ((HERE, 'spawning', 'building'), Operation.BUILD_FAILED),
    'boot failed before': (
        (HERE, 'block_device_mapping', 'building'),
        Operation.BUILD_FAILED,
    ),
    'rebuild': ((HERE, 'rebuilding', 'active'), Operation.REBUILD),
    'rebuild, spawning': (
        (HERE, 'rebuild_spawning', 'active'),
        Operation.REBUILD,
    ),
    'evacuated while this host was down': (
        (ELSEWHERE, None, 'active'),
        Operation.EVACUATE_OUT,
    ),
    'evacuated, and in another operation by now': (
        (ELSEWHERE, 'rebuilding', 'active'),
        Operation.EVACUATE_OUT,
    ),
    'resize reverted, destination': (
        (HERE, 'resize_reverting', 'resized'),
        Operation.REVERT_OUT,
    ),
    'resize to another cell': (
        (HERE, 'resize_migrating', 'active'),
        Operation.MOVE_OUT,
    ),
    'evacuated, and resized by now': (
        (ELSEWHERE, 'resize_migrating', 'active'),
        Operation.EVACUATE_OUT,
    ),
    'live migration failed, destination': (
        (ELSEWHERE, 'migrating', 'active'),
        Operation.REVERT_OUT,
    ),
}


class OperationTest(base.TestCase):
    def make_instance(
        self,
        host: str | None = HERE,
        task_state: str | None = None,
        vm_state: str = 'active',
    ) -> Any:
        return instance_obj.Instance(
            uuid='any',
            host=host,
            task_state=task_state,
            vm_state=vm_state,
        )

    def find(self, method: str, instance: Any, **arguments: Any) -> Operation:
        return operations.find_operation(method, instance, HERE, **arguments)

    def test_most_methods_have_one_meaning(self) -> None:
        for what, (method, expected) in ALWAYS.items():
            for state in (None, 'spawning', 'rebuilding', 'deleting'):
                with self.subTest(what, state=state):
                    instance = self.make_instance(task_state=state)

                    self.assertIs(expected, self.find(method, instance))

    def test_spawn_depends_on_the_state_of_the_server(self) -> None:
        for what, (fields, expected) in SPAWNS.items():
            with self.subTest(what):
                found = self.find('spawn', self.make_instance(*fields))

                self.assertIs(expected, found)

    def test_so_does_destroy(self) -> None:
        for what, (fields, expected) in DESTROYS.items():
            with self.subTest(what):
                found = self.find('destroy', self.make_instance(*fields))

                self.assertIs(expected, found)

    def test_a_guest_that_does_not_start_goes_back_to_its_cell(self) -> None:
        for host, state, expected in (
            (ELSEWHERE, 'resize_finish', Operation.REVERT_OUT),
            (HERE, 'resize_finish', Operation.MOVE_IN),
            (HERE, 'rebuild_spawning', Operation.REBUILD),
            (ELSEWHERE, 'rebuild_spawning', Operation.EVACUATE_IN),
        ):
            with self.subTest(host=host, state=state):
                instance = self.make_instance(host, state)
                begun = self.find('spawn', instance)

                found = operations.find_end(begun, instance, HERE)

                self.assertIs(expected, found)

    def test_disks_are_deleted_as_a_move_to_another_cell_is_confirmed(
        self,
    ) -> None:
        for host, state, expected in (
            (HERE, 'resize_migrated', True),
            # Nova's libvirt driver deletes them in ``destroy`` as well.
            (HERE, 'deleting', False),
            (HERE, 'resize_migrating', False),
            # Within a cell.
            (ELSEWHERE, 'resize_migrated', False),
        ):
            with self.subTest(host=host, state=state):
                instance = self.make_instance(host, state)

                found = operations.is_confirmed_to_cell(instance, HERE)

                self.assertIs(expected, found)

    def test_a_source_that_comes_back_while_it_is_evacuated(self) -> None:
        instance = self.make_instance(HERE, 'rebuild_spawning')
        instance.uuid = 'evacuated'
        for evacuated, expected in (
            ({'evacuated'}, Operation.EVACUATE_OUT),
            ({'other'}, Operation.REBUILD),
        ):
            found = self.find(
                'destroy', instance, is_evacuated=evacuated.__contains__
            )

            self.assertIs(expected, found)

    def test_a_guest_that_starts_again_keeps_its_claim_in_all_states(
        self,
    ) -> None:
        for state in (None, 'powering-on', 'reboot_started_hard', 'deleting'):
            with self.subTest(state=state):
                instance = self.make_instance(task_state=state)

                found = self.find('destroy', instance, destroy_secrets=False)

                self.assertTrue(found.keeps_claim)

    def test_what_stays_on_its_host_or_has_claimed_before_keeps_its_claim(
        self,
    ) -> None:
        self.assertEqual(
            {
                Operation.MOVE_IN,
                Operation.REBUILD,
                Operation.RESTART,
                Operation.REVERT_IN,
            },
            {one for one in Operation if one.keeps_claim},
        )

    def test_a_method_that_changes_no_claim_has_no_operation(self) -> None:
        for method in ('power_off', 'suspend', 'pause', 'snapshot'):
            self.assertRaises(
                KeyError, self.find, method, self.make_instance()
            )

    def test_the_states_of_this_table_are_nova_s(self) -> None:
        known = {
            value
            for module in (task_states, vm_states)
            for value in vars(module).values()
            if isinstance(value, str)
        }
        rows = [*SPAWNS.values(), *DESTROYS.values()]
        used = {one for fields, _found in rows for one in fields[1:] if one}

        self.assertEqual(set(), used - known)


class HardRebootTest(base.TestCase):
    """Nova's driver says when it starts a guest again."""

    def test_it_destroys_the_guest_without_its_secrets(self) -> None:
        class Destroyed(Exception):
            pass

        class Driver:
            def __init__(self) -> None:
                self.arguments: dict[str, Any] = {}

            def __getattr__(self, name: str) -> Any:
                return lambda *args, **kwargs: {}

            def destroy(self, *args: Any, **kwargs: Any) -> None:
                self.arguments = kwargs
                raise Destroyed

        nova_driver = Driver()

        self.assertRaises(
            Destroyed,
            libvirt_driver.LibvirtDriver._hard_reboot,
            nova_driver,
            None,
            instance_obj.Instance(),
            None,
            None,
        )

        self.assertIs(False, nova_driver.arguments['destroy_secrets'])
