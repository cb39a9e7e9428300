# SPDX-License-Identifier: Apache-2.0

"""What changes are about, and which servers were told to leave."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'v04'
down_revision = 'v03'

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

#: How the reasons of earlier releases look -> what they are about.
_PATTERNS = {
    'host %': 'outage',
    'room is missing on host %': 'shortage',
    'servers are told to leave host %': 'notice',
    'moved: host %': 'moved',
    'moved to make room for reservation %': 'moved',
    'server % holds nothing in placement; its place on host %': 'freed',
    '%of its servers were not % within %': 'left',
}

#: They are so of what is degraded only: anybody may have written the words.
_LACKS = frozenset({'outage', 'shortage'})


def upgrade() -> None:
    """Read for the last time what the reasons of a manager say.

    Whoever was told to leave is told anew.
    """
    op.add_column('states', sa.Column('cause', sa.String(16)))
    states = sa.table('states', *map(sa.column, ('state', 'reason', 'cause')))
    for pattern, cause in _PATTERNS.items():
        update = (
            sa.update(states)
            .where(states.c.reason.like(pattern))
            .values(cause=cause)
        )
        if cause in _LACKS:
            update = update.where(states.c.state == 'degraded')
        op.execute(update)
    op.create_table(
        'notices',
        sa.Column(
            'reservation',
            NAME,
            sa.ForeignKey('reservations.reservation', name='fk_notices'),
            primary_key=True,
        ),
        sa.Column('consumer', sa.String(36), primary_key=True),
        sa.Column('host', NAME, nullable=False),
        sa.Column('told_at', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.create_index('ix_notices_consumer', 'notices', ['consumer'])
