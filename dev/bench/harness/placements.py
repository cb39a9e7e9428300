# SPDX-License-Identifier: Apache-2.0

"""A real placement, which answers over HTTP from processes of its own.

With MariaDB, where it is installed, else with SQLite. Nothing is waited for
on the disk: what both have ends with the benchmark.

``python -m dev.bench.harness.placements FD`` is one of these processes.
"""

import argparse
from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import sys
import threading
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
import requests

from dev.cloud import base
from dev.cloud import child
from dev.cloud import endpoints
from dev.cloud import errors
from dev.cloud import folder as folders
from dev.cloud.full import database as databases
from dev.cloud.lite import sqlite
from dev.cloud import options
from dev.cloud import programs
from dev.cloud import serving

_READY_SECONDS = 300.0

#: As many as devstack starts. One alone would answer only one request at a
#: time, because of the interpreter's lock.
PROCESSES = 2

#: What a nova-compute has: it may write, and move inventory in bulk.
_ROLES = 'admin,service'


class Counter(requests.Session):
    """Counts what it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.headers['X-Roles'] = _ROLES
        self._lock = threading.Lock()
        self.count = 0

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        with self._lock:
            self.count += 1
        return super().request(*args, **kwargs)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One that runs.

    :ivar database: the name of what it stores in
    """

    url: str
    database: str

    def connect(self, counter: requests.Session) -> adapter.Adapter:
        """Return an adapter with connections of its own."""
        auth = token_endpoint.Token(self.url, 'admin')
        return adapter.Adapter(
            session.Session(auth=auth, session=counter, timeout=300),
            service_type='placement',
            default_microversion='1.39',
        )


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which database is used."""
    parser.add_argument(
        '--sqlite',
        action='store_true',
        help='store in SQLite, also where MariaDB is installed',
    )


@contextlib.contextmanager
def started(*, is_sqlite: bool = False) -> Iterator[Placement]:
    """Start one; end it, and remove what it stored, at the end.

    :param is_sqlite: whether it uses SQLite where there is MariaDB, too
    :raises CloudError: it did not start
    """
    with contextlib.ExitStack() as stack:
        folder = folders.Folder.create()
        stack.callback(folder.remove)
        name, url = _make_database(stack, folder, is_sqlite)
        _write_options(folder, url)
        bound = stack.enter_context(contextlib.closing(endpoints.bind()))
        servers = [
            _make_server(number, bound.fileno(), folder)
            for number in range(PROCESSES)
        ]
        made = Placement(url=endpoints.make_url(bound), database=name)
        # One after the other: the first one makes the tables.
        for one in servers:
            stack.callback(one.stop)
            one.start()
            one.wait_until(
                functools.partial(base.answers, made.url),
                seconds=_READY_SECONDS,
            )
        yield made


def _make_server(number: int, fd: int, folder: folders.Folder) -> child.Child:
    return child.Child(
        f'placement-{number}',
        __name__,
        [str(fd)],
        folder=folder,
        fds=[fd],
        environ={'OS_PLACEMENT_CONFIG_DIR': str(folder.etc)},
        log=folder.log / 'placement.log',
    )


def _make_database(
    stack: contextlib.ExitStack, folder: folders.Folder, is_sqlite: bool
) -> tuple[str, str]:
    """Return the name of the database, and its URL."""
    if is_sqlite or not _has_mariadb():
        path = folder.lib / 'placement.db'
        return 'SQLite', f'sqlite:///{path}?plugin={sqlite.NAME}'
    database = databases.Database(folder)
    stack.callback(database.child.stop)
    database.start()
    database.wait()
    database.create(['placement'])
    return 'MariaDB', database.url('placement')


def _has_mariadb() -> bool:
    try:
        programs.get_packaged('mariadbd')
    except errors.CloudError:
        return False
    return True


def _write_options(folder: folders.Folder, database: str) -> None:
    log = folder.log / 'placement.log'
    text = options.render(
        {
            'DEFAULT': {'log_file': str(log)},
            'api': {'auth_strategy': 'noauth2'},
            'placement_database': {
                'connection': database,
                'sync_on_startup': 'true',
            },
        }
    )
    (folder.etc / 'placement.conf').write_text(text)


def main() -> None:
    """Serve until a signal comes."""
    fd = int(sys.argv[1])
    # Placement reads the command line too.
    del sys.argv[1:]
    sqlite.install()
    from placement import wsgi

    serving.serve(wsgi.init_application(), fd, threads=8)
    threading.Event().wait()


if __name__ == '__main__':
    main()
