# SPDX-License-Identifier: Apache-2.0

"""Databases of tests that wait for each other's writes."""

import functools
import importlib

import fixtures

from dev.cloud.lite import sqlite
from tests import statements

#: Where Nova's fixtures make a database, and with what.
_DATABASE_MODULES = (
    'nova.tests.fixtures.nova',
    'nova.tests.functional.fixtures',
)
_MAKE_DATABASE = '_use_file_backed_sqlite_with_wal'


class SharedSqlite(fixtures.Fixture):
    """Makes the threads of Nova and placement wait for each other's writes.

    Nova's own fixtures open their files anew for every transaction. Whoever
    closes one last takes it for itself for a moment, and then another thread
    gets ``database is locked`` on a busy machine.
    """

    def _setUp(self) -> None:
        _install_sqlite()
        # By name: the attribute "nova" of the package is another module.
        modules = [importlib.import_module(name) for name in _DATABASE_MODULES]
        make = getattr(modules[0], _MAKE_DATABASE, None)
        if make is None:
            # Before Nova 34, databases are in memory: on eventlet, no thread
            # is interrupted in a transaction.
            return

        def make_shared(name: str) -> tuple[str, str]:
            url, path = make(name)
            plugins = f'plugin={sqlite.NAME}&plugin={statements.NAME}'
            return f'{url}?{plugins}', path

        for module in modules:
            self.useFixture(
                fixtures.MockPatchObject(module, _MAKE_DATABASE, make_shared)
            )


_install_sqlite = functools.cache(sqlite.install)
