# SPDX-License-Identifier: Apache-2.0

"""Let many threads share SQLite files, and fast.

A transaction that begins by reading and then writes fails at once with
``database is locked`` when another one writes, whatever the timeout, because
waiting could never end. So oslo.db's *writer* transactions take the write
lock when they begin. Its readers must not: placement and Nova open
independent readers inside a writer, and the two would wait for each other.

oslo.db opens a file anew for every transaction, which costs more than the
transaction does: a plugin of SQLAlchemy, which the URLs name, gives each
engine a pool.
"""

from typing import Any

from oslo_db.sqlalchemy import enginefacade
from sqlalchemy import dialects
from sqlalchemy import engine
from sqlalchemy import event
from sqlalchemy import pool

#: What a database's URL names to get all this, see dev.cloud.lite.config.
NAME = 'demo_sqlite'

_OPTION = 'demo_begin_immediate'
_PRAGMAS = (
    'PRAGMA busy_timeout=30000',
    'PRAGMA journal_mode=WAL',
    # The databases end with the process: nothing is gained by waiting for
    # the disk.
    'PRAGMA synchronous=OFF',
)

#: One thread may have several transactions open in each other.
_CONNECTIONS = 64


class Plugin(engine.CreateEnginePlugin):
    """Changes one engine while it is made; SQLAlchemy finds it by name."""

    def __init__(self, url: Any, kwargs: dict[str, Any]) -> None:
        super().__init__(url, kwargs)
        kwargs.update(poolclass=pool.QueuePool, pool_size=_CONNECTIONS)

    def update_url(self, url: Any) -> Any:
        """Leave the URL as it is: SQLAlchemy asks every plugin."""
        return url

    def engine_created(self, engine: Any) -> None:
        """Listen to how it connects and begins."""
        event.listen(engine, 'connect', _set_pragmas)
        event.listen(
            engine, 'before_cursor_execute', _begin_immediate, retval=True
        )


def install() -> None:
    """Make the plugin known, and writers begin as writers.

    Call it once, before the first engine is made.
    """
    dialects.plugins.register(NAME, __name__, Plugin.__name__)
    # NOTE: oslo.db has no hook that tells writers from readers after the
    # transaction was begun, hence the two private methods.
    factory = enginefacade._TransactionFactory
    create_session = factory._create_session
    create_connection = factory._create_connection

    def session(self: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
        made = create_session(self, mode, *args, **kwargs)
        if mode is enginefacade._WRITER and _is_sqlite(made.bind):
            made.bind = _immediate(made.bind)
        return made

    def connection(self: Any, mode: Any) -> Any:
        made = create_connection(self, mode)
        if mode is enginefacade._WRITER and _is_sqlite(made):
            made = _immediate(made)
        return made

    factory._create_session = session
    factory._create_connection = connection


def _is_sqlite(bind: Any) -> bool:
    return bind is not None and bind.dialect.name == 'sqlite'


def _immediate(bind: Any) -> Any:
    return bind.execution_options(**{_OPTION: True})


def _set_pragmas(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_immediate(
    connection: Any,
    cursor: Any,
    statement: str,
    parameters: Any,
    context: Any,
    executemany: bool,
) -> tuple[str, Any]:
    options = connection.get_execution_options()
    if statement == 'BEGIN' and options.get(_OPTION):
        statement = 'BEGIN IMMEDIATE'
    return statement, parameters
