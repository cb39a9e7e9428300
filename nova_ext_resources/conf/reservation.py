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
    'works. All programs that read or change them need the same database.',
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
URL of the database that keeps the reservations, as SQLAlchemy reads it.

An empty database gets its tables when it is used for the first time. A
program that cannot reach it promises nothing, and releases nothing.

Possible values:

* empty, the default: an embedded SQLite database, the file
  ``ext_resources/reservations.db`` below Nova's ``state_path``, for commands
  alone, all on one machine. Services refuse to start: nova-scheduler with
  ReservationFilter, blazar-manager and nova-ext-resources-reservations, but
  with ``--once``
* ``sqlite:////FILE``: another file, with four slashes because its path begins
  with one; it must not be on a network file system
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

A state of a reservation is written so many seconds late at most. What is
promised does not depend on it.
""",
    ),
    cfg.IntOpt(
        'keep_ended',
        min=0,
        help="""
Seconds for which nova-ext-resources-reservations keeps what is over.

Reservations that have ended, expired or been cancelled for so long are deleted
with their history.

Possible values:

* not set, the default: all are kept for good
* 0: they are deleted in the pass after their end
* 7776000: for 90 days
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
do not bound reservations without a project, and a reservation that is made
already keeps its start, length and number of servers. The default is a year;
0: each starts now; -1: no limit.
""",
    ),
    cfg.IntOpt(
        'max_duration',
        default=31536000,
        min=-1,
        help="""
Seconds that a reservation of a project may last, from its start on.

A longer reservation is refused, and so is one without an end. ``openstack
extended reservation limit set`` sets another number for a project. Together
with ``max_ahead``, this option bounds the end as well. The default is a year;
0 or -1: no limit, also no end.
""",
    ),
    cfg.IntOpt(
        'max_servers',
        default=1000,
        min=-1,
        max=10000,
        help='Servers of one reservation of a project. 0 or -1: no limit.',
    ),
    cfg.IntOpt(
        'project_reservations',
        default=100,
        min=-1,
        help='Reservations that a project may have, but for those that are '
        'over. 0 or -1: any number.',
    ),
    cfg.IntOpt(
        'end_notice',
        default=3600,
        min=0,
        help="""
Seconds before the end of a reservation at which a notice is given.

nova-ext-resources-reservations writes then into the history and the log of the
reservation that its end is near, and what becomes of its servers. 0 gives no
notice.
""",
    ),
    cfg.IntOpt(
        'blocking_seconds',
        min=-1,
        help="""
Seconds before its start from which on room that is reserved is held.

For clouds without ReservationFilter in nova-scheduler, and with none else:
nova-ext-resources-reservations allocates the room of servers that are planned
to consumers of its own in placement, so that nova-scheduler gives it to
nobody, and releases it when they come. Nobody uses it meanwhile. It also
shelves servers that wait for their reservation, and unshelves them at its
start.

Possible values:

* not set, the default: nothing is held
* -1: from the moment of the reservation
* 0: from its start on
* 86400: from a day before
""",
    ),
    cfg.IntOpt(
        'clock_wait',
        default=300,
        min=0,
        help="""
Seconds for which a clock must go steadily until it is trusted.

A clock may be wrong when a machine starts, or after it was set by mistake.
nova-ext-resources-reservations ends, expires and deletes no reservation, frees
no place and has no server go until it has watched the clock for so long
without a step. 0 trusts the clock at once, as ``--once`` does.
""",
    ),
    cfg.ListOpt(
        'webhook_urls',
        default=[],
        help="""
URLs that notifications of reservations may be sent to, and all below them.

The manager sends them, from a network that may reach more than those who
subscribe. Needed by the manager and by all programs that make subscriptions.

Possible values:

* empty, the default: all URLs of https
* ``https://hooks.example.org/cloud,http://10.1.2.3:8080``: URLs that begin so,
  path for path, and no others. Only those that are named here may be of http
""",
    ),
    cfg.ListOpt(
        'webhook_networks',
        default=[],
        help="""
Networks that notifications may be sent to although they are not public.

Addresses that are not of the internet are refused: of this machine, of a link
(with the metadata service, 169.254.169.254), private, shared and reserved
ones. A name is resolved, and all of its addresses are judged, each time that
something is sent.

Possible values:

* empty, the default: none
* ``10.20.0.0/16,fd12::/32``: these are allowed too
""",
    ),
    cfg.StrOpt(
        'webhook_cafile',
        help="""
File with the certificates of the authorities that receivers have theirs of.

Possible values:

* not set, the default: those of the system
* a path of a file in PEM format
""",
    ),
    cfg.FloatOpt(
        'webhook_timeout',
        default=5.0,
        min=0.1,
        max=20.0,
        help="""
Seconds that one notification may take, with the search for its host.

A receiver that has not answered by then gets it again later.
""",
    ),
    cfg.IntOpt(
        'webhook_patience',
        default=86400,
        min=3600,
        max=2592000,
        help="""
Seconds after which a subscription is suspended that fails or is too slow.

So long is tried again, at growing intervals of up to an hour. A subscription
is too slow that is told of what is older than half of this, for so long. No
further notifications are sent then, which the log says as an error. Until
then all events are kept in the tables for it.
""",
    ),
    cfg.IntOpt(
        'project_subscriptions',
        default=20,
        min=0,
        help="""
Subscriptions that a project may have, with those that are suspended.

Each has the manager send requests, two at a time for one project. Needed by
all programs that make subscriptions; operators are not bounded.

Possible values:

* 20, the default
* 0: only operators subscribe
""",
    ),
    cfg.IntOpt(
        'capacity_interval',
        default=300,
        min=15,
        help="""
Seconds between two looks at what is available, for subscriptions of capacity.

Each reads all hosts from placement, beside the passes of the manager. Without
such subscriptions, and without ``metrics_file``, nothing is read.
""",
    ),
    cfg.StrOpt(
        'metrics_file',
        help="""
File to which metrics of what is reserved are written, for Prometheus.

Its node exporter reads all files of one folder that end with ``.prom``
(``--collector.textfile.directory``). nova-ext-resources-reservations writes it
every ``capacity_interval`` seconds, as a whole.

Possible values:

* not set, the default: none is written
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
        reason='it is empty in the configuration of this service, which '
        'cannot know of any reservation then; set it to the database that '
        'the commands "openstack extended reservation" use',
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
            'keeps the same room itself, and would refuse reserved servers '
            'for what is held. Unset blocking_seconds, or take the filter out',
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
        'it is empty, and no option state_path says where Nova keeps its '
        'state; name the configuration files of Nova, or set it'
    )
    if folder:
        try:
            os.makedirs(folder, mode=0o750, exist_ok=True)
        except OSError as err:
            reason = (
                f'it is empty, and the folder of the embedded database '
                f'cannot be made: {err}. Run the command as the user that '
                'Nova runs as, or set it'
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
            reason='it names no file that is the same for all programs; write '
            'a path that begins with a slash, so that there are four of them: '
            'sqlite:////FILE',
        )
