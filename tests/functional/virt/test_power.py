# SPDX-License-Identifier: Apache-2.0

"""Nova switches CPUs off that no server uses."""

import pathlib

import fixtures
import nova.conf
from oslo_config import fixture as config_fixture

from nova_ext_resources.conf import reader
from nova_ext_resources import exception
from nova_ext_resources.virt.driver import libvirt
from nova_ext_resources.virt.driver import mixin
from tests import base


class StartedError(Exception):
    """The service of the host is being made: nothing is wrong so far."""


class PowerTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.started: list[str] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.driver.mixin.ExtResourcesMixin.'
                '_make_service',
                lambda _driver, _conf, host: self.stop_there(host),
            )
        )
        self.nova = self.useFixture(config_fixture.Config(nova.conf.CONF))

    def stop_there(self, host: str) -> None:
        self.started.append(host)
        raise StartedError

    def start(self, enforcer: str, strategy: str, *, manages: bool) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        path = folder / 'nova.conf'
        path.write_text(
            f'[ext_resources]\nenforcers = {enforcer}\n'
            f'inventory_providers = {enforcer}\n'
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.driver.mixin.ExtResourcesMixin._read_conf',
                lambda host: reader.read_conf([str(path)], [], host),
            )
        )
        self.nova.config(
            group='libvirt',
            cpu_power_management=manages,
            cpu_power_management_strategy=strategy,
        )
        driver: mixin.ExtResourcesMixin = object.__new__(libvirt.LibvirtDriver)
        driver.init_host('host1')

    def test_rmd_cannot_release_anything_of_cpus_that_are_off(self) -> None:
        err = self.assertRaises(
            exception.InvalidConfiguration,
            self.start,
            'rmd',
            'cpu_state',
            manages=True,
        )

        for words in (
            '[libvirt] cpu_power_management_strategy = cpu_state',
            'Host host1: ',
            'enforcer rmd',
            'governor',
        ):
            self.assertIn(words, str(err))
        self.assertEqual([], self.started)

    def test_all_else_is_left_to_the_operator(self) -> None:
        for enforcer, strategy, manages in (
            ('rmd', 'governor', True),
            ('rmd', 'cpu_state', False),
            ('resctrl', 'cpu_state', True),
        ):
            self.assertRaises(
                StartedError, self.start, enforcer, strategy, manages=manages
            )

        self.assertEqual(['host1'] * 3, self.started)
