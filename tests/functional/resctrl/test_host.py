# SPDX-License-Identifier: Apache-2.0

"""A host on a mounted resctrl: real system calls, real locks, any machine."""

from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.kernel import topology
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import bitmask
from tests.functional.resctrl import mounting
from tests import machines
from tests.unit.host import with_resctrl

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

#: Machines whose last-level cache can be given out.
SHAPES = tuple(
    name
    for name, shape in machines.list_shapes().items()
    if any(cache.level == topology.L3 for cache in shape.caches)
)


class MountedHostTest(with_resctrl.ResctrlHostTestCase):
    SHAPE = machines.get_default()

    def use(self, shape: str) -> None:
        self.machine = mounting.make(shape)
        self.useFixture(self.machine)
        self.kernel = self.machine.kernel

    def load_resctrl(self, namespace: str, **options: Any) -> dict[str, Any]:
        """Load it as a service does: it finds the mount by its path."""
        return self.load(
            namespace,
            'resctrl',
            path=self.machine.path,
            cpu_path=self.machine.cpu_path,
            **options,
        )

    def start_pinned(
        self, host: manager.HostManager, uuid: str, *, number: int
    ) -> None:
        """Start a server on one CPU of the first domain."""
        domains = topology.read_domains(self.machine.cpu_path)
        cpu = sorted(domains[0])[number]
        self.start(host, uuid, 2, cpus=frozenset({cpu}))

    def test_servers_come_and_go_on_every_machine(self) -> None:
        if not machines.is_kernel():
            self.assertGreater(len(SHAPES), 5)
        for shape in SHAPES:
            with self.subTest(shape=shape):
                self.use(shape)
                before = self.kernel.list_groups()
                host = self.make_resctrl_host()

                self.start_pinned(host, SERVER, number=0)
                self.start_pinned(host, OTHER, number=1)
                self.assert_exclusive(host)
                self.assertEqual({SERVER, OTHER}, set(self.list_ours()))
                host.heal()
                self.assertEqual((), host.problems)
                host.release(SERVER)
                self.assert_exclusive(host)
                host.release(OTHER)

                self.assertEqual(before, self.kernel.list_groups())
                host.close()

    def test_the_kernels_words_are_in_the_error(self) -> None:
        self.use('skylake2')
        host = self.make_resctrl_host()
        for number in range(7):
            self.kernel.add_group(f'db{number}', 'L3:0=400;1=400\n')

        err = self.assertRaises(
            exception.CapacityExceeded,
            self.start_pinned,
            host,
            SERVER,
            number=0,
        )

        self.assertIn('Out of CLOSIDs', str(err))

    def test_a_removed_group_is_made_again(self) -> None:
        self.use('skylake2')
        host = self.make_resctrl_host()
        self.start_pinned(host, SERVER, number=0)
        self.kernel.remove_group(f'nova-{SERVER}')

        host.heal()

        self.assertEqual((), host.problems)
        self.assert_exclusive(host)
        (entry,) = host.entries.values()
        group = self.list_ours()[SERVER]
        self.assertEqual(
            bitmask.format_list(entry.cpus or ()),
            bitmask.format_list(group['cpus']),
        )
