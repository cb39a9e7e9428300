# SPDX-License-Identifier: Apache-2.0

"""A random walk of a host with resctrl, with all that may happen to that."""

from collections.abc import Mapping
from typing import Any

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from nova_ext_resources.objects import bitmask
from nova_ext_resources import plugins
from nova_ext_resources.testing import resctrl
from tests.unit.host import walking
from tests.unit.host import with_host
from tests.unit import strategies

FOREIGN = 'db'

#: What may happen: a method and its arguments.
MISHAPS: tuple[tuple[Any, ...], ...] = (
    ('remount',),
    # Other software takes ways, and goes.
    *(('come', run) for run in ('1', '18', '70', '180', '600')),
    ('leave',),
    # It changes what servers have.
    ('write', 'schemata', 'L3:0=7ff\n'),
    ('write', 'schemata', 'L3:0=10\n'),
    ('write', 'cpus_list', '20\n'),
    ('write', 'cpus_list', '\n'),
    ('remove',),
    # The kernel refuses.
    *(
        ('fail', operation, error, count)
        for operation, error in (
            ('mkdir', 'ENOSPC'),
            ('mkdir', 'EACCES'),
            ('rmdir', 'EBUSY'),
            ('write', 'EINVAL'),
            ('read', 'EIO'),
        )
        for count in (1, 3)
    ),
    ('set_offline', '1-2'),
    ('set_online', '0-47'),
)


class ResctrlWalk(walking.Walk):
    SHARED_MASKS = (0x8,)

    def set_up(self) -> None:
        self.machine = self.stack.useFixture(resctrl.ResctrlFixture())
        self.kernel = self.machine.kernel

    def load_backend(self, entries: Any) -> list[Any]:
        return [
            self.load(namespace, entries)
            for namespace in (
                plugins.INVENTORY_PROVIDERS,
                plugins.ENFORCERS,
            )
        ]

    def load(self, namespace: str, entries: Any) -> dict[str, Any]:
        cls = with_host.load_class(namespace, 'resctrl')
        group = plugins.register_opts(self.conf, 'resctrl', cls.OPTIONS)
        for option, value in (
            ('cpu_path', self.machine.cpu_path),
            ('reserved_ways', 2),
            ('burst_ways', 3),
            ('shared_ways', 1),
            ('shared_servers', 4),
        ):
            self.conf.set_override(option, value, 'ext_resources_resctrl')
        files = self.machine.file_system
        return {'resctrl': cls(group, 'host1', entries, files=files)}

    def list_groups(self) -> list[tuple[frozenset[int], Mapping[int, int]]]:
        return [
            (
                frozenset(one['cpus']),
                {int(n): mask for n, mask in one['values']['L3'].items()},
            )
            for name, one in self.kernel.list_groups().items()
            if name
        ]

    def list_ours(self) -> list[str]:
        return [one for one in self.kernel.list_groups() if 'nova-' in one]

    def list_left(self) -> list[str]:
        return self.list_ours()

    def mend(self) -> None:
        self.kernel.stop_failing()
        self.set_online('0-47')
        self.leave()

    @stateful.rule(mishap=st.sampled_from(MISHAPS))
    def happen(self, mishap: tuple[Any, ...]) -> None:
        name, *how = mishap
        getattr(self, name)(*how)

    def remount(self) -> None:
        self.kernel.remount()

    def come(self, run: str) -> None:
        self.leave()
        if self.kernel.count_free_classes():
            self.kernel.add_group(FOREIGN, f'L3:0={run};1=600\n')

    def leave(self) -> None:
        if FOREIGN in self.kernel.list_groups():
            self.kernel.remove_group(FOREIGN)

    def write(self, file: str, text: str) -> None:
        for name in self.list_ours()[:1]:
            self.kernel.write(f'{name}/{file}', text)

    def remove(self) -> None:
        for name in self.list_ours()[:1]:
            self.kernel.remove_group(name)

    def fail(self, operation: str, error: str, count: int) -> None:
        self.kernel.fail(operation=operation, error=error, count=count)

    def set_offline(self, cpus: str) -> None:
        self.kernel.set_offline(cpus)
        self.offline = bitmask.parse_list(cpus)

    def set_online(self, cpus: str) -> None:
        self.kernel.set_online(cpus)
        self.offline = frozenset()


# A run is many steps long.
ResctrlWalk.TestCase.settings = hypothesis.settings(
    max_examples=strategies.EXAMPLES // 10, stateful_step_count=25
)

ResctrlWalkTest = ResctrlWalk.TestCase
