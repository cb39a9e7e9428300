# SPDX-License-Identifier: Apache-2.0

"""A real Blazar in the process of the test: API, manager, database, events.

The hosts are given, for what reads them has tests of its own; and so is
keystone, but where it has a part in what is tested, see test_keystone. The API
and the manager speak by oslo.messaging in memory.
"""

from collections.abc import Mapping
import datetime
import json
import logging
import math
import pathlib
from typing import Any

from blazar.api.v1 import app as blazar_app
from blazar.db import api as db_api
from blazar.db.sqlalchemy import facade_wrapper
from blazar.manager import service
from blazar.notification import notifier
from blazar import rpc
from blazar.utils import trusts
import fixtures
from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_utils import fixture as utils_fixture
from oslo_utils import timeutils
from werkzeug import test as wsgi_test

from dev.cloud.lite import sqlite
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation.blazar import options
from nova_ext_resources.reservation.blazar import plugin
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import records
from tests import base
from tests.unit.reservation import sites

# So that Blazar's threads do not lock one another out.
sqlite.install()

TYPE = options.RESOURCE_TYPE

#: 2030-01-01 00:00, and so are the dates of leases.
START = datetime.datetime(2030, 1, 1)
FORMAT = '%Y-%m-%d %H:%M'

CONFIG = """
[DEFAULT]
transport_url = fake://
host = manager
[database]
connection = sqlite:///{folder}/blazar.db?plugin={sqlite}
[manager]
plugins = {plugins}
minutes_before_end_lease = 0
[ext_resources_reservation]
connection = sqlite:///{folder}/reservations.db
max_duration = -1
[extended:instance]
max_priority = 10
"""

#: As Blazar's enforcement looks keystone up.
CATALOGUE = [
    {
        'type': 'identity',
        'name': 'keystone',
        'endpoints': [{'interface': 'internal', 'url': 'http://keystone'}],
    }
]


class Keystone:
    """As much of keystone as Blazar's manager asks for each lease.

    :ivar answers: how often it still answers
    """

    answers = math.inf

    def __call__(self, **kwargs: object) -> 'Keystone':
        """Return a client, as its class does in Blazar."""
        if not self.answers:
            raise ConnectionError('keystone is away')
        self.answers -= 1
        return self

    @property
    def session(self) -> 'Keystone':
        return self

    @property
    def trusts(self) -> 'Keystone':
        return self

    @property
    def id(self) -> str:
        return 'trust'

    def create(self, **kwargs: object) -> 'Keystone':
        """Return a trust."""
        return self

    def get_user_id(self) -> str:
        return 'blazar'

    @property
    def auth(self) -> 'Keystone':
        return self

    def get_auth_ref(self, _session: object) -> 'Keystone':
        return self

    @property
    def service_catalog(self) -> list[Any]:
        return CATALOGUE

    def get_token(self) -> str:
        return 'token'

    def get_project_id(self) -> str:
        return 'project'


class Answer:
    """What the API has answered."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        self.body: Any = json.loads(response.get_data() or b'{}')

    @property
    def text(self) -> str:
        return str(self.body.get('error_message', ''))


class BlazarTestCase(base.TestCase):
    """Two hosts of eight CPUs; a server of flavor ``large`` takes four.

    :ivar manager: Blazar's, which answers the API; its events and its monitor
        are played by the test
    :ivar folder: of both databases
    """

    plugins = 'extended.instance.plugin'

    def setUp(self) -> None:
        super().setUp()
        # Above this level Blazar's API answers nothing at all.
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.INFO))
        self.site = sites.make_site()
        self.patch(loading, 'Site', lambda conf: self.site)
        self.folder = self.make_folder()
        self.set_time()
        self.configure(self.make_identity())
        db_api.setup_db()
        self.manager = self.start_manager()
        self.client = wsgi_test.Client(self.make_app())

    def set_time(self) -> None:
        self.clock = self.useFixture(utils_fixture.TimeFixture(START))

    def make_identity(self) -> str:
        """Replace keystone; return what Blazar's configuration needs of it."""
        self.keystone = Keystone()
        self.patch(trusts.keystone, 'BlazarKeystoneClient', self.keystone)
        return ''

    def configure(self, identity: str) -> None:
        path = pathlib.Path(self.folder, 'blazar.conf')
        path.write_text(
            CONFIG.format(
                folder=self.folder, plugins=self.plugins, sqlite=sqlite.NAME
            )
            + identity
        )
        conf = cfg.CONF
        conf.reset()
        self.addCleanup(conf.reset)
        conf([f'--config-file={path}'], project='blazar')
        facade_wrapper._clear_engine()
        self.patch(rpc, 'TRANSPORT', None)
        notifier.init()

    def start_manager(self) -> service.ManagerService:
        """Start one, without its timers."""
        manager = service.ManagerService()
        manager._server.start()
        self.addCleanup(self.stop_manager, manager)
        return manager

    def stop_manager(self, manager: service.ManagerService) -> None:
        manager._server.stop()
        manager._server.wait()

    def make_app(self) -> Any:
        """Make the API, which believes what headers say."""

        def let_pass(_conf: object) -> Any:
            return lambda app: app

        with fixtures.MonkeyPatch(
            'keystonemiddleware.auth_token.filter_factory', let_pass
        ):
            assert auth_token.filter_factory is let_pass
            return blazar_app.make_app()

    # What users do

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        project: str = 'project',
        roles: str = 'member,reader',
    ) -> Answer:
        """Send a request as a user of a project."""
        response = self.client.open(
            f'/v1{path}',
            method=method,
            json=body,
            environ_base={'REMOTE_ADDR': '127.0.0.1'},
            headers={
                'Accept': 'application/json',
                **self.make_headers(project, roles),
            },
        )
        return Answer(response)

    def make_headers(self, project: str, roles: str) -> dict[str, str]:
        """Return what keystone's middleware makes of a token."""
        return {
            'X-Project-Id': project,
            'X-User-Id': 'user',
            'X-Roles': roles,
            'X-Service-Catalog': json.dumps(CATALOGUE),
        }

    def lease(
        self,
        name: str,
        start: float,
        end: float,
        *reservations: Mapping[str, Any],
        **fields: Any,
    ) -> Answer:
        """Ask for a lease of one flavor, or of several reservations.

        :param start: hours from the first of January 2030, as ``end``
        """
        wanted = reservations or [{'flavor': 'large', **fields}]
        return self.ask(
            'POST',
            '/leases',
            {
                'name': name,
                'start_date': self.date(start) if start else 'now',
                'end_date': self.date(end),
                'before_end_date': '',
                'events': [],
                'reservations': [
                    {'resource_type': TYPE, **one} for one in wanted
                ],
            },
        )

    def make(self, name: str, start: float, end: float, **fields: Any) -> Any:
        """Make a lease of one reservation, and return it."""
        answer = self.lease(name, start, end, **fields)
        self.assertEqual(201, answer.status, answer.body)
        return answer.body['lease']

    def show(self, lease: Mapping[str, Any]) -> Any:
        return self.ask('GET', f'/leases/{lease["id"]}').body['lease']

    def update(self, lease: Mapping[str, Any], **values: Any) -> Answer:
        return self.ask('PUT', f'/leases/{lease["id"]}', values)

    def delete(self, lease: Mapping[str, Any]) -> Answer:
        return self.ask('DELETE', f'/leases/{lease["id"]}')

    def date(self, hours: float) -> str:
        date = START + datetime.timedelta(hours=hours)
        return date.strftime(FORMAT)

    # What goes on behind

    def pass_time(self, hours: float) -> None:
        self.clock.advance_time_seconds(hours * 3600)

    def play_events(self) -> None:
        """Let Blazar do what is due by now."""
        self.manager._process_events()

    def play_monitor(self) -> None:
        """Let Blazar poll, which it does every minute."""
        [monitor] = self.manager.monitors
        [one] = monitor.monitor_plugins
        monitor.call_monitor_plugin(one.poll)

    @property
    def plugin(self) -> plugin.ExtendedInstance:
        found: plugin.ExtendedInstance = self.manager.plugins[TYPE]
        return found

    def open_store(self) -> api.Reservations:
        """Open the store, as the commands do."""
        found = plugin.open_store()
        self.addCleanup(found.close)
        return found

    def read(self, lease: Mapping[str, Any]) -> records.Record:
        """Return the first reservation of a lease, as the store has it."""
        return self.open_store().get(lease['reservations'][0]['id'])

    def list_states(self) -> dict[str, str]:
        """Return the reservations that go on, by their state."""
        return {
            one.request.key: str(one.state)
            for one in self.open_store().list_reservations()
            if not one.state.is_final
        }

    def now(self) -> float:
        return float(timeutils.utcnow_ts())
