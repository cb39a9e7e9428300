# SPDX-License-Identifier: Apache-2.0

"""What the API extension asks of the plugin, which is in another process.

All arguments and answers are JSON. Who may ask for what was decided there:
with a project only its own reservations are found.
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import itertools
from typing import Any

from blazar import exceptions as blazar_exceptions
import oslo_messaging
from oslo_utils import uuidutils

from nova_ext_resources import exception
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation.blazar import documents
from nova_ext_resources.reservation.blazar import errors
from nova_ext_resources.reservation.blazar import keeper
from nova_ext_resources.reservation.blazar import monitor
from nova_ext_resources.reservation.blazar import quoting
from nova_ext_resources.reservation.blazar import subscribing
from nova_ext_resources.reservation import errors as own_errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import needs
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import records

#: How the reason of each reservation begins that was made without a lease.
_REASON = 'asked for by user '

#: Word of a query -> which reservations are in a window.
_SCOPES: Mapping[str, Callable[[interval.Interval, interval.Interval], bool]]
_SCOPES = {
    'overlapping': lambda one, window: one.overlaps(window),
    'inclusive': lambda one, window: (
        window.start <= one.start < window.end
        or window.start < one.end <= window.end
    ),
    'exclusive': lambda one, window: (
        window.start <= one.start and one.end <= window.end
    ),
}


class Front(quoting.Quoting, subscribing.Subscribing):
    """Answers Blazar's API; Blazar finds its methods by their names.

    Each may raise ``InvalidInput`` (400), ``NotFound`` (404) and
    ``CantUpdateParameter`` (409), all of Blazar, in an ``ExpectedException``.
    """

    _keeper: keeper.Keeper

    def get_reservation(
        self,
        reservation_id: str,
        project: str | None = None,
        has_hosts: bool = True,
    ) -> documents.Document:
        """Return what was asked for and what is held, which Blazar forgets."""
        with self._answer() as reservations:
            found = _find(reservations, reservation_id, project)
            return {
                **documents.describe(found, has_hosts=has_hosts),
                'changes': documents.describe_changes(
                    reservations.list_changes(reservation_id),
                    has_hosts=has_hosts,
                ),
            }

    def list_reservations(
        self,
        query: Mapping[str, str],
        project: str | None = None,
        has_hosts: bool = True,
    ) -> list[documents.Document]:
        """Return reservations by their start, then by their id.

        :param query: may have ``from`` and ``until``, ``scope``, ``state`` and
            ``zone``, ``limit``, and ``marker``: the id after which it begins
        """
        with (
            self._answer(needs_hosts='zone' in query) as reservations,
            _refusing(),
        ):
            during = documents.read_window(query, reservations.now())
            scope = _SCOPES.get(query.get('scope', 'overlapping'))
            if scope is None:
                raise ValueError(f'scope must be one of {", ".join(_SCOPES)}')
            wanted = [
                state.State(one)
                for one in filter(None, query.get('state', '').split(','))
            ]
            limit = query.get('limit', '0')
            if not limit.isdecimal():
                raise ValueError(f'limit is {limit!r}; write a whole number')
            after = query.get('marker') and _rank(
                _find(reservations, query['marker'], project)
            )
            found = reservations.list_reservations(
                during=during,
                project=project,
                wanted=wanted,
                zone=query.get('zone'),
            )
            described = (
                documents.describe(one, has_hosts=has_hosts)
                for one in sorted(found, key=_rank)
                if (not after or _rank(one) > after)
                and (during is None or scope(one.during, during))
            )
            return [*itertools.islice(described, int(limit) or None)]

    def create_order(
        self, order: Mapping[str, Any], project: str, user: str
    ) -> documents.Document:
        """Reserve what an order asks for, without a lease."""
        flavors = self._read_flavors(order)
        with self._answer(needs_hosts=True) as reservations:
            for name in ('name', 'project'):
                if name in order:
                    raise exception.InvalidReservation(
                        key='of the request',
                        field=name,
                        reason='the service chooses the value; leave it out',
                    )
            key = uuidutils.generate_uuid()
            found = reservations.create(
                {**order, 'name': key, 'project': project},
                reason=f'{_REASON}{user}',
                flavors=flavors,
            )
            return documents.describe(found, has_hosts=False)

    def change_order(
        self,
        reservation_id: str,
        changes: Mapping[str, Any],
        user: str,
        project: str | None = None,
    ) -> documents.Document:
        """Plan a reservation anew, as a whole or not at all."""
        flavors = self._read_flavors(changes)
        with self._answer(needs_hosts=True) as reservations:
            _find(reservations, reservation_id, project)
            _check_own(reservations, reservation_id)
            found = reservations.update(
                reservation_id,
                changes,
                reason=f'changed by user {user}',
                flavors=flavors,
            )
            return documents.describe(found, has_hosts=False)

    def cancel_order(
        self, reservation_id: str, user: str, project: str | None = None
    ) -> None:
        """Release a reservation."""
        with self._answer() as reservations:
            _find(reservations, reservation_id, project)
            _check_own(reservations, reservation_id)
            reservations.cancel(
                reservation_id, reason=f'cancelled by user {user}'
            )

    def list_amounts(
        self, query: Mapping[str, str]
    ) -> list[documents.Document]:
        """Return how much there is, over time.

        :param query: may have ``from``, ``until``, ``zone`` and ``step``
        """
        with self._answer(needs_hosts=True) as reservations, _refusing():
            found = reservations.list_amounts(
                **documents.read_parts(query, reservations.now())
            )
            return documents.describe_amounts(found)

    def list_fits(self, query: Mapping[str, str]) -> list[documents.Document]:
        """Return how many servers fit, over time.

        :param query: as of :meth:`list_amounts`, and ``flavor`` or
            ``resources``
        """
        flavors = self._read_flavors(query)
        with self._answer(needs_hosts=True) as reservations, _refusing():
            order: dict[str, Any] = {}
            if 'flavor' in query:
                order['flavor'] = query['flavor']
            if 'resources' in query:
                order['resources'] = documents.read_resources(
                    query['resources']
                )
            parts = documents.read_parts(query, reservations.now())
            found = reservations.list_fits(order, **parts, flavors=flavors)
            return documents.describe_fits(found)

    def list_capacity_changes(
        self, has_ended: bool = False
    ) -> list[documents.Document]:
        """Return what is planned for the capacity of hosts.

        :param has_ended: also what is over
        """
        with self._answer() as reservations:
            found = reservations.capacity_changes.list_changes(
                has_ended=has_ended
            )
            return [documents.describe_change(one) for one in found]

    def get_capacity_change(self, change_id: str) -> documents.Document:
        """Return one."""
        with self._answer() as reservations:
            found = reservations.capacity_changes.get(change_id)
            return documents.describe_change(found)

    def create_capacity_change(
        self, plan: Mapping[str, Any], user: str, is_forced: bool = False
    ) -> documents.Document:
        """Plan one.

        :param plan: with ``reason``
        """
        with self._answer(needs_hosts=True) as reservations:
            order = {**plan}
            reason = order.pop('reason', '')
            _check_name(order.get('name'))
            outcome = reservations.capacity_changes.create(
                order, reason=reason, created_by=user, is_forced=is_forced
            )
            return documents.describe_outcome(outcome)

    def delete_capacity_change(
        self, change_id: str, user: str, is_forced: bool = False
    ) -> documents.Document:
        """Take one back."""
        with self._answer() as reservations:
            outcome = reservations.capacity_changes.delete(
                change_id, deleted_by=user, is_forced=is_forced
            )
            return documents.describe_outcome(outcome)

    @contextlib.contextmanager
    def _answer(
        self, *, needs_hosts: bool = False
    ) -> Iterator[api.Reservations]:
        with _expecting(), errors.translating():
            try:
                if needs_hosts:
                    self._keeper.prepare()
                with self._keeper.use() as reservations:
                    yield reservations
            except (
                exception.ReservationNotFound,
                own_errors.CapacityChangeNotFound,
                own_errors.LimitsNotFound,
                own_errors.QuotaNotFound,
                own_errors.SubscriptionNotFound,
            ) as err:
                raise blazar_exceptions.NotFound(str(err)) from err

    def _read_flavors(self, order: Mapping[str, Any]) -> needs.Flavors:
        """Ask Nova for what an order names, while others go on."""
        with _expecting(), errors.translating():
            return self._keeper.read_flavors(order)


@contextlib.contextmanager
def _expecting() -> Iterator[None]:
    """Keep the traceback of a refusal out of Blazar's log.

    The error itself goes to the API all the same.

    :raises ExpectedException: with the error in it
    """
    try:
        yield
    except blazar_exceptions.BlazarException:
        raise oslo_messaging.ExpectedException from None


def _find(
    reservations: api.Reservations, key: str, project: str | None
) -> records.Record:
    """Return a reservation.

    :raises ReservationNotFound: there is none, or it is of another project
    """
    found = reservations.get(key)
    if project is not None and found.request.project != project:
        raise exception.ReservationNotFound(key=key)
    return found


def _rank(one: records.Record) -> tuple[int, str]:
    """Return what a reservation is listed by, as no database says it."""
    return one.during.start, one.request.key


def _check_name(name: object) -> None:
    """Check that a change can be found by its path later.

    :raises InvalidCapacityChange: it cannot
    """
    if isinstance(name, str) and ('/' in name or name.endswith('.json')):
        raise own_errors.InvalidCapacityChange(
            key=name,
            field='name',
            reason='in this API the name must not contain / or end with .json',
        )


def _check_own(reservations: api.Reservations, key: str) -> None:
    """Check that a reservation is of no lease.

    :raises InvalidReservation: it is
    """
    if monitor.is_of_lease(reservations, key):
        reason = reservations.list_changes(key)[0].reason
        raise exception.InvalidReservation(
            key=key,
            field='id',
            reason=f'the reservation was {reason}; change or delete the lease',
        )


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Refuse a query that cannot be read.

    :raises InvalidReservation: it cannot
    """
    try:
        yield
    except (ValueError, exception.ReservationNotFound) as err:
        raise exception.InvalidReservation(
            key='of the query', field='query', reason=str(err)
        ) from err
