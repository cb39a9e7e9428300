# SPDX-License-Identifier: Apache-2.0

"""From configuration files to what :mod:`..api` works with."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
import functools
from urllib import parse

from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import timeutils
import sqlalchemy as sa

from nova_ext_resources.claims import base
from nova_ext_resources.conf import reservation
from nova_ext_resources.conf import values
from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.placement.api import adapter
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources import plugins
from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import limits
from nova_ext_resources.reservation.manager import courier
from nova_ext_resources.reservation.manager import deliveries
from nova_ext_resources.reservation.manager import notifying
from nova_ext_resources.reservation.manager import shortages
from nova_ext_resources.reservation.manager import turn
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.site import compute
from nova_ext_resources.reservation.site import holds
from nova_ext_resources.reservation.site import hosts
from nova_ext_resources.reservation.site import metrics
from nova_ext_resources.reservation.store import admission
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.reservation.store import schema
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.webhook import rules
from nova_ext_resources.reservation.webhook import sender as sender_mod

LOG = logging.getLogger(__name__)


class Site:
    """The cloud of ``[ext_resources_placement]`` or ``[placement]``.

    Nothing is asked of it before it is needed.

    :param conf: parsed, and not Nova's global one
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._nova_failure: exception.ComputeUnavailable | None = None

    @functools.cached_property
    def _adapter(self) -> ks_adapter.Adapter:
        return adapter.load_adapter(self._conf)

    @functools.cached_property
    def _placement(self) -> placement_client.Client:
        return placement_client.Client(self._adapter)

    @functools.cached_property
    def _compute(self) -> compute.Compute:
        return compute.Compute(self._adapt('compute'))

    def _adapt(
        self, service_type: str, min_version: str | None = None
    ) -> ks_adapter.Adapter:
        own = self._adapter
        return ks_adapter.Adapter(
            own.session,
            auth=own.auth,
            service_type=service_type,
            interface=own.interface,
            region_name=own.region_name,
            min_version=min_version,
        )

    @functools.cached_property
    def _trackers(self) -> dict[str, base.Tracker]:
        return plugins.load_trackers()

    def list_hosts(
        self,
        taken: hosts.Taken | None = None,
        known: publication.Publications | None = None,
    ) -> Sequence[host.Host]:
        """Return all hosts, in their zones as far as these are known.

        :param taken: see :func:`~.hosts.list_hosts`
        :param known: what hosts have published
        :raises InvalidConfiguration: there are no credentials
        :raises PlacementError: placement cannot be read
        """
        zones: hosts.Zones = {}
        default = ''
        down = frozenset[str]()
        self._nova_failure = None
        try:
            zones = self._compute.list_zones()
            default = self._find_default_zone()
            down = self._compute.list_down()
        except exception.ComputeUnavailable as err:
            self._nova_failure = err
            LOG.warning(
                'Could not read the availability zones, or which hosts are '
                'down: %(err)s',
                {'err': err},
            )
        published = hosts.NOTHING
        if known:
            published = hosts.Published(
                publications=known, trackers=self._trackers
            )
        return hosts.list_hosts(
            self._placement, zones, default, taken, down, published
        )

    def list_enabled(self) -> Mapping[str, bool]:
        """Return name of each host -> whether its compute is enabled."""
        return hosts.list_enabled(self._placement)

    def check_zones(self) -> None:
        """Check that Nova has said what it knows of these hosts.

        :raises ComputeUnavailable: it has not said their zones, or which of
            them are down
        """
        if self._nova_failure is not None:
            raise self._nova_failure

    def _find_default_zone(self) -> str:
        """Return the zone of hosts that are in none, which is Nova's."""
        self._conf.register_opt(
            cfg.StrOpt('default_availability_zone', default='nova')
        )
        default: str = self._conf.default_availability_zone
        return default

    def find_flavor(self, name: str) -> flavor.Flavor | None:
        """Return a flavor, None if there is none of this name or id.

        :raises InvalidConfiguration: there are no credentials
        :raises ComputeUnavailable: Nova cannot be asked
        """
        return self._compute.find_flavor(name)

    def check_project(self, project: str) -> None:
        """Check that there is such a project.

        Where keystone does not answer, or this user may not ask, a warning
        says so.

        :raises InvalidLimits: there is none
        """
        path = f'/projects/{parse.quote(project, safe="")}'
        try:
            self._adapt('identity', min_version='3').get(path)
        except ks_exc.NotFound as err:
            reason = 'keystone has no such project; write its id, not its name'
            raise errors.InvalidLimits(project=project, reason=reason) from err
        except (exception.ExtResourcesError, ks_exc.ClientException) as err:
            LOG.warning(
                'Project id %(project)s is used without a check, because '
                'keystone does not say whether the project exists: %(err)s',
                {'project': project, 'err': err},
            )


class ManagedSite(Site):
    """The same cloud, with what a manager does in it.

    See :class:`~nova_ext_resources.reservation.manager.cloud_services.Cloud`.
    """

    def find_gone(self, rp_uuids: Set[str]) -> Set[str]:
        """Return which providers placement does not have."""
        found = retry.call(self._placement.list_providers)
        return rp_uuids - {one.rp_uuid for one in found}

    def list_down(self) -> Set[str]:
        """Return the hosts whose compute does not report."""
        return self._compute.list_down()

    def has_allocations(self, consumer: str) -> bool:
        """Return whether a consumer has any in placement."""
        return bool(self.list_held(consumer))

    def list_held(self, consumer: str) -> Set[str]:
        """Return the uuids of providers that a consumer has allocations of."""
        found = retry.call(self._placement.get_allocations, consumer)
        return found.resources.keys()

    def read_uses(self, rp_uuids: Iterable[str]) -> lending.Uses:
        """Return what there is of providers, and who holds it."""
        return hosts.read_uses(self._placement, rp_uuids)

    def find_server(self, uuid: str) -> nova_server.NovaServer | None:
        """Return a server of Nova; None if there is none."""
        return self._compute.find_server(uuid)

    def find_missing_right(self) -> str:
        """Return why Nova does not show all servers, in words."""
        return self._compute.find_missing_right()

    def act(self, uuid: str, action: nova_server.Action) -> None:
        """Ask Nova to do something with a server."""
        self._compute.act(uuid, action)

    def set_metadata(self, uuid: str, metadata: Mapping[str, str]) -> None:
        """Add metadata to a server, which its owner sees."""
        self._compute.set_metadata(uuid, metadata)

    def take_hold(
        self,
        consumer: str,
        project: str,
        places: Mapping[host_view.Place, int],
    ) -> None:
        """Have a consumer hold places for a planned server."""
        holds.take(self._placement, consumer, project, places)

    def release_hold(self, consumer: str) -> None:
        """Have it hold nothing."""
        holds.release(self._placement, consumer)

    def count_holds(self) -> int:
        """Return how many consumers hold places for planned servers."""
        return holds.count(self._placement)

    def list_holds(self) -> Set[str]:
        """Return all of these, by a request for each provider."""
        return holds.list_all(self._placement)

    def list_servers(self, project: str) -> list[nova_server.NovaServer]:
        """Return the servers of a project."""
        return self._compute.list_servers(project)

    def unshelve(self, uuid: str, node: str) -> None:
        """Ask Nova to unshelve a server on a host."""
        self._compute.unshelve(uuid, node)

    def make_admission(
        self, database: databases.Database
    ) -> admission.Admission:
        """Read all hosts; return what can plan on them."""
        now = int(timeutils.utcnow_ts())
        taken = slots.list_places(database, now)
        known = publications.read(database, now)
        fleet = fleets.Fleet(self.list_hosts(taken, known), self._trackers)
        self.check_zones()
        planner = planner_mod.Planner(
            fleet, plugins.load_claim_tests(self._trackers)
        )
        return admission.Admission(database, planner, now)


def from_conf(conf: cfg.ConfigOpts) -> api.Reservations:
    """Open the store of a configuration, and make its tables if it is empty.

    :param conf: parsed, and not Nova's global one
    :raises InvalidConfiguration: an option is wrong
    :raises PluginError: a tracker or a claim test cannot be loaded
    :raises StoreError: the database cannot be used
    """
    return _make_reservations(conf, Site(conf))


def _make_reservations(conf: cfg.ConfigOpts, site: Site) -> api.Reservations:
    database = open_database(reservation.find_connection(conf))
    schema.ensure(database)
    trackers = plugins.load_trackers()
    options = values.load(conf, reservation.GROUP, reservation.OPTS)
    return api.Reservations(
        database,
        site,
        trackers=trackers,
        tests=plugins.load_claim_tests(trackers),
        grammar=plugins.load_grammar(),
        rules=make_rules(conf),
        most_subscriptions=options.project_subscriptions,
        limits=limits.Limits(
            **{
                name: number
                for name, number in (
                    ('ahead', options.max_ahead),
                    ('duration', options.max_duration),
                    ('servers', options.max_servers),
                    ('reservations', options.project_reservations),
                )
                if number > 0 or (name == 'ahead' and not number)
            }
        ),
    )


def make_turn(conf: cfg.ConfigOpts, *, is_once: bool = False) -> turn.Turn:
    """Make what a manager of reservations does again and again.

    The database is not reached before that: it may be down.

    :param conf: parsed, and not Nova's global one
    :param is_once: it is done once only, as a command, so that the clock
        cannot be watched
    :raises InvalidConfiguration: an option is wrong, or a service is to do
        it and no database is named
    """
    options = values.load(conf, reservation.GROUP, reservation.OPTS)
    if not is_once:
        reservation.get_connection(conf)
    database = open_database(reservation.find_connection(conf))
    return turn.Turn(
        database,
        watch.Watch(0 if is_once else options.clock_wait),
        turn.make_chores(
            database,
            ManagedSite(conf),
            notice=options.end_notice,
            keep_ended=options.keep_ended,
            blocking=_find_blocking(conf),
            make_notifying=functools.partial(
                make_notifying, conf, database, is_once=is_once
            ),
            is_once=is_once,
        ),
    )


def _find_blocking(conf: cfg.ConfigOpts) -> turn.Blocking | None:
    """Return how room is held, None where the scheduler keeps it.

    :raises InvalidConfiguration: both would
    """
    conf.register_opt(
        cfg.ListOpt('enabled_filters', default=[]), group='filter_scheduler'
    )
    lead = reservation.find_lead(conf, conf.filter_scheduler.enabled_filters)
    if lead is None:
        return None
    return turn.Blocking(
        lead=interval.FOREVER if lead < 0 else lead,
        grammar=plugins.load_grammar(),
    )


def make_notifying(
    conf: cfg.ConfigOpts,
    database: databases.Database,
    has_doubts: Callable[[int], bool] = lambda _now: False,
    *,
    is_once: bool = False,
) -> notifying.Notifying:
    """Make what tells subscribers.

    :param conf: parsed, and not Nova's global one
    :param has_doubts: called with seconds since the epoch; returns whether
        placement is not believed, because too many hosts are lost
    :raises InvalidConfiguration: an option is wrong
    """
    options = values.load(conf, reservation.GROUP, reservation.OPTS)
    try:
        sender = sender_mod.Sender(
            make_rules(conf),
            timeout=options.webhook_timeout,
            cafile=options.webhook_cafile,
        )
    except OSError as err:
        raise exception.InvalidConfiguration(
            option=f'[{reservation.GROUP.name}] webhook_cafile',
            value=options.webhook_cafile,
            reason=f'the file cannot be read: {err}',
        ) from err
    return notifying.Notifying(
        database,
        shortages.Shortages(
            database,
            functools.partial(_read_amounts, conf, options.metrics_file),
            options.capacity_interval,
            has_doubts=has_doubts,
            is_once=is_once,
            is_watched=bool(options.metrics_file),
        ),
        courier.Courier(
            deliveries.Deliveries(
                # Of its own: it is used and closed in a thread.
                open_database(reservation.find_connection(conf)),
                options.webhook_patience,
            ),
            sender,
            is_once=is_once,
        ),
    )


def make_rules(conf: cfg.ConfigOpts) -> rules.Rules:
    """Return which URLs and addresses notifications may be sent to.

    :param conf: parsed, and not Nova's global one
    :raises InvalidConfiguration: an option is wrong
    """
    options = values.load(conf, reservation.GROUP, reservation.OPTS)
    urls, networks = options.webhook_urls, options.webhook_networks
    name = f'[{reservation.GROUP.name}] webhook_urls or webhook_networks'
    with values.checked(name, ', '.join([*urls, *networks])):
        return rules.make_rules(urls, networks)


def _read_amounts(
    conf: cfg.ConfigOpts, metrics_file: str | None, now: int
) -> Sequence[amounts.Amounts]:
    """Return what there is of all classes in all zones at a time.

    With a database of its own: it is called in a thread.

    :param metrics_file: to which metrics of it are written
    """
    site = Site(conf)
    reservations = _make_reservations(conf, site)
    try:
        found = reservations.list_amounts(interval.Interval(now, now + 1))
        site.check_zones()
        if metrics_file and found:
            _write_metrics(metrics_file, reservations)
        return found
    finally:
        reservations.close()


def _write_metrics(path: str, reservations: api.Reservations) -> None:
    try:
        metrics.write(path, reservations.read_figures())
    except OSError as err:
        LOG.error(
            'Could not write metrics of reservations to %(path)s, and will '
            'try again: %(err)s. Correct [%(group)s] metrics_file, or let '
            'this user write into the folder of the file.',
            {'path': path, 'err': err, 'group': reservation.GROUP.name},
        )


def open_database(url: str, max_wait: int | None = None) -> databases.Database:
    """Prepare the use of a database.

    :param max_wait: see :class:`~.store.database.Database`
    :raises InvalidConfiguration: there is no such kind, or no driver of it,
        or it is no URL
    """
    try:
        return databases.Database(url, max_wait)
    except (ImportError, sa.exc.NoSuchModuleError) as err:
        reason = (
            f'{err}; correct what is before "://", or install the driver into '
            'the Python environment of this program'
        )
    except (ValueError, sa.exc.ArgumentError):
        # Their text may have a part of the password.
        reason = (
            'the value is not a database URL, such as '
            'mysql+pymysql://USER:PASSWORD@HOST/NAME?charset=utf8mb4; in '
            'USER and PASSWORD write "@", ":", "/" and "%" as %40, %3A, %2F '
            'and %25'
        )
    raise exception.InvalidConfiguration(
        option=f'[{reservation.GROUP.name}] connection',
        value='(secret)',
        reason=reason,
    )
