# SPDX-License-Identifier: Apache-2.0

"""The status command: its arguments, its output and its exit status."""

import contextlib
import io
import json
import os
from typing import Any

import fixtures
from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd import checks
from nova_ext_resources.cmd import status
from nova_ext_resources import exception
from tests import base


class StatusTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # The privileged helper reads the global options.
        self.addCleanup(cfg.CONF.reset)
        self.folder = self.make_folder()

    def run_command(self, *arguments: str) -> tuple[int, str]:
        """Return its exit status and all that it prints."""
        text = io.StringIO()
        with (
            contextlib.redirect_stdout(text),
            contextlib.redirect_stderr(text),
        ):
            try:
                code = status.main(arguments)
            except SystemExit as err:
                code = int(err.code or 0)
        return code, text.getvalue()

    def check(self, text: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Check with a configuration; return exit status and output."""
        path = os.path.join(self.folder, 'nova.conf')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        code, output = self.run_command(
            'check', '--config-file', path, '--json', *arguments
        )
        return code, json.loads(output)

    def set_rows(self, *made: checks.Check) -> None:
        """Have these be all checks."""
        self.patch(
            checks.Checks,
            '_list_checks',
            lambda _self: [(f'Check {n}', one) for n, one in enumerate(made)],
        )

    def warn(self) -> str:
        checks.LOG.warning('Mind this.')
        return ''

    def fail_(self) -> str:
        raise exception.InvalidResource(name='x', reason='is wrong')

    def test_a_comparison_needs_the_ledger(self) -> None:
        path = os.path.join(self.folder, 'nova.conf')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('[DEFAULT]\nhost = cpu1\nstate_path =\n')

        code, output = self.run_command(
            'diff', '--config-file', path, '--node', uuids.node
        )

        self.assertEqual(2, code)
        self.assertIn('state_path', output)
        self.assertIn('the ledger is not known', output)

    def test_the_worst_result_is_the_exit_status(self) -> None:
        for made, code in (
            ((str,), 0),
            ((self.warn, str), 1),
            ((self.warn, self.fail_, str), 2),
        ):
            self.set_rows(*made)

            found, output = self.check('')

            self.assertEqual(code, found)
            self.assertEqual(len(made), len(output['checks']))

    def test_a_bug_in_a_check_leaves_the_other_checks(self) -> None:
        def be_wrong() -> str:
            raise KeyError('oops')

        self.set_rows(be_wrong, self.warn)
        path = os.path.join(self.folder, 'nova.conf')
        open(path, 'w').close()

        code, output = self.run_command('check', '--config-file', path)

        self.assertEqual(2, code)
        self.assertIn("Details: KeyError: 'oops'", output)
        self.assertIn('Traceback', output)
        self.assertIn('Mind this.', output)

    def test_a_bug_elsewhere_is_255(self) -> None:
        def be_wrong(*_: object) -> None:
            raise KeyError('oops')

        self.patch(checks.Checks, 'list_rows', be_wrong)
        path = os.path.join(self.folder, 'nova.conf')
        open(path, 'w').close()

        code, output = self.run_command('check', '--config-file', path)

        self.assertEqual(255, code)
        self.assertIn("KeyError: 'oops'", output)

    def test_a_person_gets_a_table(self) -> None:
        self.set_rows(self.fail_)
        path = os.path.join(self.folder, 'nova.conf')
        open(path, 'w').close()

        code, output = self.run_command(
            'check', '--config-file', path, '--host', 'cpu7'
        )

        self.assertEqual(2, code)
        self.assertIn('| Extended resources of host cpu7', output)
        self.assertIn('| Result: Failure', output)
        self.assertIn('| Details: x: is wrong', output)

    def test_a_person_gets_each_problem_on_a_line_of_its_own(self) -> None:
        def check() -> str:
            checks.LOG.warning('The first word of this begins a line.')
            checks.LOG.warning('%s', 'And so does that of %s.' % ('x' * 50))
            return ''

        self.set_rows(check)
        path = os.path.join(self.folder, 'nova.conf')
        open(path, 'w').close()

        _code, output = self.run_command('check', '--config-file', path)

        lines = [line.strip(' |') for line in output.splitlines()]
        self.assertIn('Details: The first word of this begins a line.', lines)
        self.assertIn('And so does that of', lines)

    def test_the_name_of_the_host_is_that_of_nova(self) -> None:
        self.set_rows(str)

        _code, named = self.check('[DEFAULT]\nhost = cpu5')
        _code, argued = self.check('[DEFAULT]\nhost = cpu5', '--host', 'cpu6')

        self.assertIn('cpu5', named['name'])
        self.assertIn('cpu6', argued['name'])

    def test_a_file_that_is_missing_is_a_failure(self) -> None:
        for name in ('file', 'dir'):
            code, output = self.run_command(
                'check', f'--config-{name}', f'{self.folder}/none'
            )

            self.assertEqual(2, code)
            self.assertIn('Check: Configuration', output)
            self.assertIn('Result: Failure', output)
            self.assertNotIn('Traceback', output)

    def test_a_line_that_cannot_be_read_is_a_failure(self) -> None:
        code, output = self.check('password = secret\n')

        self.assertEqual(2, code)
        self.assertEqual(1, len(output['checks']))
        self.assertNotIn('secret', str(output))

    def test_a_host_without_its_own_file_is_a_failure(self) -> None:
        code, output = self.check(
            f'[ext_resources]\nhost_config_dir = {self.folder}',
            *('--host', 'cpu9'),
        )

        self.assertEqual(2, code)
        self.assertIn('cpu9.conf', output['checks'][0]['details'])

    def test_without_arguments_it_reads_what_nova_compute_reads(self) -> None:
        self.set_rows(str)
        for name, text in (
            ('nova.conf', '[DEFAULT]\nhost = a'),
            ('nova-compute.conf', '[DEFAULT]\nhost = b'),
        ):
            with open(os.path.join(self.folder, name), 'w') as file:
                file.write(text)
        self.useFixture(
            fixtures.MonkeyPatch(
                'oslo_config.cfg._get_config_dirs',
                lambda *_args, **_kwargs: [self.folder],
            )
        )

        code, output = self.run_command('check')

        self.assertEqual(0, code)
        self.assertIn('host b', output)

    def test_without_any_file_it_says_so(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'oslo_config.cfg._get_config_dirs',
                lambda *_args, **_kwargs: [self.folder],
            )
        )

        code, output = self.run_command('check')

        self.assertEqual(2, code)
        self.assertIn('there is no', output)

    def test_other_commands_are_refused(self) -> None:
        for arguments in ((), ('upgrade',)):
            code, output = self.run_command(*arguments)

            self.assertEqual(2, code)
            self.assertIn('usage: nova-ext-resources-status', output)
