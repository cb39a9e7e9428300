# SPDX-License-Identifier: Apache-2.0

"""The tables of the reservations, as the newest migration leaves them.

``servers.revision`` is the revision that the shard of the row's host got when
the row was written last. Whoever has seen a shard up to some revision reads
the rows with a higher one. A server that is moved is found by the shard of its
new host: the same transaction has raised both.

``servers.consumer`` is the uuid of the server of Nova that has taken the row,
since ``servers.taken_at`` (seconds since the epoch). No other row has it.

Rows up to revision ``shards.purged`` may be gone, those of ``history`` too,
which has all revisions that shards have had since.

``states.cause`` says what a row is about where a program needs it, or where
its reason is not for everybody; see :mod:`..cause`.

A notice tells a server of Nova, the consumer, to leave a host: it borrows what
a reservation needs.

A charge is so many units of a class for some time, which a project has taken
with a reservation. It outlives the reservation: what was reserved lately
counts against a quota.

Limits are of projects that have others than all; NULL stands for that one of
all.

A change of capacity is read whenever a shard has another revision: whoever
plans one, or takes it back, raises the revisions of its host and provider.

Events get their positions one transaction after the other, by the row of
``positions``: whoever has read up to a position misses none. Until then
``events.position`` is NULL, and so is ``states.told`` until there is an event
of the row. ``subject`` is a reservation, of which the row may be gone.

A subscription has been told of all up to ``position``. Whoever tells it writes
its ``revision`` before, and no other one does so until ``due_at``.

A publication is what a host has told Nova of its units, as a scheduler has
noted it; ``digest`` tells whether it has changed. They are noted in rounds:
one row has when the last one began, and when the last complete one did.

What no statement searches for is JSON: requests, what servers take, amounts of
changes, and publications.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

METADATA = sa.MetaData()

#: Names differ by case. MariaDB would not see that by default.
NAME = sa.String(255).with_variant(
    mysql.VARCHAR(255, charset='utf8mb4', collation='utf8mb4_bin'),
    'mysql',
    'mariadb',
)

#: SQLite counts up by itself only in columns of this type.
NUMBER = sa.BigInteger().with_variant(sa.Integer, 'sqlite')

#: For reasons in any script, whatever the default of the server is.
OPTIONS: dict[str, Any] = {
    f'{dialect}_{name}': value
    for dialect in ('mysql', 'mariadb')
    for name, value in (('engine', 'InnoDB'), ('charset', 'utf8mb4'))
}

SHARDS = sa.Table(
    'shards',
    METADATA,
    sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('revision', sa.BigInteger, nullable=False),
    sa.Column('purged', sa.BigInteger, nullable=False),
    **OPTIONS,
)

HISTORY = sa.Table(
    'history',
    METADATA,
    sa.Column('shard', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column(
        'revision', sa.BigInteger, primary_key=True, autoincrement=False
    ),
    **OPTIONS,
)

RESERVATIONS = sa.Table(
    'reservations',
    METADATA,
    sa.Column('reservation', NAME, primary_key=True),
    sa.Column('request', sa.Text, nullable=False),
    sa.Column('starts_at', sa.BigInteger, nullable=False),
    sa.Column('ends_at', sa.BigInteger, nullable=False),
    sa.Column('project', NAME, nullable=False),
    sa.CheckConstraint('starts_at < ends_at', name='ck_reservations_times'),
    **OPTIONS,
)

#: The state of a reservation is that of its row with the highest number, so
#: that no state can change without a row.
STATES = sa.Table(
    'states',
    METADATA,
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
    sa.Column('cause', sa.String(16)),
    sa.Column('told', sa.BigInteger),
    sa.CheckConstraint("TRIM(reason) <> ''", name='ck_states_reason'),
    sa.Index('ix_states_told', 'told'),
    **OPTIONS,
)

SERVERS = sa.Table(
    'servers',
    METADATA,
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
    sa.Column('consumer', sa.String(36)),
    sa.Column('taken_at', sa.BigInteger),
    sa.CheckConstraint('starts_at < ends_at', name='ck_servers_times'),
    sa.Index('ix_servers_shard', 'shard', 'revision'),
    sa.Index('ix_servers_consumer', 'consumer', unique=True),
    **OPTIONS,
)

NOTICES = sa.Table(
    'notices',
    METADATA,
    sa.Column(
        'reservation',
        NAME,
        sa.ForeignKey('reservations.reservation', name='fk_notices'),
        primary_key=True,
    ),
    sa.Column('consumer', sa.String(36), primary_key=True),
    sa.Column('host', NAME, nullable=False),
    sa.Column('told_at', sa.BigInteger, nullable=False),
    sa.Index('ix_notices_consumer', 'consumer'),
    **OPTIONS,
)

QUOTAS = sa.Table(
    'quotas',
    METADATA,
    sa.Column('project', NAME, primary_key=True),
    sa.Column('resource_class', NAME, primary_key=True),
    sa.Column('unit_hours', sa.BigInteger, nullable=False),
    sa.Column('days', sa.Integer, nullable=False),
    sa.Column('revision', sa.BigInteger, nullable=False),
    **OPTIONS,
)

CHARGES = sa.Table(
    'charges',
    METADATA,
    sa.Column('number', NUMBER, primary_key=True),
    sa.Column('reservation', NAME, nullable=False),
    sa.Column('project', NAME, nullable=False),
    sa.Column('resource_class', NAME, nullable=False),
    sa.Column('amount', sa.BigInteger, nullable=False),
    sa.Column('starts_at', sa.BigInteger, nullable=False),
    sa.Column('ends_at', sa.BigInteger, nullable=False),
    sa.Column('reserved_from', sa.BigInteger, nullable=False),
    sa.CheckConstraint('starts_at < ends_at', name='ck_charges_times'),
    sa.Index('ix_charges_reservation', 'reservation'),
    sa.Index('ix_charges_project', 'project', 'ends_at'),
    **OPTIONS,
)

LIMITS = sa.Table(
    'limits',
    METADATA,
    sa.Column('project', NAME, primary_key=True),
    sa.Column('ahead', sa.BigInteger),
    sa.Column('duration', sa.BigInteger),
    **OPTIONS,
)

CAPACITY_CHANGES = sa.Table(
    'capacity_changes',
    METADATA,
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
    sa.Index('ix_capacity_changes_end', 'ends_at'),
    **OPTIONS,
)

SUBSCRIPTIONS = sa.Table(
    'subscriptions',
    METADATA,
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
    sa.Index('ix_subscriptions_project', 'project'),
    **OPTIONS,
)

EVENTS = sa.Table(
    'events',
    METADATA,
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
    sa.Index('ix_events_position', 'position'),
    sa.Index('ix_events_project', 'project', 'position'),
    **OPTIONS,
)

#: One row: the last position that was given, and up to which time events were
#: made of what remains of reservations.
POSITIONS = sa.Table(
    'positions',
    METADATA,
    sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('position', sa.BigInteger, nullable=False),
    sa.Column('remaining_until', sa.BigInteger, nullable=False),
    **OPTIONS,
)

PUBLICATIONS = sa.Table(
    'publications',
    METADATA,
    sa.Column('host', NAME, primary_key=True),
    sa.Column('digest', sa.String(64), nullable=False),
    sa.Column('document', sa.Text, nullable=False),
    sa.Column('holders', sa.Text, nullable=False),
    sa.Column('cells', sa.Text, nullable=False),
    **OPTIONS,
)

#: One row.
ROUNDS = sa.Table(
    'rounds',
    METADATA,
    sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('begun_at', sa.BigInteger, nullable=False),
    sa.Column('complete_at', sa.BigInteger, nullable=False),
    **OPTIONS,
)
