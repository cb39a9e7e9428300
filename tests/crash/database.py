# SPDX-License-Identifier: Apache-2.0

"""Takes Nova's databases away from this process, and brings them back."""

import dataclasses
from typing import Any

from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import enginefacade


@dataclasses.dataclass
class Database:
    """Whether every transaction fails to begin."""

    is_away: bool = False


def install() -> Database:
    """Let the databases of this process be taken away."""
    made = Database()
    factory = enginefacade._TransactionFactory
    create = factory._create_session

    def _create_session(self: Any, *args: Any, **kwargs: Any) -> Any:
        if made.is_away:
            raise db_exc.DBConnectionError('the database is away')
        return create(self, *args, **kwargs)

    factory._create_session = _create_session
    return made
