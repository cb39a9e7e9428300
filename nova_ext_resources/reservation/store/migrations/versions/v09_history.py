# SPDX-License-Identifier: Apache-2.0

"""Which revisions the shards have had."""

from typing import Any

from alembic import op
import sqlalchemy as sa

revision = 'v09'
down_revision = 'v08'

OPTIONS: dict[str, Any] = {
    f'{dialect}_{name}': value
    for dialect in ('mysql', 'mariadb')
    for name, value in (('engine', 'InnoDB'), ('charset', 'utf8mb4'))
}


def upgrade() -> None:
    """Begin the history of each shard with what it has."""
    op.create_table(
        'history',
        sa.Column('shard', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column(
            'revision', sa.BigInteger, primary_key=True, autoincrement=False
        ),
        **OPTIONS,
    )
    op.execute(
        'INSERT INTO history (shard, revision) '
        'SELECT number, revision FROM shards'
    )
