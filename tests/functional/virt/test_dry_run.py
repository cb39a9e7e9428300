# SPDX-License-Identifier: Apache-2.0

"""What a host would change in placement, told before it does."""

import contextlib
import io
import pathlib
import textwrap
from typing import Any

from oslo_config import cfg

from nova_ext_resources.cmd import status
from nova_ext_resources.testing import cpu
from tests.functional.virt import backends
from tests.functional.virt import commands
from tests.unit.cmd.osc import shells
from tests.unit.cmd.osc import test_pages

PAGE = pathlib.Path(__file__).parents[3] / 'doc/source/admin/status.rst'

_TWO = """
resources:
  - name: CUSTOM_SEAT
    units: seats
    description: Seats.
    inventory: {total: 8}
    traits: [CUSTOM_FAST]
  - name: CUSTOM_TOKEN
    units: tokens
    description: Tokens.
    inventory: {total: 3}
    provider: TOKENS
"""

#: Before and after the change that the page shows.
_SHOWN = """
resources:
  - name: CUSTOM_LICENCE_SEAT
    units: seats
    description: Seats.
    inventory: {total: 20}
  - name: CUSTOM_TOKEN
    units: tokens
    description: Tokens.
    inventory: {total: 3}
  - name: CUSTOM_OLD
    units: units
    description: Of a provider that goes.
    inventory: {total: 1}
    provider: FORMER
"""
_SHOWN_NEXT = """
resources:
  - name: CUSTOM_LICENCE_SEAT
    units: seats
    description: Seats.
    inventory: {total: 12}
    traits: [CUSTOM_FAST]
"""

_ONE = """
resources:
  - name: CUSTOM_SEAT
    units: seats
    description: Seats.
    inventory: {total: 8}
"""

_NO_SEATS = """
resources:
  - name: CUSTOM_TOKEN
    units: tokens
    description: Tokens.
    inventory: {total: 3}
    provider: TOKENS
"""


class DiffTest(backends.Static):
    """Two hosts with six seats each, and a server that has two of host1."""

    def setUp(self) -> None:
        super().setUp()
        # The command sets the global options of the privileged helper.
        self.addCleanup(cfg.CONF.reset)
        self.definitions = self.folder / 'definitions.yaml'
        self.node = self._get_provider_uuid_by_host('host1')
        (self.folder / 'compute_id').write_text(self.node)
        self.conf = self.folder / 'command.conf'
        self.conf.write_text(
            textwrap.dedent(f"""\
                [DEFAULT]
                host = host1
                state_path = {self.folder}
                """)
        )
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        # After each claim, a round follows soon: it would do what is to be
        # told before.
        ext = self.services['host1'].driver._ext
        ext.periodic.stop()
        ext.publisher.stop()

    def diff(self, *words: str) -> tuple[int, list[str], str]:
        """Return the exit status, what is printed, and what is wrong."""
        out, err = io.StringIO(), io.StringIO()
        files = [self.folder / 'ext.conf', self.conf]
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = status.main(
                ['diff', *(f'--config-file={one}' for one in files), *words]
            )
        return code, out.getvalue().splitlines(), err.getvalue()

    def list_state(self) -> Any:
        return {
            one['name']: (
                self._get_provider_inventory(one['uuid']),
                # Placement gives them in no order.
                sorted(self._get_provider_traits(one['uuid'])),
            )
            for one in self._get_all_providers()
        }

    def test_nothing(self) -> None:
        self.assertEqual((0, [], ''), self.diff())

    def test_what_a_changed_file_changes(self) -> None:
        before = self.list_state()
        self.definitions.write_text(_TWO)

        code, lines, problems = self.diff()

        self.assertEqual((1, ''), (code, problems))
        self.assertEqual(
            {
                'create provider host1_TOKENS': [
                    'CUSTOM_TOKEN: new, total 3, reserved 0, min_unit 1, '
                    'max_unit 3, step_size 1, allocation_ratio 1.0',
                    'traits added: CUSTOM_OWNER_EXT_RESOURCES',
                ],
                'change provider host1_STATIC': [
                    'CUSTOM_SEAT: total 6 -> 8, max_unit 6 -> 8',
                    'traits added: CUSTOM_FAST',
                ],
            },
            _group(lines),
        )
        self.assertEqual(before, self.list_state())

        self.publish(self.computes['host1'])

        self.assertEqual((0, [], ''), self.diff())

        self.definitions.write_text(_ONE)

        _code, lines, _problems = self.diff()

        self.assertIn('  traits removed: CUSTOM_FAST', lines)
        self.assertIn('delete provider host1_TOKENS', lines)

    def test_traits_of_the_compute_node(self) -> None:
        tree = cpu.Sysfs(str(self.folder / 'sys'))
        tree.set_smt(True)
        with self.conf.open('a') as file:
            file.write(
                '[ext_resources]\ninventory_providers = static,cpu\n'
                f'[ext_resources_cpu]\npath = {tree.path}\n'
            )
        expected = [
            'change the compute node',
            '  traits added: CUSTOM_CPU_SMT',
        ]

        self.assertEqual((1, expected, ''), self.diff())

        # An operator has added it already.
        self._create_trait('CUSTOM_CPU_SMT')
        traits = self._get_provider_traits(self.node)
        self._set_provider_traits(self.node, [*traits, 'CUSTOM_CPU_SMT'])
        self.assertEqual((0, [], ''), self.diff())

    def test_what_a_server_holds_stays(self) -> None:
        self.definitions.write_text(_NO_SEATS)

        code, lines, _problems = self.diff()

        self.assertEqual(1, code)
        self.assertIn('  CUSTOM_SEAT: reserved 0 -> 6', lines)
        self.assertIn(f'is still held by {self.server["id"]}', lines[-1])
        self.assertTrue(lines[-1].startswith('stays: '))

    def test_a_wrong_definition_is_told_and_deletes_nothing(self) -> None:
        self.definitions.write_text(_TWO.replace('total: 8', 'total: none'))

        code, lines, problems = self.diff()

        self.assertEqual(2, code)
        self.assertIn('CUSTOM_SEAT cannot be reported', problems)
        self.assertEqual([], [one for one in lines if 'removed' in one])

    def test_the_node_is_not_known(self) -> None:
        (self.folder / 'compute_id').unlink()

        code, lines, problems = self.diff()

        self.assertEqual((2, []), (code, lines))
        self.assertIn(f'{self.folder}/compute_id', problems)
        self.assertEqual((0, [], ''), self.diff(f'--node={self.node}'))

    def test_a_file_that_has_no_uuid(self) -> None:
        (self.folder / 'compute_id').write_text('host1')

        code, _lines, problems = self.diff()

        self.assertEqual(2, code)
        self.assertIn(f'{self.folder}/compute_id has no uuid', problems)

    def test_a_node_that_placement_does_not_have(self) -> None:
        code, _lines, problems = self.diff(f'--node={self.server["id"]}')

        self.assertEqual(2, code)
        self.assertIn(self.server['id'], problems)

    def test_the_page_shows_what_is_printed(self) -> None:
        self._delete_server(self.server)
        self.definitions.write_text(_SHOWN)
        self.publish(self.computes['host1'])
        holder = self.boot(
            self.make_flavor(resources__CUSTOM_TOKEN=1), host='host1'
        )
        self.definitions.write_text(_SHOWN_NEXT)

        _code, lines, problems = self.diff()

        self.assertEqual('', problems)
        found = ' '.join(' '.join(lines).split())
        for ours, shown in (
            (holder['id'], '817773cd-f7c4-49ea-a737-3d7f6c820381'),
            ('host1', 'cpu1'),
        ):
            found = found.replace(ours, shown)
        self.assertIn(found, ' '.join(PAGE.read_text().split()))


def _group(lines: list[str]) -> dict[str, list[str]]:
    """Return what is done with a provider -> the changes in it."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith('  '):
            found[[*found][-1]].append(line.strip())
        else:
            found[line] = []
    return found


class CommandTest(commands.Commands, backends.Static):
    """The command of the client, which needs no login on the host."""

    def setUp(self) -> None:
        super().setUp()
        self.install()
        self.definitions = self.folder / 'definitions.yaml'
        self.next = self.folder / 'next.yaml'

    def diff(self, text: str, host: str = 'host1') -> tuple[int, str, str]:
        self.next.write_text(text)
        return self.run_diff(self.next, host)

    def run_diff(self, path: pathlib.Path, host: str) -> tuple[int, str, str]:
        words = ['--file', str(path), '--host', host]
        return shells.run(
            ['extended', 'resource', 'definition', 'diff', *words]
        )

    def test_it_says_what_the_host_then_does(self) -> None:
        service = self.services['host1']
        self.publish(service)
        self.assertEqual((0, '', ''), self.diff(self.definitions.read_text()))
        before = self._get_all_providers()

        status, output, _errors = self.diff(_TWO)

        self.assertEqual(1, status)
        self.assertIn('create provider host1_TOKENS', output)
        self.assertIn('CUSTOM_SEAT: total 6 -> 8', output)
        self.assertEqual(before, self._get_all_providers())

        self.definitions.write_text(_TWO)
        self.publish(service)
        self.assertEqual((0, '', ''), self.diff(_TWO))
        self.assertEqual(1, self.diff(_TWO, 'host2')[0])

    def test_what_a_server_holds_is_named(self) -> None:
        server = self.boot(self.make_own_flavor(2), host='host1')

        status, output, _errors = self.diff(
            _NO_SEATS.replace('TOKENS', 'STATIC')
        )

        self.assertEqual(1, status)
        self.assertIn(f'still held by {server["id"]}: the', output)

    def test_a_provider_that_is_no_longer_named(self) -> None:
        server = self.boot(self.make_own_flavor(2), host='host1')

        status, output, errors = self.diff(_NO_SEATS)

        self.assertEqual((1, ''), (status, errors))
        self.assertIn('change provider host1_STATIC', output)
        self.assertIn('  CUSTOM_SEAT: reserved 0 -> 6', output)
        self.assertIn(f'still held by {server["id"]}: the', output)
        self.assertEqual(1, self.diff('resources: []')[0])

    def test_one_of_former_definitions_or_of_another_plugin(self) -> None:
        self.definitions.write_text(_TWO)
        self.publish(self.services['host1'])
        self.boot(self.make_flavor(resources__CUSTOM_TOKEN=1), host='host1')

        status, output, _errors = self.diff(
            _TWO.partition('  - name: CUSTOM_TOKEN')[0]
        )

        self.assertEqual((0, ''), (status, output))
        self.assertIn('Not compared: host1_TOKENS.', self.stdlog.logger.output)

    def test_what_is_not_known(self) -> None:
        for text, host, words in (
            (_TWO, 'nowhere', 'Placement has no host nowhere'),
            ('resources: [', 'host1', 'line 1'),
            (_TWO.replace('8', 'eight'), 'host1', "'eight' is not of type"),
        ):
            status, output, errors = self.diff(text, host)

            self.assertEqual(2, status, output)
            self.assertIn(words, errors + self.stdlog.logger.output)
        status, _output, errors = self.run_diff(
            self.folder / 'missing', 'host1'
        )
        self.assertEqual(2, status)
        self.assertIn('No such file', errors)

    def test_the_page(self) -> None:
        self.definitions.write_text(_SHOWN)
        self.publish(self.services['host1'])
        page = dict(test_pages.read_page('admin/status.rst'))
        [wanted] = [
            output
            for command, output in page.items()
            if 'definition diff' in command
        ]

        _status, output, _errors = self.diff(_SHOWN_NEXT)

        self.assertEqual(wanted, output.replace('host1', 'cpu1').rstrip())
