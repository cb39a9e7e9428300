# SPDX-License-Identifier: Apache-2.0

"""The first tables."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'v01'
down_revision = None

#: A host or provider belongs to one of so many shards for ever.
SHARDS = 64

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
    """Make the tables and the shards."""
    _make_shards()
    _make_reservations()
    _make_states()
    _make_servers()


def _make_shards() -> None:
    shards = op.create_table(
        'shards',
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('revision', sa.BigInteger, nullable=False),
        sa.Column('purged', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.bulk_insert(
        shards,
        [{'number': one, 'revision': 0, 'purged': 0} for one in range(SHARDS)],
    )


def _make_reservations() -> None:
    op.create_table(
        'reservations',
        sa.Column('reservation', NAME, primary_key=True),
        sa.Column('request', sa.Text, nullable=False),
        sa.Column('starts_at', sa.BigInteger, nullable=False),
        sa.Column('ends_at', sa.BigInteger, nullable=False),
        sa.Column('project', NAME, nullable=False),
        sa.CheckConstraint(
            'starts_at < ends_at', name='ck_reservations_times'
        ),
        **OPTIONS,
    )


def _make_states() -> None:
    op.create_table(
        'states',
        sa.Column(
            'reservation',
            NAME,
            sa.ForeignKey('reservations.reservation', name='fk_states'),
            primary_key=True,
        ),
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('state', sa.String(16), nullable=False),
        sa.Column('changed_at', sa.BigInteger, nullable=False),
        sa.Column('reason', sa.Text, nullable=False),
        sa.CheckConstraint("TRIM(reason) <> ''", name='ck_states_reason'),
        **OPTIONS,
    )


def _make_servers() -> None:
    op.create_table(
        'servers',
        sa.Column(
            'reservation',
            NAME,
            sa.ForeignKey('reservations.reservation', name='fk_servers'),
            primary_key=True,
        ),
        sa.Column('server', NAME, primary_key=True),
        sa.Column('host', NAME, nullable=False),
        sa.Column('cpus', sa.Text),
        sa.Column('assignments', sa.Text, nullable=False),
        sa.Column('starts_at', sa.BigInteger, nullable=False),
        sa.Column('ends_at', sa.BigInteger, nullable=False),
        sa.Column('is_held', sa.Boolean, nullable=False),
        sa.Column('shard', sa.Integer, nullable=False),
        sa.Column('revision', sa.BigInteger, nullable=False),
        sa.CheckConstraint('starts_at < ends_at', name='ck_servers_times'),
        **OPTIONS,
    )
    op.create_index('ix_servers_shard', 'servers', ['shard', 'revision'])
