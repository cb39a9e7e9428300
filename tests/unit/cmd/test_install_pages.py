# SPDX-License-Identifier: Apache-2.0

"""What the pages of the installation tell a deployer to write is right."""

import configparser
import pathlib
import re
import textwrap

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_ext_resources.cmd import checks
from nova_ext_resources.conf.drivers import resctrl
from nova_ext_resources.conf import reader
from tests import base

ROOT = pathlib.Path(__file__).parents[3]
INSTALL = ROOT / 'doc' / 'source' / 'admin' / 'install.rst'
UNIT = ROOT / 'etc' / 'nova_ext_resources' / 'sys-fs-resctrl.mount'

_BLOCK = re.compile(r'^\.\. code-block:: ini\n\n((?: {3}.*\n|\n)+)', re.M)

#: Checks that need nothing of the host.
_CHECKS = (
    'Configuration',
    'Names of options',
    'Plugins',
    'CPUs of servers that are not pinned',
)


class InstallPagesTest(base.TestCase):
    PAGES = (ROOT / 'README.rst', INSTALL)

    def read_conf(self, page: pathlib.Path) -> cfg.ConfigOpts:
        """Return the options of a compute host, as a page has them."""
        blocks = _BLOCK.findall(page.read_text())
        text = next(one for one in blocks if 'compute_driver' in one)
        path = pathlib.Path(self.make_folder(), 'nova.conf')
        path.write_text(textwrap.dedent(text))
        return reader.read_conf([str(path)], [], 'cpu1')

    def test_a_host_as_they_set_it_up_has_nothing_to_correct(self) -> None:
        for page in self.PAGES:
            with self.subTest(page=page.name):
                conf = self.read_conf(page)
                rows = dict(checks.Checks(conf, 'cpu1').list_rows())

                for name in _CHECKS:
                    found = rows[name](None)

                    self.assertEqual(
                        (upgradecheck.Code.SUCCESS, None),
                        (found.code, found.details),
                        name,
                    )

    def test_health_is_asked_where_it_is_served(self) -> None:
        for page in self.PAGES:
            with self.subTest(page=page.name):
                conf = self.read_conf(page)
                options = conf.ext_resources_metrics

                self.assertIn(
                    f'$ curl -s http://{options.listen}:{options.port}/health',
                    page.read_text(),
                )

    def test_resctrl_is_mounted_where_it_is_looked_for(self) -> None:
        [where] = (one.default for one in resctrl.OPTS if one.name == 'path')
        unit = configparser.ConfigParser()
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read(UNIT)

        # systemd wants this name (systemd.mount(5)).
        self.assertEqual(where.strip('/').replace('/', '-'), UNIT.stem)
        self.assertEqual(where, unit['Mount']['Where'])
        self.assertEqual('resctrl', unit['Mount']['Type'])
        line = f'resctrl {where} resctrl defaults,nofail 0 0'
        self.assertIn(f'# {line}\n', UNIT.read_text())
        self.assertIn(f'   {line}\n', INSTALL.read_text())
