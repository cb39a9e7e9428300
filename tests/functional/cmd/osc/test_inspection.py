# SPDX-License-Identifier: Apache-2.0

"""The commands that show hosts, on real services and two machines."""

import io
import json
import re
import time
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids
from rich import console

from dev.cloud import folder as folders
from dev.demo import scene as scenes
from dev.demo import stage
from dev.demo.story import flavors
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from tests import base
from tests.unit.cmd.osc import shells
from tests.unit.cmd.osc import test_pages

PAGE = 'admin/inspection.rst'

#: The configuration file that the page names.
CONFIG = '/etc/nova/nova.conf'

#: More flavors, with mistakes that Nova accepts.
FLAVORS = {
    'broken': {
        'hw:cpu_policy': 'dedicated',
        'resources_A:CUSTOM_LLC_WAYS': '2',
        'resources_B:CUSTOM_LLC_WAYS': '2',
    },
    'unknown': {'resources:CUSTOM_NO_SUCH': '1'},
}

#: A scheduler notes about once a minute what hosts have published.
PATIENCE = 300.0


#: What is another one in each cloud: uuids, and times.
_OWN = re.compile(
    r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
    r'|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}'
)


class InspectionTest(base.TestCase):
    #: A cloud of a dozen processes.
    TIMEOUT_SCALING_FACTOR = 3

    def test_everything_is_as_the_page_shows(self) -> None:
        theatre = stage.Stage(console.Console(file=io.StringIO(), width=120))
        with scenes.opened(theatre, computes=2, backend='rmd') as scene:
            self.folder = scene.cloud.folder
            for name, value in (
                ('OS_CLIENT_CONFIG_FILE', str(self.folder.clouds_yaml)),
                ('OS_CLOUD', folders.CLOUD),
                ('COLUMNS', '80'),
            ):
                self.useFixture(fixtures.EnvironmentVariable(name, value))
            flavors.play(scene)
            for name, specs in FLAVORS.items():
                scene.add_flavor(name, specs)
            self.boot(scene)
            self.wait_until_noted('node1', 'node2')

            self.check_page()
            self.check_data()
            self.check_explanations()
            self.check_simulations()
            self.check_mistakes()
            self.check_audit(scene)

    def boot(self, scene: scenes.Scene) -> None:
        """Boot a server in each cache, and give it the name of the page.

        And one that fits into none.
        """
        for name in ('first', 'second'):
            made = scene.ask(name, 'gold', host='node1')
            self.assertEqual('ACTIVE', made.status)
        caches = [
            part['consumer']
            for one in self.list_ways('node1')
            for part in one['parts']
            if part['kind'] == 'server'
        ]
        self.assertEqual(2, len(caches))
        self.servers = dict(zip(('web-1', 'web-2'), caches, strict=True))
        for name, uuid in self.servers.items():
            scene.sdk.compute.update_server(uuid, name=name)
        self.assertEqual('ERROR', scene.ask('web-3', 'giant').status)

    def run_command(self, line: str) -> tuple[int, str]:
        words = line.replace(CONFIG, str(self.folder.etc / 'nova.conf'))
        status, output, errors = shells.run(words.split())
        self.assertNotIn('Traceback', errors)
        return status, output + errors

    def read(self, line: str) -> Any:
        status, output = self.run_command(f'{line} -f json')
        self.assertEqual(0, status, output)
        return json.loads(output)

    def wait_until_noted(self, *hosts: str) -> None:
        """Wait until it is known which ways all servers have."""
        deadline = time.monotonic() + PATIENCE
        while {
            one['source']
            for host in hosts
            for one in self.list_ways(host, f'--config-file {CONFIG}')
        } != {'units'}:
            self.assertLess(time.monotonic(), deadline, 'not noted')
            time.sleep(2)

    def list_ways(self, host: str, arguments: str = '') -> list[Any]:
        shown = self.read(f'extended resource host show {host} {arguments}')
        return [
            resource
            for one in shown['providers']
            for resource in one['resources']
            if resource['resource_class'] == 'CUSTOM_LLC_WAYS'
        ]

    def check_page(self) -> None:
        seen = 0
        for command, wanted in test_pages.read_page(PAGE):
            program, _space, line = command.partition(' ')
            self.assertEqual('openstack', program)
            seen += 1
            _status, output = self.run_command(line)
            found = '\n'.join(one.rstrip() for one in output.splitlines())

            self.assertEqual(
                _OWN.sub('(own)', wanted),
                _OWN.sub('(own)', found.rstrip()),
                command,
            )
        self.assertLess(3, seen)

    def check_data(self) -> None:
        """What programs get has the same numbers, and uuids."""
        config = f'--config-file {CONFIG}'
        held = {
            part['name']: (part['consumer'], part['units'].get('mask'))
            for one in self.list_ways('node1', config)
            for part in one['parts']
            if part['kind'] == 'server'
        }
        self.assertEqual(self.servers.keys(), held.keys())
        for name, (consumer, mask) in held.items():
            self.assertEqual(self.servers[name], consumer)
            self.assertEqual(4, int(mask, 16).bit_count())
        self.assertEqual(
            [
                {'host': '1', 'pool': '780', 'free': '6'},
                {'pool': '3c0', 'reserved': '400', 'free': '3'},
            ],
            [
                {
                    part['kind']: part['units']['mask']
                    for part in one['parts']
                    if part['kind'] != 'server'
                }
                for one in self.list_ways('node1', config)
            ],
        )
        for one in self.list_ways('node1'):
            self.assertEqual('amounts', one['source'])
            self.assertEqual(
                one['total'], sum(part['amount'] for part in one['parts'])
            )

    def check_explanations(self) -> None:
        config = f'--config-file {CONFIG}'
        explained = self.read(
            f'extended resource explain --flavor gold --image empty {config}'
        )
        self.assertEqual([], explained['mistakes'])
        self.assertEqual(
            [('node2', True, '', True), ('node1', False, 'amounts', False)],
            [
                (one['host'], one['fits'], one['step'], one['units_known'])
                for one in explained['hosts']
            ],
        )
        [short] = explained['hosts'][1]['shortfalls']
        self.assertEqual(2, short['short_by'])
        self.assertIn(
            short['held_by'],
            [
                [{'consumer': uuid, 'name': name, 'amount': 4}]
                for name, uuid in self.servers.items()
            ],
        )
        explained = self.read('extended resource explain --flavor unknown')
        self.assertIn('Placement refuses', explained['mistakes'][0])
        self.assertEqual(
            {'classes'}, {one['step'] for one in explained['hosts']}
        )

        defined = self.read(
            'extended resource definition show CUSTOM_LLC_WAYS'
        )
        self.assertLess({'gold', 'silver'}, {*defined['flavors']})
        self.assertEqual(4, len(defined['providers']))

    def check_simulations(self) -> None:
        for arguments, wanted in (
            (f'--config-file {CONFIG}', {'node1': 0, 'node2': 2}),
            ('--count 1', {'node1': 0, 'node2': 1}),
            ('--host node1', {'node1': 0}),
        ):
            found = self.read(
                f'extended resource simulate --flavor gold {arguments}'
            )
            self.assertEqual(
                wanted, {one['host']: one['servers'] for one in found['hosts']}
            )
            self.assertEqual(sum(wanted.values()), found['servers'])
        self.check_mix()

    def check_mix(self) -> None:
        command = 'extended resource simulate --mix gold=1'
        found = self.read(f'{command} --config-file {CONFIG}')
        self.assertEqual(
            (2, 2, 'gold'),
            tuple(found[key] for key in ('rounds', 'servers', 'runs_out_for')),
        )
        self.assertEqual(
            {'node1': {'gold': 0}, 'node2': {'gold': 2}},
            {one['host']: one['servers'] for one in found['hosts']},
        )
        _status, output = self.run_command(f'{command} --count 1')
        self.assertIn('1 more rounds of gold 1 fit, 1 servers', output)

    def check_audit(self, scene: scenes.Scene) -> None:
        """Nothing is wrong, until something is; that is repaired."""
        journal = self.folder.etc / 'audit.jsonl'
        command = 'extended resource audit --in-progress'
        self.assertEqual([], self.read(command))

        client = placement_client.Client(scene.sdk.placement)
        [provider] = client.list_providers(name='node2_L3_0')
        client.put_allocations(
            responses.Allocations(
                consumer_uuid=uuids.gone,
                resources={provider.rp_uuid: {'CUSTOM_LLC_WAYS': 1}},
                project_id='project',
                user_id='user',
            )
        )
        status, output = self.run_command(f'{command} -f value -c Kind')
        self.assertEqual((1, 'no_consumer'), (status, output.strip()))
        [row] = self.read(f'{command} --repair --journal {journal}')
        self.assertEqual('deleted', row['What To Do'])
        self.assertEqual([], self.read(command))

    def check_mistakes(self) -> None:
        for line, wanted in (
            ('host show nowhere', 'did not show host nowhere'),
            ('definition show CUSTOM_NO', 'No host and no pool has CUSTOM_NO'),
            ('usage show nothing', 'There is no server nothing'),
            ('simulate --flavor broken', 'group_policy is missing'),
            ('explain --flavor nothing', 'There is no flavor nothing'),
            (
                'explain --flavor gold --host nowhere',
                'There is no host nowhere',
            ),
            (
                'explain --flavor gold --image nothing',
                'There are 0 images nothing',
            ),
            (
                'host show node1 --config-file /no/file',
                'cannot be used',
            ),
        ):
            status, output = self.run_command(f'extended resource {line}')

            self.assertNotEqual(0, status)
            self.assertIn(wanted, output)
