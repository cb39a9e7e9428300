# SPDX-License-Identifier: Apache-2.0

"""Nova's own driver, where a host has nothing to do with this package."""

import shutil

import nova.conf
from nova.virt.libvirt import driver as nova_libvirt

from nova_ext_resources.host.service import paths
from nova_ext_resources.virt.driver import libvirt
from tests.functional.virt import emulated

CONF = nova.conf.CONF

#: Options in nova.conf -> whether our driver runs.
CONFIGURED = {
    '': False,
    '[ext_resources_scheduler]\nshort_log = true\n': False,
    '[ext_resources]\ninventory_providers = static\n': True,
    '[ext_resources]\nenforcers = noop\n': True,
    '[ext_resources_metrics]\nport = 9105\n': True,
    # init_host reports the error.
    '[ext_resources]\nrefresh_interval = never\n': True,
    '[ext_resources]\nhost_config_dir = /no/such/folder\n': True,
}


class PlainDriverTest(emulated.EmulatedTestCase):
    HOSTS = ()

    def configure(self, text: str) -> None:
        path = self.folder / 'ext.conf'
        path.write_text(text)

    def start(self) -> type:
        self.flags(host='host1')
        service = self._start_compute('host1')
        if (ext := getattr(service.driver, '_ext', None)) is not None:
            self.addCleanup(ext.stop)
        return type(service.driver)

    def list_providers(self) -> list[str]:
        return sorted(one['name'] for one in self._get_all_providers())

    def test_nova_runs_its_own_where_nothing_was_ever_enabled(self) -> None:
        self.configure('')

        self.assertIs(nova_libvirt.LibvirtDriver, self.start())

        self.boot(self.make_flavor(), host='host1')
        self.assertEqual([], list(self.folder.rglob('*.sqlite')))
        self.assertEqual(['host1'], self.list_providers())

    def test_ours_removes_what_was_enabled_once(self) -> None:
        (self.folder / 'host1.conf').touch()
        self.flags(host='host1')
        service = self._start_compute('host1')
        service.driver._ext.publisher.run_round()
        self.assertEqual(['host1', 'host1_STATIC'], self.list_providers())
        self.stop_compute(service)
        # As where the operator has removed the sections of this package.
        shutil.rmtree(self.folder / 'ext_resources')
        (self.folder / 'ext_resources').mkdir()
        self.configure(
            '[ext_resources_placement]\n'
            'auth_type = admin_token\n'
            f'endpoint = {self.placement.fixture.endpoint}\n'
            'token = admin\n'
        )

        self.assertIs(libvirt.LibvirtDriver, self.start())

        self.assertEqual(['host1'], self.list_providers())

    def test_the_folder_tells_of_a_ledger_elsewhere(self) -> None:
        self.configure(f'[ext_resources]\nledger_path = {self.folder}/db\n')
        self.assertFalse(libvirt.LibvirtDriver._is_needed())

        paths.make_folder(str(self.folder / 'ext_resources'))

        self.assertTrue(libvirt.LibvirtDriver._is_needed())

    def test_ours_runs_where_anything_is_enabled(self) -> None:
        for text, expected in CONFIGURED.items():
            with self.subTest(text=text):
                self.configure(text)

                self.assertIs(expected, libvirt.LibvirtDriver._is_needed())

    def test_a_driver_of_others_is_never_replaced(self) -> None:
        class Derived(libvirt.LibvirtDriver):
            pass

        self.configure('')

        self.assertIsInstance(Derived(None), Derived)
