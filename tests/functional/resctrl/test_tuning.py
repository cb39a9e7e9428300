# SPDX-License-Identifier: Apache-2.0

"""Tests of fine tuning, from counters of the kernel to masks in it."""

from collections.abc import Callable
import dataclasses
import json
import os
import pathlib
import threading
import time
from typing import Any
import uuid

import fixtures

from nova_ext_resources.conf import reader
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.host.service import wiring
from nova_ext_resources.objects import host_provider
from tests import base
from tests.functional.resctrl import mounting
from tests.unit import builders
from tests.unit.host import with_host

HUNGRY = str(uuid.UUID(int=0xA))
IDLE = str(uuid.UUID(int=0xB))

PATIENCE = 60.0

CONF = """
[ext_resources]
inventory_providers = resctrl
enforcers = resctrl
[ext_resources_resctrl]
path = {path}
cpu_path = {cpu_path}
burst_ways = 6
[ext_resources_monitoring]
enabled = True
interval = 1
[ext_resources_tuning]
enabled = True
dry_run = {dry_run}
interval = 1
cool_down = 1
[ext_resources_placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
"""


class TuningTest(base.TestCase):
    """Two servers may burst, and one of them has use for it."""

    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(mounting.make('skylake2'))
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def start(self, *, dry_run: bool) -> wiring.HostService:
        path = self.folder / 'nova.conf'
        path.write_text(
            CONF.format(
                path=self.machine.path,
                cpu_path=self.machine.cpu_path,
                dry_run=dry_run,
            )
        )
        made = wiring.HostService(
            reader.read_conf([str(path)], [], 'host1'),
            host='host1',
            node=with_host.NODE,
            state_path=str(self.folder),
            compute=with_host.COMPUTE,
        )
        made.start()
        self.addCleanup(made.stop)
        for number, server in enumerate((HUNGRY, IDLE)):
            self.claim(made, server, cpu=2 + number)
        return made

    def claim(self, made: wiring.HostService, server: str, cpu: int) -> None:
        l3 = host_provider.make_rp_uuid(with_host.NODE.uuid, 'L3_0')
        asked = builders.make_request(
            {l3: {classes.BURST: 1}}, cpus=[cpu], asked={classes.BURST: 1}
        )
        made.claim(dataclasses.replace(asked, consumer_uuid=server))
        made.host.apply(server, must_hold=True)

    def count_ways(self, server: str) -> int:
        schemata = os.path.join(
            str(self.machine.path), f'nova-{server}', 'schemata'
        )
        with open(schemata, encoding='utf-8') as file:
            [line] = [one for one in file if 'L3:' in one]
        mask = line.strip().split('=')[1].split(';')[0]
        return int(mask, 16).bit_count()

    def keep_working(self) -> None:
        """Have one server fill whatever it has, and miss all the time."""
        stopping = threading.Event()
        way = (25952256 // 11) * 0.99

        def work() -> None:
            kernel = self.machine.kernel
            while not stopping.wait(0.2):
                full = int(self.count_ways(HUNGRY) * way)
                kernel.set_occupancy(f'nova-{HUNGRY}', 0, full)
                kernel.add_traffic(f'nova-{HUNGRY}', 0, 2 << 30)
                kernel.set_occupancy(f'nova-{IDLE}', 0, 1 << 16)
                kernel.add_traffic(f'nova-{IDLE}', 0, 1 << 12)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 10.0)
        self.addCleanup(stopping.set)

    def wait_for(self, is_so: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            self.assertLess(time.monotonic(), deadline, 'it never came')
            time.sleep(0.1)

    def read_trail(self) -> list[dict[str, Any]]:
        path = self.folder / 'host1-tuning.jsonl'
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def test_ways_go_to_the_server_that_suffers(self) -> None:
        made = self.start(dry_run=False)
        before = self.count_ways(HUNGRY)
        self.assertEqual(6, before + self.count_ways(IDLE))
        self.keep_working()

        self.wait_for(lambda: self.count_ways(HUNGRY) > before)

        self.assertGreaterEqual(self.count_ways(IDLE), 1)
        # It is written once the change is in force.
        self.wait_for(self.read_trail)
        self.wait_for(lambda: made.metrics.read().tuning_changes)
        self.assertEqual((), made.host.problems)

    def test_a_dry_run_only_says_what_it_would_do(self) -> None:
        self.start(dry_run=True)
        before = self.count_ways(HUNGRY)
        self.keep_working()

        self.wait_for(self.read_trail)

        self.assertEqual(before, self.count_ways(HUNGRY))

    def test_healing_leaves_what_tuning_has_moved(self) -> None:
        made = self.start(dry_run=False)
        before = self.count_ways(HUNGRY)
        self.keep_working()
        self.wait_for(lambda: self.count_ways(HUNGRY) > before)

        made.periodic.run_round()
        made.publisher.run_round()

        self.assertGreater(self.count_ways(HUNGRY), before)
        self.assertEqual((), made.host.problems)
