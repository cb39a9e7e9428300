# SPDX-License-Identifier: Apache-2.0

"""Each check of the status command: what it notices, and what it says."""

import contextlib
import errno
import importlib.machinery
import importlib.util
import io
import logging
import os
import pathlib
import shutil
import socket
import sqlite3
from typing import Any

import fixtures
from oslo_upgradecheck import upgradecheck
import requests
import requests_mock

from nova_ext_resources.cmd import checks
from nova_ext_resources.conf import reader
from nova_ext_resources.drivers.fpga import inventory
from nova_ext_resources import exception
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources.testing import cpu
from nova_ext_resources.testing import fpga
from nova_ext_resources.testing import rmd_simulator
from tests import base
from tests import ports
from tests import rmd_groups

SUCCESS = upgradecheck.Code.SUCCESS
WARNING = upgradecheck.Code.WARNING
FAILURE = upgradecheck.Code.FAILURE

PLACEMENT = 'http://placement.test'

SEATS = """
resources:
  - name: CUSTOM_SEAT
    units: seats
    description: Seats.
    inventory: {total: 4}
"""

BAD_SEATS = f"""{SEATS}
  - name: CUSTOM_DESK
    units: desks
    description: Desks.
    inventory: {{total: none}}
"""


class ChecksTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.make_folder()
        self.definitions = self.write('definitions.yaml', SEATS)

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def make(self, **groups: dict[str, Any]) -> checks.Checks:
        """Make the checks of a host that needs no backend."""
        made: dict[str, dict[str, Any]] = {
            'DEFAULT': {
                'compute_driver': 'ext_resources.FakeDriver',
                'state_path': self.folder,
            },
            'ext_resources': {'inventory_providers': 'static'},
            'ext_resources_static': {'definitions_file': self.definitions},
            'ext_resources_placement': {
                'auth_type': 'none',
                'endpoint_override': PLACEMENT,
            },
        }
        for group, options in groups.items():
            made.setdefault(group, {}).update(options)
        lines = []
        for group, options in made.items():
            lines.append(f'[{group}]')
            lines += [f'{name} = {value}' for name, value in options.items()]
        path = self.write('nova.conf', '\n'.join(lines))
        return checks.Checks(reader.read_conf([path], [], 'cpu1'), 'cpu1')

    def run_all(self, made: checks.Checks) -> dict[str, upgradecheck.Result]:
        """Run all but those of placement and Nova, which are not here."""
        return {
            name: run(None)
            for name, run in made.list_rows()
            if name not in ('Placement', 'Nova')
        }

    def assert_result(
        self,
        code: upgradecheck.Code,
        words: str,
        name: str,
        **groups: dict[str, Any],
    ) -> None:
        """Make sure of one check, and that all others succeed."""
        found = self.run_all(self.make(**groups))
        checked = found.pop(name)

        self.assertEqual((code, code.name), (checked.code, checked.code.name))
        self.assertIn(words, checked.details or '')
        self.assertEqual(
            {SUCCESS}, {one.code for one in found.values()}, str(found)
        )


class HostTest(ChecksTestCase):
    def test_all_is_well(self) -> None:
        self.assert_result(SUCCESS, 'CUSTOM_SEAT', 'Inventory provider static')

    def test_a_host_without_plugins_offers_nothing(self) -> None:
        self.assert_result(
            WARNING,
            'inventory_providers is empty, so this host offers nothing',
            'Configuration',
            ext_resources={'inventory_providers': ''},
        )

    def test_another_driver_ignores_all_of_it(self) -> None:
        self.assert_result(
            FAILURE,
            'set it to ext_resources.LibvirtDriver',
            'Configuration',
            DEFAULT={'compute_driver': 'libvirt.LibvirtDriver'},
        )

    def test_an_option_of_the_simulated_host(self) -> None:
        made = {'cpus': 'many'}

        error = self.assertRaises(
            exception.InvalidConfiguration, self.make, ext_resources_fake=made
        )

        self.assertIn('[ext_resources_fake] cpus = many', str(error))

    def test_options_of_what_is_off_are_read_too(self) -> None:
        for group, name in (
            ('ext_resources_monitoring', 'interval'),
            ('ext_resources_tuning', 'dry_run'),
        ):
            self.assert_result(
                FAILURE,
                f'[{group}] {name} = often',
                'Monitoring and tuning',
                **{group: {name: 'often'}},
            )

    def test_vcpus_need_cpus_that_are_shared(self) -> None:
        name = 'CPUs of servers that are not pinned'

        self.assert_result(
            WARNING,
            'takes only pinned servers',
            name,
            compute={'cpu_dedicated_set': '2-7'},
        )
        self.assert_result(
            SUCCESS,
            '',
            name,
            compute={'cpu_dedicated_set': '2-7', 'cpu_shared_set': '0-1'},
        )

    def test_what_is_broken_is_found_though_nothing_enables_it(self) -> None:
        self.patch(
            plugins,
            'load_grammar',
            lambda: checks.LOG.warning('Plugin acme is broken.'),
        )

        self.assert_result(WARNING, 'Plugin acme is broken.', 'Plugins')


class PluginsTest(ChecksTestCase):
    def list_failures(self, **groups: dict[str, Any]) -> dict[str, str]:
        found = self.run_all(self.make(**groups))
        return {
            name: one.details or ''
            for name, one in found.items()
            if one.code is FAILURE
        }

    def test_one_that_is_not_installed_fails_once(self) -> None:
        failures = self.list_failures(
            ext_resources={'inventory_providers': 'static,acme'}
        )

        self.assertEqual(['Inventory provider acme'], list(failures))
        self.assertIn("Plugin 'acme' is not", failures.popitem()[1])

    def test_an_enforcer_that_is_misspelt_fails_once(self) -> None:
        simulator = self.useFixture(rmd_simulator.RmdSimulatorFixture())

        failures = self.list_failures(
            ext_resources={
                'inventory_providers': 'rmd',
                'enforcers': 'rdm',
            },
            ext_resources_rmd={'url': simulator.url},
            libvirt={'cpu_power_management': 'True'},
        )

        self.assertEqual(['Enforcer rdm'], list(failures))
        self.assertIn("Plugin 'rdm' is not", failures.popitem()[1])

    def test_one_that_is_named_twice(self) -> None:
        failures = self.list_failures(ext_resources={'enforcers': 'noop,noop'})

        self.assertIn('named twice', failures['Plugins'])

    def test_two_that_manage_the_same(self) -> None:
        found = self.run_all(
            self.make(ext_resources={'inventory_providers': 'resctrl,rmd'})
        )

        self.assertEqual(FAILURE, found['Plugins'].code)
        self.assertIn('enable only one', found['Plugins'].details or '')

    def test_a_claim_test_that_is_not_installed(self) -> None:
        found = self.run_all(self.make(ext_resources={'claim_tests': 'luck'}))

        self.assertEqual(FAILURE, found['Plugins'].code)


class NamesTest(ChecksTestCase):
    NAME = 'Names of options'

    def test_an_option_that_is_misspelt(self) -> None:
        path = os.path.join(self.folder, 'nova.conf')

        self.assert_result(
            WARNING,
            f'{path}: [ext_resources] refresh_intervall has no effect, '
            'because there is no such option. Write refresh_interval.',
            self.NAME,
            ext_resources={'refresh_intervall': '5'},
        )

    def test_one_that_resembles_nothing(self) -> None:
        self.assert_result(
            WARNING,
            'no such option. Remove it.',
            self.NAME,
            ext_resources_static={'zzz': 'secret'},
        )

    def test_one_of_another_group(self) -> None:
        self.assert_result(
            WARNING,
            '[ext_resources] burst_ways has no effect, because there is no '
            'such option. Move it to [ext_resources_resctrl] or '
            '[ext_resources_rmd].',
            self.NAME,
            ext_resources={'burst_ways': '2'},
        )

    def test_one_of_another_group_that_resembles_one_of_its_own(self) -> None:
        for group, name, words in (
            ('ext_resources_rmd', 'shared_ways', 'Move it to [ext_resources_'),
            ('ext_resources_sriov', 'resource_classes', 'resource_class.'),
            ('ext_resources_hostdev', 'resource_class', 'resource_classes.'),
            ('ext_resources_resctrl', 'sockets', 'Remove it.'),
            ('ext_resources', 'path', 'Remove it.'),
        ):
            self.assert_result(
                WARNING, words, self.NAME, **{group: {name: '1'}}
            )

    def test_one_in_a_section_of_nova(self) -> None:
        path = os.path.join(self.folder, 'nova.conf')

        self.assert_result(
            WARNING,
            f'{path}: [compute] inventory_providers has no effect there. '
            'Move it to [ext_resources].',
            self.NAME,
            compute={'inventory_providers': 'resctrl'},
        )

    def test_a_group_that_is_misspelt(self) -> None:
        for wrong, words in (
            ('ext_resource', 'Write [ext_resources].'),
            ('ext_resources_resctl', 'Write [ext_resources_resctrl].'),
            ('extresources_rmd', 'Write [ext_resources_rmd].'),
            ('ext_resources_of_acme', 'install the plugin'),
        ):
            self.assert_result(
                WARNING, f'[{wrong}] has no effect', self.NAME, **{wrong: {}}
            )
            self.assert_result(WARNING, words, self.NAME, **{wrong: {}})

    def test_a_file_in_a_folder_and_one_of_the_host(self) -> None:
        names = ('a', 'b')
        folders = [self.make_folder() for _ in names]
        for folder, name in zip(folders, ('a', 'cpu1'), strict=True):
            with open(f'{folder}/{name}.conf', 'w') as file:
                file.write('[ext_resources]\nlegder_path = /x\n')
        path = self.write(
            'nova.conf', f'[ext_resources]\nhost_config_dir = {folders[1]}'
        )
        conf = reader.read_conf([path], [folders[0]], 'cpu1')

        found = self.run_all(checks.Checks(conf, 'cpu1'))[self.NAME]

        for one in (f'{folders[0]}/a.conf', f'{folders[1]}/cpu1.conf'):
            self.assertIn(
                f'{one}: [ext_resources] legder_path', str(found.details)
            )

    def test_what_others_read_is_theirs(self) -> None:
        self.assert_result(
            SUCCESS,
            '',
            self.NAME,
            cinder={'refresh_interval': '5'},
            libvirt={'hw_machine_typ': 'q35'},
            ext_resources_scheduler={'scarce_classes': ''},
            ext_resources_placement={'auth-url': 'x', 'endpoint': 'x'},
            ext_resources_resctrl_privsep={'helper_command': 'x'},
        )


class DefinitionsTest(ChecksTestCase):
    NAME = 'Inventory provider static'

    def test_a_file_that_is_missing(self) -> None:
        os.remove(self.definitions)

        self.assert_result(FAILURE, 'No such file', self.NAME)

    def test_a_file_that_is_no_yaml(self) -> None:
        self.write('definitions.yaml', 'resources: [')

        self.assert_result(FAILURE, 'line 1', self.NAME)
        self.assert_result(
            FAILURE, f'{self.definitions} cannot be reported', self.NAME
        )

    def test_an_empty_file(self) -> None:
        self.write('definitions.yaml', '')

        self.assert_result(FAILURE, 'must have the key', self.NAME)

    def test_a_file_that_the_system_does_not_let_be_read(self) -> None:
        os.remove(self.definitions)
        self.definitions = self.make_folder()
        os.mkdir(os.path.join(self.definitions, 'seats.yaml'))

        self.assert_result(FAILURE, 'Is a directory', self.NAME)

    def test_an_entry_with_a_mistake(self) -> None:
        self.write('definitions.yaml', BAD_SEATS)

        self.assert_result(FAILURE, "'none' is not of type", self.NAME)
        self.assert_result(
            FAILURE, 'CUSTOM_DESK cannot be reported', self.NAME
        )

    def test_a_pool_that_cannot_be_read(self) -> None:
        self.assert_pools(
            WARNING,
            'No such file',
            'pools: [{name: rack1, resource_class: CUSTOM_RACK1_GB, '
            'source: file, location: /no/such/file}]',
        )

    def test_a_pool_with_a_mistake(self) -> None:
        self.assert_pools(
            FAILURE, 'pool rack1 cannot be reported', 'pools: [{name: rack1}]'
        )

    def assert_pools(
        self, code: upgradecheck.Code, words: str, text: str
    ) -> None:
        self.assert_result(
            code,
            words,
            'Inventory provider shared_pool',
            ext_resources={'inventory_providers': 'shared_pool'},
            ext_resources_shared_pool={
                'pools_file': self.write('pools.yaml', text)
            },
        )

    def test_traits_of_the_compute_node_are_listed(self) -> None:
        tree = cpu.Sysfs(os.path.join(self.folder, 'sys'))
        tree.set_smt(True)

        self.assert_result(
            SUCCESS,
            'The plugin defines CUSTOM_CPU_SMT.',
            'Inventory provider cpu',
            ext_resources={'inventory_providers': 'cpu'},
            ext_resources_cpu={'path': tree.path},
        )

    def test_a_host_with_fpgas(self) -> None:
        tree = fpga.Sysfs(os.path.join(self.folder, 'sys'))
        tree.add_card('0000:3b:00.0')
        options: dict[str, Any] = {
            'ext_resources': {'inventory_providers': 'fpga'},
            'ext_resources_fpga': {'path': tree.path},
        }

        self.assert_result(
            SUCCESS,
            'The plugin defines FPGA.',
            'Inventory provider fpga',
            **options,
        )

        tree.kill('0000:3b:00.0')
        self.assert_result(
            WARNING,
            '0000:3b:00.0 does not answer',
            'Inventory provider fpga',
            **options,
        )

    def test_what_may_come_back_by_itself(self) -> None:
        tree = fpga.Sysfs(os.path.join(self.folder, 'sys'))
        tree.add_card('0000:3b:00.0')
        self.patch(
            inventory.FpgaInventory, 'left_out', frozenset({'FPGA_CARD'})
        )

        self.assert_result(
            WARNING,
            'FPGA_CARD cannot be reported',
            'Inventory provider fpga',
            ext_resources={'inventory_providers': 'fpga'},
            ext_resources_fpga={'path': tree.path},
        )

    def test_a_resource_that_nothing_applies(self) -> None:
        simulator = self.useFixture(rmd_simulator.RmdSimulatorFixture())

        self.assert_result(
            FAILURE,
            'none of these enforcers applies CUSTOM_LLC_WAYS',
            'Inventory provider rmd',
            ext_resources={'inventory_providers': 'rmd'},
            ext_resources_rmd={'url': simulator.url},
        )


class RmdTest(ChecksTestCase):
    def run_rmd(self, url: str, **options: Any) -> set[tuple[Any, str]]:
        found = self.run_all(
            self.make(
                ext_resources={
                    'inventory_providers': 'static,rmd',
                    'enforcers': 'rmd',
                },
                ext_resources_rmd={'url': url, 'retries': 0, **options},
            )
        )
        self.assertEqual(SUCCESS, found['Inventory provider static'].code)
        return {
            (found[name].code, found[name].details or '')
            for name in ('Enforcer rmd', 'Inventory provider rmd')
        }

    def test_one_that_is_well_is_not_changed(self) -> None:
        fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.useFixture(rmd_groups.ShownGroups(fixture.simulator))

        found = self.run_rmd(fixture.url)

        self.assertEqual({SUCCESS}, {code for code, _details in found})
        self.assertEqual(
            {'GET'}, {method for method, *_ in fixture.simulator.requests}
        )

    def test_one_whose_limits_cannot_be_verified(self) -> None:
        fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())

        found = dict(self.run_rmd(fixture.url))

        self.assertEqual({SUCCESS, WARNING}, set(found))
        self.assertIn('no limit of memory bandwidth', found[WARNING])

    def test_one_that_is_off(self) -> None:
        for code, details in self.run_rmd('http://127.0.0.1:1'):
            self.assertEqual(FAILURE, code)
            self.assertIn('Start RMD, or correct', details)

    def test_a_wrong_password(self) -> None:
        fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(users={'nova': 'right'})
        )

        found = self.run_rmd(fixture.url, username='nova', password='wrong')

        for code, details in found:
            self.assertEqual(FAILURE, code)
            self.assertIn('Correct username and password', details)
            self.assertNotIn('wrong', details)

    def test_caches_that_it_does_not_show(self) -> None:
        fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        fixture.simulator.faults.add(
            rmd_simulator.faults.Fault(
                kind='status', status=500, path='/v1/cache/l3'
            )
        )

        for code, details in self.run_rmd(fixture.url):
            self.assertEqual(FAILURE, code)
            self.assertIn('cannot report its caches', details)


class ResctrlTest(ChecksTestCase):
    def run_resctrl(self, path: str) -> upgradecheck.Result:
        found = self.run_all(
            self.make(
                ext_resources={
                    'inventory_providers': 'static,resctrl',
                    'enforcers': 'resctrl',
                },
                ext_resources_resctrl={'path': path},
            )
        )
        self.assertEqual(SUCCESS, found['Inventory provider static'].code)
        self.inventory = found['Inventory provider resctrl']
        self.assertEqual(FAILURE, self.inventory.code)
        return found['Enforcer resctrl']

    def test_a_folder_that_is_not_there(self) -> None:
        found = self.run_resctrl(f'{self.folder}/resctrl')

        self.assertEqual(FAILURE, found.code)
        self.assertIn('mount -t resctrl', found.details or '')

    def test_a_kernel_that_is_too_old(self) -> None:
        path = os.path.join(self.folder, 'resctrl')
        os.makedirs(f'{path}/info')
        for name in ('schemata', 'cpus_list', 'tasks'):
            with open(f'{path}/{name}', 'w', encoding='ascii') as file:
                file.write('L3:0=7ff\n' if name == 'schemata' else '')

        found = self.run_resctrl(path)

        for one in (found, self.inventory):
            self.assertEqual(FAILURE, one.code)
            self.assertIn('Linux 4.19 or later', one.details or '')

    def run_users(self, users: str) -> str:
        options = {'qemu_users': users, 'path': self.folder}
        made = self.make(
            ext_resources={'enforcers': 'resctrl'},
            ext_resources_resctrl=options,
        )
        return self.run_all(made)['Enforcer resctrl'].details or ''

    def test_a_user_that_the_host_does_not_know(self) -> None:
        # Those of the default are of different distributions.
        self.assertNotIn('qemu_users', self.run_users('qemu,libvirt-qemu,0'))

        self.assertIn(
            'qemu_users names nosuchuser, which this host does not know',
            self.run_users('root,nosuchuser'),
        )

    def test_a_folder_that_is_no_mount(self) -> None:
        found = self.run_resctrl(self.folder)

        self.assertEqual(FAILURE, found.code)
        self.assertIn('no file "schemata"', found.details or '')


class LedgerTest(ChecksTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = os.path.join(self.folder, 'ext_resources', 'cpu1.sqlite')
        os.mkdir(os.path.dirname(self.path))

    def test_one_that_is_still_to_be_made(self) -> None:
        self.assert_result(
            SUCCESS, f'nova-compute will create {self.path}', 'Ledger'
        )
        self.assertFalse(os.path.exists(self.path))

    def test_one_that_was_lost_while_a_backend_has_settings(self) -> None:
        simulator = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.useFixture(rmd_groups.ShownGroups(simulator.simulator))
        options: dict[str, Any] = {
            'ext_resources': {
                'inventory_providers': 'rmd',
                'enforcers': 'rmd',
            },
            'ext_resources_rmd': {'url': simulator.url},
        }
        self.assert_result(SUCCESS, 'will create', 'Ledger', **options)
        uuid = '5f1c1d2e-0000-4000-8000-000000000001'
        requests.post(
            f'{simulator.url}/v1/workloads',
            json={
                'uuid': uuid,
                'id': uuid,
                'origin': 'nova-ext-resources',
                'core_ids': ['2', '3'],
                'rdt': {'cache': {'max': 2, 'min': 2}},
            },
            timeout=60,
        ).raise_for_status()

        self.assert_result(
            WARNING, 'are applied (rmd: 1)', 'Ledger', **options
        )
        self.assert_result(WARNING, 'The ledger is lost', 'Ledger', **options)

    def test_one_where_no_file_can_be_made(self) -> None:
        # Root may write there, and the kernel makes no file.
        self.assert_result(
            FAILURE,
            '/proc',
            'Ledger',
            ext_resources={'ledger_path': '/proc/nothere'},
        )

    def test_one_for_which_there_is_no_room(self) -> None:
        real = os.statvfs
        for free, code in ((7, FAILURE), (8, SUCCESS)):
            for has_file in (False, True):
                if has_file:
                    self.write('ext_resources/cpu1.sqlite', '')

                def find(path: str, mib: int = free) -> Any:
                    found = list(real(path))
                    found[1], found[4] = 4096, mib * 256
                    return os.statvfs_result(found)

                with fixtures.MockPatch('os.statvfs', find):
                    self.assert_result(
                        code, '7 MiB free' if code else self.path, 'Ledger'
                    )
            os.unlink(self.path)

    def test_one_that_is_there(self) -> None:
        self.write('ext_resources/cpu1.sqlite', '')

        self.assert_result(SUCCESS, self.path, 'Ledger')

    def write_by_sqlite(self, *statements: str) -> None:
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            for one in statements:
                db.execute(one)
            db.commit()

    def read_folder(self) -> dict[str, bytes]:
        folder = pathlib.Path(self.path).parent
        return {one.name: one.read_bytes() for one in folder.iterdir()}

    def assert_untouched(self, code: upgradecheck.Code, words: str) -> None:
        before = self.read_folder()

        self.assert_result(code, words, 'Ledger')

        self.assertEqual(before, self.read_folder())

    def test_one_that_is_a_folder(self) -> None:
        os.mkdir(self.path)

        self.assert_result(FAILURE, f'{self.path} is a folder', 'Ledger')

    def test_one_that_is_no_database(self) -> None:
        self.write('ext_resources/cpu1.sqlite', 'garbage' * 1000)

        self.assert_untouched(FAILURE, f'{self.path}: the file cannot be')
        self.assert_untouched(FAILURE, 'not a database')

    def test_one_of_a_later_release(self) -> None:
        self.write_by_sqlite('PRAGMA user_version = 99')

        self.assert_untouched(
            FAILURE, f'Ledger {self.path}: the ledger has version 99'
        )

    def test_one_of_other_software(self) -> None:
        self.write_by_sqlite('CREATE TABLE entry (one)')

        self.assert_untouched(FAILURE, f'{self.path}: the file cannot be')

    def test_one_with_a_row_that_is_damaged(self) -> None:
        ledger_mod.Ledger(self.path).close()
        self.write_by_sqlite(
            'INSERT INTO entry (consumer_uuid, state, enforcers) '
            "VALUES ('a', 'lost', '{}')"
        )

        self.assert_untouched(FAILURE, "'lost' is not a valid State")

    def test_one_that_nova_compute_writes(self) -> None:
        ledger = ledger_mod.Ledger(self.path)
        self.addCleanup(ledger.close)
        ledger.put(
            assignment.Entry(
                consumer_uuid='a',
                state=assignment.State.APPLIED,
                assignments=(),
            )
        )

        self.assert_untouched(SUCCESS, f'Entries in {self.path}: 1.')

    def fail_writes(self, err: Exception) -> None:
        def fail(*_args: object, **_fields: object) -> None:
            raise err

        self.useFixture(fixtures.MonkeyPatch('pathlib.Path.write_bytes', fail))

    def test_without_a_folder_for_the_copy(self) -> None:
        self.write('ext_resources/cpu1.sqlite', '')
        gone = os.path.join(self.folder, 'gone')
        self.useFixture(fixtures.MonkeyPatch('tempfile.tempdir', gone))

        self.assert_untouched(WARNING, f'{self.path}: the ledger was not')
        self.assert_untouched(WARNING, 'temporary files')
        self.assert_untouched(WARNING, gone)

    def test_without_room_for_the_copy(self) -> None:
        self.write('ext_resources/cpu1.sqlite', '')
        self.fail_writes(OSError(errno.ENOSPC, 'No space left on device'))

        self.assert_untouched(WARNING, 'temporary files')
        self.assert_untouched(WARNING, 'No space left on device')

    def test_without_room_for_what_sqlite_adds(self) -> None:
        ledger_mod.Ledger(self.path).close()
        full = sqlite3.OperationalError('database or disk is full')
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        err = exception.LedgerError(path='copy', reason='it is full')
        err.__cause__ = full

        def fail(_path: str) -> None:
            raise err

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.host.ledger.ledger.Ledger', fail
            )
        )

        self.assert_untouched(WARNING, 'temporary files')

    def test_one_that_changes_all_the_time(self) -> None:
        """A copy of two halves is no damaged ledger."""
        ledger_mod.Ledger(self.path).close()
        half = pathlib.Path(self.path).read_bytes()[:5000]
        pathlib.Path(self.path).write_bytes(half)

        def change(path: str) -> bytes:
            os.utime(path, ns=(0, os.stat(path).st_mtime_ns + 1))
            return b''

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.host.ledger.snapshot._read_changes', change
            )
        )

        self.assert_untouched(WARNING, 'the ledger was not checked')
        self.assert_untouched(WARNING, 'Try again')

    def test_one_of_a_process_that_was_killed(self) -> None:
        other = os.path.join(self.folder, 'other.sqlite')
        with contextlib.closing(sqlite3.connect(other)) as db:
            db.execute('PRAGMA journal_mode = WAL')
            db.execute('PRAGMA user_version = 99')
            for suffix in ('', '-wal'):
                shutil.copy(f'{other}{suffix}', f'{self.path}{suffix}')

        self.assert_untouched(FAILURE, 'the ledger has version 99')

    def test_one_that_only_nova_knows(self) -> None:
        # Nova is not installed here.
        self.patch(importlib.util, 'find_spec', lambda _name: None)

        self.assert_result(
            SUCCESS,
            'Not checked: [DEFAULT] state_path is not set',
            'Ledger',
            DEFAULT={'state_path': '$pybasedir'},
        )

    def test_the_folder_of_nova_s_installation_is_its_default(self) -> None:
        spec = importlib.machinery.ModuleSpec(
            'nova', None, origin=f'{self.folder}/nova/__init__.py'
        )
        self.patch(importlib.util, 'find_spec', lambda _name: spec)

        for folder, options in (
            ('', {'state_path': '$pybasedir'}),
            ('/state', {'state_path': '$pybasedir/state'}),
        ):
            self.assert_result(
                SUCCESS,
                f'{self.folder}{folder}/ext_resources/cpu1.sqlite',
                'Ledger',
                DEFAULT=options,
            )

    def test_a_folder_below_the_current_one(self) -> None:
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

        for path in ('.', 'state'):
            self.assert_result(
                SUCCESS,
                os.path.abspath(f'{path}/ext_resources/cpu1.sqlite'),
                'Ledger',
                DEFAULT={'state_path': path},
            )

    def test_a_file_below_the_current_folder(self) -> None:
        self.assert_result(
            SUCCESS,
            os.path.abspath('nowhere/ledger.sqlite'),
            'Ledger',
            ext_resources={'ledger_path': 'nowhere/ledger.sqlite'},
        )

    def test_one_in_another_place(self) -> None:
        path = self.write('other.sqlite', '')

        self.assert_result(
            SUCCESS,
            path,
            'Ledger',
            DEFAULT={'state_path': '$pybasedir'},
            ext_resources={'ledger_path': path},
        )

    def test_one_of_another_user(self) -> None:
        self.write('ext_resources/cpu1.sqlite', '')
        # Whoever runs the tests, root too.
        self.patch(os, 'access', lambda path, _mode: path != self.path)

        self.assert_result(FAILURE, 'change the owner', 'Ledger')

    def test_a_hand_over_that_this_user_may_not_see(self) -> None:
        self.write('ext_resources/cpu1.sqlite.hand-over', '?')
        folder = os.path.dirname(self.path)
        self.patch(os, 'access', lambda path, _mode: path != folder)

        self.assert_result(FAILURE, 'change the owner', 'Ledger')

    def test_a_hand_over_that_has_not_ended(self) -> None:
        journal.HandoverJournal(self.path).write(
            journal.Progress(
                source='rmd', target='resctrl', phase=journal.Phase.RELEASED
            )
        )

        self.assert_result(FAILURE, 'is not complete', 'Ledger')


class PowerTest(ChecksTestCase):
    NAME = 'CPUs that Nova switches off'

    def run_with(self, enforcer: str, **options: Any) -> Any:
        found = self.run_all(
            self.make(ext_resources={'enforcers': enforcer}, libvirt=options)
        )
        return found[self.NAME]

    def test_rmd_needs_them(self) -> None:
        # The strategy is Nova's default.
        found = self.run_with('rmd', cpu_power_management='True')

        self.assertEqual(FAILURE, found.code)
        self.assertIn('set this option to governor', found.details)

    def test_all_else_does_not(self) -> None:
        for enforcer, options in (
            ('rmd', {}),
            (
                'rmd',
                {
                    'cpu_power_management': 'True',
                    'cpu_power_management_strategy': 'governor',
                },
            ),
            ('noop', {'cpu_power_management': 'True'}),
        ):
            self.assertEqual(SUCCESS, self.run_with(enforcer, **options).code)


class MetricsTest(ChecksTestCase):
    NAME = 'Metrics'

    def setUp(self) -> None:
        super().setUp()
        self.port = self.useFixture(ports.Port()).number

    def test_a_port_that_this_user_may_not_listen_on(self) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(13, 'Permission denied')

        self.patch(socket.socket, 'bind', refuse)

        self.assert_result(
            FAILURE,
            'port 80: Permission denied; choose another port',
            self.NAME,
            ext_resources_metrics={'port': 80},
        )
        # Nothing is tried where nothing is served.
        self.assert_result(SUCCESS, '', self.NAME)

    def test_an_address_that_this_host_does_not_have(self) -> None:
        self.assert_result(
            WARNING,
            'this host has no such address',
            self.NAME,
            # Of a network for documentation: nobody has it.
            ext_resources_metrics={'port': self.port, 'listen': '192.0.2.1'},
        )

    def test_a_family_of_addresses_that_this_host_does_not_have(self) -> None:
        def refuse(*_: object) -> None:
            raise OSError(97, 'Address family not supported')

        self.patch(socket, 'socket', refuse)

        self.assert_result(
            WARNING,
            'listening on ::1',
            self.NAME,
            ext_resources_metrics={'port': self.port, 'listen': '::1'},
        )

    def test_a_port_on_which_nova_compute_listens_now(self) -> None:
        with socket.create_server(('127.0.0.1', self.port)):
            self.assert_result(
                SUCCESS,
                '',
                self.NAME,
                ext_resources_metrics={'port': self.port},
            )

    def test_nobody_can_connect_to_what_only_checks(self) -> None:
        self.patch(socket.socket, 'listen', lambda *_: self.fail('it listens'))

        self.assert_result(
            SUCCESS, '', self.NAME, ext_resources_metrics={'port': self.port}
        )


class TuningTest(ChecksTestCase):
    NAME = 'Monitoring and tuning'

    def assert_tuning(
        self,
        code: upgradecheck.Code,
        words: str,
        *,
        is_monitored: bool = True,
        **options: Any,
    ) -> None:
        self.assert_result(
            code,
            words,
            self.NAME,
            ext_resources_tuning={'enabled': True, **options},
            ext_resources_monitoring={'enabled': is_monitored},
        )

    def test_the_audit_trail_is_not_made(self) -> None:
        path = os.path.join(self.folder, 'new', 'trail')

        self.assert_tuning(SUCCESS, '', audit_path=path)

        self.assertFalse(os.path.exists(os.path.dirname(path)))

    def test_an_audit_trail_that_cannot_be_made(self) -> None:
        folder = self.make_folder()
        path = os.path.join(folder, 'trail')
        # Whoever runs the tests, root too.
        self.patch(os, 'access', lambda found, _mode: found != folder)

        self.assert_tuning(FAILURE, f'audit_path = {path}', audit_path=path)

    def test_an_audit_trail_below_a_file(self) -> None:
        path = os.path.join(self.definitions, 'trail')

        self.assert_tuning(
            FAILURE,
            f'{self.definitions} is not a folder',
            audit_path=path,
        )

    def test_an_audit_trail_that_is_a_folder_or_a_link(self) -> None:
        link = os.path.join(self.folder, 'link')
        os.symlink('trail', link)
        for path in (self.folder, link):
            self.assert_tuning(FAILURE, path, audit_path=path)

    def test_where_no_option_names_it(self) -> None:
        folder = os.path.join(self.folder, 'ext_resources')
        os.mkdir(folder)
        os.mkdir(os.path.join(folder, 'cpu1-tuning.jsonl'))

        self.assert_tuning(FAILURE, f'{folder}/cpu1-tuning.jsonl')

    def test_options_that_do_not_go_together(self) -> None:
        self.assert_tuning(
            FAILURE, 'give_below must be below want_above', give_below=0.5
        )
        self.assert_tuning(
            FAILURE,
            'the measurements of monitoring, which is off',
            is_monitored=False,
        )

    def test_nothing_is_needed_where_nothing_is_tuned(self) -> None:
        self.assert_tuning(SUCCESS, '', enabled=False, audit_path=self.folder)


class PlacementTest(ChecksTestCase):
    def run_placement(self, **response: Any) -> upgradecheck.Result:
        run = dict(self.make().list_rows())['Placement']
        with requests_mock.Mocker() as mocker:
            mocker.get(requests_mock.ANY, json={'resource_providers': []})
            mocker.put(requests_mock.ANY, **response)
            return run(None)

    def refuse(self, status: int, code: str) -> dict[str, Any]:
        error = {'status': status, 'code': code, 'detail': 'No.'}
        return {'status_code': status, 'json': {'errors': [error]}}

    def test_the_role_is_enough_when_the_provider_is_looked_for(self) -> None:
        found = self.run_placement(
            **self.refuse(404, 'placement.undefined_code')
        )

        self.assertEqual((SUCCESS, None), (found.code, found.details))

    def test_a_role_that_is_not_enough(self) -> None:
        found = self.run_placement(
            **self.refuse(403, 'placement.undefined_code')
        )

        self.assertEqual(FAILURE, found.code)
        self.assertIn(
            'let this user read and change inventories', str(found.details)
        )
        self.assertIn('"service" or the "admin" role', str(found.details))

    def test_a_service_that_is_not_placement(self) -> None:
        found = self.run_placement(status_code=404, text='no')

        self.assertEqual(FAILURE, found.code)
        self.assertIn('endpoint_override', str(found.details))

    def test_no_credentials(self) -> None:
        made = self.make(ext_resources_placement={'auth_type': ''})

        found = dict(made.list_rows())['Placement'](None)

        self.assertEqual(FAILURE, found.code)
        self.assertIn('no credentials for placement', str(found.details))


class RunTest(base.TestCase):
    """What becomes of what a check raises, logs and returns."""

    def run_check(self, check: checks.Check) -> tuple[Any, str | None]:
        result = checks._run(check)
        return result.code, result.details

    def test_a_line_of_a_plugin_is_a_warning_told_once(self) -> None:
        def check() -> str:
            for _ in range(2):
                logging.getLogger('acme').warning('Seats are %s.', 'few')
            logging.getLogger('acme').info('Fine.')
            return 'All is well.'

        self.assertEqual((WARNING, 'Seats are few.'), self.run_check(check))

    def test_a_failure_comes_with_what_was_logged_before(self) -> None:
        def check() -> str:
            logging.getLogger('acme').error('First.')
            raise exception.InvalidResource(name='Then', reason='this')

        self.assertEqual(
            (FAILURE, 'First.\nThen: this'), self.run_check(check)
        )

    def test_nothing_more_is_collected_afterwards(self) -> None:
        before = list(logging.getLogger().handlers)

        self.run_check(str)

        self.assertEqual(before, logging.getLogger().handlers)

    def test_a_bug_is_a_failure_with_its_type(self) -> None:
        def check() -> str:
            raise KeyError('oops')

        with contextlib.redirect_stderr(io.StringIO()) as printed:
            self.assertEqual(
                (FAILURE, "KeyError: 'oops'"), self.run_check(check)
            )

        self.assertIn('Traceback', printed.getvalue())

    def test_a_person_may_end_it(self) -> None:
        def check() -> str:
            raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, checks._run, check)
