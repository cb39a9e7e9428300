# SPDX-License-Identifier: Apache-2.0

"""Looks at a modelled kernel after every single change."""

import itertools
from typing import Any

from nova_ext_resources.testing import resctrl

_CHANGES = ('write', 'assign', 'mkdir', 'rmdir')


class Watch:
    """Finds out whether sold ways are anybody else's at any moment.

    A group that leaves out the host's own ways has all its ways for itself:
    no other that anything runs in may fill them.

    :ivar faults: what was seen
    :ivar least: (server, domain) -> how many ways it must have
    :ivar limited: servers whose bandwidth in domain 0 together is 100 at most
    """

    def __init__(
        self, machine: resctrl.ResctrlFixture, host_ways: int
    ) -> None:
        self._kernel = machine.kernel
        self._host_ways = host_ways
        self.faults: list[str] = []
        self.least: dict[tuple[str, str], int] = {}
        self.limited: set[str] = set()
        for name in _CHANGES:
            if hasattr(machine.file_system, name):
                self._wrap(machine.file_system, name)

    def _wrap(self, files: Any, name: str) -> None:
        change = getattr(files, name)

        def change_and_look(path: str, *arguments: Any) -> None:
            try:
                change(path, *arguments)
            finally:
                self._look(f'{name} {path} {arguments}')

        setattr(files, name, change_and_look)

    def _look(self, what: str) -> None:
        groups = {
            name: group
            for name, group in self._kernel.list_groups().items()
            if not name or group['cpus'] or group['tasks']
        }
        for (a, one), (b, other) in itertools.combinations(groups.items(), 2):
            for domain, mask in one['values']['L3'].items():
                both = mask & other['values']['L3'][domain]
                if both and not both & self._host_ways:
                    self.faults.append(f'{what}: {a} and {b} have {both:x}')
        for (uuid, domain), least in self.least.items():
            group = groups.get(f'nova-{uuid}')
            if group and group['values']['L3'][domain].bit_count() < least:
                self.faults.append(f'{what}: {uuid} has too few ways')
        limits = [
            groups[f'nova-{uuid}']['values']['MB']['0']
            for uuid in self.limited
            if f'nova-{uuid}' in groups
        ]
        if sum(limits) > 100:
            self.faults.append(f'{what}: more bandwidth than there is')
