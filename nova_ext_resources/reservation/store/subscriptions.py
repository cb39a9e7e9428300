# SPDX-License-Identifier: Apache-2.0

"""The subscriptions of a store: made, listed and deleted."""

from collections.abc import Callable

from oslo_utils import uuidutils
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import news
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import tables
from nova_ext_resources.reservation import subscription
from nova_ext_resources.reservation.webhook import rules as rules_mod

#: Of one project, where an operator says nothing else: each of them has this
#: cloud send requests.
LIMIT = 20


class Subscriptions:
    """The subscriptions of all projects of one store.

    Each method may also raise ``StoreError``.

    :param rules: which URLs are allowed
    :param clock: returns seconds since the epoch
    :param limit: how many a project may have
    """

    def __init__(
        self,
        database: databases.Database,
        rules: rules_mod.Rules,
        clock: Callable[[], float],
        limit: int = LIMIT,
    ) -> None:
        self._database = database
        self._limit = limit
        self._rules = rules
        self._clock = clock

    def create(
        self, document: subscription.Document, *, project: str = ''
    ) -> followers.Follower:
        """Send notifications of what happens from now on.

        :param document: see
            :mod:`~nova_ext_resources.reservation.subscription`
        :param project: the receiver is told only of this one, and only what
            its members may know; '' is for operators
        :returns: has the secret, which is shown to nobody again
        :raises InvalidSubscription: the document makes no sense here
        :raises TooManySubscriptions: the project may have no more
        :raises ReservationNotFound: there is no such reservation, or it is of
            another project
        """
        try:
            wanted = subscription.make_subscription(
                document,
                uuid=uuidutils.generate_uuid(),
                project=project,
                now=int(self._clock()),
            )
        except ValueError as err:
            raise errors.InvalidSubscription(reason=str(err)) from err
        try:
            self._rules.check_url(wanted.url)
        except ValueError as err:
            raise errors.InvalidSubscription(reason=f'url: {err}') from err
        # What has happened before is put in order before.
        news.give_positions(self._database)
        return retry.call(self._try_create, wanted)

    def get(
        self, uuid: str, *, project: str | None = None
    ) -> followers.Follower:
        """Return a subscription.

        :param project: only if it is of this one
        :raises SubscriptionNotFound: there is none
        """
        with self._database.transaction() as connection:
            found = followers.read(connection, uuid=uuid, project=project)
        if not found:
            raise errors.SubscriptionNotFound(uuid=uuid)
        return found[0]

    def list_subscriptions(
        self, *, project: str | None = None
    ) -> list[followers.Follower]:
        """Return subscriptions, the oldest first.

        :param project: only those of this one; '' has those of operators
        """
        with self._database.transaction() as connection:
            return followers.read(connection, project=project)

    def delete(self, uuid: str, *, project: str | None = None) -> None:
        """Send no further notifications.

        :param project: only if it is of this one
        :raises SubscriptionNotFound: there is none
        """
        if not retry.call(self._try_delete, uuid, project):
            raise errors.SubscriptionNotFound(uuid=uuid)

    def _try_create(
        self, wanted: subscription.Subscription
    ) -> followers.Follower:
        with self._database.transaction() as connection:
            positions = events.lock(connection)
            known = followers.read(connection, uuid=wanted.uuid)
            if known:
                # The answer to an attempt before this one was lost.
                return known[0]
            self._check_number(connection, wanted.project)
            _check_reservation(connection, wanted)
            while news.order(connection, positions):
                positions = events.read_positions(connection)
            positions = events.read_positions(connection)
            # Of its own, so that who puts events in order sees that there is
            # one more who may be told of them.
            own = positions.last + 1
            events.write_positions(connection, positions._replace(last=own))
            follower = followers.Follower(subscription=wanted, position=own)
            followers.add(connection, follower)
            return follower

    def _check_number(self, connection: sa.Connection, project: str) -> None:
        """Check that a project may have one more.

        :raises TooManySubscriptions: it may not
        """
        number = followers.count(connection, project) if project else 0
        if project and number >= self._limit:
            raise errors.TooManySubscriptions(
                project=project, limit=self._limit
            )

    def _try_delete(self, uuid: str, project: str | None) -> bool:
        # What cannot be read can be deleted.
        with self._database.transaction() as connection:
            return followers.delete(connection, uuid, project)


def _check_reservation(
    connection: sa.Connection, wanted: subscription.Subscription
) -> None:
    """Check that there is the reservation that is named.

    :raises ReservationNotFound: there is not, or it is of another project
    """
    if wanted.reservation is None:
        return
    columns = tables.RESERVATIONS.c
    project = connection.execute(
        sa.select(columns.project).where(
            columns.reservation == wanted.reservation
        )
    ).scalar_one_or_none()
    if project is None or wanted.project not in ('', project):
        raise exception.ReservationNotFound(key=wanted.reservation)
