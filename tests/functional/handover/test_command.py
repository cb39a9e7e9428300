# SPDX-License-Identifier: Apache-2.0

"""The command on a mounted resctrl, as an operator runs it."""

from collections.abc import Mapping
import glob
import os
import re
import subprocess
import sys
from typing import Any
import unittest

from nova_ext_resources.conf import reader
from nova_ext_resources import exception
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.service import wiring
from tests.functional.resctrl import mounting
from tests.unit.host.handover import test_pools
from tests.unit.host.handover import with_both
from tests.unit.host import with_host

#: Seconds for it to come to its end on a busy machine.
PATIENCE = 120

_CONF = """
[ext_resources]
inventory_providers = {name}
enforcers = {name}
ledger_path = {ledger}

[ext_resources_rmd]
url = {url}
{rmd}

[ext_resources_resctrl]
path = {path}
cpu_path = {cpu_path}
reserved_ways = {reserved_ways}
{resctrl}

[ext_resources_placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
"""


#: RMD would have its groups where machines mount resctrl; here, nothing is.
UNVERIFIED = (
    'Host host1: no limit of memory bandwidth is verified, because the '
    'control groups of RMD in resctrl cannot be read\n'
)


class CommandTestCase(with_both.HandOverTestCase, mounting.MountedTestCase):
    def load_resctrl(self, namespace: str, **options: Any) -> dict[str, Any]:
        return mounting.MountedTestCase.load_resctrl(
            self, namespace, **options
        )

    def write_conf(self, name: str) -> str:
        folder = os.path.dirname(self.ledger_path)
        path = os.path.join(folder, 'nova.conf')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(
                _CONF.format(
                    name=name,
                    ledger=self.ledger_path,
                    url=self.fixture.url,
                    path=self.machine.path,
                    cpu_path=self.machine.cpu_path,
                    reserved_ways=self.RESERVED_WAYS,
                    rmd=format_options(self.RMD),
                    resctrl=format_options(self.RESCTRL),
                )
            )
        return path

    def make_command(
        self, source: str, target: str, *more: str, conf: str = ''
    ) -> list[str]:
        return [
            # Older releases of Nova bring libraries that warn of eventlet.
            *(sys.executable, '-W', 'ignore'),
            *('-m', 'nova_ext_resources.cmd.hand_over'),
            *('--config-file', conf or self.write_conf(source)),
            *('--host', 'host1', '--from', source, '--to', target),
            *more,
        ]

    def run_command(
        self, source: str, target: str, *more: str, conf: str = ''
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.make_command(source, target, *more, conf=conf),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        done.stderr = done.stderr.replace(UNVERIFIED, '')
        return done

    def make_service(self, name: str) -> wiring.HostService:
        conf = reader.read_conf([self.write_conf(name)], [], 'host1')
        return wiring.HostService(
            conf,
            host='host1',
            node=with_host.NODE,
            state_path='/nowhere',
            compute=with_host.COMPUTE,
        )


class CommandTest(CommandTestCase):
    def test_two_words_of_the_options_are_left_to_the_operator(self) -> None:
        before = self.fill('rmd')

        dry = self.run_command('rmd', 'resctrl', '--dry-run')
        self.assertEqual((0, ''), (dry.returncode, dry.stderr))
        self.assertEqual(3, dry.stdout.count('would apply'))
        self.assertIn('The hand-over seems possible', dry.stdout)
        self.assert_untouched(before)

        done = self.run_command('rmd', 'resctrl')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertIn('Write resctrl in place of rmd', done.stdout)

        self.assert_all_at('resctrl', before)
        self.assertRaises(
            exception.InvalidConfiguration, self.make_service, 'rmd'
        )
        made = self.make_service('resctrl')
        made.host.refresh()
        made.host.reconcile(before)
        self.assertEqual((), made.host.problems)
        made.stop()

        back = self.run_command('resctrl', 'rmd')
        self.assertEqual((0, ''), (back.returncode, back.stderr))
        self.assert_all_at('rmd', before)

    def test_it_goes_on_when_nobody_reads_what_it_says(self) -> None:
        before = self.fill('rmd')
        reader, writer = os.pipe()
        os.close(reader)

        with os.fdopen(writer, 'w') as nobody:
            done = subprocess.run(
                self.make_command('rmd', 'resctrl'),
                stdout=nobody,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=PATIENCE,
            )

        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assert_all_at('resctrl', before)

    def test_a_running_host_is_refused(self) -> None:
        self.fill('rmd')
        running = self.make_host('rmd')

        refused = self.run_command('rmd', 'resctrl')

        self.assertEqual(1, refused.returncode)
        self.assertIn(self.ledger_path, refused.stderr)
        self.assertIn('stop nova-compute first', refused.stderr)
        self.assertTrue(refused.stderr.startswith('Host host1: Ledger '))
        running.close()

    def test_a_backend_that_the_host_does_not_run_with_is_refused(
        self,
    ) -> None:
        before = self.fill('rmd')
        path = self.write_conf('rmd')

        refused = self.run_command('resctrl', 'rmd', conf=path)

        self.assertEqual(1, refused.returncode)
        self.assertIn('--from = resctrl', refused.stderr)
        self.assertIn('enforcers = rmd', refused.stderr)
        self.assert_untouched(before)

    def test_another_host_is_refused(self) -> None:
        before = self.fill('rmd')
        path = self.write_conf('rmd')
        with open(path, 'a', encoding='utf-8') as file:
            file.write('\n[DEFAULT]\nhost = host2\n')

        refused = self.run_command('rmd', 'resctrl', conf=path)

        self.assertEqual(1, refused.returncode)
        self.assertIn('host is host2', refused.stderr)
        self.assertIn('write --host host2', refused.stderr)
        self.assert_untouched(before)

    @unittest.skipIf(os.geteuid(), 'only root can give a file away')
    def test_a_ledger_of_another_user_is_refused(self) -> None:
        before = self.fill('rmd')
        os.chown(self.ledger_path, 65534, -1)

        refused = self.run_command('rmd', 'resctrl')

        self.assertEqual(1, refused.returncode)
        self.assertIn('the file belongs to another user', refused.stderr)
        os.chown(self.ledger_path, 0, -1)
        self.assert_untouched(before)

    def test_a_host_does_not_start_half_way(self) -> None:
        before = self.fill('rmd')
        self.kernel.fail(
            operation='mkdir', path=f'nova-{with_both.FIRST}', error='ENOSPC'
        )
        stopped = self.run_command('rmd', 'resctrl')
        self.assertEqual(1, stopped.returncode)
        self.assertIn('command with --from resctrl --to rmd', stopped.stderr)

        for name in ('rmd', 'resctrl'):
            err = self.assertRaises(
                exception.InvalidConfiguration, self.make_service, name
            )
            self.assertIn(journal.COMMAND, str(err))

        back = self.run_command('resctrl', 'rmd')
        self.assertEqual((0, ''), (back.returncode, back.stderr))
        self.assert_all_at('rmd', before)
        self.make_service('rmd').stop()

    def test_a_backend_that_is_gone_for_good_is_left(self) -> None:
        before = self.fill('rmd')
        self.simulator.refuse_connections()

        refused = self.run_command('rmd', 'resctrl')
        self.assertEqual(1, refused.returncode)
        self.assertIn('Nothing was changed', refused.stderr)
        self.assertIn('add --source-is-gone', refused.stderr)
        self.make_service('rmd').stop()

        dry = self.run_command(
            'rmd', 'resctrl', '--source-is-gone', '--dry-run'
        )
        self.assertEqual((0, ''), (dry.returncode, dry.stderr))
        done = self.run_command('rmd', 'resctrl', '--source-is-gone')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertEqual(set(before), set(self.list_at_resctrl()))

    def test_wrong_arguments_are_told(self) -> None:
        self.fill('rmd')
        for arguments, word in (
            (('rmd', 'rmd'), 'are the same'),
            (('rmd', 'other'), 'invalid choice'),
            (('rmd', 'resctrl', '--ledger', '/nowhere'), 'no such file'),
        ):
            refused = self.run_command(*arguments)

            self.assertNotEqual(0, refused.returncode)
            self.assertIn(word, refused.stderr)


class ManualTest(
    test_pools.PoolsTestCase, with_both.OneKernelTestCase, CommandTestCase
):
    """The manual, step by step: RMD's groups are those of the kernel."""

    def remove_as_told(self, text: str) -> None:
        """Carry out the command that it says."""
        found = re.search(r'\(rmdir (\S+)\)', text)
        assert found is not None, text
        for path in glob.glob(found.group(1)):
            os.rmdir(path)
        self.simulator.remove_groups()

    def test_burst_and_shared_ways_go_to_resctrl_and_back(self) -> None:
        before = self.fill('rmd')
        dry = self.run_command('rmd', 'resctrl', '--dry-run')
        self.assertEqual((0, ''), (dry.returncode, dry.stderr))
        self.assertIn('The hand-over takes two runs', dry.stdout)

        stopped = self.run_command('rmd', 'resctrl')
        self.assertEqual(1, stopped.returncode)
        self.assertIn('disable --now rmd', stopped.stderr)
        self.stop_rmd()
        self.remove_as_told(stopped.stderr)
        self.assertEqual([], self.list_rmd_groups())
        done = self.run_command('rmd', 'resctrl')
        self.assertEqual((0, ''), (done.returncode, done.stderr))

        self.assert_all_at('resctrl', before)
        made = self.make_service('resctrl')
        made.host.refresh()
        made.host.reconcile(before)
        self.assertEqual((), made.host.problems)
        made.stop()

        stopped = self.run_command('resctrl', 'rmd', '--unchecked')
        self.assertEqual(1, stopped.returncode)
        self.start_rmd()
        back = self.run_command('resctrl', 'rmd')
        self.assertEqual((0, ''), (back.returncode, back.stderr))
        self.assert_all_at('rmd', before)


def format_options(options: Mapping[str, Any]) -> str:
    return '\n'.join(f'{name} = {value}' for name, value in options.items())
