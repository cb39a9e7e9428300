# SPDX-License-Identifier: Apache-2.0

"""A real keystone in a process of its own, that tests may stop."""

import contextlib
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
import time

import fixtures
from keystoneauth1.identity import v3
from keystoneauth1 import session as ks_session
from keystoneclient.v3 import client

from dev.cloud import programs
from tests import ports

PASSWORD = 'secret'
REGION = 'RegionOne'

ROOT = pathlib.Path(__file__).parents[2]

CONFIG = """
[database]
connection = sqlite:///{folder}/keystone.db?timeout=30
[token]
provider = fernet
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[identity]
password_hash_rounds = 4
"""

#: What Blazar needs of it: its own user is the administrator.
BLAZAR = """
[DEFAULT]
os_auth_host = 127.0.0.1
os_auth_port = {port}
os_admin_username = admin
os_admin_password = secret
os_admin_project_name = admin
os_region_name = RegionOne
[keystone_authtoken]
auth_type = password
auth_url = {url}
www_authenticate_uri = {url}
username = admin
password = secret
project_name = admin
user_domain_name = Default
project_domain_name = Default
"""


class Identity(fixtures.Fixture):
    """Keystone with a user ``alice``, who is a member of the project ``red``.

    :ivar port: where it listens
    """

    def _setUp(self) -> None:
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.port = self.useFixture(ports.Port()).number
        self.url = f'http://127.0.0.1:{self.port}/v3'
        path = pathlib.Path(self.folder, 'keystone.conf')
        path.write_text(CONFIG.format(folder=self.folder))
        owner = programs.list_key_owner()
        self._manage('fernet_setup', *owner)
        self._manage('credential_setup', *owner)
        self._manage('db_sync')
        # Its threads would lock one another out.
        database = sqlite3.connect(f'{self.folder}/keystone.db')
        database.execute('PRAGMA journal_mode = WAL')
        database.close()
        self._manage(
            'bootstrap',
            f'--bootstrap-password={PASSWORD}',
            f'--bootstrap-region-id={REGION}',
            *(
                f'--bootstrap-{interface}-url={self.url}'
                for interface in ('public', 'internal', 'admin')
            ),
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.addCleanup(self.stop)
        self.start()
        self._make_user()

    def _manage(self, *words: str) -> None:
        subprocess.run(
            [
                programs.get('keystone-manage'),
                f'--config-file={self.folder}/keystone.conf',
                *words,
            ],
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        # Its own: what listens once does so until the last one closes it.
        with socket.socket() as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(('127.0.0.1', self.port))
            fd = bound.fileno()
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    '-P',
                    str(ROOT / 'dev' / 'cloud' / 'serving.py'),
                    'keystone.wsgi.api',
                    str(fd),
                ],
                pass_fds=[fd],
                env={**os.environ, 'OS_KEYSTONE_CONFIG_DIR': self.folder},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        for _attempt in range(600):
            with contextlib.suppress(Exception):
                self.make_session('admin', 'admin').get_token()
                return
            time.sleep(0.1)
        raise AssertionError('keystone does not answer')

    def stop(self) -> None:
        """Kill it; its port refuses connections then."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def make_session(self, user: str, project: str) -> ks_session.Session:
        return ks_session.Session(
            v3.Password(
                auth_url=self.url,
                username=user,
                password=PASSWORD,
                project_name=project,
                user_domain_name='Default',
                project_domain_name='Default',
            ),
            timeout=30,
        )

    def make_client(self, user: str, project: str) -> client.Client:
        return client.Client(session=self.make_session(user, project))

    def _make_user(self) -> None:
        made = self.make_client('admin', 'admin')
        project = made.projects.create('red', 'default')
        alice = made.users.create('alice', 'default', password=PASSWORD)
        [role] = made.roles.list(name='member')
        made.roles.grant(role, user=alice, project=project)
        self.project: str = project.id
        self.user: str = alice.id
