# SPDX-License-Identifier: Apache-2.0

"""The agent as a process, beside real placement."""

from collections.abc import Callable
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids
import requests
from waitress import server

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import pool
from nova_ext_resources.testing import cpu
from tests.functional import base

#: Seconds, on a busy machine.
_PATIENCE = 90.0

_SEATS = """
resources:
  - name: CUSTOM_SEAT
    units: seats
    description: Seats.
    inventory: {{total: {total}}}
"""

_NOVA_FILE = """\
meta: {{schema_version: '1.0'}}
providers:
- identification: {{name: {name}}}
  inventories: {{additional: [{{CUSTOM_SEAT: {{total: 2}}}}]}}
"""

_POOLS = """
pools:
  - name: scratch
    resource_class: CUSTOM_SCRATCH_GB
    source: file
    location: %s
"""


def find_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return int(one.getsockname()[1])


class AgentTestCase(base.PlacementTestCase):
    plugin = 'static'

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.make_folder())
        self.definitions = self.folder / 'definitions.yaml'
        self.define(6)
        self.write()

    def serve(self) -> str:
        """Serve placement to other processes; return its URL."""
        made = server.create_server(self.app, host='127.0.0.1', port=0)
        thread = threading.Thread(target=made.run, daemon=True)
        thread.start()
        self.addCleanup(thread.join, _PATIENCE)
        self.addCleanup(made.close)
        return f'http://127.0.0.1:{made.effective_port}'

    def define(self, total: int) -> None:
        made = self.folder / 'definitions.new'
        made.write_text(_SEATS.format(total=total))
        made.rename(self.definitions)

    def write(self, more: str = '') -> None:
        if not hasattr(self, 'url'):
            self.url = self.serve()
        (self.folder / 'nova.conf').write_text(
            textwrap.dedent(f"""\
                [DEFAULT]
                host = cpu1
                state_path = {self.folder}
                [ext_resources]
                inventory_providers = {self.plugin}
                refresh_interval = 1
                {{more}}
                [ext_resources_static]
                definitions_file = {self.definitions}
                [ext_resources_shared_pool]
                pools_file = {self.folder}/pools.yaml
                [placement]
                auth_type = admin_token
                token = admin
                endpoint = {self.url}
                """).format(more=more)
        )

    def start(self, *words: str, **environment: str) -> Any:
        """Start the agent; it is stopped at the end."""
        self.log = self.folder / f'log-{time.monotonic()}'
        with self.log.open('w') as log:
            agent = subprocess.Popen(
                [
                    *(sys.executable, '-m', 'nova_ext_resources.cmd.agent'),
                    f'--config-file={self.folder}/nova.conf',
                    *words,
                ],
                stdout=log,
                stderr=log,
                env={'PATH': '/usr/bin:/bin', **environment},
            )
        self.addCleanup(agent.wait, _PATIENCE)
        self.addCleanup(agent.kill)
        return agent

    def make_node(self) -> None:
        (self.folder / 'compute_id').write_text(uuids.node)
        self.make_root(uuids.node, 'cpu1.example.com')

    def find(self, name: str) -> dict[str, Any]:
        """Return the inventories of a provider; {}: there is none."""
        found = self.client.list_providers(name=name)
        return {
            resource_class: one.total
            for provider in found
            for resource_class, one in self.client.list_inventories(
                provider.rp_uuid
            ).items()
        }

    def find_seats(self) -> int | None:
        return self.find('cpu1.example.com_STATIC').get('CUSTOM_SEAT')

    def wait_until(self, is_so: Callable[[], Any]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                self.fail(f'not so; the log: {self.log.read_text()}')
            time.sleep(0.05)

    def assert_ends(self, agent: Any, code: int, *words: str) -> None:
        self.assertEqual(code, agent.wait(_PATIENCE), self.log.read_text())
        for one in words:
            self.assertIn(one, self.log.read_text())


class AgentTest(AgentTestCase):
    def test_it_waits_for_nova_compute_and_follows_the_files(self) -> None:
        agent = self.start()
        self.wait_until(lambda: 'there is no file' in self.log.read_text())
        (self.folder / 'compute_id').write_text(uuids.node)
        self.wait_until(lambda: '404' in self.log.read_text())
        self.make_node()
        self.wait_until(lambda: self.find_seats() == 6)

        self.define(8)

        self.wait_until(lambda: self.find_seats() == 8)
        agent.send_signal(signal.SIGTERM)
        self.assert_ends(agent, 0, 'Ended by SIGTERM')
        self.assertEqual(8, self.find_seats())

    def test_it_reads_the_options_again(self) -> None:
        self.make_node()
        agent = self.start()
        self.wait_until(lambda: self.find_seats() == 6)

        for number, wrong in enumerate(
            ('enforcers = rmd', '[DEFAULT]\ndebug = maybe'), start=1
        ):
            self.write(wrong)
            agent.send_signal(signal.SIGHUP)
            self.wait_until(
                lambda: (
                    self.log.read_text().count('stays in effect') == number  # noqa: B023
                )
            )
        self.define(7)
        self.wait_until(lambda: self.find_seats() == 7)

        self.definitions = self.folder / 'others.yaml'
        self.define(9)
        self.write()
        agent.send_signal(signal.SIGHUP)
        self.wait_until(lambda: self.find_seats() == 9)

    def test_plugins_that_cannot_be_loaded_leave_the_former_ones(self) -> None:
        self.make_node()
        agent = self.start()
        self.wait_until(lambda: self.find_seats() == 6)

        self.definitions = self.folder / 'missing.yaml'
        self.write()
        agent.send_signal(signal.SIGHUP)
        self.wait_until(lambda: 'missing.yaml' in self.log.read_text())
        self.definitions = self.folder / 'definitions.yaml'
        self.define(7)

        self.wait_until(lambda: self.find_seats() == 7)

    def test_placement_that_is_away_at_the_start(self) -> None:
        self.make_node()
        self.app.fail('GET', uuids.node, 2)

        self.start()

        self.wait_until(lambda: self.find_seats() == 6)
        self.assertIn('503', self.log.read_text())

    def test_it_is_killed_and_started_again(self) -> None:
        self.make_node()
        for total in (6, 5):
            self.define(total)
            agent = self.start()
            self.wait_until(lambda: self.find_seats() == total)  # noqa: B023
            agent.kill()
            agent.wait(_PATIENCE)

    def test_it_ends_while_placement_does_not_answer(self) -> None:
        self.make_node()
        agent = self.start()
        self.wait_until(lambda: self.find_seats() == 6)
        hangs, answers = threading.Event(), threading.Event()
        self.addCleanup(answers.set)

        def hang() -> None:
            hangs.set()
            answers.wait(_PATIENCE)

        self.app.before_next('GET', '/resource_providers', hang)
        self.define(9)
        self.assertTrue(hangs.wait(_PATIENCE))
        agent.send_signal(signal.SIGTERM)

        self.assert_ends(agent, 0)
        self.assertFalse(answers.is_set())

    def test_health_moves_to_another_port(self) -> None:
        """With an option that is read again."""
        self.make_node()
        ports = [find_port(), find_port()]
        self.write(f'[ext_resources_metrics]\nport = {ports[0]}')
        agent = self.start()
        self.wait_until(lambda: self.read(ports[0], 'health'))
        self.wait_until(lambda: self.find_seats() == 6)

        self.write(f'[ext_resources_metrics]\nport = {ports[1]}')
        agent.send_signal(signal.SIGHUP)

        self.wait_until(lambda: self.read(ports[1], 'health'))
        self.assertEqual('', self.read(ports[0], 'health'))
        self.assertIn('"publisher"', self.read(ports[1], 'health'))
        self.assertIn('CUSTOM_SEAT', self.read(ports[1], 'metrics'))
        self.assertIn('CUSTOM_SEAT', self.read(ports[1], ''))

    def read(self, port: int, path: str) -> str:
        """Return a document of the endpoint; '' while nothing listens."""
        try:
            found = requests.get(
                f'http://127.0.0.1:{port}/{path}', timeout=_PATIENCE
            )
        except requests.ConnectionError:
            return ''
        return found.text

    def test_what_systemd_hears(self) -> None:
        path = str(self.folder / 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
            heard.bind(path)
            heard.settimeout(_PATIENCE)
            self.make_node()
            agent = self.start(NOTIFY_SOCKET=path)
            self.assertEqual(b'READY=1', heard.recv(1000))
            self.assertEqual(
                b'STATUS=host cpu1: ok\nWATCHDOG=1', heard.recv(1000)
            )
            agent.send_signal(signal.SIGTERM)
            self.assertEqual(b'STOPPING=1', heard.recv(1000))


class RefusedTest(AgentTestCase):
    def test_an_enforcer(self) -> None:
        self.write('enforcers = rmd')

        self.assert_ends(self.start(), 78, 'the agent applies nothing')

    def test_a_plugin_that_needs_one(self) -> None:
        self.plugin = 'fake'
        self.write()
        self.make_node()

        self.assert_ends(self.start(), 78, 'enforcer')
        self.assertEqual({}, self.find('cpu1.example.com_L3_0'))

    def test_a_plugin_for_the_compute_node_itself(self) -> None:
        tree = cpu.Sysfs(str(self.folder / 'sys'))
        tree.set_smt(True)
        self.plugin = 'cpu'
        self.write(f'[ext_resources_cpu]\npath = {tree.path}')
        self.make_node()

        self.assert_ends(
            self.start(), 78, 'nova-ext-resources-provider-config'
        )
        self.assertEqual(
            frozenset(), self.client.get_provider(uuids.node).traits
        )

    def test_a_file_of_nova_that_adds_to_its_provider(self) -> None:
        files = self.folder / 'files'
        files.mkdir()
        (files / 'seats.yaml').write_text(
            _NOVA_FILE.format(name='cpu1.example.com_STATIC')
        )
        self.write(f'[compute]\nprovider_config_location = {files}')
        self.make_node()

        self.assert_ends(
            self.start(),
            78,
            f'{files}/seats.yaml, line 4: provider cpu1.example.com_STATIC',
            'CUSTOM_SEAT',
        )
        self.assertEqual({}, self.find('cpu1.example.com_STATIC'))

    def test_a_second_one_on_the_same_host(self) -> None:
        self.make_node()
        self.start()
        self.wait_until(lambda: self.find_seats() == 6)

        self.assert_ends(self.start(), 78, 'ledger')

    def test_a_nova_compute_that_publishes_by_itself(self) -> None:
        text = (self.folder / 'nova.conf').read_text()
        (self.folder / 'nova.conf').write_text(
            text.replace(
                '[DEFAULT]\n',
                '[DEFAULT]\ncompute_driver = ext_resources.LibvirtDriver\n',
                1,
            )
        )

        self.assert_ends(self.start(), 78, 'already publishes its resources')

    def test_a_node_that_is_none(self) -> None:
        self.make_node()
        agent = self.start()
        self.wait_until(lambda: self.find_seats() == 6)
        agent.send_signal(signal.SIGTERM)
        self.assert_ends(agent, 0)
        (one,) = self.client.list_providers(name='cpu1.example.com_STATIC')

        self.assert_ends(
            self.start(f'--node={one.rp_uuid}'), 78, 'not a compute node'
        )

    def test_a_plugin_that_is_not_installed(self) -> None:
        self.plugin = 'static,nosuch'
        self.write()

        # Without a look for the compute node, which is not there.
        self.assert_ends(self.start(), 78, 'nosuch')

    def test_a_node_that_is_no_uuid(self) -> None:
        self.assert_ends(self.start('--node=cpu1'), 78, 'is not a uuid')

    def test_a_wrong_option_of_the_log(self) -> None:
        self.write('[DEFAULT]\ndebug = maybe')

        self.assert_ends(self.start(), 78, 'Invalid Boolean value: maybe')

    def test_no_plugin(self) -> None:
        self.plugin = ''
        self.write()

        self.assert_ends(self.start(), 78, 'inventory_providers')


class StorageNodeTest(AgentTestCase):
    """A host without nova-compute, beside a pool."""

    plugin = 'shared_pool'

    def setUp(self) -> None:
        super().setUp()
        reading = self.folder / 'reading.json'
        reading.write_text('{"total": 100, "used": 0}')
        (self.folder / 'pools.yaml').write_text(_POOLS % reading)
        self.pool = pool.SharedPool(
            name='scratch', resource_class='CUSTOM_SCRATCH_GB'
        )

    def test_it_publishes_the_pool_alone(self) -> None:
        agent = self.start('--without-node')

        name = self.pool.rp_name
        self.wait_until(lambda: self.find(name) == {'CUSTOM_SCRATCH_GB': 100})
        self.assertEqual(
            [name], [one.name for one in self.client.list_providers()]
        )
        agent.send_signal(signal.SIGTERM)
        self.assert_ends(agent, 0)
        self.assertEqual({'CUSTOM_SCRATCH_GB': 100}, self.find(name))

    def test_what_needs_a_compute_node_is_refused(self) -> None:
        self.plugin = 'shared_pool,static'
        self.write()

        self.assert_ends(
            self.start('--without-node'), 78, 'has no compute node'
        )


class BareMetalTest(AgentTestCase):
    """A controller, which publishes a node of ironic."""

    def test_it_publishes_a_node_when_nova_has_it(self) -> None:
        nodes = f'    nodes: [{uuids.bare}]\n'
        self.definitions.write_text(_SEATS.format(total=4) + nodes)
        agent = self.start('--without-node')
        self.wait_until(
            lambda: 'no provider of this node' in self.log.read_text()
        )

        self.make_root(uuids.bare, uuids.bare)
        self.client.ensure_resource_class('CUSTOM_BAREMETAL_GOLD')
        self.client.set_inventories(
            uuids.bare,
            {'CUSTOM_BAREMETAL_GOLD': class_inventory.Inventory(total=1)},
            0,
        )

        name = f'{uuids.bare}_STATIC'
        self.wait_until(lambda: self.find(name) == {'CUSTOM_SEAT': 4})
        agent.send_signal(signal.SIGTERM)
        self.assert_ends(agent, 0)
        self.assertEqual({'CUSTOM_SEAT': 4}, self.find(name))
