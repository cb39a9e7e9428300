# SPDX-License-Identifier: Apache-2.0

"""The plugin of devstack, with as much of devstack as it calls."""

import pathlib
import subprocess

from tests import base

ROOT = pathlib.Path(__file__).parents[3]

#: What devstack has read before it calls a plugin, and its functions. The
#: options end up in one file, an option a line, the last one last.
_DEVSTACK = r"""
set -o errexit
DEST=$FOLDER NOVA_DIR=$FOLDER/nova NOVA_CONF_DIR=$FOLDER/etc
NOVA_CONF=$NOVA_CONF_DIR/nova.conf NOVA_EXT_RESOURCES_DIR=$ROOT
define_plugin() { :; }
echo_summary() { :; }
die() { shift; echo "$@" >&2; exit 1; }
sudo() { echo "sudo $*"; }
mountpoint() { false; }
setup_develop() { echo "setup_develop $1"; }
is_service_enabled() { [[ ,$SERVICES, == *,$1,* ]]; }
iniset() { echo "$2 $3 = $4" >> "$1"; }
iniset_multiline() {
    local file=$1 name="$2 $3" value
    shift 3
    for value; do echo "$name = $value" >> "$file"; done
}
iniget() {
    local text="$2 $3 = "
    grep "^$text" "$1" | tail -n 1 | sed "s/^$text//" || true
}
iniget_multiline() {
    local text="$2 $3 = "
    echo $(sed -n "s/^$text//p" "$1")
}
source "$ROOT/devstack/settings"
set -- "$@"
source "$ROOT/devstack/plugin.sh"
"""

_SCHEDULER = """\
filter_scheduler enabled_filters = ComputeFilter,ImagePropertiesFilter
filter_scheduler available_filters = nova.scheduler.filters.all_filters
"""


class DevstackTest(base.TestCase):
    """A Nova of one cell, whose options devstack has written."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.make_folder())
        (self.folder / 'nova/nova/virt').mkdir(parents=True)
        (self.folder / 'etc').mkdir()
        self.nova_conf = self.folder / 'etc/nova.conf'
        self.cell_conf = self.folder / 'etc/nova_cell1.conf'
        self.nova_conf.write_text(_SCHEDULER)
        self.cell_conf.write_text('')
        self.driver = self.folder / 'nova/nova/virt/ext_resources'

    def run_plugin(
        self,
        *phase: str,
        services: str = 'n-cpu,n-sch',
        **settings: str,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ['bash', '-c', _DEVSTACK, 'plugin.sh', *phase],
            env={
                'PATH': '/usr/bin:/bin',
                'FOLDER': str(self.folder),
                'ROOT': str(ROOT),
                'SERVICES': services,
                'VIRT_DRIVER': 'libvirt',
                **settings,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def play(self, *phase: str, **settings: str) -> str:
        ran = self.run_plugin(*phase, **settings)
        self.assertEqual((0, ''), (ran.returncode, ran.stderr))
        return ran.stdout

    def read(self, path: pathlib.Path) -> dict[str, list[str]]:
        """Return group and option -> the values, in their order."""
        found: dict[str, list[str]] = {}
        for line in path.read_text().splitlines():
            name, _, value = line.partition(' = ')
            found.setdefault(name, []).append(value)
        return found

    def test_the_driver_is_found_in_a_checkout_of_nova(self) -> None:
        told = self.play('stack', 'install')

        self.assertEqual(f'setup_develop {ROOT}\n', told)
        self.assertTrue((self.driver / '__init__.py').is_file())
        self.play('stack', 'install')
        self.play('clean')
        self.assertFalse(self.driver.is_symlink())

    def test_compute_hosts_have_the_driver_in_each_cell(self) -> None:
        told = self.play('stack', 'post-config')

        self.assertEqual('', told)
        for path in (self.nova_conf, self.cell_conf):
            found = self.read(path)
            self.assertEqual(
                ['ext_resources.LibvirtDriver'],
                found['DEFAULT compute_driver'],
            )
            self.assertEqual(
                ['static'], found['ext_resources inventory_providers']
            )
            [definitions] = found['ext_resources_static definitions_file']
            self.assertTrue(pathlib.Path(definitions).is_file())

    def test_the_scheduler_has_the_filter_last(self) -> None:
        self.play('stack', 'post-config')

        found = self.read(self.nova_conf)
        self.assertEqual(
            'ComputeFilter,ImagePropertiesFilter,NUMATopologyFilter,'
            'ExtendedResourcesFilter',
            found['filter_scheduler enabled_filters'][-1],
        )
        self.assertEqual(
            [
                'nova.scheduler.filters.all_filters',
                'nova_ext_resources.scheduler.filters.all_filters',
            ],
            found['filter_scheduler available_filters'][-2:],
        )
        self.assertNotIn(
            'filter_scheduler enabled_filters', self.read(self.cell_conf)
        )

    def test_services_that_are_not_there_are_left_alone(self) -> None:
        self.play('stack', 'post-config', services='n-api')

        self.assertEqual(_SCHEDULER, self.nova_conf.read_text())
        self.assertEqual('', self.cell_conf.read_text())

    def test_resctrl_is_mounted_where_it_is_used(self) -> None:
        told = self.play(
            'stack',
            'post-config',
            NOVA_EXT_RESOURCES_INVENTORY_PROVIDERS='resctrl,static',
            NOVA_EXT_RESOURCES_ENFORCERS='rmd, resctrl',
            NOVA_EXT_RESOURCES_METRICS_PORT='',
        )

        self.assertEqual(
            'sudo mount -t resctrl resctrl /sys/fs/resctrl\n', told
        )
        found = self.read(self.cell_conf)
        self.assertEqual(['rmd, resctrl'], found['ext_resources enforcers'])
        self.assertNotIn('ext_resources_metrics port', found)

    def test_another_virt_driver_is_refused(self) -> None:
        ran = self.run_plugin('stack', 'post-config', VIRT_DRIVER='ironic')

        self.assertEqual(1, ran.returncode)
        self.assertIn('VIRT_DRIVER=ironic', ran.stderr)
        self.assertEqual(_SCHEDULER, self.nova_conf.read_text())
