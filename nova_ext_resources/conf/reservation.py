# SPDX-License-Identifier: Apache-2.0

"""Options of ``[ext_resources_reservation]``.

Where reservations are kept, and how their manager works.
"""

from collections.abc import Iterable
import functools
import os
import re

from oslo_config import cfg

from nova_ext_resources import conf as conf_package
from nova_ext_resources.conf import names
from nova_ext_resources.conf import state
from nova_ext_resources.conf import values
from nova_ext_resources import exception

GROUP = cfg.OptGroup(
    'ext_resources_reservation',
    title='Reservations',
    help='Where reservations of capacity are kept, and how their manager '
    'works. All programs that read or change reservations need the same '
    'database.',
)

#: Keeps what is reserved within nova-scheduler.
_FILTER = 'ReservationFilter'

#: Below Nova's ``state_path``.
_FILE = 'reservations.db'

#: A URL of SQLite that does not name the same file everywhere: without a file
#: each program has a database of its own, and a relative path depends on where
#: it is started.
_NO_FILE = re.compile(r'sqlite(\+\w+)?:(?!////)')

OPTS = (
    cfg.StrOpt(
        'connection',
        secret=True,
        help="""
SQLAlchemy URL of the database that keeps the reservations.

An empty database gets its tables at its first use. A program that cannot reach
the database promises no capacity, and releases no capacity.

Possible values:

* empty, the default: an embedded SQLite database, the file
  ``ext_resources/reservations.db`` below Nova's ``state_path``, only for
  commands, all on one machine. The services refuse to start: nova-scheduler
  with ReservationFilter, blazar-manager, and nova-ext-resources-reservations
  without ``--once``
* ``sqlite:////FILE``: another file, which must not be on a network file
  system; the last of the four slashes begins the path
* ``mysql+pymysql://USER:PASSWORD@HOST/NAME?charset=utf8mb4``: MariaDB or MySQL
* ``postgresql+psycopg2://USER:PASSWORD@HOST/NAME``: PostgreSQL
""",
    ),
    cfg.IntOpt(
        'interval',
        default=15,
        min=1,
        max=3600,
        help="""
Seconds between two passes of nova-ext-resources-reservations.

The state of a reservation is written at most this many seconds late. Promised
capacity does not depend on this option.
""",
    ),
    cfg.IntOpt(
        'keep_ended',
        min=0,
        help="""
Seconds for which nova-ext-resources-reservations keeps finished reservations.

Reservations that ended, expired or were cancelled longer ago are deleted with
their history.

Possible values:

* not set, the default: finished reservations are kept forever
* 0: reservations are deleted in the pass after their end
* 7776000: finished reservations are kept for 90 days
""",
    ),
    cfg.IntOpt(
        'max_ahead',
        default=31536000,
        min=-1,
        help="""
Seconds from now within which a reservation of a project must start.

A later start is refused, and so is a delay beyond this time. ``openstack
extended reservation limit set`` sets another number for a project. All
programs that make reservations need this option and the next three. The four
options do not limit reservations without a project, and an existing
reservation keeps its start, length and number of servers. The default is a
year; 0: each reservation starts now; -1: no limit.
""",
    ),
    cfg.IntOpt(
        'max_duration',
        default=31536000,
        min=-1,
        help="""
Seconds that a reservation of a project may last, from its start on.

A longer reservation is refused, and so is a reservation without an end.
``openstack extended reservation limit set`` sets another number for a project.
Together with ``max_ahead``, this option limits the end as well. The default is
a year; 0 or -1: no limit, and reservations without an end are allowed.
""",
    ),
    cfg.IntOpt(
        'max_servers',
        default=1000,
        min=-1,
        max=10000,
        help='Most servers that one reservation of a project may have. 0 or '
        '-1: no limit.',
    ),
    cfg.IntOpt(
        'project_reservations',
        default=100,
        min=-1,
        help='Most reservations that a project may have, without finished '
        'ones. 0 or -1: no limit.',
    ),
    cfg.IntOpt(
        'end_notice',
        default=3600,
        min=0,
        help="""
Seconds before the end of a reservation at which a notice is given.

nova-ext-resources-reservations then writes to the log and to the history of
the reservation that the end is near, and what happens to the servers. 0: no
notice is given.
""",
    ),
    cfg.IntOpt(
        'blocking_seconds',
        min=-1,
        help="""
Seconds before the start of a reservation at which its capacity is held.

Only for clouds without ReservationFilter in nova-scheduler.
nova-ext-resources-reservations allocates the capacity of planned servers to
its own consumers in placement, so that nova-scheduler gives the capacity to no
other server, and releases the capacity when the planned servers come. The
capacity is not used meanwhile. nova-ext-resources-reservations also shelves
servers that wait for their reservation, and unshelves these servers at its
start.

Possible values:

* not set, the default: no capacity is held
* -1: capacity is held as soon as the reservation is made
* 0: capacity is held from the start of the reservation
* 86400: capacity is held from one day before the start
""",
    ),
    cfg.IntOpt(
        'clock_wait',
        default=300,
        min=0,
        help="""
Seconds for which the clock must run without a step before it is trusted.

A clock may be wrong when a machine starts, or after a mistake of an operator.
Until the clock has run for this time without a step,
nova-ext-resources-reservations ends, expires and deletes no reservation, frees
no place, and shelves and deletes no server. 0: the clock is trusted at once,
as with ``--once``.
""",
    ),
    cfg.ListOpt(
        'webhook_urls',
        default=[],
        help="""
URLs to which notifications of reservations may be sent, with all URLs below.

The manager sends the notifications, and its network may reach addresses that
subscribers cannot reach. Needed by the manager and by all programs that make
subscriptions.

Possible values:

* empty, the default: all https URLs
* ``https://hooks.example.org/cloud,http://10.1.2.3:8080``: only these URLs,
  and URLs in folders below their paths. Only URLs that are listed here may use
  http
""",
    ),
    cfg.ListOpt(
        'webhook_networks',
        default=[],
        help="""
Networks to which notifications may be sent although they are not public.

Other addresses that are not public are refused: loopback, link-local (such as
the metadata service, 169.254.169.254), private, shared and reserved addresses.
Each time a notification is sent, the host name is resolved and all of its
addresses are checked.

Possible values:

* empty, the default: no such networks
* ``10.20.0.0/16,fd12::/32``: these networks are allowed too
""",
    ),
    cfg.StrOpt(
        'webhook_cafile',
        help="""
File with the CA certificates that receivers' certificates are verified with.

Possible values:

* not set, the default: the CA certificates of the system
* a path of a file in PEM format
""",
    ),
    cfg.FloatOpt(
        'webhook_timeout',
        default=5.0,
        min=0.1,
        max=20.0,
        help="""
Seconds that one notification may take, including the DNS lookup.

If the receiver does not answer in time, the notification is sent again later.
""",
    ),
    cfg.IntOpt(
        'webhook_patience',
        default=86400,
        min=3600,
        max=2592000,
        help="""
Seconds after which a failing or too slow subscription is suspended.

Until then, notifications are sent again, at growing intervals of up to an
hour, and all events for the subscription are kept in the tables. A
subscription is too slow if, for all of this time, its events are older than
half of this time when they arrive. A suspended subscription gets no further
notifications, and the log has an error.
""",
    ),
    cfg.IntOpt(
        'project_subscriptions',
        default=20,
        min=0,
        help="""
Most subscriptions that a project may have, including suspended ones.

The manager sends requests for each subscription, two at a time for one
project. Needed by all programs that make subscriptions. Subscriptions of
operators are not limited.

Possible values:

* 20, the default
* 0: only operators may subscribe
""",
    ),
    cfg.IntOpt(
        'capacity_interval',
        default=300,
        min=15,
        help="""
Seconds between two readings of free capacity, for subscriptions of capacity.

Each reading asks placement for all hosts, in parallel with the passes of the
manager. Without such subscriptions, and without ``metrics_file``, the manager
reads no capacity.
""",
    ),
    cfg.StrOpt(
        'metrics_file',
        help="""
File to which metrics of reservations are written, for Prometheus.

The node exporter of Prometheus reads all files of one folder whose names end
with ``.prom`` (``--collector.textfile.directory``).
nova-ext-resources-reservations writes the whole file anew every
``capacity_interval`` seconds.

Possible values:

* not set, the default: no file is written
* ``/var/lib/node_exporter/reservations.prom``: a path in a folder that the
  user of the manager can write to
""",
    ),
)

register_opts = functools.partial(conf_package.register, GROUP, OPTS)


def list_misspelt(conf: cfg.ConfigOpts) -> list[str]:
    """Describe each name in this group that no option has.

    With a misspelt URL the embedded database would be used in place of the
    one that all others use, and promise what is promised already.

    :param conf: parsed
    """
    known = {GROUP.name: [one.dest for one in OPTS]}
    # Names of other groups are for "nova-ext-resources-status check".
    return [
        one
        for one in names.list_problems(conf, known)
        if f'[{GROUP.name}]' in one.lower()
    ]


def get_connection(conf: cfg.ConfigOpts) -> str:
    """Return the URL of a database that was named.

    For services: each may run on a machine of its own, where an embedded
    database would have no reservations.

    :param conf: parsed; may be Nova's global one
    :raises InvalidConfiguration: none was named, or the option is wrong
    """
    url: str | None = values.load(conf, GROUP, OPTS).connection
    if url:
        _check_file(url)
        return url
    raise exception.InvalidConfiguration(
        option=f'[{GROUP.name}] connection',
        value=None,
        reason='the option is empty in the configuration of this service, '
        'which then cannot see any reservation; set the option to the '
        'database that the commands "openstack extended reservation" use',
    )


def find_lead(conf: cfg.ConfigOpts, filters: Iterable[str]) -> int | None:
    """Return ``blocking_seconds``; None where nothing is held.

    ReservationFilter counts what is free and what is promised. What is held
    would count for both, and reserved servers would find no host.

    :param conf: parsed; may be Nova's global one
    :param filters: that nova-scheduler uses
    :raises InvalidConfiguration: it is set beside that filter, or wrong
    """
    lead: int | None = values.load(conf, GROUP, OPTS).blocking_seconds
    if lead is not None and _FILTER in {
        one.rpartition('.')[2] for one in filters
    }:
        raise exception.InvalidConfiguration(
            option=f'[{GROUP.name}] blocking_seconds',
            value=lead,
            reason=f'[filter_scheduler] enabled_filters has {_FILTER}, which '
            'keeps reserved capacity free itself, and would refuse reserved '
            'servers because of the held capacity. Unset blocking_seconds, or '
            'remove the filter',
        )
    return lead


def find_connection(conf: cfg.ConfigOpts) -> str:
    """Return the URL of the database.

    The folder of the embedded one is made if it is not there.

    :param conf: parsed, and not Nova's global one
    :raises InvalidConfiguration: an option is wrong, or none names the place
        of the embedded one
    """
    url: str | None = values.load(conf, GROUP, OPTS).connection
    if url:
        _check_file(url)
        return url
    folder = state.find_folder(conf)
    reason = (
        'the option is empty, and [DEFAULT] state_path of Nova is not set; '
        'name the configuration files of Nova, or set connection'
    )
    if folder:
        try:
            os.makedirs(folder, mode=0o750, exist_ok=True)
        except OSError as err:
            reason = (
                f'the option is empty, and the folder of the embedded '
                f'database cannot be created: {err}. Run the command as the '
                'user that Nova runs as, or set connection'
            )
        else:
            return f'sqlite:///{os.path.join(folder, _FILE)}'
    raise exception.InvalidConfiguration(
        option=f'[{GROUP.name}] connection', value=None, reason=reason
    )


def _check_file(url: str) -> None:
    """Check that all programs which read a URL mean the same database.

    :raises InvalidConfiguration: they do not
    """
    if _NO_FILE.match(url):
        raise exception.InvalidConfiguration(
            option=f'[{GROUP.name}] connection',
            value=url,
            reason='the URL does not name the same file for all programs; '
            'write an absolute path, with four slashes: sqlite:////FILE',
        )
