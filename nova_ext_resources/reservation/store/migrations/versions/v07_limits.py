# SPDX-License-Identifier: Apache-2.0

"""Limits of single projects: how far ahead, and how long."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'v07'
down_revision = 'v06'

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
    """Let no project have limits of its own."""
    op.create_table(
        'limits',
        sa.Column('project', NAME, primary_key=True),
        sa.Column('ahead', sa.BigInteger),
        sa.Column('duration', sa.BigInteger),
        **OPTIONS,
    )
