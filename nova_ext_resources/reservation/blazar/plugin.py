# SPDX-License-Identifier: Apache-2.0

"""The resource type ``extended:instance`` of Blazar's leases."""

from collections.abc import Collection, Iterator, Mapping, Sequence
import contextlib
import threading
from typing import Any, ClassVar

from blazar.db import api as db_api
from blazar.plugins import base
from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import reader
from nova_ext_resources.conf import reservation
from nova_ext_resources import exception
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation.blazar import errors
from nova_ext_resources.reservation.blazar import front
from nova_ext_resources.reservation.blazar import keeper
from nova_ext_resources.reservation.blazar import monitor
from nova_ext_resources.reservation.blazar import options
from nova_ext_resources.reservation.blazar import orders
from nova_ext_resources.reservation import order as order_mod
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import records

LOG = logging.getLogger(__name__)


class ExtendedInstance(front.Front, base.BasePlugin):
    """Reserves servers for leases, with all that their flavor needs.

    The key of a reservation in our store is the id that Blazar gives to it,
    and so is its ``resource_id``. Allocations are by the names of hosts.
    """

    resource_type = options.RESOURCE_TYPE
    title = 'Servers with extended resources'
    description = (
        'Servers of a flavor, with all resources that the flavor needs'
    )
    query_options: ClassVar = {'allocations': ('lease_id', 'reservation_id')}

    def __init__(self) -> None:
        super().__init__()
        self._keeper = keeper.Keeper(open_store)
        self.monitor = monitor.Monitor(self._keeper)
        self._updates = _Updates()

    def get_plugin_opts(self) -> list[cfg.Opt]:
        """Return the options, which Blazar registers."""
        return [*options.OPTS]

    def setup(self, conf: object) -> None:
        """Check the configuration, so that Blazar does not start without.

        Nothing is opened: Blazar forks after this.

        :param conf: None; Blazar says no more
        :raises InvalidConfiguration: an option is wrong
        """
        read_conf()

    # Reservations

    def allocation_candidates(self, values: Mapping[str, Any]) -> list[str]:
        """Check what a lease asks for, before there is one.

        :returns: the hosts of a reservation that there is. What is new has
            none before it is reserved: between two searches another lease
            might be faster
        """
        with errors.translating():
            if 'id' in values:
                return self._list_hosts(values['id'])
            order_mod.check(self._make_order('new', values, '', 0))
            return []

    def reserve_resource(
        self, reservation_id: str, values: Mapping[str, Any]
    ) -> str:
        """Reserve what a lease asks for.

        :param values: what the lease says of it, with the dates of the lease
        :raises InvalidInput: it makes no sense
        :raises CantUpdateParameter: it does not fit, with a counter-offer; or
            the store or placement does not answer
        """
        lease = db_api.lease_get(values['lease_id'])
        reason = f'{monitor.REASON}{lease["id"]} ({lease["name"]}) of Blazar'
        try:
            with errors.translating():
                self._reserve(
                    reservation_id, values, lease['project_id'] or '', reason
                )
        except Exception:
            self._release_lease(lease['id'])
            raise
        return reservation_id

    def update_reservation(
        self, reservation_id: str, values: Mapping[str, Any]
    ) -> None:
        """Plan a reservation anew for other dates or another number.

        :raises InvalidInput: the change makes no sense
        :raises CantUpdateParameter: it does not fit, with a counter-offer; or
            it changes what cannot be changed, or is not answered
        """
        lease_id = db_api.reservation_get(reservation_id)['lease_id']
        self._updates.begin(lease_id, reservation_id)
        try:
            with errors.translating(), self._use_hosts() as reservations:
                before = reservations.get(reservation_id)
                changes = orders.make_changes(
                    before,
                    values,
                    now=reservations.now(),
                    # What an operator has raised it to may stay.
                    max_priority=max(
                        options.get(cfg.CONF).max_priority,
                        before.request.priority,
                    ),
                )
                if changes:
                    reservations.update(
                        reservation_id,
                        changes,
                        reason=f'lease {lease_id} was updated',
                    )
        except Exception:
            self._undo(self._updates.before)
            raise
        self._updates.before = (*self._updates.before, before)

    def on_start(self, resource_id: str) -> None:
        """Do nothing: a reservation starts by the clock."""
        LOG.info('Reservation %(key)s has started.', {'key': resource_id})

    def on_end(self, resource_id: str) -> None:
        """Release what is left of a lease that is deleted.

        At the end of a lease there is nothing to release: a reservation ends
        by the clock.
        """
        self.monitor.release(resource_id, 'its lease in Blazar was deleted')

    def heal_reservations(
        self,
        failed_resources: object,
        interval_begin: object,
        interval_end: object,
    ) -> monitor.Flags:
        """Do nothing: Blazar 18 does not call it. See the monitor."""
        return {}

    # Questions

    def get(self, resource_id: str) -> dict[str, str]:
        """Return a host by its name."""
        return {'id': resource_id, 'hypervisor_hostname': resource_id}

    def list_allocations(
        self, query: Mapping[str, Any] | None, detail: bool = False
    ) -> list[dict[str, Any]]:
        """Return hosts, each with the reservations that are on it.

        :param query: may have ``lease_id`` and ``reservation_id``
        :param detail: changes nothing
        """
        found = self._collect(**self.get_query_options(query or {}))
        return [
            {'resource_id': host, 'reservations': ones}
            for host, ones in sorted(found.items())
        ]

    def query_allocations(
        self,
        resource_id_list: Collection[str],
        lease_id: str | None = None,
        reservation_id: str | None = None,
    ) -> dict[str, list[dict[str, Any]]]:
        """Return host -> the reservations that are on it, of some hosts."""
        found = self._collect(lease_id, reservation_id)
        return {host: found.get(host, []) for host in resource_id_list}

    def get_query_options(
        self, params: Mapping[str, Any], index_type: str = 'allocations'
    ) -> dict[str, Any]:
        """Return the part of a query that is understood."""
        found: dict[str, Any] = super().get_query_options(params, index_type)
        return found

    # What is behind

    def _reserve(
        self, key: str, values: Mapping[str, Any], project: str, reason: str
    ) -> None:
        named = self._make_order(key, values, project, 0)
        flavors = self._keeper.read_flavors(named)
        with self._use_hosts() as reservations:
            order = self._make_order(key, values, project, reservations.now())
            reservations.create(order, reason=reason, flavors=flavors)

    @contextlib.contextmanager
    def _use_hosts(self) -> Iterator[api.Reservations]:
        self._keeper.prepare()
        with self._keeper.use() as reservations:
            yield reservations

    def _make_order(
        self, key: str, values: Mapping[str, Any], project: str, now: int
    ) -> dict[str, Any]:
        return orders.make_order(
            key,
            values,
            project=project,
            now=now,
            max_priority=options.get(cfg.CONF).max_priority,
        )

    def _list_hosts(self, key: str) -> list[str]:
        with self._keeper.use() as reservations:
            return reservations.get(key).hosts

    def _collect(
        self, lease_id: str | None = None, reservation_id: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """Return host -> the reservations that are on it.

        Blazar asks also when it ends or deletes a lease. That must not fail
        because the store is away: then nothing is found.
        """
        found: dict[str, list[dict[str, Any]]] = {}
        for row in _list_rows(lease_id, reservation_id):
            try:
                hosts = self._list_hosts(row['id'])
            except exception.ExtResourcesError as err:
                LOG.warning(
                    'The hosts of reservation %(key)s are not known now: '
                    '%(err)s',
                    {'key': row['id'], 'err': err},
                )
                continue
            for host in hosts:
                found.setdefault(host, []).append(
                    {'id': row['id'], 'lease_id': row['lease_id']}
                )
        return found

    def _release_lease(self, lease_id: str) -> None:
        """Release all of a lease that Blazar takes back.

        It tells no plugin of it.
        """
        for row in _list_rows(lease_id):
            self.monitor.release(row['id'], 'its lease was refused')

    def _undo(self, changed: Sequence[records.Record]) -> None:
        """Make reservations what they were, as their lease stays."""
        for record in changed:
            key = record.request.key
            try:
                with self._keeper.use() as reservations:
                    reservations.update(
                        key,
                        orders.make_undo(record),
                        reason='another reservation of the lease was refused',
                        is_undo=True,
                    )
            except exception.ExtResourcesError as err:
                LOG.error(
                    'Could not undo the change of reservation %(key)s: '
                    '%(err)s The dates of the reservation are compared with '
                    'the dates of its lease later.',
                    {'key': key, 'err': err},
                )


class _Updates(threading.local):
    """What an update of a lease has changed so far.

    Blazar updates the reservations of a lease one by one in one thread, and
    does not undo the first ones if another one is refused.
    """

    #: What its reservations were before.
    before: tuple[records.Record, ...] = ()
    _lease_id = ''

    def begin(self, lease_id: str, reservation_id: str) -> None:
        """Forget what was noted, if this is the first of another update."""
        noted = {one.request.key for one in self.before}
        if lease_id != self._lease_id or reservation_id in noted:
            self._lease_id, self.before = lease_id, ()


def _list_rows(
    lease_id: str | None = None, reservation_id: str | None = None
) -> Iterator[dict[str, Any]]:
    """Return the rows of our reservations in Blazar."""
    wanted = {'lease_id': lease_id, 'id': reservation_id}
    named = {name: one for name, one in wanted.items() if one is not None}
    yield from db_api.reservation_get_all_by_values(
        resource_type=options.RESOURCE_TYPE, **named
    )


def open_store() -> api.Reservations:
    """Open the store that Blazar's configuration names.

    :raises ExtResourcesError: it cannot be opened
    """
    return loading.from_conf(read_conf())


def read_conf() -> cfg.ConfigOpts:
    """Read the configuration files with a parser of our own.

    :raises InvalidConfiguration: a file cannot be read, an option of the
        reservations is misspelt, or no database is named
    """
    files, folders = options.list_files(cfg.CONF)
    conf = cfg.ConfigOpts()
    reader.parse(conf, files, folders)
    if problems := reservation.list_misspelt(conf):
        raise exception.InvalidConfiguration(
            option=f'[{reservation.GROUP.name}]',
            value='a name',
            reason='; '.join(problems),
        )
    reservation.get_connection(conf)
    return conf
