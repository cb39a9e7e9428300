# SPDX-License-Identifier: Apache-2.0

"""Subscriptions, and the events that they are told of."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'v06'
down_revision = 'v05'

NAME = sa.String(255).with_variant(
    mysql.VARCHAR(255, charset='utf8mb4', collation='utf8mb4_bin'),
    'mysql',
    'mariadb',
)

#: SQLite counts up by itself only in columns of this type.
NUMBER = sa.BigInteger().with_variant(sa.Integer, 'sqlite')

OPTIONS: dict[str, Any] = {
    f'{dialect}_{name}': value
    for dialect in ('mysql', 'mariadb')
    for name, value in (('engine', 'InnoDB'), ('charset', 'utf8mb4'))
}


def upgrade() -> None:
    """Let nobody be told of what has happened before."""
    op.add_column('states', sa.Column('told', sa.BigInteger))
    states = sa.table('states', sa.column('told'))
    op.execute(sa.update(states).values(told=0))
    op.create_index('ix_states_told', 'states', ['told'])
    _create_subscriptions()
    _create_events()


def _create_subscriptions() -> None:
    op.create_table(
        'subscriptions',
        sa.Column('subscription', sa.String(36), primary_key=True),
        sa.Column('project', NAME, nullable=False),
        sa.Column('url', sa.Text, nullable=False),
        sa.Column('kinds', sa.Text, nullable=False),
        sa.Column('subject', NAME),
        sa.Column('zone', NAME),
        sa.Column('resource_class', NAME),
        sa.Column('threshold', sa.BigInteger),
        sa.Column('remaining', sa.Text, nullable=False),
        sa.Column('secret', sa.Text, nullable=False),
        sa.Column('created_at', sa.BigInteger, nullable=False),
        sa.Column('is_low', sa.Boolean, nullable=False),
        sa.Column('position', sa.BigInteger, nullable=False),
        sa.Column('sent', sa.BigInteger, nullable=False),
        sa.Column('due_at', sa.BigInteger, nullable=False),
        sa.Column('failures', sa.Integer, nullable=False),
        sa.Column('failing_since', sa.BigInteger),
        sa.Column('failure', sa.Text),
        sa.Column('suspended_at', sa.BigInteger),
        sa.Column('revision', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.create_index('ix_subscriptions_project', 'subscriptions', ['project'])


def _create_events() -> None:
    op.create_table(
        'events',
        sa.Column('number', NUMBER, primary_key=True),
        sa.Column('position', sa.BigInteger),
        sa.Column('event', sa.String(36), nullable=False),
        sa.Column('kind', sa.String(32), nullable=False),
        sa.Column('project', NAME, nullable=False),
        sa.Column('subject', NAME),
        sa.Column('subscription', sa.String(36)),
        sa.Column('happened_at', sa.BigInteger, nullable=False),
        sa.Column('facts', sa.Text, nullable=False),
        sa.Column('private', sa.Text, nullable=False),
        **OPTIONS,
    )
    op.create_index('ix_events_position', 'events', ['position'])
    op.create_index('ix_events_project', 'events', ['project', 'position'])
    positions = op.create_table(
        'positions',
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('position', sa.BigInteger, nullable=False),
        sa.Column('remaining_until', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.bulk_insert(
        positions, [{'number': 0, 'position': 0, 'remaining_until': 0}]
    )
