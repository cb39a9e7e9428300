# SPDX-License-Identifier: Apache-2.0

"""Runs migrations on the connection that it gets."""

from alembic import context

context.configure(
    connection=context.config.attributes['connection'],
    # SQLite undoes these statements as well: oslo.db begins the transaction.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
