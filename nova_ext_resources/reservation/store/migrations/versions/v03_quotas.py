# SPDX-License-Identifier: Apache-2.0

"""Quotas of projects, and what their reservations are charged for."""

from collections.abc import Iterator
import json
from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'v03'
down_revision = 'v02'

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
    """Charge projects for all that they hold; quotas there are none yet."""
    op.create_table(
        'quotas',
        sa.Column('project', NAME, primary_key=True),
        sa.Column('resource_class', NAME, primary_key=True),
        sa.Column('unit_hours', sa.BigInteger, nullable=False),
        sa.Column('days', sa.Integer, nullable=False),
        sa.Column('revision', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    charges = op.create_table(
        'charges',
        sa.Column('number', NUMBER, primary_key=True),
        sa.Column('reservation', NAME, nullable=False),
        sa.Column('project', NAME, nullable=False),
        sa.Column('resource_class', NAME, nullable=False),
        sa.Column('amount', sa.BigInteger, nullable=False),
        sa.Column('starts_at', sa.BigInteger, nullable=False),
        sa.Column('ends_at', sa.BigInteger, nullable=False),
        sa.Column('reserved_from', sa.BigInteger, nullable=False),
        sa.CheckConstraint('starts_at < ends_at', name='ck_charges_times'),
        **OPTIONS,
    )
    op.create_index('ix_charges_reservation', 'charges', ['reservation'])
    op.create_index('ix_charges_project', 'charges', ['project', 'ends_at'])
    rows = [*_list_charges()]
    if rows:
        op.bulk_insert(charges, rows)


def _list_charges() -> Iterator[dict[str, Any]]:
    """Return what each class of each reservation is charged for."""
    reservations = sa.table(
        'reservations',
        *map(
            sa.column,
            ('reservation', 'request', 'starts_at', 'ends_at', 'project'),
        ),
    )
    servers = sa.table('servers', *map(sa.column, ('reservation', 'is_held')))
    held = (
        sa.select(servers.c.reservation, sa.func.count().label('number'))
        .where(servers.c.is_held == sa.true())
        .group_by(servers.c.reservation)
        .subquery()
    )
    query = (
        sa.select(reservations, held.c.number)
        .join(held, held.c.reservation == reservations.c.reservation)
        .where(reservations.c.project != '')
    )
    for row in op.get_bind().execute(query).all():
        for name, amount in sorted(_read_amounts(row.request).items()):
            yield {
                'reservation': row.reservation,
                'project': row.project,
                'resource_class': name,
                'amount': amount * row.number,
                'starts_at': row.starts_at,
                'ends_at': row.ends_at,
                'reserved_from': row.starts_at,
            }


def _read_amounts(request: str) -> dict[str, int]:
    """Return resource class -> amount of one server."""
    demand = json.loads(request).get('demand', {})
    found: dict[str, int] = {}
    for group in demand.get('requirement', {}).get('groups', ()):
        for name, amount in group['resources'].items():
            found[name] = found.get(name, 0) + amount
    return found
