# SPDX-License-Identifier: Apache-2.0

"""A base for tests of a host whose kernel has resctrl."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_ext_resources.facts import guest
from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_provider
from nova_ext_resources import plugins
from nova_ext_resources.testing import resctrl
from tests import machines
from tests.unit import builders
from tests.unit.host import with_host

PREFIX = 'nova-'


class ResctrlHostTestCase(with_host.BackendTestCase):
    """Has a kernel that answers back, and makes hosts that use it."""

    SHAPE: resctrl.Shape | str = 'skylake2'

    #: Made by who needs it.
    host: manager.HostManager

    #: As :class:`~nova_ext_resources.testing.resctrl.ResctrlFixture` has them.
    TASKS = 'made-up'

    def setUp(self) -> None:
        super().setUp()
        # What the hypervisor says that it runs.
        self.running: dict[str, guest.Guest] = {}
        # What it says first.
        self.answers: list[dict[str, guest.Guest]] = []
        # Whether it does not answer at all.
        self.is_silent = False
        self.machine = self.make_machine()
        self.kernel = self.machine.kernel

    def make_machine(self) -> resctrl.ResctrlFixture:
        made = machines.make(self.SHAPE, tasks=self.TASKS)
        machine: resctrl.ResctrlFixture = self.useFixture(made)
        return machine

    def load_resctrl(self, namespace: str, **options: Any) -> dict[str, Any]:
        readers = with_host.pop_readers(options)
        cls = with_host.load_class(namespace, 'resctrl')
        group = plugins.register_opts(self.conf, 'resctrl', cls.OPTIONS)
        given = {'cpu_path': self.machine.cpu_path, **options}
        for option, value in given.items():
            self.conf.set_override(option, value, 'ext_resources_resctrl')
        files = self.machine.file_system
        return {'resctrl': cls(group, 'host1', *readers, files=files)}

    def make_resctrl_host(self, **options: Any) -> manager.HostManager:
        """Make a host that has looked at its kernel."""
        options['entries'] = lambda: host.entries
        providers = self.load_resctrl(plugins.INVENTORY_PROVIDERS, **options)
        options['guests'] = self.list_running
        enforcers = self.load_resctrl(plugins.ENFORCERS, **options)
        host: manager.HostManager = with_host.make_host(
            providers, enforcers, self.open_ledger()
        )
        host.refresh()
        return host

    def list_running(self) -> dict[str, guest.Guest] | None:
        if self.is_silent:
            return None
        return self.answers.pop(0) if self.answers else dict(self.running)

    def start_with(
        self,
        consumer_uuid: str,
        asked: Mapping[str, Mapping[str, int]],
        *,
        cpus: frozenset[int] | None = frozenset({1}),
        attributes: Mapping[str, Mapping[str, str]] | None = None,
        thread_policy: str = '',
    ) -> assignment.Entry:
        """Start a server on ``self.host``.

        :param asked: provider key -> resource class -> amount
        :param attributes: resource class -> attribute -> value
        """
        together: dict[str, int] = {}
        for amounts in asked.values():
            together.update(amounts)
        fields: dict[str, Any] = {
            'cpus': cpus,
            'allocations': {
                host_provider.make_rp_uuid(with_host.NODE.uuid, key): amounts
                for key, amounts in asked.items()
            },
            'requirement': dataclasses.replace(
                builders.make_requirement(_=together),
                attributes=attributes or {},
                thread_policy=thread_policy,
            ),
        }
        return self.start(self.host, consumer_uuid, **fields)

    def list_ours(self) -> dict[str, dict[str, Any]]:
        """Return server -> its group, as the kernel has it."""
        return {
            name.removeprefix(PREFIX): group
            for name, group in self.kernel.list_groups().items()
            if name.startswith(PREFIX)
        }

    def get_masks(self, group: str, control: str = 'L3') -> dict[int, int]:
        values = self.kernel.get_values(group, control)
        return {int(domain): value for domain, value in values.items()}

    def list_in_force(self) -> dict[str, dict[int, int]]:
        control = 'L3' if 'L3' in self.list_controls() else 'L3DATA'
        return {
            uuid: self.get_masks(f'{PREFIX}{uuid}', control)
            for uuid in self.list_ours()
        }

    def list_controls(self) -> set[str]:
        return set(self.kernel.list_groups()['']['values'])

    def assert_agreement(self, host: manager.HostManager) -> None:
        """And what is sold is for one server alone."""
        super().assert_agreement(host)
        for uuid, entry in host.entries.items():
            self.assertEqual(
                bitmask.format_list(entry.cpus or ()),
                bitmask.format_list(self.list_ours()[uuid]['cpus']),
            )
        self.assert_exclusive(host)

    def assert_exclusive(self, host: manager.HostManager) -> None:
        groups = self.kernel.list_groups()
        controls = self.list_controls() & {'L3', 'L3CODE', 'L3DATA'}
        for uuid, entry in host.entries.items():
            for one in entry.assignments:
                if one.resource_class != with_host.WAYS:
                    continue
                mask = bitmask.parse_mask(one.units['mask'])
                domain = one.rp_key.removeprefix('L3_')
                for name, group in groups.items():
                    for control in controls:
                        other = group['values'][control][domain]
                        if name == f'{PREFIX}{uuid}':
                            self.assertEqual(f'{mask:x}', f'{other:x}')
                        else:
                            self.assertEqual(0, mask & other, name)
