# SPDX-License-Identifier: Apache-2.0

"""A base for tests of hand-overs: a machine with RMD and with resctrl.

The two do not see each other, because the simulator has groups of its own,
except in :class:`OneKernelTestCase`.
"""

from collections.abc import Callable, Mapping
import contextlib
import json
from typing import Any

from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.host.handover import run
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import requirements
from nova_ext_resources import plugins
from nova_ext_resources.testing.rmd_simulator import classes as sim_classes
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

Entries = Mapping[str, assignment.Entry]

#: Servers of the host, and what they have.
FIRST = '11111111-1111-4111-8111-111111111111'
SECOND = '22222222-2222-4222-8222-222222222222'
THIRD = '33333333-3333-4333-8333-333333333333'

#: Six of the eleven ways of each cache can be sold, as with RMD.
RESERVED_WAYS = 5


class Killed(BaseException):
    """The process is gone at this line."""


class Killer:
    """Ends a run at a step: before or after something that lasts."""

    def __init__(self, step: int) -> None:
        self._left = step

    def wrap(self, holder: Any, *names: str) -> None:
        """Let each call of these methods be two steps."""
        for name in names:
            setattr(holder, name, self._make(getattr(holder, name)))

    def _make(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def run_or_die(*args: Any) -> Any:
            self._step()
            result = act(*args)
            self._step()
            return result

        return run_or_die

    def _step(self) -> None:
        self._left -= 1
        if not self._left:
            raise Killed


class HandOverTestCase(
    with_host.RmdHostTestCase, with_resctrl.ResctrlHostTestCase
):
    RESERVED_WAYS = RESERVED_WAYS

    #: More options of each backend.
    RMD: Mapping[str, Any] = {}
    RESCTRL: Mapping[str, Any] = {}

    def setUp(self) -> None:
        super().setUp()
        self.said: list[str] = []

    def list_at_rmd(self) -> dict[str, dict[int, int]]:
        return with_host.RmdHostTestCase.list_in_force(self)

    def list_at_resctrl(self) -> dict[str, dict[int, int]]:
        return with_resctrl.ResctrlHostTestCase.list_in_force(self)

    def make_host(self, name: str) -> manager.HostManager:
        """Start the service with this backend."""
        if name == 'rmd':
            return self.make_rmd_host(**self.RMD)
        return self.make_resctrl_host(
            reserved_ways=self.RESERVED_WAYS, **self.RESCTRL
        )

    def fill(self, name: str) -> dict[str, assignment.Entry]:
        """Run three servers on a host with this backend, then stop it."""
        host = self.make_host(name)
        self.start(host, FIRST, 2)
        self.start(host, SECOND, 3, cpus=frozenset({3}))
        domain = with_host.DOMAINS[1]
        self.start(
            host,
            THIRD,
            4,
            cpus=frozenset({13, 14}),
            allocations={domain: {classes.WAYS: 4, classes.PERCENT: 30}},
            requirement=requirements.Requirement(),
        )
        host.close()
        return self.read_entries()

    def make_backend(
        self, name: str, entries: base.EntriesReader = dict
    ) -> run.Backend:
        load: Callable[..., Mapping[str, Any]] = self.load_rmd
        options = dict(self.RMD)
        if name == 'resctrl':
            load = self.load_resctrl
            options = {
                'entries': entries,
                'reserved_ways': self.RESERVED_WAYS,
                **self.RESCTRL,
            }
        return run.Backend(
            name=name,
            inventory=load(plugins.INVENTORY_PROVIDERS, **options)[name],
            enforcer=load(plugins.ENFORCERS, **options)[name],
        )

    def make(
        self,
        source: str,
        target: str,
        *,
        killer: Killer | None = None,
        is_source_gone: bool = False,
    ) -> run.HandOver:
        """Make what a new process would."""
        ledger = self.open_ledger()
        backends = (
            self.make_backend(source, dict),
            self.make_backend(target, ledger.list_entries),
        )
        trackers, tests = with_host.load_pure()
        made = run.HandOver(
            host='host1',
            source=backends[0],
            target=backends[1],
            ledger=ledger,
            trackers=trackers,
            tests=tests,
            is_source_gone=is_source_gone,
            say=self.said.append,
        )
        if killer:
            killer.wrap(ledger, 'put')
            killer.wrap(made.journal, 'write', 'remove')
            for one in backends:
                killer.wrap(one.enforcer, 'apply', 'release')
        return made

    def hand_over(
        self,
        source: str,
        target: str,
        *,
        is_checked: bool = True,
        **how: Any,
    ) -> None:
        made = self.make(source, target, **how)
        try:
            made.run(is_checked=is_checked)
        finally:
            made.ledger.close()

    def read_entries(self) -> dict[str, assignment.Entry]:
        """Read the ledger as the next process does."""
        ledger = ledger_mod.Ledger(self.ledger_path)
        try:
            return ledger.list_entries()
        finally:
            ledger.close()

    def assert_all_at(
        self, name: str, before: Mapping[str, assignment.Entry]
    ) -> None:
        """All is in force there, and nova-compute finds nothing to do."""
        by_name = {'rmd': self.list_at_rmd, 'resctrl': self.list_at_resctrl}
        for backend, look in by_name.items():
            expected = set(before) if backend == name else set()
            self.assertEqual(expected, set(look()), backend)
        entries = self.read_entries()
        self.assertEqual(list_sold(before), list_sold(entries))
        for uuid, masks in by_name[name]().items():
            self.assertEqual(assignment.State.APPLIED, entries[uuid].state)
            for one in classes.pick(entries[uuid].assignments, classes.WAYS):
                self.assertEqual(
                    f'{masks[classes.find_domain(one)]:x}', one.units['mask']
                )
        host = self.make_host(name)
        host.reconcile(before)
        self.assertEqual((), host.problems)
        host.close()
        self.assertEqual(entries, self.read_entries())

    def assert_untouched(self, before: Mapping[str, assignment.Entry]) -> None:
        self.assertEqual(dict(before), self.read_entries())


class OneKernelTestCase(HandOverTestCase):
    """RMD's groups are those of the kernel, as with the real daemon.

    It makes a group of each class of service when it is started, has the
    default group narrowed, and leaves all of that behind when it ends.
    """

    def setUp(self) -> None:
        super().setUp()
        self.is_rmd_running = False
        self.simulator.on_change.append(self.show_rmd)
        self.start_rmd()

    def start_rmd(self) -> None:
        # Where its groups were removed, only its second start succeeds.
        with contextlib.suppress(sim_classes.StartFailed):
            self.simulator.restart()
        self.simulator.restart()
        self.is_rmd_running = True
        self.show_rmd()

    def stop_rmd(self) -> None:
        self.simulator.refuse_connections()
        self.is_rmd_running = False

    def list_rmd_groups(self) -> list[str]:
        return [
            name for name in self.kernel.list_groups() if name[:3] == 'COS'
        ]

    def remove_rmd_groups(self) -> None:
        """Do as ``rmdir /sys/fs/resctrl/COS*``: CPUs go back."""
        for name in self.list_rmd_groups():
            self.kernel.remove_group(name)
        self.simulator.remove_groups()

    def show_rmd(self) -> None:
        """Write the groups to the kernel, in the way of libpqos."""
        for group in self.simulator.list_groups() * self.is_rmd_running:
            name = group['name'].removeprefix('.')
            if name and name not in self.list_rmd_groups():
                self.kernel.add_group(name)
            folder = f'{name}/' if name else ''
            for control, values in group['schemata'].items():
                text = ';'.join(f'{n}={value}' for n, value in values.items())
                self.kernel.write(f'{folder}schemata', f'{control}:{text}\n')
            if name:
                mask = bitmask.from_numbers(bitmask.parse_list(group['cpus']))
                # The kernel skips the comma.
                self.kernel.write(
                    f'{folder}cpus', f'{mask >> 32:x},{mask & 0xFFFFFFFF:x},\n'
                )


def list_sold(entries: Mapping[str, assignment.Entry]) -> str:
    """Return all that placement knows of: who has how much of what, where."""
    return json.dumps(
        {
            uuid: [
                (one.rp_uuid, one.resource_class, one.amount, one.is_allocated)
                for one in entry.assignments
            ]
            for uuid, entry in sorted(entries.items())
        }
    )
