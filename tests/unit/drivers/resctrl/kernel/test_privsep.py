# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable
import importlib
import os
from typing import Any

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslo_privsep import capabilities

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import files
from nova_ext_resources.drivers.resctrl.kernel import privsep
from tests import base

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

    def test_the_helper_refuses_what_is_not_resctrl(self) -> None:
        folder = self.make_folder()
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)

        for arguments in (
            ('write', f'{folder}/schemata', 'L3:0=1\n'),
            ('assign', f'{folder}/tasks', [1]),
            ('mkdir', f'{folder}/db'),
            ('rmdir', folder),
        ):
            self.assertRaises(PermissionError, privsep.call, *arguments)
        self.assertEqual([], os.listdir(folder))

    def test_the_helper_does_nothing_else(self) -> None:
        folder = self.make_folder()
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)
        self.useFixture(
            fixtures.MonkeyPatch(f'{_SYSTEM}.check', lambda _folder: None)
        )

        self.assertRaises(
            KeyError, privsep.call, 'unlink', f'{folder}/schemata'
        )

    def test_a_path_that_changes_after_the_check_leads_nowhere_else(
        self,
    ) -> None:
        """Somebody swaps a link while the helper works."""
        good, bad = self.make_tree(), self.make_tree()
        link = os.path.join(self.make_folder(), 'link')
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)

        def check(_folder: int) -> None:
            os.remove(link)
            os.symlink(bad, link)

        self.useFixture(fixtures.MonkeyPatch(f'{_SYSTEM}.check', check))
        for call, name, *arguments in (
            ('write', 'schemata', 'L3:0=1\n'),
            ('assign', 'tasks', [1]),
            ('mkdir', 'new'),
            ('rmdir', 'old'),
        ):
            if os.path.lexists(link):
                os.remove(link)
            os.symlink(good, link)
            privsep.call(call, f'{link}/{name}', *arguments)

        self.assertEqual(
            {'schemata': 'L3:0=1\n', 'tasks': '1\n', 'new': None},
            read_tree(good),
        )
        self.assertEqual(
            {'schemata': '', 'tasks': '', 'old': None}, read_tree(bad)
        )

    def make_tree(self) -> str:
        folder = self.make_folder()
        os.mkdir(f'{folder}/old')
        for name in ('schemata', 'tasks'):
            with open(f'{folder}/{name}', 'w'):
                pass
        return folder

    def test_who_may_write_himself_needs_no_helper(self) -> None:
        folder = self.make_folder()
        real = files.RealFileSystem(folder)

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
        real = files.RealFileSystem('/nowhere/resctrl')
        for call, arguments in (
            (real.write, ('schemata', 'L3:0=1\n')),
            (real.assign, ('tasks', [1])),
            (real.mkdir, ('db',)),
            (real.rmdir, ('db',)),
        ):
            err = self.assertRaises(
                errors.ResctrlFailed, self.try_it, real, call, *arguments
            )

            self.assertIn('[ext_resources_resctrl_privsep]', str(err))
            self.assertIn('FailedToDropPrivileges', str(err))

    def test_the_kernels_own_error_comes_through_the_helper(self) -> None:
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)
        # Not resctrl, so the helper refuses it, and no helper is to blame.
        real = files.RealFileSystem('/nowhere/resctrl')

        err = self.assertRaises(
            errors.ResctrlError, self.try_it, real, real.mkdir, 'db'
        )

        self.assertIn('No such file or directory', str(err))
        self.assertNotIn('privileged helper', str(err))

    def try_it(
        self,
        real: files.RealFileSystem,
        call: Callable[..., None],
        *arguments: Any,
    ) -> None:
        with files.translated(real, 'change it'):
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
