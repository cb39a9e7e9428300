# SPDX-License-Identifier: Apache-2.0

"""Live migration with each backend and kind of server."""

import contextlib
import types
from typing import Any

import fixtures
from nova.virt.libvirt import driver as nova_libvirt

from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.driver import libvirt
from tests import base
from tests.functional.virt import backends
from tests.functional.virt import live

State = assignment.State


class StaticLiveTest(backends.Static, live.LiveSuite):
    pass


class PinnedStaticLiveTest(backends.PinnedStatic, live.LiveSuite):
    pass


class RmdLiveTest(backends.Rmd, live.LiveSuite):
    pass


class ResctrlLiveTest(backends.Resctrl, live.LiveSuite):
    pass


class FloatingLiveTest(backends.Floating, live.LiveSuite):
    pass


class OtherCpusTest(backends.Rmd, live.LiveFailureTestCase):
    """CPUs of the new host are others than those of the former one."""

    def setUp(self) -> None:
        super().setUp()
        self.former = self.get_host('host1').entries[self.uuid].cpus
        flavor = self.make_own_flavor(2)
        # Which of equal caches is the first to fill is left to chance.
        while self.former not in self.list_cpus('host2'):
            self.boot(flavor, host='host2')
        self.others = {*self.get_host('host2').entries}

    def list_cpus(self, host: str) -> list[Any]:
        return [one.cpus for one in self.get_host(host).entries.values()]

    def assert_others(self) -> None:
        entry = self.get_host('host2').entries[self.uuid]
        self.assertNotEqual(self.former, entry.cpus)
        self.assert_agreement(
            host2=dict.fromkeys({self.uuid, *self.others}, State.APPLIED)
        )

    def test_they_have_what_was_claimed(self) -> None:
        self.migrate_live(self.server)

        self.assert_others()

    def test_so_if_that_was_released_on_its_way(self) -> None:
        transfer = self.begin_transfer()
        self.get_host('host2').release(self.uuid)

        transfer.go.set()

        self.wait_for_end('completed')
        self.assert_others()


class OrderTest(base.TestCase):
    def test_novas_own_part_comes_first_when_a_guest_arrives(self) -> None:
        """It brings the network back; ours may wait for RMD."""
        host = types.SimpleNamespace(
            starting=lambda _uuid: contextlib.nullcontext()
        )
        driver: Any = object.__new__(libvirt.LibvirtDriver)
        driver._ext = types.SimpleNamespace(host=host)
        done: list[str] = []
        driver._arrive = lambda _context, _instance: done.append('ours')

        def attach(*_args: Any) -> None:
            done.append('nova')
            raise RuntimeError('no interface')

        self.useFixture(
            fixtures.MockPatchObject(
                nova_libvirt.LibvirtDriver,
                'post_live_migration_at_destination',
                attach,
            )
        )

        self.assertRaises(
            RuntimeError,
            driver.post_live_migration_at_destination,
            None,
            types.SimpleNamespace(uuid='x'),
        )

        self.assertEqual(['nova', 'ours'], done)
