# SPDX-License-Identifier: Apache-2.0

"""What hosts have published of their units."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'v08'
down_revision = 'v07'

NAME = sa.String(255).with_variant(
    mysql.VARCHAR(255, charset='utf8mb4', collation='utf8mb4_bin'),
    'mysql',
    'mariadb',
)

OPTIONS: dict[str, Any] = {
    f'{dialect}_{name}': value
    for dialect in ('mysql', 'mariadb')
    for name, value in (('engine', 'InnoDB'), ('charset', 'utf8mb4'))
}


def upgrade() -> None:
    """Nothing was noted yet: the next round is due at once."""
    op.create_table(
        'publications',
        sa.Column('host', NAME, primary_key=True),
        sa.Column('digest', sa.String(64), nullable=False),
        sa.Column('document', sa.Text, nullable=False),
        sa.Column('holders', sa.Text, nullable=False),
        sa.Column('cells', sa.Text, nullable=False),
        **OPTIONS,
    )
    rounds = op.create_table(
        'rounds',
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('begun_at', sa.BigInteger, nullable=False),
        sa.Column('complete_at', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.bulk_insert(rounds, [{'number': 0, 'begun_at': 0, 'complete_at': 0}])
