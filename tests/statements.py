# SPDX-License-Identifier: Apache-2.0

"""Compiled SQL that all databases of one process share.

SQLAlchemy remembers what it has compiled for each engine. Each test makes
engines of its own, and compiling took a fifth of the processor's time.
"""

from typing import Any

from sqlalchemy import dialects
from sqlalchemy import engine
from sqlalchemy import util

#: What a database's URL names to get this.
NAME = 'shared_statements'

#: Statements of Nova and placement, or of reservations: about 500.
_ROOM = 5000


class Plugin(engine.CreateEnginePlugin):
    """Changes one engine while it is made; SQLAlchemy finds it by name."""

    def update_url(self, url: Any) -> Any:
        """Leave the URL as it is: SQLAlchemy asks every plugin."""
        return url

    def engine_created(self, engine: Any) -> None:
        """Have it look into what the others have compiled."""
        share(engine)


class Statements(util.LRUCache[Any, Any]):
    """The compiled statements, by dialect and by what was asked for.

    Each engine has a dialect of its own. Those of one class compile to the
    same here, because no test gives an engine another setting.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what a dialect of that class has compiled."""
        return super().get(_by_class(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_by_class(key), compiled)


_STATEMENTS = Statements(_ROOM)


def share(engine: Any) -> None:
    """Have an engine look into what the others have compiled."""
    engine.update_execution_options(compiled_cache=_STATEMENTS)


def _by_class(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *rest = key
    return type(dialect), *rest


def install() -> None:
    """Make the plugin known; call it once, before the first engine."""
    dialects.plugins.register(NAME, __name__, Plugin.__name__)
