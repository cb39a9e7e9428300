# SPDX-License-Identifier: Apache-2.0

"""What the pages of the commands show is what they print."""

import getpass
import pathlib
import re

import fixtures

from nova_ext_resources.reservation import flavor
from tests.unit.cmd.osc import shells
from tests.unit.reservation import hosts
from tests.unit.reservation import sites

ROOT = pathlib.Path(__file__).parents[4]
PAGES = ROOT / 'doc' / 'source'

_BLOCK = re.compile(
    r'^\.\. code-block:: console\n\n((?:   .*\n|\n(?=   ))+)', re.MULTILINE
)


def read_page(name: str) -> list[tuple[str, str]]:
    """Return each command of a page with what it shows."""
    found = []
    for block in _BLOCK.findall((PAGES / name).read_text(encoding='utf-8')):
        text = '\n'.join(one[3:] for one in block.splitlines())
        for part in re.split(r'^\$ ', text, flags=re.MULTILINE)[1:]:
            joined = part.replace('\\\n', ' ')
            command, _newline, output = joined.partition('\n')
            found.append((command, output.rstrip()))
    return found


class PageTest(shells.ShellTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.site = sites.FixedSite(
            [
                hosts.make_host(
                    f'compute-{number}', zone=zone, VCPU=16, MEMORY_MB=65536
                )
                for number, zone in enumerate(('north', 'north', 'south'), 1)
            ],
            [flavor.Flavor(name='m1.large', vcpus=4, memory_mb=8192)],
        )

        self.patch(getpass, 'getuser', lambda: 'ada')
        for name in ('OS_USERNAME', 'SUDO_USER'):
            self.useFixture(fixtures.EnvironmentVariable(name))

    def check(self, page: str, least: int) -> None:
        seen = 0
        for command, wanted in read_page(page):
            program, _space, line = command.partition(' ')
            if program != 'openstack':
                continue
            seen += 1
            _status, output, errors = self.run_command(
                line.replace('/tmp', self.folder)
            )
            found = '\n'.join(
                one.rstrip() for one in (output + errors).splitlines()
            )

            self.assertEqual(wanted.split(), found.split(), command)
            self.assertEqual(wanted, found, command)
        self.assertLess(least, seen)

    def test_each_command_prints_what_the_page_shows(self) -> None:
        self.check('user/reservations.rst', 7)

    def test_the_page_of_planned_changes(self) -> None:
        self.check('admin/capacity_changes.rst', 4)
