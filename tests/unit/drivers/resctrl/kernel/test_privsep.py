# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable
import importlib
import os
from typing import Any

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslo_privsep import capabilities
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import privsep
from tests import base

ONE, TWO = (f'nova-{uuid}' for uuid in (uuidsentinel.a, uuidsentinel.b))

_SYSTEM = 'nova_ext_resources.drivers.resctrl.kernel.system'


class PrivsepTest(base.TestCase):
    def test_the_helper_keeps_one_capability(self) -> None:
        # It is a default of the global options, which tests reset.
        importlib.reload(privsep)

        self.assertEqual(
            [capabilities.CAP_DAC_OVERRIDE], privsep.context.conf.capabilities
        )

    def test_the_helper_can_be_started_by_its_name(self) -> None:
        command = privsep.context.helper_command('/run/socket')

        self.assertIn(
            'nova_ext_resources.drivers.resctrl.kernel.privsep.context',
            command,
        )

    def be_the_helper(self, *, is_resctrl: bool = False) -> None:
        """:param is_resctrl: whether any folder passes for the mount"""
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)
        if is_resctrl:
            self.useFixture(
                fixtures.MonkeyPatch(f'{_SYSTEM}.check', lambda _folder: None)
            )

    def test_the_helper_refuses_what_is_not_resctrl(self) -> None:
        folder = self.make_folder()
        self.be_the_helper()

        for name, *arguments in (
            ('write', folder, 'schemata', 'L3:0=1\n'),
            ('assign', folder, 'tasks', [1]),
            ('mkdir', folder, 'nova-trial'),
            ('rmdir', folder, 'nova-trial'),
        ):
            err = self.assertRaises(
                PermissionError, privsep.call, name, *arguments
            )
            self.assertIn('not the root of a resctrl mount', str(err))
        self.assertEqual([], os.listdir(folder))

    def test_the_helper_does_nothing_else(self) -> None:
        self.be_the_helper(is_resctrl=True)

        self.assertRaises(
            KeyError, privsep.attempt, 'unlink', self.make_folder(), 'schemata'
        )

    def test_the_helper_changes_our_groups(self) -> None:
        folder = self.make_folder()
        self.be_the_helper(is_resctrl=True)
        for path in ('', 'nova-shared/', f'nova-shared/mon_groups/{ONE}/'):
            os.makedirs(f'{folder}/{path}', exist_ok=True)
            for name in ('schemata', 'cpus_list', 'tasks'):
                with open(f'{folder}/{path}{name}', 'w'):
                    pass
        os.mkdir(f'{folder}/mon_groups')

        for name, *arguments in (
            ('write', 'schemata', 'x'),
            ('write', 'nova-shared/schemata', 'x'),
            ('write', 'nova-shared/cpus_list', 'x'),
            ('assign', 'tasks', [1]),
            ('assign', 'nova-shared/tasks', [1]),
            ('assign', f'nova-shared/mon_groups/{ONE}/tasks', [1]),
            ('mkdir', TWO),
            ('rmdir', TWO),
            ('mkdir', f'mon_groups/{TWO}'),
            ('rmdir', f'mon_groups/{TWO}'),
            ('mkdir', f'nova-shared/mon_groups/{TWO}'),
            ('rmdir', f'nova-shared/mon_groups/{TWO}'),
        ):
            with self.subTest(name=name, arguments=arguments):
                privsep.call(name, folder, *arguments)

    def test_the_helper_leaves_all_others_alone(self) -> None:
        folder = self.make_folder()
        self.be_the_helper(is_resctrl=True)

        for name, *arguments in (
            ('write', 'web/schemata', 'x'),
            ('write', 'cpus_list', 'x'),
            ('write', 'tasks', '0'),
            ('write', f'{ONE}/tasks', '0'),
            ('write', f'{ONE}/mode', 'exclusive'),
            ('write', 'info/L3_MON/max_threshold_occupancy', '0'),
            ('write', f'{ONE}/../web/schemata', 'x'),
            ('write', f'{ONE}/mon_groups/../../web/schemata', 'x'),
            ('write', '/etc/passwd', 'x'),
            ('write', '', 'x'),
            ('write', 'schemata\n', 'x'),
            ('assign', 'schemata', [1]),
            ('assign', 'web/tasks', [1]),
            ('assign', f'web/mon_groups/{ONE}/tasks', [1]),
            ('assign', 'mon_groups/web/tasks', [1]),
            ('mkdir', 'web'),
            ('mkdir', f'web/mon_groups/{ONE}'),
            ('mkdir', 'mon_groups/web'),
            ('mkdir', f'{ONE}/..'),
            ('mkdir', 'nova-'),
            ('mkdir', 'nova-api'),
            ('mkdir', f'{ONE}-b'),
            ('mkdir', f'{ONE}\n'),
            ('rmdir', 'nova-api'),
            ('write', 'nova-api/schemata', 'x'),
            ('assign', 'nova-api/tasks', [1]),
            ('rmdir', 'web'),
            ('rmdir', 'mon_groups'),
            ('rmdir', ''),
        ):
            with self.subTest(name=name, arguments=arguments):
                err = self.assertRaises(
                    PermissionError, privsep.call, name, folder, *arguments
                )

                self.assertIn(repr(arguments[0]), str(err))

    def test_a_path_that_changes_after_the_check_leads_nowhere_else(
        self,
    ) -> None:
        """Somebody swaps a link while the helper works."""
        good, bad = self.make_tree(), self.make_tree()
        link = os.path.join(self.make_folder(), 'link')
        self.be_the_helper()

        def check(_folder: int) -> None:
            os.remove(link)
            os.symlink(bad, link)

        self.useFixture(fixtures.MonkeyPatch(f'{_SYSTEM}.check', check))
        for call, name, *arguments in (
            ('write', 'schemata', 'L3:0=1\n'),
            ('assign', 'tasks', [1]),
            ('mkdir', ONE),
            ('rmdir', TWO),
        ):
            if os.path.lexists(link):
                os.remove(link)
            os.symlink(good, link)
            privsep.call(call, link, name, *arguments)

        self.assertEqual(
            {'schemata': 'L3:0=1\n', 'tasks': '1\n', ONE: None},
            read_tree(good),
        )
        self.assertEqual(
            {'schemata': '', 'tasks': '', TWO: None}, read_tree(bad)
        )

    def test_a_link_in_place_of_a_group_is_not_followed(self) -> None:
        good, bad = self.make_tree(), self.make_tree()
        os.symlink(bad, f'{good}/{ONE}')
        self.be_the_helper(is_resctrl=True)

        self.assertRaises(
            OSError, privsep.call, 'write', good, f'{ONE}/schemata', 'x'
        )

        self.assertEqual('', read_tree(bad)['schemata'])

    def make_tree(self) -> str:
        folder = self.make_folder()
        os.mkdir(f'{folder}/{TWO}')
        for name in ('schemata', 'tasks'):
            with open(f'{folder}/{name}', 'w'):
                pass
        return folder

    def test_who_may_write_himself_needs_no_helper(self) -> None:
        folder = self.make_folder()
        real = file_system.RealFileSystem(folder)

        real.mkdir('db')

        self.assertEqual(['db'], real.listdir(''))
        self.assertIsNone(privsep.context.channel)

    def test_a_helper_that_does_not_start_is_told_as_the_kernels_errors_are(
        self,
    ) -> None:
        self.useFixture(config_fixture.Config(cfg.CONF)).config(
            helper_command='/bin/false', group=privsep.context.cfg_section
        )
        # Nobody may write there himself.
        real = file_system.RealFileSystem('/nowhere/resctrl')
        for call, arguments in (
            (real.write, ('schemata', 'L3:0=1\n')),
            (real.assign, ('tasks', [1])),
            (real.mkdir, ('nova-trial',)),
            (real.rmdir, ('nova-trial',)),
        ):
            err = self.assertRaises(
                errors.ResctrlFailed, self.try_it, real, call, *arguments
            )

            self.assertIn('[ext_resources_resctrl_privsep]', str(err))
            self.assertIn('FailedToDropPrivileges', str(err))

    def test_no_sudo_is_not_taken_for_an_error_of_the_kernel(self) -> None:
        self.useFixture(config_fixture.Config(cfg.CONF)).config(
            helper_command='/nowhere/sudo privsep-helper',
            group=privsep.context.cfg_section,
        )
        real = file_system.RealFileSystem('/nowhere/resctrl')

        err = self.assertRaises(
            errors.ResctrlFailed, self.try_it, real, real.rmdir, 'nova-trial'
        )

        self.assertIn('/nowhere/sudo', str(err))
        self.assertIn('sudoers', str(err))

    def test_the_kernels_own_error_comes_through_the_helper(self) -> None:
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)
        # Not resctrl, so the helper refuses it, and no helper is to blame.
        real = file_system.RealFileSystem('/nowhere/resctrl')

        err = self.assertRaises(
            errors.ResctrlError, self.try_it, real, real.mkdir, 'nova-trial'
        )

        self.assertIn('No such file or directory', str(err))
        self.assertNotIn('privileged helper', str(err))

    def try_it(
        self,
        real: file_system.RealFileSystem,
        call: Callable[..., None],
        *arguments: Any,
    ) -> None:
        with file_system.translated(real, 'change it'):
            call(*arguments)


def read_tree(folder: str) -> dict[str, str | None]:
    """Return name -> text, None for folders."""
    found: dict[str, str | None] = {}
    for one in os.scandir(folder):
        found[one.name] = None
        if one.is_file():
            with open(one.path) as file:
                found[one.name] = file.read()
    return found


class ObstacleTest(base.TestCase):
    """What keeps the helper from starting is found without starting it."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = self.make_folder()
        self.useFixture(fixtures.EnvironmentVariable('PATH', self.folder))
        self.useFixture(
            fixtures.MonkeyPatch('sys.executable', '/nowhere/python3')
        )
        for name in ('sudo', 'privsep-helper'):
            self.put(name, '')
        self.put('status', 'Name:\tx\nCapBnd:\t000001ffffffffff\n')

    def put(self, name: str, text: str) -> None:
        path = os.path.join(self.folder, name)
        with open(path, 'w') as file:
            file.write(text)
        os.chmod(path, 0o755)

    def find(self) -> str:
        return privsep.find_problem(os.path.join(self.folder, 'status'))

    def test_there_is_none(self) -> None:
        self.assertEqual('', self.find())

    def test_a_program_that_is_missing_has_its_name(self) -> None:
        for name in ('privsep-helper', 'sudo'):
            os.remove(os.path.join(self.folder, name))

            self.assertIn(f'because {name} is not on the PATH', self.find())

    def test_one_beside_python_is_found(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable('PATH', '/nowhere'))
        self.useFixture(
            fixtures.MonkeyPatch('sys.executable', f'{self.folder}/python3')
        )

        self.assertEqual('', self.find())

    def test_the_command_of_the_options_is_looked_for(self) -> None:
        self.useFixture(config_fixture.Config(cfg.CONF)).config(
            helper_command='/nowhere/doas privsep-helper',
            group=privsep.context.cfg_section,
        )

        self.assertIn('/nowhere/doas', self.find())

    def test_a_container_without_the_capability(self) -> None:
        # All that Docker leaves, without CAP_DAC_OVERRIDE, which is bit 1.
        self.put('status', 'CapBnd:\t00000000a80425f9\n')

        self.assertIn('CAP_DAC_OVERRIDE', self.find())

    def test_this_process_has_a_bounding_set(self) -> None:
        with open(privsep.STATUS) as file:
            self.assertRegex(file.read(), privsep._BOUNDING_SET)
