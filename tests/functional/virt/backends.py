# SPDX-License-Identifier: Apache-2.0

"""Hosts with each backend, between which servers move."""

import dataclasses
from typing import Any

from nova_ext_resources.objects import assignment
from nova_ext_resources.testing import resctrl
from tests.functional.resctrl import mounting
from tests.functional.virt import moving

_SEATS = """
resources:
  - name: CUSTOM_SEAT
    type: count
    units: seats
    description: Seats.
    inventory: {total: 6}
"""

_PREFIX = 'nova-'


class Static(moving.MovesTestCase):
    """Counted resources, which nothing applies, of floating servers."""

    plugins = 'static'
    enforcers = ''

    def _write_conf(self) -> None:
        super()._write_conf()
        path = self.folder / 'definitions.yaml'
        path.write_text(_SEATS)
        with (self.folder / 'ext.conf').open('a') as conf:
            conf.write(f'[ext_resources_static]\ndefinitions_file = {path}\n')

    def make_own_flavor(self, amount: int) -> str:
        return self.make_flavor(resources__CUSTOM_SEAT=amount)

    def list_applied(self, host: str) -> None:
        return None


class PinnedStatic(Static):
    def make_own_flavor(self, amount: int) -> str:
        return self.make_flavor(
            hw__cpu_policy='dedicated', resources__CUSTOM_SEAT=amount
        )


class Rmd(moving.MovesTestCase):
    """RMD chooses the units: what waits for a guest has them."""

    WAITS = assignment.State.APPLIED


class Resctrl(moving.MovesTestCase):
    plugins = 'resctrl'
    enforcers = 'resctrl'
    SHAPE = resctrl.SHAPES['skylake2']

    def setUp(self) -> None:
        mounting.require()
        self.machines = {
            host: self.useFixture(
                resctrl.ResctrlFixture(self.SHAPE, fuse=True)
            )
            for host in self.HOSTS
        }
        super().setUp()

    def start_host(self, host: str, **settings: Any) -> Any:
        machine = self.machines[host]
        self.host_options = (
            '[ext_resources_resctrl]\n'
            f'path = {machine.path}\n'
            f'cpu_path = {machine.cpu_path}\n'
        )
        return super().start_host(host, **settings)

    def list_applied(self, host: str) -> dict[str, dict[str, int]]:
        kernel = self.machines[host].kernel
        return {
            name.removeprefix(_PREFIX): {
                f'L3_{domain}': mask
                for domain, mask in kernel.get_values(name, 'L3').items()
            }
            for name in kernel.list_groups()
            if name.startswith(_PREFIX)
        }


class Floating(Resctrl):
    def make_own_flavor(self, amount: int) -> str:
        return self.make_flavor(resources__CUSTOM_LLC_WAYS=amount)


class Spread(moving.MovesTestCase):
    """Pinned servers with CPUs of both caches have the amount of each."""

    DOMAINS = 2

    def _write_conf(self) -> None:
        super()._write_conf()
        with (self.folder / 'ext.conf').open('a') as conf:
            conf.write('[ext_resources]\npins_across_caches = each\n')

    def make_own_flavor(self, amount: int) -> str:
        # Each cache of these hosts is a NUMA cell.
        return self.make_flavor(
            hw__cpu_policy='dedicated',
            hw__numa_nodes=2,
            resources__CUSTOM_LLC_WAYS=amount,
            **self.list_more(amount),
        )

    def list_more(self, amount: int) -> dict[str, int]:
        """Return further extra specs."""
        return {}


class SpreadRmd(Rmd, Spread):
    pass


class SpreadResctrl(Resctrl, Spread):
    # A server has one CPU of each cache: no whole cores.
    SHAPE = dataclasses.replace(
        Resctrl.SHAPE,
        bandwidths=tuple(
            dataclasses.replace(one, throttle_mode='per-thread')
            for one in Resctrl.SHAPE.bandwidths
        ),
    )

    def list_more(self, amount: int) -> dict[str, int]:
        return {'resources__CUSTOM_MEMORY_BANDWIDTH_PERCENT': 10 * amount}
