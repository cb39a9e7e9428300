# SPDX-License-Identifier: Apache-2.0

"""Connections to a file of SQLite that outlive a transaction.

oslo.db opens the file anew for each transaction, which takes as long as a
short one does: SQLite reads how its tables are defined, and is told its
settings again.
When the last connection is closed, it copies its log into the database, which
takes longer than all else. A plugin of SQLAlchemy, which the URL names, gives
the engine a pool.
"""

import os
from typing import Any

import sqlalchemy as sa
from sqlalchemy import dialects

#: What a URL names.
_NAME = 'nova_ext_resources_file'

#: Connections that are kept. If more threads need one at the same time, they
#: get others, which are closed after that.
_KEPT = 5

#: In what SQLAlchemy notes of a connection.
_FILE = 'nova_ext_resources_file'


def keep_connections(url: sa.URL) -> sa.URL:
    """Return a URL whose engine keeps connections, if it is of a file."""
    if url.get_backend_name() != 'sqlite' or _is_in_memory(url):
        return url
    return url.update_query_dict({'plugin': _NAME}, append=True)


def _is_in_memory(url: sa.URL) -> bool:
    """Return whether there is one connection only, which is kept anyway."""
    is_memory = url.database in (None, '', ':memory:')
    return is_memory or url.query.get('mode') == 'memory'


class Plugin(sa.CreateEnginePlugin):
    """Changes one engine while it is made; SQLAlchemy finds it by name."""

    def __init__(self, url: sa.URL, kwargs: dict[str, Any]) -> None:
        super().__init__(url, kwargs)
        kwargs.update(
            poolclass=sa.pool.QueuePool, pool_size=_KEPT, max_overflow=-1
        )

    def update_url(self, url: sa.URL) -> sa.URL:
        """Leave the rest of the URL as it is: each plugin is asked."""
        return url

    def engine_created(self, engine: sa.Engine) -> None:
        """Watch which file a connection is to."""
        path = engine.url.database or ''

        def note(_connection: object, record: Any) -> None:
            record.info[_FILE] = _identify(path)

        def check(_connection: object, record: Any, _proxy: object) -> None:
            if record.info[_FILE] != _identify(path):
                # The pool opens another one then.
                raise sa.exc.DisconnectionError(f'{path} is another file now')

        sa.event.listen(engine, 'connect', note)
        sa.event.listen(engine, 'checkout', check)


def _identify(path: str) -> tuple[int, int] | None:
    """Return what differs if a file was replaced, as by a copy of it.

    None if there is none, or the path is not one of the file system.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


dialects.plugins.register(_NAME, __name__, Plugin.__name__)
