# SPDX-License-Identifier: Apache-2.0

"""What lets nova-compute start the helper, and nothing else."""

import pathlib
import re

from oslo_rootwrap import wrapper

from nova_ext_resources.drivers.resctrl.kernel import privsep
from tests import base

ETC = pathlib.Path(__file__).parents[3] / 'etc/nova_ext_resources'

CONTEXT = privsep.context.pypath
SOCKET = '/tmp/tmpf0q_2ab1/privsep.sock'
NOVA = '/etc/nova/nova.conf'

#: Configuration files as distributions start nova-compute with them.
ALLOWED = (
    ('--config-file', NOVA),
    ('--config-file', NOVA, '--config-file', '/etc/nova/nova-compute.conf'),
    ('--config-file', '/usr/share/nova/nova-dist.conf', '--config-file', NOVA),
    ('--config-file', NOVA, '--config-dir', '/etc/nova/nova.conf.d/'),
)

#: Files that the attacker may write, and contexts of others.
REFUSED = (
    (('--config-file', '/tmp/nova.conf'), CONTEXT, SOCKET),
    (('--config-file', '/etc/../tmp/nova.conf'), CONTEXT, SOCKET),
    (('--config-file', '/etc/nova/../../tmp/x'), CONTEXT, SOCKET),
    (('--config-file', NOVA), 'nova.privsep.sys_admin_pctxt', SOCKET),
    (('--config-file', NOVA), f'{CONTEXT}s', SOCKET),
    (('--config-file', NOVA), CONTEXT, '/etc/passwd'),
)


def make_command(
    files: tuple[str, ...], context: str | None, socket: str
) -> list[str]:
    # The order is that of oslo_privsep.priv_context.helper_command.
    return [
        'privsep-helper',
        *files,
        '--privsep_context',
        str(context),
        '--privsep_sock_path',
        socket,
    ]


class PrivilegesTest(base.TestCase):
    def test_the_order_is_that_of_the_command(self) -> None:
        made = privsep.context.helper_command(SOCKET)

        self.assertEqual(make_command((), CONTEXT, SOCKET)[1:], made[-4:])

    def test_rootwrap_needs_no_filter(self) -> None:
        """The documentation says so."""
        filters = wrapper.load_filters([])
        for files in ALLOWED:
            command = make_command(files, CONTEXT, SOCKET)

            self.assertTrue(any(one.match(command) for one in filters))

    def is_in_sudoers(self, command: list[str]) -> bool:
        text = (ETC / 'sudoers').read_text(encoding='utf-8')
        (line,) = (one for one in text.splitlines() if not one.startswith('#'))
        _user, _colon, allowed = line.partition('NOPASSWD: /usr/bin/')
        name, _space, arguments = allowed.partition(' ')
        self.assertRegex(arguments, r'^\^.*\$$')
        return name == command[0] and bool(
            re.search(arguments, ' '.join(command[1:]))
        )

    def test_the_helper_may_be_started(self) -> None:
        for files in ALLOWED:
            with self.subTest(files=files):
                command = make_command(files, CONTEXT, SOCKET)

                self.assertTrue(self.is_in_sudoers(command))

    def test_nothing_else_may(self) -> None:
        for case in REFUSED:
            with self.subTest(case=case):
                command = make_command(*case)

                self.assertFalse(self.is_in_sudoers(command))
