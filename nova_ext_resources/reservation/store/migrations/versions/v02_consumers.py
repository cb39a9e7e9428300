# SPDX-License-Identifier: Apache-2.0

"""Which server of Nova has taken a planned server, and since when."""

from alembic import op
import sqlalchemy as sa

revision = 'v02'
down_revision = 'v01'


def upgrade() -> None:
    """Let the planned servers that there are be free."""
    op.add_column('servers', sa.Column('consumer', sa.String(36)))
    op.add_column('servers', sa.Column('taken_at', sa.BigInteger))
    # None of several rows without one is in the way of another.
    op.create_index(
        'ix_servers_consumer', 'servers', ['consumer'], unique=True
    )
