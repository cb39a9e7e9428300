# SPDX-License-Identifier: Apache-2.0

"""Planned changes of capacity."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'v05'
down_revision = 'v04'

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
    """Nothing is planned yet."""
    op.create_table(
        'capacity_changes',
        sa.Column('capacity_change', NAME, primary_key=True),
        sa.Column('host', NAME, nullable=False),
        sa.Column('rp_uuid', NAME, nullable=False),
        sa.Column('provider', NAME, nullable=False),
        sa.Column('amounts', sa.Text, nullable=False),
        sa.Column('starts_at', sa.BigInteger, nullable=False),
        sa.Column('ends_at', sa.BigInteger, nullable=False),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('created_by', NAME, nullable=False),
        sa.Column('created_at', sa.BigInteger, nullable=False),
        sa.CheckConstraint(
            'starts_at < ends_at', name='ck_capacity_changes_times'
        ),
        **OPTIONS,
    )
    op.create_index('ix_capacity_changes_end', 'capacity_changes', ['ends_at'])
