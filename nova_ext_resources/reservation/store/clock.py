# SPDX-License-Identifier: Apache-2.0

"""The clock of the database, which all programs that use it can read."""

import sqlalchemy as sa

_QUERIES = {
    'mysql': 'SELECT UNIX_TIMESTAMP()',
    'postgresql': (
        'SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)'
    ),
    # The clock of this machine.
    'sqlite': "SELECT CAST(strftime('%s', 'now') AS INTEGER)",
}


def read_clock(connection: sa.Connection) -> int:
    """Return seconds since the epoch, as the database counts them."""
    query = _QUERIES[connection.dialect.name]
    return int(connection.execute(sa.text(query)).scalar_one())
