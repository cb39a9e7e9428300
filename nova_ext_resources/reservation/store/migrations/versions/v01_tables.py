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

NUMBER = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')

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
    _make_allocations()


def _make_shards() -> None:
    shards = op.create_table(
        'shards',
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('revision', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.bulk_insert(
        shards, [{'number': one, 'revision': 0} for one in range(SHARDS)]
    )


def _make_reservations() -> None:
    op.create_table(
        'reservations',
        sa.Column('reservation', NAME, primary_key=True),
        sa.Column('request', sa.Text, nullable=False),
        sa.Column('starts_at', sa.BigInteger, nullable=False),
        sa.Column('ends_at', sa.BigInteger, nullable=False),
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
        sa.Column('id', NUMBER, primary_key=True, autoincrement=True),
        sa.Column('server', NAME, nullable=False),
        sa.Column(
            'reservation',
            NAME,
            sa.ForeignKey('reservations.reservation', name='fk_servers'),
            nullable=False,
        ),
        sa.Column('host', NAME, nullable=False),
        sa.Column('cpus', sa.Text),
        sa.Column('starts_at', sa.BigInteger, nullable=False),
        sa.Column('ends_at', sa.BigInteger, nullable=False),
        sa.Column('is_held', sa.Boolean, nullable=False),
        sa.Column('shard', sa.Integer, nullable=False),
        sa.Column('revision', sa.BigInteger, nullable=False),
        sa.CheckConstraint('starts_at < ends_at', name='ck_servers_times'),
        **OPTIONS,
    )
    op.create_index('ix_servers_shard', 'servers', ['shard', 'revision'])
    op.create_index('ix_servers_reservation', 'servers', ['reservation'])
    op.create_index('ix_servers_ends_at', 'servers', ['ends_at'])


def _make_allocations() -> None:
    op.create_table(
        'allocations',
        sa.Column(
            'server_id',
            NUMBER,
            sa.ForeignKey('servers.id', name='fk_allocations'),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('rp_uuid', NAME, nullable=False),
        sa.Column('rp_key', NAME, nullable=False),
        sa.Column('resource_class', NAME, nullable=False),
        sa.Column('amount', sa.BigInteger, nullable=False),
        sa.Column('units', sa.Text, nullable=False),
        sa.Column('is_allocated', sa.Boolean, nullable=False),
        sa.CheckConstraint('amount > 0', name='ck_allocations_amount'),
        **OPTIONS,
    )
